"""A whole history: what collectors wrote of a simulated cluster, and what was true.

The rule: one seed, one history. `simulate` draws a scenario (or takes one), plays it, lets every observer look, and writes their
observations as the real collectors would, each in the order of its own writing. `History.truth` holds what no collector can know.

Example: `simulate(7).observations` fed through `Facts.of` and `derive` gives windows; `judge` says whether the truth of seed 7 lies
within them.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pipelines.brokers.simulated.cluster import CANARY, WATCH, Cluster, Trace
from pipelines.brokers.simulated.logs import Log, Record, cuts_of
from pipelines.brokers.simulated.observers import Observer, Probing, leader_seen, observers
from pipelines.brokers.simulated.scenario import PROBER, Scenario, random_scenario
from pipelines.brokers.simulated.service import Down, Service
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.observations import (
    Blind,
    Control,
    EpochEnd,
    Fault,
    Kind,
    Lane,
    LateAcks,
    LeaderSeen,
    Observation,
    Probes,
    ReadBack,
    Status,
)

SYSTEM, CLUSTER_ID, CLOCK_ID = "simulated", "simulated", "simulated"
WRITE_TOPIC, DURABLE_TOPIC, USER_TOPIC = "canary-write", "canary-durable", "orders"


@dataclass(slots=True)
class Truth:
    """What really happened. Spans of `lanes` are by stream, of `leaderless` by partition, of `stalled` by partition and broker."""

    trace: Trace
    lanes: dict[Stream, list[Down]] = field(default_factory=dict)
    leaderless: dict[Partition, list[Down]] = field(default_factory=dict)
    stalled: dict[tuple[Partition, str], list[Down]] = field(default_factory=dict)
    gone: dict[Stream, list[Record]] = field(default_factory=dict)
    blind: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """Observations and truth of one seed."""

    seed: int
    scenario: Scenario
    observations: list[Observation]
    truth: Truth


def simulate(seed: int, scenario: Scenario | None = None, *, incidents: int = 4, is_short: bool = False) -> History:
    """The history of a seed. Without a scenario the seed draws one of some incidents."""
    rng = random.Random(seed)  # noqa: S311 - nothing here is a secret
    scenario = scenario or random_scenario(rng, incidents=incidents, is_short=is_short)
    partitions = _partitions(scenario, rng)
    trace = Cluster(scenario, rng, partitions).run(scenario.faults)
    return History(seed, scenario, *_seen(scenario, rng, trace))


def _partitions(scenario: Scenario, rng: random.Random) -> dict[Partition, tuple[str, ...]]:
    """Leaders in turn, as brokers place them; replicas behind them."""
    found = {}
    counts = {
        WRITE_TOPIC: scenario.write_partitions,
        DURABLE_TOPIC: scenario.durable_partitions,
        USER_TOPIC: scenario.user_partitions,
    }
    for topic, count in counts.items():
        first = rng.randrange(len(scenario.brokers))
        for shard in range(count):
            order = [scenario.brokers[(first + shard + n) % len(scenario.brokers)] for n in range(len(scenario.brokers))]
            found[Partition(topic, str(shard))] = tuple(order[: scenario.replication_factor])
    return found


def _seen(scenario: Scenario, rng: random.Random, trace: Trace) -> tuple[list[Observation], Truth]:
    canary = observers(scenario, CANARY, "canary", is_disturbed=True)
    watch = observers(scenario, WATCH, "watch", is_disturbed=False)
    truth = Truth(trace, blind={"canary": _blind(scenario, canary), "watch": []})
    pen = _Pen()
    for partition in trace.replicas:
        service = Service.of(scenario, trace, partition)
        truth.leaderless[partition] = service.leaderless()
        for broker in scenario.brokers:
            if downs := service.stalled(broker):
                truth.stalled[partition, broker] = downs
        lanes = [(watch, Kind.LEADER, Lane.WATCH)]
        if partition.resource != USER_TOPIC:
            kind = Kind.WRITE if partition.resource == WRITE_TOPIC else Kind.DURABLE_WRITE
            lanes += [(canary, kind, Lane.RAW), (canary, Kind.READ, Lane.READ)]
        for observer, kind, lane in lanes:
            is_durable = kind == Kind.DURABLE_WRITE
            log = Log(cuts_of(trace, partition, scenario.replication_us, rng, is_durable=is_durable)) if lane == Lane.RAW else None
            probing = Probing(scenario, trace, service, observer, kind, lane, rng, log)
            probing.read_at = _read_back_at(scenario, rng) if log else []
            probing.run()
            stream = Stream(partition.resource, partition.shard, kind, lane, observer.prober_id)
            gap = scenario.watch_gap_us if lane == Lane.WATCH else scenario.gap_us
            truth.lanes[stream] = service.unserved(observer.client, kind, gap)
            if log is not None:
                truth.gone[stream] = log.gone
            pen.probing(observer, probing)
    _around(pen, scenario, rng, trace, canary)
    return pen.observations, truth


def _read_back_at(scenario: Scenario, rng: random.Random) -> list[int]:
    """When a canary partition is read back: now and then, and after everything."""
    return sorted([*(rng.randrange(scenario.end_us) for _ in range(rng.randint(0, 3))), scenario.end_us - scenario.run_us // 4])


def _blind(scenario: Scenario, observer: Observer) -> list[tuple[int, int]]:
    """Spans in which an observer did not look, or of which its notes were lost."""
    gaps = list(observer.stalls)
    for before, after in pairwise(observer.boots):
        unwritten = scenario.flush_us if before.is_crash else 0
        gaps.append((before.end_us - unwritten - scenario.lambda_us, after.begin_us + scenario.period_us))
    return sorted(gaps)


class _Pen:
    """Writes observations under the envelopes of their collectors."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._sequences: dict[tuple[str, str], int] = {}

    def write(self, record: type[Any], collector: str, prober_id: str, boot_id: str, **fields: Any) -> None:
        key = (prober_id, boot_id)
        seq = self._sequences[key] = self._sequences.get(key, -1) + 1
        self.observations.append(
            record(
                system=SYSTEM,
                cluster_id=CLUSTER_ID,
                collector=collector,
                prober_id=prober_id,
                boot_id=boot_id,
                clock_id=CLOCK_ID,
                seq=seq,
                **fields,
            )
        )

    def probing(self, observer: Observer, probing: Probing) -> None:
        """Everything that one lane of one partition brought."""
        name = observer.prober_id
        for boot_id, line in probing.lines:
            self.write(Probes, name, name, boot_id, **line)
        for boot_id, line in probing.late_lines():
            self.write(LateAcks, name, name, boot_id, **line)
        partition = probing.service.partition
        for at_us, log_start, end, runs in probing.readbacks:
            self.write(
                ReadBack,
                "readback",
                "readback",
                "readback-0",
                resource=partition.resource,
                shard=partition.shard,
                kind=probing.kind,
                lane=probing.lane,
                from_position="0",
                to_position=str(end),
                log_start_position=str(log_start),
                damaged_records=0,
                runs=runs,
                started_at_us=at_us,
                ended_at_us=at_us + 1_000,
            )


def _around(pen: _Pen, scenario: Scenario, rng: random.Random, trace: Trace, canary: Observer) -> None:
    """What is not a probe: the control plane, what clients were told, ends of epochs, faults, blindness, signs of life."""
    for fields in trace.controls if scenario.has_control_plane else ():
        seen_at_us = fields["ended_at_us"] + rng.randint(0, 20_000)
        pen.write(Control, "control_plane", "control", "control-0", source="metadata_fetch", seen_at_us=seen_at_us, **fields)
    for partition in trace.replicas:
        for line in leader_seen(trace, partition, rng):
            pen.write(LeaderSeen, "watch", "watch", "watch-0", **line)
        for line in _epoch_ends(scenario, trace, partition) if partition.resource == USER_TOPIC else ():
            pen.write(EpochEnd, "watch", "watch", "watch-0", **line)
    for one in (one for one in scenario.faults if one.target != PROBER):
        fields = {"fault": one.kind, "target": one.target, "is_verified": True}
        pen.write(Fault, "drill", "drill", "drill-0", started_at_us=one.at_us, ended_at_us=one.at_us + 1_000, **fields)
    for begin, end in canary.stalls:
        pen.write(Blind, "canary", "canary", canary.boots[0].boot_id, cause="stall", started_at_us=begin, ended_at_us=end)
    for boot in (boot for boot in canary.boots if not boot.is_crash):
        state = {"state": "stopped", "started_at_us": boot.begin_us, "ended_at_us": boot.end_us}
        pen.write(Status, "canary", "canary", boot.boot_id, **state)


def _epoch_ends(scenario: Scenario, trace: Trace, partition: Partition) -> Iterator[dict[str, Any]]:
    """A user's partition takes one record a millisecond: what an unclean election cut off of it."""
    versions = trace.versions[partition]
    for former, version in pairwise(versions):
        if version.leader is None or version.leader == former.leader:
            continue
        watermark = version.decided_us // 1000
        lost = scenario.session_us // 1000 if version.is_unclean else 0
        yield {
            "resource": partition.resource,
            "shard": partition.shard,
            "term": version.term - 1,
            "new_term": version.term,
            "leader": version.leader,
            "high_watermark_max": str(watermark),
            "end_position": str(watermark - lost),
            "lost_records": lost,
            "lost_started_at_us": version.decided_us - 2 * scenario.session_us if lost else None,
            "lost_ended_at_us": version.decided_us - scenario.session_us if lost else None,
            "started_at_us": version.decided_us + 1_000_000,
            "ended_at_us": version.decided_us + 1_005_000,
        }


def shuffled(observations: Iterable[Observation], rng: random.Random) -> list[Observation]:
    """The same observations in another order, some of them twice."""
    found = list(observations)
    found += rng.sample(found, len(found) // 10)
    rng.shuffle(found)
    return found
