"""What happened inside an outage, and why was it one? The ordered boundaries of a recovery.

b0 start, b1 the broker is fenced, b2 the new leader is recorded, b3 clients are told of it, b4 end (the first served probe). Each
is an interval; a boundary that does not apply is None: a partition whose leader lived on has no election. The phases are
differences of neighbouring boundaries that apply (detection b1-b0, election b2-b1, propagation b3-b2, first write b4 minus the
last of them), each with its own bounds; the bounds of phases are not to be summed.

Boundaries are ordered in truth, so each one also bounds its neighbours: none can be later than the earliest end of those behind
it. Where a stated boundary contradicts that order (a controller's clock that is off), it is dropped rather than believed.

Worked example, in ms: start [90, 160], fenced and elected at [8050, 8051], clients told in [8100, 8180], end [8200, 8310]:
detection [7890, 7961], election [0, 1], propagation [49, 130], first write [20, 210].
"""

from dataclasses import dataclass

from pipelines.domain.brokers import Absence
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.leadership import ACKS_ALL_STALLED, PartitionWindow
from pipelines.domain.observations import Control, ControlEvent, Kind
from pipelines.domain.unavailability import Outage

LEADER_FAILED = "leader_failed"
LEADER_MOVED = "leader_moved"
ISR_MEMBER_DEAD = "isr_member_dead"
UNDER_MIN_ISR = "under_min_isr"
UNKNOWN = "unknown"

MIN_ISR_CODES = frozenset({"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"})


@dataclass(frozen=True, slots=True)
class Recovery:
    """Cause and boundaries of one outage; `elected` and `known` are None where no election belongs to it."""

    cause: str
    broker: str | None
    fenced: Bounds | None = None
    elected: Bounds | None = None
    known: Bounds | None = None
    is_clean_election: bool | None = None


@dataclass(frozen=True, slots=True)
class Phases:
    """Durations in microseconds; None where a boundary does not apply."""

    detection: Bounds | None
    election: Bounds | None
    propagation: Bounds | None
    first_write: Bounds | None


def recovery(
    facts: Facts,
    stream: Stream,
    outage: Outage,
    broker_absences: list[Absence],
    windows: list[PartitionWindow],
) -> Recovery:
    """Explains an outage of a stream from the control plane and from what is known of brokers and partitions."""
    return explain(facts, stream.partition, stream.kind, outage.start, outage.end, outage.codes, broker_absences, windows)


def explain(
    facts: Facts,
    partition: Partition,
    kind: str,
    start: Bounds,
    end: Bounds,
    codes: tuple[str, ...],
    broker_absences: list[Absence],
    windows: list[PartitionWindow],
) -> Recovery:
    """The same for any span of a partition, probed or inferred."""
    change = _leader_change(facts, partition, start, end)
    if change is not None:
        return _with_election(facts, partition, start, end, change, broker_absences)
    stall = next(
        (
            one
            for one in windows
            if one.window == ACKS_ALL_STALLED and one.partition == partition and _overlap(one.start, one.end, start, end)
        ),
        None,
    )
    if kind == Kind.DURABLE_WRITE and stall is not None:
        fenced = _ordered(start, _fencing(facts, stall.broker, start, end), end)
        return Recovery(ISR_MEMBER_DEAD, stall.broker, fenced)
    if kind == Kind.DURABLE_WRITE and MIN_ISR_CODES.intersection(codes):
        return Recovery(UNDER_MIN_ISR, None)
    hung = next(
        (one for one in broker_absences for stream, _ in one.proof if stream.partition == partition and one.covers(start)), None
    )
    return Recovery(LEADER_FAILED, hung.broker) if hung else Recovery(UNKNOWN, None)


def phases(start: Bounds, found: Recovery, end: Bounds) -> Phases:
    """The phases of a recovery: differences of the boundaries that apply."""
    last = found.known or found.elected or found.fenced
    return Phases(
        detection=duration(start, found.fenced) if found.fenced else None,
        election=duration(found.fenced, found.elected) if found.fenced and found.elected else None,
        propagation=duration(found.elected, found.known) if found.elected and found.known else None,
        first_write=duration(last, end) if last else None,
    )


def _with_election(
    facts: Facts,
    partition: Partition,
    start: Bounds,
    end: Bounds,
    change: Control,
    broker_absences: list[Absence],
) -> Recovery:
    broker = change.previous_leader
    elected = _ordered(start, Bounds(change.started_at_us, change.ended_at_us), end)
    fenced = _ordered(start, _fencing(facts, broker, start, end), elected or end)
    known = _ordered(elected or start, _told(facts, partition, change, end), end)
    at = Bounds(change.started_at_us, change.ended_at_us)
    is_absent = any(one.broker == broker and one.covers(at) for one in broker_absences)
    # A broker that leaves in order is still serving while its partitions move; one that is fenced or absent failed.
    cause = LEADER_FAILED if fenced or (is_absent and not _is_leaving(facts, broker, change)) else LEADER_MOVED
    return Recovery(cause, broker, fenced, elected, known, None if change.is_unclean is None else not change.is_unclean)


def _leader_change(facts: Facts, partition: Partition, start: Bounds, end: Bounds) -> Control | None:
    """The last change within the span that named another leader: the one after which the partition was served again."""
    found = None
    for event in facts.controls:
        if (
            event.event == ControlEvent.PARTITION_CHANGED
            and (event.resource, event.shard) == (partition.resource, partition.shard)
            and event.leader is not None
            and event.leader != event.previous_leader
            and _overlap(Bounds(event.started_at_us, event.ended_at_us), Bounds(event.ended_at_us, event.ended_at_us), start, end)
        ):
            found = event
    return found


def _fencing(facts: Facts, broker: str | None, start: Bounds, end: Bounds) -> Bounds | None:
    for event in facts.controls:
        if event.event == ControlEvent.BROKER_FENCED and broker is not None and event.broker == broker:
            at = Bounds(event.started_at_us, event.ended_at_us)
            if _overlap(at, at, start, end):
                return at
    return None


def _told(facts: Facts, partition: Partition, change: Control, end: Bounds) -> Bounds | None:
    """When clients were told: at the latest when one of them was served by the new leader."""
    for seen in facts.leader_seen:
        is_same = (seen.resource, seen.shard) == (partition.resource, partition.shard) and seen.leader == change.leader
        if is_same and seen.ended_at_us >= change.started_at_us and (end.high is None or seen.started_at_us <= end.high):
            return Bounds(seen.started_at_us, seen.ended_at_us)
    return Bounds(change.started_at_us, end.high) if end.high is not None else None


def _is_leaving(facts: Facts, broker: str | None, change: Control) -> bool:
    is_leaving = False
    for event in facts.controls:
        if event.started_at_us > change.started_at_us:
            break
        if broker is not None and event.broker == broker:
            if event.event == ControlEvent.BROKER_SHUTTING_DOWN:
                is_leaving = True
            elif event.event in (ControlEvent.BROKER_REGISTERED, ControlEvent.BROKER_UNFENCED):
                is_leaving = False
    return is_leaving


def _ordered(before: Bounds, stated: Bounds | None, after: Bounds) -> Bounds | None:
    """The stated boundary as far as it agrees with being after one and before another; None where it cannot."""
    if stated is None:
        return None
    return stated.intersection(Bounds(before.low, after.high))


def _overlap(start: Bounds, end: Bounds, other_start: Bounds, other_end: Bounds) -> bool:
    """Whether two spans may have an instant in common."""
    begins = start.low is None or other_end.high is None or start.low <= other_end.high
    goes_on = end.high is None or other_start.low is None or other_start.low <= end.high
    return begins and goes_on
