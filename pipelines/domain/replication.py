"""Which replicas were out of sync, since when, and why? And in which state was a partition at some instant?

The rule: a replica is out of the ISR from the control plane's change that removed it to the one that brought it back, or that
removed the partition. ISR includes the leader. The cause is read from what the controller did with it: *fenced* when the broker was
fenced by then (in KRaft mode in the same second; in ZooKeeper mode a new controller may take its time), *controlled_shutdown* when it
had said that it leaves, *reassignment* when it is no replica any more, *unclean_election* when the change was one, *lagging* when none
of these holds and the control plane's own decisions are read, *unknown* where it is only polled.

Worked example: one batch at 04:00:08.050 holds PARTITION_CHANGED (isr 1,2,3 -> 1,3) and BROKER_FENCED 2: replica 2 is out since
[04:00:08.050000, 04:00:08.050999], cause fenced.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipelines.domain.clocks import MILLISECOND_US
from pipelines.domain.facts import Facts, Partition
from pipelines.domain.intervals import Bounds
from pipelines.domain.names import identity
from pipelines.domain.observations import Control, ControlEvent, ControlSourceName

RULE_VERSION = "isr-3"
SAME_DECISION_US = 1_000_000
"""A fencing and the changes that follow from it are one decision of the controller; it is written within one second."""


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """A span in which a replica was not in the ISR."""

    window_id: str
    partition: Partition
    replica: str
    cause: str
    start: Bounds
    end: Bounds
    isr_before: tuple[str, ...]
    isr_after: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """It has not come back."""
        return self.end.high is None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader, epoch, in-sync and eligible replicas of a partition, as far as they are known."""

    leader: str | None
    term: int | None
    isr: tuple[str, ...] | None
    eligible: tuple[str, ...] | None = None


def out_of_sync(facts: Facts, seeds: Iterable[OutOfSync] = ()) -> list[OutOfSync]:
    """Every span out of the ISR that begins in these facts, and the seeds (open from before) with the end that they got."""
    open_spans: dict[Partition, dict[str, OutOfSync]] = defaultdict(dict)
    for seed in seeds:
        open_spans[seed.partition][seed.replica] = seed
    closed: list[OutOfSync] = []
    leaving: set[str] = set()
    fenced = _fencings(facts)
    away: set[str] = set()
    for event in facts.controls:
        if event.broker and event.event == ControlEvent.BROKER_SHUTTING_DOWN:
            leaving.add(event.broker)
        elif event.broker and event.event == ControlEvent.BROKER_FENCED:
            away.add(event.broker)
        elif event.broker and event.event in (ControlEvent.BROKER_REGISTERED, ControlEvent.BROKER_UNFENCED):
            leaving.discard(event.broker)
            away.discard(event.broker)
        if event.resource is None or event.shard is None:
            continue
        partition = Partition(event.resource, event.shard)
        at = Bounds(event.started_at_us, event.ended_at_us)
        missing = open_spans[partition]
        for replica in _returned(event, missing):
            span = missing.pop(replica)
            closed.append(replace(span, end=_ordered(span.start, at)))
        for replica in removed(event):
            is_given_up = event.source == ControlSourceName.ZOOKEEPER and replica in away - leaving
            cause = "fenced" if is_given_up else _cause(event, replica, fenced, leaving)
            isrs = (event.previous_isr or (), event.isr or ())
            # Named by its place in the log: better bounds of a clock move its instants.
            begin = event.position if event.position is not None else event.started_at_us
            name = identity(facts.cluster_id, partition.resource, partition.shard, replica, begin)
            missing.setdefault(replica, OutOfSync(name, partition, replica, cause, at, Bounds(at.low, None), *isrs))
    spans = [*closed, *(span for missing in open_spans.values() for span in missing.values())]
    return sorted(spans, key=lambda span: (span.start.low or 0, span.partition, span.replica))


def removed(event: Control) -> list[str]:
    """The replicas that an event took out of the ISR."""
    if event.event != ControlEvent.PARTITION_CHANGED or event.previous_isr is None or event.isr == event.previous_isr:
        return []
    return [replica for replica in event.previous_isr if replica not in (event.isr or ())]


def _returned(event: Control, missing: Iterable[str]) -> list[str]:
    """Those of the missing replicas that an event brought back; with a partition that is removed nothing is missing any more."""
    if event.event == ControlEvent.PARTITION_REMOVED:
        return list(missing)
    return [replica for replica in missing if replica in (event.isr or ())]


def _cause(event: Control, replica: str, fenced: dict[str, list[int]], leaving: set[str]) -> str:
    if event.is_unclean:
        return "unclean_election"
    if event.replicas is not None and replica not in event.replicas:
        return "reassignment"
    if replica in leaving:
        return "controlled_shutdown"
    if any(abs(at - event.started_at_us) <= SAME_DECISION_US for at in fenced.get(replica, ())):
        return "fenced"
    return "unknown" if event.is_polled else "lagging"


def _fencings(facts: Facts) -> dict[str, list[int]]:
    fenced: dict[str, list[int]] = defaultdict(list)
    for event in facts.controls:
        if event.event == ControlEvent.BROKER_FENCED and event.broker:
            fenced[event.broker].append(event.started_at_us)
    return fenced


def _ordered(start: Bounds, end: Bounds) -> Bounds:
    """An end that is not before its start, even where two coarse bounds overlap."""
    low = end.low if start.low is None or end.low is None else max(start.low, end.low)
    return Bounds(low, end.high if end.high is None or low is None else max(low, end.high))


def state_at(facts: Facts, partition: Partition, instant_us: int) -> PartitionState | None:
    """The last known state of a partition at an instant: by the control plane's own before and after, else by the watch.

    A change that is not known to the ms counts from when it was made for certain: it may hide others, and what it followed from began
    before it.
    """
    following = None
    for event in reversed(facts.partition_events.get(partition, ())):
        # A stamp is cut to milliseconds; what clocks or readings bound more coarsely has happened when it certainly has.
        if (event.started_at_us if event.ended_at_us - event.started_at_us < MILLISECOND_US else event.ended_at_us) <= instant_us:
            return PartitionState(event.leader, event.term, event.isr, event.eligible_replicas)
        if event.event != ControlEvent.PARTITION_CREATED:
            following = event
    for run in reversed(facts.answers.get(partition, ())):
        if run.started_at_us <= instant_us and run.isr is not None:
            return PartitionState(run.leader, run.term, run.isr)
    if following is None:
        return None
    return PartitionState(following.previous_leader, term_before(facts, following), following.previous_isr)


def term_before(facts: Facts, event: Control, preceding: Control | None = None) -> int | None:
    """The leader epoch before a change: by the change before it; else it is one less where a leader was named.

    Not known where the change may hide others, or where it dropped a replica in ZooKeeper mode: the controller raises the epoch then,
    the leader does not.
    """
    if preceding is not None and preceding.term is not None:
        return preceding.term
    if event.term is None or not facts.is_exact(event):
        return None
    if event.leader != event.previous_leader:
        return event.term - 1
    return None if event.source == ControlSourceName.ZOOKEEPER and removed(event) else event.term


def partitions(facts: Facts) -> list[Partition]:
    """Every partition that the control plane or a probe speaks of."""
    return sorted(facts.partition_events.keys() | facts.answers.keys())
