"""A real leader is killed and another one is terminated: what gold says of it is held against Kafka's own VerifiableProducer.

The witnesses know nothing of us. They write with acks=all to a topic of their own, of which our only knowledge is inferred; their
logs say, to the millisecond, when each record was acknowledged. Two things must hold for every partition: no acknowledgement of
any witness lies inside the interval in which we say it was certainly down, and the longest silence of all of them exceeds our upper
bound by no more than a client's own backoff. There are several, since one alone may be told of the new leader late: that is a delay
of this client, not of the partition.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.domain.clock import Anchor
from pipelines.lab import Lab, LabSpec
from pipelines.measuring import Measurement
from pipelines.parts import MeasuredCluster, collectors, mark_fault, stream
from pipelines.processes import wait_until
from pipelines.results import Results
from pipelines.settings import Home

pytestmark = pytest.mark.system

WITNESS_TOPIC = "witness"
WITNESSES = 3
PARTITIONS = 6
BACKOFF_MS = 200
"""What a witness is told to wait at most between two attempts to reconnect, or to ask for metadata again."""
JITTER = 1.2
"""Kafka's clients spread their backoff by a fifth."""
BACKOFFS = 2
"""One may follow the other: it waits to ask for metadata again, is told the new leader, and waits to send the batch again."""
PACE_MS = 100
"""60 records a second of each over six partitions: a turn may pass before a partition is written to again."""
CLOCK_MS = 2
"""Their logs have whole milliseconds, of the same host's wall clock."""


@dataclass(frozen=True)
class Measured:
    """One run: the results, the witnesses' acknowledgements by partition in milliseconds, and what was done when."""

    results: Results
    acks: dict[int, list[float]]
    faults: dict[str, float]

    def windows(self, fault: str) -> list[dict[str, Any]]:
        """What we say of the witnesses' partitions around a fault: every span that began within five seconds of it."""
        at = self.faults[fault]
        return [
            row
            for row in self.results.outages
            if row["resource"] == WITNESS_TOPIC and abs(row["started_at_max"].timestamp() * 1000 - at) < 5_000
        ]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("failover")
    home = Home(folder / "home")
    anchor = Anchor.now()
    said: list[str] = []
    since = datetime.now(tz=UTC)
    with Lab(LabSpec(), anchor=anchor, say=said.append) as lab, Measurement(home, said.append) as measurement:
        lab.admin.create_topic(WITNESS_TOPIC, partitions=PARTITIONS, replicas=3)
        cluster = MeasuredCluster(lab.place, lab.admin.cluster_id())
        measurement.start(stream(home, cluster, anchor))
        for part in collectors(home, cluster, anchor):
            measurement.start(part)
        logs = [start_witness(lab, folder / f"witness-{number}") for number in range(WITNESSES)]
        measurement.wait(measurement.is_streaming, 300, "the stream's first batch")
        measurement.wait_steady(300)
        wait_until(
            lambda: all(len(acknowledgements([one])) == PARTITIONS for one in logs),
            60,
            "the witnesses' acknowledgements on every partition",
        )
        faults = {}
        for name, injure in (("kill", lab.kill), ("terminate", lab.terminate)):
            victim = lab.active_controller()
            done = injure(victim)
            faults[name] = done.before_at_us / 1000
            mark_fault(home, cluster, anchor, "test", done.fault, done.target, (done.before_at_us, done.verified_at_us))
            wait_until(lambda at=done.before_at_us: anchor.now_us() > at + 3_000_000, 10, "the fault to be felt")
            measurement.wait(measurement.is_serving, 120, f"service after {name}")
            lab.start(victim)
            lab.wait_until_in_sync(180)
            measurement.wait_steady(300)
        measurement.wait(lambda: Results(home, cluster.cluster_id, since).is_read_back, 300, "the read-back of every outage")
        for name in [name for name in measurement.children if name != "stream"]:
            measurement.stop(name)
        measurement.stop("stream")
        yield Measured(Results(home, cluster.cluster_id, since), acknowledgements(logs), faults)


def start_witness(lab: Lab, folder: Path) -> Path:
    """Starts Kafka's own VerifiableProducer and returns its log."""
    folder.mkdir()
    config = folder / "witness.properties"
    config.write_text(
        f"retry.backoff.ms=50\nretry.backoff.max.ms={BACKOFF_MS}\nreconnect.backoff.ms=50\nreconnect.backoff.max.ms={BACKOFF_MS}\n"
    )
    log = folder / "witness.log"
    arguments = ["--bootstrap-server", lab.bootstrap, "--topic", WITNESS_TOPIC, "--throughput", "60", "--acks", "-1"]
    arguments += ["--repeating-keys", "60", "--command-config", str(config)]
    lab.run_tool("org.apache.kafka.tools.VerifiableProducer", arguments, log)
    return log


def acknowledgements(logs: list[Path]) -> dict[int, list[float]]:
    """When each record was acknowledged, by partition, in milliseconds."""
    acks: dict[int, list[float]] = defaultdict(list)
    for line in (line for log in logs for line in log.read_text(errors="replace").splitlines()):
        if '"producer_send_success"' in line and line.endswith("}"):
            said = json.loads(line)
            acks[said["partition"]].append(said["timestamp"])
    return acks


def certain_down(row: dict[str, Any]) -> tuple[float, float]:
    """The interval in which we say that it was certainly not served, in milliseconds; empty when it ends before it begins."""
    return row["started_at_max"].timestamp() * 1000, row["ended_at_min"].timestamp() * 1000


def longest_silence(acks: list[float], around_ms: float) -> float:
    """The longest pause between two acknowledgements that touches the 30 s after an instant."""
    near = sorted(at for at in acks if around_ms - 10_000 <= at <= around_ms + 30_000)
    return max(later - earlier for earlier, later in itertools.pairwise(near))


def test_no_acknowledgement_of_a_witness_lies_where_we_say_that_it_was_certainly_down(measured: Measured) -> None:
    wrong = []
    for row in measured.results.outages:
        if row["resource"] == WITNESS_TOPIC:
            begin, end = certain_down(row)
            inside = [at for at in measured.acks[int(row["shard"])] if begin + CLOCK_MS < at < end - CLOCK_MS]
            wrong += [(row["shard"], row["kind"], begin, end, at) for at in inside]
    assert wrong == []


def test_a_kill_is_seen_on_every_partition_of_the_witnesses(measured: Measured) -> None:
    assert {row["shard"] for row in measured.windows("kill")} == {str(shard) for shard in range(PARTITIONS)}


def test_the_witnesses_are_not_silent_for_longer_than_our_upper_bound_and_a_client_s_backoff(measured: Measured) -> None:
    too_long = []
    for row in measured.windows("kill"):
        silence = longest_silence(measured.acks[int(row["shard"])], measured.faults["kill"])
        if silence > row["rto_ms_max"] + BACKOFFS * BACKOFF_MS * JITTER + PACE_MS + CLOCK_MS:
            too_long.append((row["shard"], row["kind"], silence, row["rto_ms_max"]))
    assert too_long == []


def test_a_kill_costs_about_the_session_timeout_and_has_every_phase(measured: Measured) -> None:
    at = measured.faults["kill"]
    rows = [
        row
        for row in measured.results.outages
        if row["lane"] == "raw" and row["kind"] == "write" and abs(row["started_at_max"].timestamp() * 1000 - at) < 5_000
    ]
    assert rows
    for row in rows:
        assert row["cause"] == "leader_failed"
        assert 5_000 < row["rto_ms_min"] <= row["rto_ms_max"] < 60_000
        assert row["started_at_min"].timestamp() * 1000 <= at + 50
        for phase in ("detection", "election", "propagation", "first_write"):
            assert row[f"{phase}_ms_max"] is not None, phase


def test_nothing_acknowledged_is_lost_and_that_was_read_back(measured: Measured) -> None:
    assert measured.results.is_read_back
    assert [row for row in measured.results.losses if row["verdict"] == "LOST"] == []
    assert [row for row in measured.results.losses if row["verdict"] == "PRESENT"]


def test_a_termination_costs_far_less_than_a_kill(measured: Measured) -> None:
    killed = max(row["rto_ms_max"] for row in measured.windows("kill"))
    terminated = [row["rto_ms_min"] for row in measured.windows("terminate")]
    assert all(lasted < killed / 2 for lasted in terminated)


def test_every_stream_was_measured_nearly_all_the_time(measured: Measured) -> None:
    assert measured.results.coverage
    assert min(row["coverage_ratio"] for row in measured.results.coverage) > 0.8
