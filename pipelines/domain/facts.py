"""What is known of one cluster in one stretch of time?

It is sorted so that every derivation finds its part. Observations come in any order, some of them twice. `Facts.of` removes
repetitions (a line is named for good by prober_id, boot_id and seq), keeps the longest form of each run, and sorts by time. Every
derivation of silver is a pure function of `Facts`, so the order of reading, the cut into micro-batches and replays cannot change
a result. What derivations look up by partition or by broker is indexed once: the ten-thousandth partition costs as much as the
first.

Example: the same file of 1,000 lines read twice gives the same `Facts` as read once.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.domain.clocks import Clocks, placed
from pipelines.domain.observations import (
    Blind,
    BrokerMetrics,
    ClockSeen,
    Control,
    ControlEvent,
    EpochEnd,
    Fault,
    Kind,
    Lane,
    LateAcks,
    LeaderSeen,
    Observation,
    PartitionMetrics,
    Probes,
    ReadBack,
)
from pipelines.domain.sequences import number
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

    @property
    def waits_for_all(self) -> bool:
        """Whether each probe is one acks=all write, which waits for every member of the ISR and is not sent again."""
        return self.kind == Kind.DURABLE_WRITE and self.lane != Lane.CLIENT


Named = tuple[str, str, int]
"""What names a line for good: prober_id, boot_id and seq."""

EXACT_US = 1_000
"""How wide a stamp in ms is."""

PARTITION_EVENTS = frozenset({ControlEvent.PARTITION_CREATED, ControlEvent.PARTITION_CHANGED, ControlEvent.PARTITION_REMOVED})


@dataclass(slots=True)
class Facts:
    """One cluster's observations, without repetitions, each list in order of time. Made by `Facts.of`.

    Events of the control plane stand at the instants at which they happened by the collector's own clock, as far as `clocks` proves it.
    `partition_events`, `broker_events`, `told`, `answers` and `ends` hold the control plane's events, the leaders that clients were
    told, the runs of probes that are sent once (every lane but the client's) and the ends of epochs again, by what they are about.
    """

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
    clocks: Clocks = field(default_factory=Clocks)
    stamps: dict[Named, tuple[int, int]] = field(default_factory=dict)
    partition_events: dict[Partition, list[Control]] = field(default_factory=dict)
    broker_events: dict[str, list[Control]] = field(default_factory=dict)
    told: dict[Partition, list[LeaderSeen]] = field(default_factory=dict)
    answers: dict[Partition, list[Probes]] = field(default_factory=dict)
    ends: dict[Partition, list[EpochEnd]] = field(default_factory=dict)
    under_min_isr: dict[Partition, list[PartitionMetrics]] = field(default_factory=dict)

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
        for look in sorted_by_record[PartitionMetrics.record]:
            if look.is_under_min_isr and look.in_sync_replicas is not None:
                facts.under_min_isr.setdefault(Partition(look.resource, look.shard), []).append(look)
        controls = _completed(_one_source(sorted_by_record[Control.record]))
        facts.clocks = Clocks.of((run for of in facts.probes.values() for run in of), sorted_by_record[ClockSeen.record], controls)
        facts.probes = {stream: _in_order(of_stream, facts.clocks) for stream, of_stream in facts.probes.items()}
        facts.stamps = {_name(one): (one.started_at_us, one.ended_at_us) for one in controls}
        facts.controls = placed(controls, facts.clocks)
        facts.index()
        return facts

    def is_exact(self, event: Control) -> bool:
        """Whether an event is one stamp of the control plane's, to the ms, so that it is one decision and hides no other."""
        since, until = self.stamp(event)
        return until - since < EXACT_US

    def stamp(self, event: Control) -> tuple[int, int]:
        """The instants of an event as its source stamped them, by whatever clock."""
        return self.stamps.get(_name(event), (event.started_at_us, event.ended_at_us))

    def index(self) -> None:
        """Files everything under what it is about."""
        for event in self.controls:
            if event.event in PARTITION_EVENTS:
                if event.resource is not None and event.shard is not None:
                    self.partition_events.setdefault(Partition(event.resource, event.shard), []).append(event)
            elif event.broker is not None:
                self.broker_events.setdefault(event.broker, []).append(event)
        for seen in self.leader_seen:
            self.told.setdefault(Partition(seen.resource, seen.shard), []).append(seen)
        for end in self.epoch_ends:
            self.ends.setdefault(Partition(end.resource, end.shard), []).append(end)
        for stream, runs in self.probes.items():
            if stream.lane != Lane.CLIENT:
                self.answers.setdefault(stream.partition, []).extend(runs)
        for runs in self.answers.values():
            runs.sort(key=lambda run: run.started_at_us)


def _name(one: Control) -> Named:
    return one.prober_id, one.boot_id, one.seq


def stream_of(one: Probes | LateAcks) -> Stream:
    """The stream that a run of probes, or of late acknowledgements, belongs to."""
    return Stream(one.resource, one.shard, one.kind, one.lane, one.prober_id)


def _in_order(runs: list[Probes], clocks: Clocks) -> list[Probes]:
    """The runs of one stream, clock by clock in the order in which the clocks were read, where brokers' clocks prove how far they are
    apart: a wall clock that was set back between two boots makes the later one look like the earlier."""
    by_clock: dict[str, list[Probes]] = {}
    for run in runs:
        by_clock.setdefault(run.clock_id, []).append(run)
    if len(by_clock) < 2:
        return runs
    begins: dict[str, int] = {}
    for clock_id, of_clock in by_clock.items():
        away = clocks.between(runs[0].clock_id, clock_id)
        if away is None or away.low is None:
            return runs
        begins[clock_id] = of_clock[0].started_at_us + away.low
    return [run for clock_id in sorted(by_clock, key=begins.__getitem__) for run in by_clock[clock_id]]


def _one_source(controls: list[Control]) -> list[Control]:
    """One record a decision, also where several collectors read it; polled ones only from before the decisions themselves were read."""
    log_begins = min((one.started_at_us for one in controls if not one.is_polled), default=None)
    seen = set()
    in_log: list[Control] = []
    by_time: list[Control] = []
    for one in controls:
        if one.is_polled and log_begins is not None and one.ended_at_us >= log_begins:
            continue
        # What has no position is known by its stamp; who polls sees another one each time.
        place = one.position if one.position is not None else (one.source, one.started_at_us, one.ended_at_us)
        key = (one.event, place, one.broker, one.resource, one.shard)
        if key not in seen:
            seen.add(key)
            (by_time if number(one.position) is None else in_log).append(one)
    return list(heapq.merge(by_time, sorted(in_log, key=_in_log_order), key=lambda one: one.started_at_us))


def _in_log_order(one: Control) -> tuple[int, bool]:
    # The stamps of a log's writers may come from clocks that disagree; its positions cannot. A silence is told with the write that
    # ended it, under its position, and was before it.
    return number(one.position) or 0, one.event != ControlEvent.CONTROLLER_SILENT


def _completed(controls: list[Control]) -> list[Control]:
    """With what was before, where the line itself leaves it out and the line before it says it."""
    known: dict[Partition, Control] = {}
    controller: str | None = None
    found = []
    for told in controls:
        one = told
        if one.event == ControlEvent.CONTROLLER_CHANGED:
            leader = one.leader if one.leader is not None else one.broker
            before = one.previous_leader if one.previous_leader is not None or controller == leader else controller
            one, controller = replace(one, leader=leader, previous_leader=before), leader
        elif one.event in PARTITION_EVENTS and one.resource is not None and one.shard is not None:
            partition = Partition(one.resource, one.shard)
            last = known.get(partition)
            if one.event == ControlEvent.PARTITION_CHANGED and last is not None:
                leader = one.previous_leader if one.previous_leader is not None else last.leader
                one = replace(one, previous_leader=leader, previous_isr=last.isr if one.previous_isr is None else one.previous_isr)
            if one.event == ControlEvent.PARTITION_REMOVED:
                known.pop(partition, None)
            else:
                known[partition] = one
        found.append(one)
    return found
