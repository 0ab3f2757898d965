"""What is known of one cluster in one stretch of time?

It is sorted so that every derivation finds its part. Observations come in any order, some of them twice. `Facts.of` removes
repetitions (a line is named for good by prober_id, boot_id and seq), keeps the longest form of each run, and sorts by time. Every
derivation of silver is a pure function of `Facts`, so the order of reading, the cut into micro-batches and replays cannot change
a result.

Example: the same file of 1,000 lines read twice gives the same `Facts` as read once.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipelines.domain.observations import (
    Blind,
    BrokerMetrics,
    Control,
    EpochEnd,
    Fault,
    LateAcks,
    LeaderSeen,
    Observation,
    Probes,
    ReadBack,
)
from pipelines.domain.unavailability import longest_runs


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic, or a queue's only shard."""

    resource: str
    shard: str


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """What one prober asks of one partition in one lane: the key of the outage fold."""

    resource: str
    shard: str
    kind: str
    lane: str
    prober_id: str

    @property
    def partition(self) -> Partition:
        """The partition that is probed."""
        return Partition(self.resource, self.shard)


@dataclass(slots=True)
class Facts:
    """One cluster's observations, without repetitions, each list in order of time."""

    system: str = ""
    cluster_id: str = ""
    probes: dict[Stream, list[Probes]] = field(default_factory=dict)
    late_acks: dict[Stream, list[LateAcks]] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    leader_seen: list[LeaderSeen] = field(default_factory=list)
    epoch_ends: list[EpochEnd] = field(default_factory=list)
    readbacks: list[ReadBack] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    blinds: list[Blind] = field(default_factory=list)
    broker_metrics: list[BrokerMetrics] = field(default_factory=list)

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> "Facts":
        """The facts of observations of one cluster, given in any order, repetitions included."""
        facts = cls()
        unique = {(one.prober_id, one.boot_id, one.seq): one for one in observations}
        sorted_by_record: dict[str, list[Any]] = defaultdict(list)
        for one in sorted(unique.values(), key=lambda each: (each.started_at_us, each.prober_id, each.boot_id, each.seq)):
            facts.system, facts.cluster_id = one.system, one.cluster_id
            sorted_by_record[one.record].append(one)
        runs: dict[Stream, list[Probes]] = defaultdict(list)
        for run in sorted_by_record[Probes.record]:
            runs[stream_of(run)].append(run)
        late: dict[Stream, list[LateAcks]] = defaultdict(list)
        for ack in sorted_by_record[LateAcks.record]:
            late[stream_of(ack)].append(ack)
        facts.leader_seen = sorted_by_record[LeaderSeen.record]
        facts.epoch_ends = sorted_by_record[EpochEnd.record]
        facts.readbacks = sorted_by_record[ReadBack.record]
        facts.faults = sorted_by_record[Fault.record]
        facts.blinds = sorted_by_record[Blind.record]
        facts.broker_metrics = sorted_by_record[BrokerMetrics.record]
        facts.probes = {stream: longest_runs(of_stream) for stream, of_stream in sorted(runs.items())}
        facts.late_acks = dict(sorted(late.items()))
        facts.controls = _one_source(sorted_by_record[Control.record])
        return facts


def stream_of(one: Probes | LateAcks) -> Stream:
    """The stream that a run of probes, or of late acknowledgements, belongs to."""
    return Stream(one.resource, one.shard, one.kind, one.lane, one.prober_id)


def _one_source(controls: list[Control]) -> list[Control]:
    """One record a decision, also where several collectors read it; polled ones only where nobody reads the metadata log."""
    seen = set()
    kept = []
    for one in controls:
        key = (one.event, one.position, one.broker, one.resource, one.shard)
        if one.position is not None and key in seen:
            continue
        seen.add(key)
        kept.append(one)
    has_log = any(one.position is not None for one in kept)
    return sorted((one for one in kept if not has_log or one.position is not None), key=_in_log_order)


def _in_log_order(one: Control) -> tuple[int, int]:
    position = one.position or ""
    return one.started_at_us, int(position) if position.isdigit() else 0
