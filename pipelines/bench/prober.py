"""What does a probe of the canary cost, against the least that librdkafka can carry it for?

The rule: CPU time of the canary's process over the probes that it issued, in a window after its start, one lane of acks=all writes;
against the floor (`brokers.kafka.floor`) on the same topic at the same rate, before and after it, in the same lab. That the canary
kept up is part of the figure: the share of the probes that were due which were issued in time, and of those that were acknowledged.

Example: 5,000 probes a second for 10 s, 3.1 s of CPU against a floor of 2.6 s: 62 against 52 us a probe, 1.19 times the floor.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

import psutil

from pipelines.bench.base import Bench, Figure, cpu_seconds, load
from pipelines.brokers.kafka.floor import FLUSH_SECONDS, WARM_UP_SECONDS
from pipelines.collect.canary.config import CanaryConfig
from pipelines.collect.config import as_fields
from pipelines.collecting import CanaryProcess
from pipelines.domain.facts import stream_of
from pipelines.domain.landing import decode
from pipelines.domain.observations import Outcome, Probes
from pipelines.domain.unavailability import longest_runs
from pipelines.errors import ProcessFailed
from pipelines.lab.cluster import Lab
from pipelines.processes import spawn, wait_until
from pipelines.settings import Home

CASES = ((100, 10), (6, 100))
RATIO_AIM = 1.3
CORES_AIM = 0.5
REPLICAS = 1
"""What a probe costs the prober does not depend on copies; the brokers, on the same two cores, must keep up with the rate."""
KEPT_UP = 0.95
"""The share of probes that must be issued in time, and of the floor's records that must be acknowledged, for a figure to count."""
SETTLE_SECONDS = 4.0
TOPIC_SETTINGS = {"min.insync.replicas": "1", "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
NOT_ISSUED = "NOT_ISSUED"
METHOD = "CPU of the canary's process / probes due in the window, one acks=all lane; floor: bare confluent-kafka before and after"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one case cost. `in_time` and `acked` are shares of the probes that were due."""

    us_per_probe: float
    cores: float
    in_time: float
    acked: float


def run(bench: Bench) -> list[Figure]:
    """Measures all cases in one lab."""
    seconds = 6.0 if bench.is_quick else 20.0
    with Lab(say=bench.say) as lab:
        return [figure for partitions, period_ms in CASES for figure in _case(bench, lab, partitions, period_ms, seconds)]


def _case(bench: Bench, lab: Lab, partitions: int, period_ms: int, seconds: float) -> list[Figure]:
    prefix = f"bench-{partitions}"
    lab.admin.create_topic(f"{prefix}-durable", partitions, REPLICAS, TOPIC_SETTINGS)
    lab.admin.wait_until_led(f"{prefix}-durable", 60.0)
    name = f"{partitions} partitions x {period_ms} ms"
    bench.say(f"prober: {name}: floor, canary, floor")
    before = _floor(bench, lab, f"{prefix}-durable", partitions, period_ms, seconds)
    canary = _canary(bench, lab, prefix, partitions, period_ms, seconds)
    after = _floor(bench, lab, f"{prefix}-durable", partitions, period_ms, seconds)
    floor_us = statistics.mean((before.us_per_probe, after.us_per_probe))
    details: dict[str, Any] = {
        "canary_us_per_probe": round(canary.us_per_probe, 1),
        "floor_us_per_probe": [round(before.us_per_probe, 1), round(after.us_per_probe, 1)],
        "canary_share_in_time": round(canary.in_time, 4),
        "canary_share_acked": round(canary.acked, 4),
        "floor_share_in_time": [round(before.in_time, 4), round(after.in_time, 4)],
        "floor_share_acked": [round(before.acked, 4), round(after.acked, 4)],
        "canary_cores": round(canary.cores, 3),
        "floor_cores": [round(before.cores, 3), round(after.cores, 3)],
        "load": load(),
    }
    void = _void(canary, before, after)
    ratio = Figure(
        f"prober CPU / floor, {name}",
        round(canary.us_per_probe / floor_us, 2),
        "x",
        METHOD,
        RATIO_AIM,
        "librdkafka writes in C; the canary frames, times and judges each probe on its own in Python, over a connection for each "
        "partition, because librdkafka sends again what a broker refused (DECISIONS.md); with few probes what a process costs that "
        "watches leaders, its own stalls and the spool outweighs them (cores: see details)",
        void,
        details,
    )
    if partitions * 1000 // period_ms < 1000:
        return [ratio]
    cores = Figure(
        f"prober cores, {name}",
        round(canary.cores, 2),
        "cores",
        f"{METHOD}; CPU time / wall time",
        CORES_AIM,
        f"{partitions * 1000 // period_ms} probes a second in half a core would be "
        f"{CORES_AIM * 1e6 * period_ms / 1000 / partitions:.0f} us for each: a request framed, sent, received, parsed and judged in "
        "Python takes more; fewer partitions or a longer period fit in proportion",
        void,
        details,
    )
    return [ratio, cores]


def _void(canary: Cost, *floors: Cost) -> str | None:
    """A prober, or a floor, that does not keep up costs little and proves nothing."""
    if min(floor.acked for floor in floors) < KEPT_UP:
        return f"the brokers acknowledged {min(floor.acked for floor in floors):.0%} of the floor's records in time: there was no floor"
    if canary.in_time < KEPT_UP:
        return f"the canary issued {canary.in_time:.0%} of its probes in time: it did not keep up"
    return None


def _floor(bench: Bench, lab: Lab, topic: str, partitions: int, period_ms: int, seconds: float) -> Cost:
    log = bench.folder / f"floor-{time.monotonic_ns()}.log"
    arguments = [lab.bootstrap, topic, str(partitions), str(period_ms), str(seconds)]
    child = spawn("the floor", [sys.executable, "-m", "pipelines.brokers.kafka.floor", *arguments], log)
    code = child.wait(WARM_UP_SECONDS + seconds + 3 * FLUSH_SECONDS)
    if code != 0:
        raise ProcessFailed(f"the floor of librdkafka ended with code {code}: {child.log_tail(3)}")
    found = json.loads(log.read_text().splitlines()[-1])
    due = partitions * 1000 / period_ms * seconds
    return Cost(
        1e6 * found["cpu_seconds"] / found["issued"],
        found["cpu_seconds"] / found["seconds"],
        found["in_time"] / due,
        found["acked"] / due,
    )


def _canary(bench: Bench, lab: Lab, prefix: str, partitions: int, period_ms: int, seconds: float) -> Cost:
    home = Home(bench.folder / prefix)
    home.create()
    config = CanaryProcess(
        **as_fields(lab.place),
        cluster_id=lab.admin.cluster_id(),
        prober_id="bench",
        spool=str(home.landing),
        anchor=lab.anchor.text(),
        lanes=("durable_write",),
        topic_prefix=prefix,
        period_ms=period_ms,
        partitions_max=partitions,
        home=str(home.path),
    )
    path = home.path / "canary.json"
    path.write_text(config.to_json())
    child = spawn("the canary", [sys.executable, "-m", "pipelines", "collect", "canary", str(path)], home.logs / "canary.log")
    try:
        wait_until(lambda: any(home.landing.glob("[!.]*.jsonl")) or not child.is_alive(), 90.0, "the canary's first file")
        process = psutil.Process(child.pid)
        time.sleep(SETTLE_SECONDS)
        from_us, cpu = lab.anchor.now_us(), cpu_seconds(process)
        time.sleep(seconds)
        until_us, cpu = lab.anchor.now_us(), cpu_seconds(process) - cpu
    except psutil.NoSuchProcess as error:
        raise ProcessFailed(f"the canary ended by itself: {child.log_tail(3)}") from error
    finally:
        child.send(Signals.SIGTERM)
        child.stop()
    return _cost(config, home, partitions, (from_us, until_us), cpu)


def _cost(config: CanaryConfig, home: Home, partitions: int, window: tuple[int, int], cpu: float) -> Cost:
    due = partitions * (window[1] - window[0]) / (config.period_ms * 1000)
    runs = list(_runs(home.landing))
    issued = sum(_within(run, window) for run in runs if run.code != NOT_ISSUED)
    in_time = sum(_within(run, window) for run in runs if run.outcome != Outcome.VOID)
    acked = sum(_within(run, window) for run in runs if run.outcome == Outcome.ACKED)
    wall = (window[1] - window[0]) / 1e6
    return Cost(1e6 * cpu / max(1, issued), cpu / wall, in_time / due, acked / due)


def _runs(landing: Path) -> Iterable[Probes]:
    by_stream: dict[Any, list[Probes]] = {}
    for path in landing.glob("[!.]*.jsonl"):
        for line in path.read_text().splitlines():
            one = decode(line)
            if isinstance(one, Probes):
                by_stream.setdefault(stream_of(one), []).append(one)
    for of_stream in by_stream.values():
        yield from longest_runs(of_stream)


def _within(run: Probes, window: tuple[int, int]) -> int:
    """Probes of the run that were meant for an instant of the window."""
    first = max(0, -((run.started_at_us - window[0]) // run.period_us))
    last = min(run.count - 1, (window[1] - 1 - run.started_at_us) // run.period_us)
    return max(0, last - first + 1)
