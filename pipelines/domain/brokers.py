"""Since when was a broker not serving, and until when? From the partitions that we probe to the broker that leads them.

The control plane notices a dead broker seconds late, and a broker that is hung may never be noticed at all. Our own probes of the
partitions that it led saw it at once. The rule: a broker is *absent* from the moment that the probed partitions led by it stopped
being served, when either the controller fenced it while they were not served, or every one of them stopped. Only writes with
acks=1, reads and leader answers count: an acks=all write can also wait for somebody else. Where a fenced broker led nothing that we
probe, the acks=all writes that waited for it do.

What speaks against an absence: the broker refused the first bad probe itself, its partitions had been moved away before they
stopped (a planned move), it answered somebody in the middle of it, or acks=all writes that need it went on. Where most of them
lasted less than 2g, or flapped, nothing is claimed of the broker unless the controller fenced it.

The absence begins within the hull of the bounds that those partitions give, the densest probes first. It ends with the broker's
next sign of life: an answer to a probe that was sent after the begin, or its registration with the controller.

Worked example, in ms: broker 2 led p0 and p4. Outages start in [100, 160] and [90, 150]. The absence starts in [90, 160]. It is
fenced at 8050 and unfenced at 31000: the absence ends in [8050, 31000].
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipelines.domain.clocks import MILLISECOND_US
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.goods import GoodRun
from pipelines.domain.intervals import Bounds, hull
from pipelines.domain.observations import Control, ControlEvent, ControlSourceName, Kind, Lane, Outcome, Probes
from pipelines.domain.replication import SAME_DECISION_US, state_at
from pipelines.domain.unavailability import Outage, is_good

CONFIRMING = frozenset(
    {
        ControlEvent.BROKER_FENCED,
        ControlEvent.BROKER_REGISTERED,
        ControlEvent.BROKER_UNFENCED,
        ControlEvent.CONTROLLER_SILENT,
        ControlEvent.CONTROLLER_CHANGED,
    }
)
CONFIRMED_US = 120_000_000
"""A broker that was started again is served from before the controller has registered it at the latest so long after."""
PROVING_KINDS = frozenset({Kind.WRITE, Kind.READ, Kind.LEADER})

Proof = tuple[Stream, Outage]
"""An outage and the stream that it is of."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A broker that was not serving, and the outages that prove it; `rows` names those of them that were written to or read."""

    broker: str
    start: Bounds
    end: Bounds
    proof: tuple[Proof, ...]
    rows: tuple[str, ...]
    fenced: Bounds | None
    is_slow: bool = False
    """It served what it led, and was too slow a follower (see `laggards`)."""
    is_confirmed: bool = True
    """Somebody but the prober bears it out: not all brokers were out of its sight at once, or the control plane tells of it."""

    @property
    def begun_us(self) -> int:
        """An instant by which it had begun, and before the controller changed anything because of it: who led and followed then
        is who was hit."""
        begun = self.start.high if self.start.high is not None else 0
        if self.fenced is None or self.fenced.low is None or self.fenced.high is None:
            return begun
        # What follows from the fencing has its stamp. Where clocks bound that coarsely, none of it has certainly happened until then.
        is_exact = self.fenced.high - self.fenced.low < MILLISECOND_US
        return min(begun, self.fenced.low - 1 if is_exact else self.fenced.high - 1)

    def covers(self, instant: Bounds) -> bool:
        """Whether the instant may lie within the absence."""
        begins = self.start.low is None or instant.high is None or self.start.low <= instant.high
        goes_on = self.end.high is None or instant.low is None or instant.low <= self.end.high
        return begins and goes_on


def absences(facts: Facts, outages: dict[Stream, list[Outage]]) -> list[Absence]:
    """Every absence of every broker, in order of time. `outages` are those of all streams of the cluster."""
    known = _Known(facts, outages, lives_of(facts))
    led = _led_outages(facts, outages)
    found = [one for broker in sorted(led) for one in _absences_of(known, broker, led[broker])]
    for broker in sorted(facts.broker_events):
        for fenced in fencings(facts, broker):
            if not any(one.broker == broker and one.covers(fenced) for one in found):
                found.extend(_seen_by_followers(known, broker, fenced, found))
    found = [replace(one, is_confirmed=_is_confirmed(known, one, found)) for one in found]
    return sorted(found, key=lambda one: (one.start.high or 0, one.broker))


def _is_confirmed(known: "_Known", absence: Absence, found: list[Absence]) -> bool:
    """All brokers gone at once looks just as a prober that is cut off. They were gone if one of them was fenced or came back, or if the
    controller fell silent."""
    together = {one.broker for one in found if one.covers(absence.start) or absence.covers(one.start)}
    if absence.fenced is not None or len(known.lives) < 2 or not known.lives.keys() <= together:
        return True
    begin = absence.start.low if absence.start.low is not None else absence.begun_us
    end = None if absence.end.high is None else absence.end.high + CONFIRMED_US
    telling = (one for one in known.facts.controls if one.event in CONFIRMING)
    return any(one.ended_at_us >= begin and (end is None or one.started_at_us <= end) for one in telling)


@dataclass(frozen=True, slots=True)
class _Known:
    """What absences are made of: `lives` are the runs of probes that each broker answered."""

    facts: Facts
    outages: dict[Stream, list[Outage]]
    lives: dict[str, list[GoodRun]]


def row_name(stream: Stream, outage: Outage) -> str:
    """How a proof names an outage of a stream."""
    return f"{stream.resource}/{stream.shard}/{stream.kind}/{stream.lane}@{outage.first_bad_issued_us}"


def is_leaving(facts: Facts, broker: str | None, instant_us: int) -> bool:
    """Whether a broker had said that it shuts down, and had not come back, at an instant."""
    return broker is not None and _has_gone_by(facts, broker, ControlEvent.BROKER_SHUTTING_DOWN, instant_us)


def is_away(facts: Facts, broker: str, instant_us: int) -> bool:
    """Whether a broker had been fenced, and had not come back, at an instant. In ZooKeeper mode a new controller may move what it led
    long after its session has ended."""
    return _has_gone_by(facts, broker, ControlEvent.BROKER_FENCED, instant_us)


def _has_gone_by(facts: Facts, broker: str, event_of_going: ControlEvent, instant_us: int) -> bool:
    """Whether the last event by an instant that says either is that a broker goes, and not that it comes."""
    gone = False
    for event in facts.broker_events.get(broker, ()):
        if event.started_at_us > instant_us:
            break
        if event.event == event_of_going:
            gone = True
        elif event.event in (ControlEvent.BROKER_REGISTERED, ControlEvent.BROKER_UNFENCED):
            gone = False
    return gone


def touches(outage: Outage, begin: Bounds, end: Bounds) -> bool:
    """Whether an outage may have an instant in common with a span."""
    begins = outage.start.low is None or end.high is None or outage.start.low <= end.high
    goes_on = outage.end.high is None or begin.low is None or begin.low <= outage.end.high
    return begins and goes_on


# --- by the partitions that it led ------------------------------------------------------------------------------------


def _led_outages(facts: Facts, outages: dict[Stream, list[Outage]]) -> dict[str, list[Proof]]:
    """Outages by the broker that led the partition when it stopped; without those that the broker itself, or a move, explains."""
    led: dict[str, list[Proof]] = defaultdict(list)
    for stream, of_stream in outages.items():
        if stream.kind in PROVING_KINDS and stream.lane != Lane.CLIENT:
            for outage in of_stream:
                leader = leader_before(facts, stream, outage)
                if leader is not None and outage.refused_by != leader and not _was_moved(facts, stream, leader, outage):
                    led[leader].append((stream, outage))
    return led


def leader_before(facts: Facts, stream: Stream, outage: Outage) -> str | None:
    """Who led the partition when it stopped: by the last probe that was served, else by the control plane."""
    if outage.before and outage.before.leader:
        return outage.before.leader
    state = state_at(facts, stream.partition, outage.first_bad_issued_us)
    return state.leader if state else None


def _was_moved(facts: Facts, stream: Stream, leader: str, outage: Outage) -> bool:
    """Whether the controller had already named another leader when the first bad probe was decided, with the old one alive."""
    change = None
    for event in facts.partition_events.get(stream.partition, ()):
        if event.started_at_us > outage.earliest_decided_us:
            break
        change = event
    if change is None or change.leader == leader:
        return False
    # A broker that was fenced loses its partitions, too, and with short sessions at once; it was not moved away from in order.
    at = Bounds(change.started_at_us, change.ended_at_us).widened(SAME_DECISION_US)
    was_fenced = any(at.intersection(fenced) for fenced in fencings(facts, leader))
    is_late = change.source == ControlSourceName.ZOOKEEPER and is_away(facts, leader, change.ended_at_us)
    return not (was_fenced or is_late) or is_leaving(facts, leader, change.ended_at_us)


def _absences_of(known: _Known, broker: str, proofs: list[Proof]) -> Iterator[Absence]:
    given_up = [at for at in fencings(known.facts, broker) if not is_leaving(known.facts, broker, at.low or 0)]
    for group in _simultaneous(proofs):
        fenced = next((at for at in given_up if _is_fenced_in(at, group)), None)
        start = _start(group, fenced)
        if start.high is None:
            continue
        silent_to = fenced.low if fenced and fenced.low is not None else _certain_end(group)
        if answers_within(known.lives.get(broker, ()), start.high, silent_to):
            continue
        is_sure = fenced is not None or 2 * sum(outage.is_long for _, outage in group) > len(group)
        if is_sure and (fenced is not None or _all_stopped(known, broker, group, start.high, silent_to)):
            yield _absence(known, broker, start, fenced, group)


def _absence(known: _Known, broker: str, start: Bounds, fenced: Bounds | None, group: list[Proof]) -> Absence:
    rows = tuple(row_name(stream, outage) for stream, outage in group if stream.kind != Kind.LEADER)
    rows = rows or (f"partitions led by broker {broker} that did not answer: {len(group)}",)
    begin = start.high if start.high is not None else 0
    return Absence(broker, start, _end(known, broker, begin, fenced, group), tuple(group), rows, fenced)


def _simultaneous(proofs: list[Proof]) -> Iterator[list[Proof]]:
    """Groups of outages that may have begun together: each one's possible start touches that of one before it."""
    group: list[Proof] = []
    reach = 0
    for proof in sorted(proofs, key=lambda one: (_low(one[1].start), one[1].earliest_decided_us, one[0])):
        start = proof[1].start
        if group and _low(start) > reach:
            yield group
            group = []
        reach = max(reach, proof[1].earliest_decided_us) if group else proof[1].earliest_decided_us
        group.append(proof)
    if group:
        yield group


def _start(group: list[Proof], fenced: Bounds | None) -> Bounds:
    """The hull of the starts, without those that say much less than others (sparse probes, a prober that was blind)."""
    bounded = [outage for _, outage in group if outage.start.low is not None]
    best = min(bounded, key=lambda one: _width(one.start), default=None)
    exact = [one.start for one in bounded if best and one.gap_us == best.gap_us and _width(one.start) <= 2 * _width(best.start)]
    start = hull(exact or [outage.start for _, outage in group]) or Bounds(None, None)
    # Whoever is fenced has not been serving for a session.
    return (start.intersection(Bounds(None, fenced.high)) if fenced else None) or start


def _width(start: Bounds) -> int:
    return (start.high or 0) - (start.low or 0)


def _certain_end(group: list[Proof]) -> int:
    """Until when every densely probed stream of the group was certainly not served."""
    dense = min(outage.gap_us for _, outage in group)
    return min(outage.last_bad_issued_us for _, outage in group if outage.gap_us == dense)


def _is_fenced_in(at: Bounds, group: list[Proof]) -> bool:
    return any(touches(outage, at, at) for _, outage in group)


def _all_stopped(known: _Known, broker: str, group: list[Proof], begin_us: int, silent_to: int) -> bool:
    """Whether every stream that the broker served just before is in the group, of those that are probed as densely.

    Between `begin_us` and `silent_to` the group was certainly not served: acks=all writes that need the broker waited, too.
    """
    stopped = {stream for stream, _ in group}
    dense = min(outage.gap_us for _, outage in group)
    since = min((outage.start.low for _, outage in group if outage.start.low is not None), default=begin_us)
    begin, end = Bounds.exactly(begin_us), Bounds.exactly(max(begin_us, silent_to))
    for stream, runs in known.facts.probes.items():
        if stream.lane == Lane.CLIENT or stream in stopped or not any(_is_measured(run, begin_us, silent_to) for run in runs):
            continue
        if stream.kind in PROVING_KINDS:
            goods = (run for run in runs if is_good(run) and run.leader == broker)
            if any(_gap(run) <= dense and _holds(run, since) for run in goods):
                return False
        elif needs(known.facts, stream, broker, begin_us) and not any(
            touches(outage, begin, end) for outage in known.outages.get(stream, ())
        ):
            return False
    return True


def _holds(run: Probes, instant_us: int) -> bool:
    return run.started_at_us <= instant_us <= run.last_issued_at_us + _gap(run)


def _is_measured(run: Probes, begin_us: int, end_us: int) -> bool:
    return run.outcome != Outcome.VOID and run.started_at_us <= end_us and run.last_issued_at_us >= begin_us


def needs(facts: Facts, stream: Stream, broker: str, instant_us: int) -> bool:
    """Whether acks=all writes of the stream need the broker."""
    state = state_at(facts, stream.partition, instant_us)
    return state is not None and broker in (state.isr or ()) and state.leader != broker


# --- by the acks=all writes that waited for it ------------------------------------------------------------------------


def _seen_by_followers(known: _Known, broker: str, fenced: Bounds, others: Sequence[Absence]) -> Iterator[Absence]:
    """A broker that was fenced and led nothing that we probe: it stopped when the acks=all writes did that wait for it. `others` are
    the absences that are known already."""
    facts = known.facts
    at = fenced.low if fenced.low is not None else 0
    if is_leaving(facts, broker, at):
        return
    group = [
        (stream, outage)
        for stream, of_stream in known.outages.items()
        if stream.waits_for_all
        for outage in of_stream
        if outage.first_bad_issued_us <= at
        and (outage.end.high is None or at <= outage.end.high)
        and needs(facts, stream, broker, outage.first_bad_issued_us)
    ]
    start = hull(outage.start for _, outage in group)
    if start is None:
        return
    was_missing = any(touches(outage, one.start, one.end) for one in others if one.broker != broker for _, outage in group) or any(
        _is_fenced_in(each, group) for other in facts.broker_events if other != broker for each in fencings(facts, other)
    )
    if was_missing:
        # Somebody else was missing, too: the writes may have waited for him, and for this one only later.
        start = Bounds(start.low, fenced.high)
    yield _absence(known, broker, start, fenced, group)


# --- signs of life ----------------------------------------------------------------------------------------------------


def lives_of(facts: Facts) -> dict[str, list[GoodRun]]:
    """Every run of probes that a broker answered, by that broker, in order of time."""
    lives: dict[str, list[GoodRun]] = defaultdict(list)
    for stream, runs in facts.probes.items():
        if stream.lane == Lane.CLIENT:
            continue  # what is sent again and again says little of the broker that it was first sent to
        for run in runs:
            if run.leader is not None and (is_good(run) or run.is_answered):
                lives[run.leader].append(GoodRun.of(run))
    for of_broker in lives.values():
        of_broker.sort(key=lambda run: run.last_issued_us)
    return lives


def answers_within(lives: Iterable[GoodRun], begin_us: int, end_us: int) -> bool:
    """Whether a probe that was sent after `begin_us` was answered before `end_us`."""
    answers = (run.first_issued_from(begin_us) for run in lives)
    return any(answer is not None and answer.resolved_us < end_us for answer in answers)


def _end(known: _Known, broker: str, begin_us: int, fenced: Bounds | None, group: list[Proof]) -> Bounds:
    """From the last proof that it was away to its next sign of life."""
    facts = known.facts
    low = max(begin_us, fenced.low) if fenced and fenced.low is not None else begin_us
    lives = known.lives.get(broker, ())
    answers = [answer.resolved_us for run in lives if (answer := run.first_issued_from(low)) is not None]
    back = [
        (event.event != ControlEvent.BROKER_UNFENCED, event.ended_at_us)
        for event in facts.broker_events.get(broker, ())
        if event.event in (ControlEvent.BROKER_REGISTERED, ControlEvent.BROKER_UNFENCED) and event.started_at_us >= low
    ]
    # A broker that registers serves once it is unfenced; where no such thing is recorded, registering has to do.
    high = min([*answers, *(at for _, at in sorted(back)[:1])], default=None)
    waited = [run.last_issued_at_us for stream, outage in group for run in _unanswered(facts, stream, broker, outage)]
    low = max([low, *(at for at in waited if high is None or at <= high)])
    return Bounds(low, high)


def _unanswered(facts: Facts, stream: Stream, broker: str, outage: Outage) -> Iterator[Probes]:
    """Bad probes of an outage that were sent to the broker and that it did not answer."""
    for run in facts.probes[stream]:
        is_within = outage.first_bad_issued_us <= run.started_at_us <= outage.last_bad_issued_us
        if is_within and run.leader == broker and not run.is_answered and run.outcome in (Outcome.REJECTED, Outcome.UNKNOWN):
            yield run


def fencings(facts: Facts, broker: str) -> list[Bounds]:
    """When the controller gave a broker up."""
    return [_at(one) for one in facts.broker_events.get(broker, ()) if one.event == ControlEvent.BROKER_FENCED]


def _at(event: Control) -> Bounds:
    return Bounds(event.started_at_us, event.ended_at_us)


def _gap(run: Probes) -> int:
    return max(0, run.period_us + run.lambda_us)


def _low(start: Bounds) -> int:
    return start.low if start.low is not None else 0
