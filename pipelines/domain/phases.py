"""What happened inside an outage, and why was it one? The ordered boundaries of a recovery.

b0 start, b1 the broker is fenced, b2 the new leader is recorded (b0, where that was before), b3 clients are told of it, b4 end (the
first served probe). Each is an interval; a boundary that does not apply is None: a partition whose leader lived on has no election,
and one that was moved in order has no detection. The phases are differences of neighbouring boundaries that apply (detection b1-b0,
election b2-b1, propagation b3-b2, first write b4 minus the last of them), each with its own bounds; the bounds of phases are not to
be summed.

Boundaries are ordered in truth, so each one also bounds its neighbours: none can be later than those behind it, or earlier than
those before. Where a stated boundary contradicts that order (a controller's clock that is off), it is dropped rather than believed.

Worked example, in ms: start [90, 160], fenced and elected at [8050, 8051], clients told in [8100, 8180], end [8200, 8310]:
detection [7890, 7961], election [0, 1], propagation [49, 130], first write [20, 210].
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.domain.brokers import Absence, is_leaving, leader_before
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.leadership import leader_changes
from pipelines.domain.names import identity
from pipelines.domain.observations import Control, ControlEvent, Kind, LeaderSeen
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import ACKS_ALL_STALLED, PartitionWindow, at
from pipelines.domain.windows import UNDER_MIN_ISR as WINDOW_UNDER_MIN_ISR

LEADER_FAILED = "leader_failed"
LEADER_MOVED = "leader_moved"
ISR_MEMBER_DEAD = "isr_member_dead"
ISR_MEMBER_SLOW = "isr_member_slow"
UNDER_MIN_ISR = "under_min_isr"
TOPIC_DELETED = "topic_deleted"
TOPIC_CREATED = "topic_created"
PROBER_ALONE = "prober_alone"
UNKNOWN = "unknown"

MIN_ISR_CODES = frozenset({"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"})
"""A system's own words for it, as they landed: what is derived again from bronze asks no broker system. A new system's go here, too."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Cause and boundaries of one outage; `elected` and `known` are None where no election belongs to it."""

    cause: str
    broker: str | None
    fenced: Bounds | None = None
    elected: Bounds | None = None
    known: Bounds | None = None
    is_clean_election: bool | None = None
    fenced_by: str | None = None
    elected_by: str | None = None
    known_by: str | None = None
    """The events, by name, that these boundaries are taken from; None where none says it by itself."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Durations in microseconds; None where a boundary does not apply."""

    detection: Bounds | None
    election: Bounds | None
    propagation: Bounds | None
    first_write: Bounds | None


@dataclass(frozen=True, slots=True)
class Span:
    """An outage or a window of one partition, as far as its explanation goes."""

    partition: Partition
    kind: str
    start: Bounds
    end: Bounds
    leader: str | None
    codes: tuple[str, ...]
    term: int | None = None
    """The leader epoch in which it was served before."""


@dataclass(slots=True)
class Evidence:
    """What explanations draw on."""

    facts: Facts
    absences: Sequence[Absence]
    laggards: Sequence[Absence] = ()
    windows: dict[Partition, list[PartitionWindow]] = field(default_factory=dict)

    def of_outage(self, stream: Stream, outage: Outage) -> Recovery:
        """Explains an outage of a probed stream."""
        leader = leader_before(self.facts, stream, outage)
        term = outage.before.term if outage.before else None
        return self._explained(Span(stream.partition, stream.kind, outage.start, outage.end, leader, outage.codes, term))

    def of_window(self, one: PartitionWindow) -> Recovery:
        """Explains a window of any partition."""
        if one.window == WINDOW_UNDER_MIN_ISR:
            return Recovery(UNDER_MIN_ISR, None)
        kind = Kind.DURABLE_WRITE if one.window == ACKS_ALL_STALLED else Kind.LEADER
        span = Span(one.partition, kind, one.start, one.end, one.leader_before, one.seen.codes if one.seen else (), one.term_before)
        if one.window == ACKS_ALL_STALLED and one.broker != one.leader_before:
            # It says itself for whom its writes waited; several of them may have waited for several brokers at a time.
            return self._waited(one, span)
        return self._explained(span)

    def _explained(self, span: Span) -> Recovery:
        change = self._leader_change(span)
        if change is not None:
            return self._with_election(span, change)
        if span.kind == Kind.DURABLE_WRITE:
            stall = self._stall(span)
            if stall is not None:
                return self._waited(stall, span)
            if MIN_ISR_CODES.intersection(span.codes):
                return Recovery(UNDER_MIN_ISR, None)
        if self._is_absent(span.leader, span.start):
            return self._fenced(LEADER_FAILED, span.leader, span)
        return Recovery(self._topics_own(span) or UNKNOWN, None)

    def _waited(self, stall: PartitionWindow, span: Span) -> Recovery:
        if any(one.broker == stall.broker and one.covers(stall.start) for one in self.laggards):
            return Recovery(ISR_MEMBER_SLOW, stall.broker)
        return self._fenced(ISR_MEMBER_DEAD, stall.broker, span)

    def _fenced(self, cause: str, broker: str | None, span: Span) -> Recovery:
        event = self._fencing(span, broker)
        fenced = _between(span.start, at(event) if event else None, span.end)
        return Recovery(cause, broker, fenced, fenced_by=_name(event) if fenced else None)

    def _with_election(self, span: Span, change: Control) -> Recovery:
        # A leaderless span has two changes: the first took the leader away, the last named the one that serves.
        failed = change.previous_leader if change.previous_leader is not None else span.leader
        is_planned = is_leaving(self.facts, failed, change.ended_at_us)
        fencing = None if is_planned else self._fencing(span, failed)
        is_failed = fencing is not None or (self._is_absent(failed, at(change)) and not is_planned)
        seen = self._told(span.partition, change, span.end)
        if seen is not None:
            told: Bounds | None = Bounds(seen.started_at_us, seen.ended_at_us)
        else:
            # At the latest when one of them was served by the new leader.
            told = Bounds(change.started_at_us, span.end.high) if span.end.high is not None else None
        # A move in order is decided before it is felt: from the first instant of the outage on, another leader is named.
        named = at(change) if is_failed else at(change).later_of(span.start)
        fenced, elected, known = _ordered(span.start, [at(fencing) if fencing else None, named, told], span.end)
        clean = None if change.is_unclean is None else not change.is_unclean
        return Recovery(
            LEADER_FAILED if is_failed else LEADER_MOVED,
            failed,
            fenced,
            elected,
            known,
            clean,
            fenced_by=_name(fencing) if fenced else None,
            elected_by=_name(change) if elected else None,
            known_by=_name(seen) if known else None,
        )

    def _leader_change(self, span: Span) -> Control | None:
        """The last change within the span that named another leader: the one after which the partition was served again.

        A move in order is decided before it is felt: the old leader serves until it hears of it.
        """
        changes = [one for one in leader_changes(self.facts, span.partition) if one.leader is not None and not _precedes(one, span)]
        within = [one for one in changes if _overlap(at(one), at(one), span.start, span.end)]
        if within:
            return within[-1]
        before = [one for one in changes if span.start.low is not None and one.ended_at_us < span.start.low]
        return before[-1] if before and before[-1].previous_leader == span.leader is not None else None

    def _stall(self, span: Span) -> PartitionWindow | None:
        stalls = (one for one in self.windows.get(span.partition, ()) if one.window == ACKS_ALL_STALLED)
        found = [one for one in stalls if _overlap(one.start, one.end, span.start, span.end)]
        # Where bounds are coarse several may overlap it; what certainly does explains it better.
        return next((one for one in found if _is_certain(one.start, one.end, span)), found[0] if found else None)

    def _fencing(self, span: Span, broker: str | None) -> Control | None:
        events = self.facts.broker_events.get(broker, ()) if broker is not None else ()
        fenced = [event for event in events if event.event == ControlEvent.BROKER_FENCED]
        found = [one for one in fenced if _overlap(at(one), at(one), span.start, span.end)]
        return next((one for one in found if _is_certain(at(one), at(one), span)), found[0] if found else None)

    def _told(self, partition: Partition, change: Control, end: Bounds) -> LeaderSeen | None:
        """The first time that clients were told of a change."""
        for seen in self.facts.told.get(partition, ()):
            is_in_time = seen.ended_at_us >= change.started_at_us and (end.high is None or seen.started_at_us <= end.high)
            if seen.leader == change.leader and is_in_time:
                return seen
        return None

    def _topics_own(self, span: Span) -> str | None:
        """Whether it may have begun with the removal of its topic, which is decided before it is felt, or with its creation."""
        events = self.facts.partition_events.get(span.partition, ())
        before = [one for one in events if span.start.high is None or one.started_at_us <= span.start.high]
        within = [one for one in before if span.start.low is None or one.ended_at_us >= span.start.low]
        if any(one.event == ControlEvent.PARTITION_REMOVED for one in (*before[-1:], *within)):
            return TOPIC_DELETED
        is_new = span.start.low is None and [one.event for one in before] == [ControlEvent.PARTITION_CREATED]
        return TOPIC_CREATED if is_new else None

    def _is_absent(self, broker: str | None, instant: Bounds) -> bool:
        return broker is not None and any(one.broker == broker and one.covers(instant) for one in self.absences)


def phases(start: Bounds, found: Recovery, end: Bounds) -> Phases:
    """The phases of a recovery: differences of the boundaries that apply."""
    last = found.known or found.elected or found.fenced
    return Phases(
        detection=duration(start, found.fenced) if found.fenced else None,
        election=duration(found.fenced, found.elected) if found.fenced and found.elected else None,
        propagation=duration(found.elected, found.known) if found.elected and found.known else None,
        first_write=duration(last, end) if last else None,
    )


def _ordered(start: Bounds, stated: list[Bounds | None], end: Bounds) -> list[Bounds | None]:
    """Boundaries between a start and an end, each as far as it agrees with those before it; None where it does not.

    What is kept has rising lows and rising highs: in truth they happened in this order.
    """
    kept: list[Bounds | None] = []
    low, high = start.low, end.high
    if low is not None and high is not None and high < low:
        return [None] * len(stated)
    for one in stated:
        agreed = one.intersection(Bounds(low, high)) if one else None
        low = agreed.low if agreed and agreed.low is not None else low
        kept.append(agreed)
    for index in reversed(range(len(kept))):
        one = kept[index]
        if one is not None:
            kept[index] = one.intersection(Bounds(None, high))
            high = one.high if high is None or one.high is None else min(high, one.high)
    return kept


def _name(event: Control | LeaderSeen | None) -> str | None:
    return None if event is None else identity(event.prober_id, event.boot_id, event.seq)


def _precedes(change: Control, span: Span) -> bool:
    """Whether it was served in the epoch of a change before, however coarsely the change itself is bounded."""
    return change.term is not None and span.term is not None and change.term <= span.term


def _between(before: Bounds, stated: Bounds | None, after: Bounds) -> Bounds | None:
    return _ordered(before, [stated], after)[0]


def _overlap(start: Bounds, end: Bounds, other_start: Bounds, other_end: Bounds) -> bool:
    """Whether two spans may have an instant in common."""
    begins = start.low is None or other_end.high is None or start.low <= other_end.high
    goes_on = end.high is None or other_start.low is None or other_start.low <= end.high
    return begins and goes_on


def _is_certain(start: Bounds, end: Bounds, span: Span) -> bool:
    """Whether something has an instant in common with a span wherever within their bounds both really were."""
    begins = start.high is not None and span.end.low is not None and start.high <= span.end.low
    goes_on = end.low is not None and span.start.high is not None and end.low >= span.start.high
    return begins and goes_on
