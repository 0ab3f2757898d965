"""Where do two views of the same thing disagree? Control plane, the brokers' own metrics, clients, clocks: each is somebody's word.

A finding is no outage and no loss: it says that somebody's word cannot be relied on, what each of them said, and which rows show it.

- *clock_stepped*, *clock_skewed*: a host's clock was set, or is off by a second or more. *clock_unbounded*: events were stamped by a
  clock that nothing bounds: they stand between two readings.
- *prober_alone*, *probers_disagree*: what one prober was not served others were, never or some of them.
- *isr_shrinks_uncounted*: a broker's counter of ISR shrinks marks only what it proposed as a leader; what the controller shrank when it
  fenced a broker, or let it leave, is in no counter. *isr_shrinks_disagree*: the counter and the control plane differ beyond that.
- *old_leader_served*: a leader acknowledged after another, or nobody, had been named in its place: what it took may be gone.
- *all_out_of_sight*: no broker served our probes, and nothing else tells of it: they may all have been down, or we were cut off.
- *not_served_though_alive*: a broker served none of our probes for longer than it would have been given up by the controller, if it had
  been silent there, too: it hangs for clients only, or we were cut off from it.

Worked example: broker 3 is killed; the control plane takes it out of 6 ISRs, the counters of brokers 1 and 2 stay at 0: one
isr_shrinks_uncounted with 6 windows as its evidence.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pipelines.domain.brokers import Absence
from pipelines.domain.clocks import SKEWED_US, ClockBound
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import Good, GoodRun, is_good
from pipelines.domain.leadership import leader_changes
from pipelines.domain.names import identity, outage_id
from pipelines.domain.observations import Control, ControlEvent, Kind
from pipelines.domain.replication import OutOfSync, removed
from pipelines.domain.unavailability import Outage
from pipelines.domain.views import Agreement, View

RULE_VERSION = "finding-2"

STEP_US = 100_000
"""A smaller step is told from a slow answer by nobody, and moves nothing."""
EDGE_US = 5_000_000
"""A shrink is counted when the controller has answered, and read with the next poll."""
ALIVE_US = 30_000_000
"""No system gives a broker up later by default: ZooKeeper mode after 18 s, KRaft after 9 s."""
SHRINKS = "IsrShrinksPerSec.Count"
BY_CONTROLLER = frozenset({"fenced", "controlled_shutdown", "unclean_election"})
EVIDENCE_MAX = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement, and who said what. `subject` is the broker, host or prober whose word is in doubt; instants in microseconds."""

    finding_id: str
    finding: str
    subject: str
    partition: Partition | None
    started_us: int
    ended_us: int
    said: str
    control_plane: str | None = None
    metrics: str | None = None
    clients: str | None = None
    evidence: tuple[str, ...] = ()


def findings(
    facts: Facts,
    main: Facts,
    outages: Mapping[Stream, list[Outage]],
    views: Mapping[tuple[Stream, int], View],
    absences: Iterable[Absence],
    out_of_sync: Iterable[OutOfSync],
) -> list[Finding]:
    """Everything that is in doubt, in order of time. `main` are the facts as they are told on the main timeline."""
    spans = list(out_of_sync)
    found = [
        *_clock_findings(facts),
        *_prober_findings(facts, outages, views),
        *_shrink_findings(main, spans),
        *_old_leaders(main),
        *_alive(main, absences),
    ]
    return sorted(found, key=lambda one: (one.started_us, one.finding, one.subject, one.finding_id))


# --- clocks -----------------------------------------------------------------------------------------------------------


def _clock_findings(facts: Facts) -> Iterator[Finding]:
    for step in facts.clocks.steps():
        low, high = step.by.low, step.by.high
        if low is not None and high is not None and (low >= STEP_US or high <= -STEP_US):
            text = f"the clock of {step.host} was set {'forward' if low > 0 else 'back'} by {_seconds(low)} to {_seconds(high)}"
            span = (step.begin_us, step.end_us)
            yield _finding(facts, "clock_stepped", step.host, None, span, text, (step.clock_id, step.begin_us), clients=text)
    skewed: dict[tuple[str, str], list[ClockBound]] = defaultdict(list)
    for bound in facts.clocks.bounds():
        if _is_skewed(bound.offset.low, bound.offset.high):
            skewed[bound.host, bound.clock_id].append(bound)
    for (host, clock_id), off in skewed.items():
        text = f"the clock of {host} is {_seconds(off[-1].offset.low)} to {_seconds(off[-1].offset.high)} off ours"
        span = (off[0].begin_us, off[-1].end_us)
        yield _finding(facts, "clock_skewed", host, None, span, text, (clock_id, off[0].begin_us), clients=text)
    unbounded: dict[str, list[Control]] = defaultdict(list)
    for one in facts.controls:
        if one.stamped_by is not None and not facts.clocks.offsets(one.stamped_by, one.clock_id, one.seen_at_us):
            unbounded[one.stamped_by].append(one)
    for host, events in unbounded.items():
        text = f"nothing bounds the clock of {host}, which stamped {len(events)} events: each stands between two readings of its source"
        evidence = tuple(f"{one.event} at {one.position or '-'}" for one in events[:EVIDENCE_MAX])
        span = (events[0].started_at_us, max(one.ended_at_us for one in events))
        yield _finding(facts, "clock_unbounded", host, None, span, text, (events[0].position,), control_plane=text, evidence=evidence)


def _is_skewed(low: int | None, high: int | None) -> bool:
    return (low is not None and low >= SKEWED_US) or (high is not None and high <= -SKEWED_US)


# --- probers ----------------------------------------------------------------------------------------------------------


def _prober_findings(
    facts: Facts, outages: Mapping[Stream, list[Outage]], views: Mapping[tuple[Stream, int], View]
) -> Iterator[Finding]:
    for stream, of_stream in outages.items():
        for outage in of_stream:
            view = views.get((stream, outage.first_bad_issued_us))
            if view is None or view.agreement not in (Agreement.ALONE, Agreement.DISPUTED):
                continue
            is_alone = view.agreement == Agreement.ALONE
            served = ", ".join(view.contradicted_by or view.unseen_by)
            text = f"{stream.prober_id} was not served ({stream.kind}, {stream.lane}); served meanwhile: {served}"
            if not is_alone:
                text += f"; not served either: {', '.join(view.seen_by)}"
            name = "prober_alone" if is_alone else "probers_disagree"
            span = (outage.earliest_decided_us, max(outage.earliest_decided_us, outage.last_bad_issued_us))
            parts = (stream.kind, stream.lane, outage.first_bad_issued_us)
            evidence = (f"outage {outage_id(facts.cluster_id, stream, outage)}",)
            yield _finding(facts, name, stream.prober_id, stream.partition, span, text, parts, clients=text, evidence=evidence)


# --- the ISR by events and by counters --------------------------------------------------------------------------------


def _shrink_findings(facts: Facts, spans: list[OutOfSync]) -> Iterator[Finding]:
    polls: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for one in facts.broker_metrics:
        if one.values and SHRINKS in one.values:
            polls[one.broker].append((one.ended_at_us, one.values[SHRINKS]))
    by_controller = [one for one in spans if one.cause in BY_CONTROLLER and _is_polled(polls, one.start.low)]
    if by_controller:
        first, last = by_controller[0].start.low or 0, max(one.start.high or 0 for one in by_controller)
        counted = sum(_rise(of_broker) for of_broker in polls.values())
        text = f"the controller took replicas out of {len(by_controller)} ISRs; the brokers' counters show {counted:g} shrinks in all"
        yield _finding(
            facts,
            "isr_shrinks_uncounted",
            "IsrShrinksPerSec",
            None,
            (first, last),
            text,
            (by_controller[0].window_id,),
            control_plane=f"{len(by_controller)} replicas left their ISR: {_counted(one.cause for one in by_controller)}",
            metrics=f"IsrShrinksPerSec rose by {counted:g} on {len(polls)} brokers",
            evidence=tuple(f"isr window {one.window_id}" for one in by_controller[:EVIDENCE_MAX]),
        )
    for broker, of_broker in polls.items():
        yield from _disagreement(facts, broker, of_broker)


def _disagreement(facts: Facts, broker: str, polls: list[tuple[int, float]]) -> Iterator[Finding]:
    """What a leader proposed is counted by it, once for each change; at the edges of what was polled it may fall on either side."""
    if len(polls) < 2 or any(later < earlier for (_, earlier), (_, later) in pairwise(polls)):
        return  # restarted: its counter began anew
    begin, end = polls[0][0], polls[-1][0]
    if all(one.is_polled for one in facts.controls):
        return  # polled states do not show every change
    proposed = [one for one in _proposed(facts, broker) if begin - EDGE_US <= one.started_at_us <= end + EDGE_US]
    certain = [one for one in proposed if begin + EDGE_US <= one.started_at_us <= end - EDGE_US]
    counted = _rise(polls)
    if len(certain) <= counted <= len(proposed):
        return
    shown = f"{len(certain)}" if len(certain) == len(proposed) else f"{len(certain)} to {len(proposed)}"
    text = f"broker {broker} counts {counted:g} ISR shrinks of its own, the control plane shows {shown}"
    yield _finding(
        facts,
        "isr_shrinks_disagree",
        broker,
        None,
        (begin, end),
        text,
        (begin,),
        control_plane=f"{shown} ISR shrinks proposed by broker {broker} as a leader",
        metrics=f"IsrShrinksPerSec of broker {broker} rose by {counted:g}",
        evidence=tuple(f"partition_changed at {one.position}" for one in proposed[:EVIDENCE_MAX]),
    )


def _proposed(facts: Facts, broker: str) -> Iterator[Control]:
    """Shrinks that a leader asked for: its own, of replicas that were neither fenced nor leaving nor moved away."""
    for events in facts.partition_events.values():
        for event in events:
            if event.leader == broker == event.previous_leader and removed(event):
                gone = [one for one in removed(event) if event.replicas is None or one in event.replicas]
                if gone and not any(_was_given_up(facts, one, event) for one in gone):
                    yield event


def _was_given_up(facts: Facts, replica: str, event: Control) -> bool:
    given_up = (ControlEvent.BROKER_FENCED, ControlEvent.BROKER_SHUTTING_DOWN)
    near = [one for one in facts.broker_events.get(replica, ()) if one.event in given_up]
    return any(abs(one.started_at_us - event.started_at_us) <= EDGE_US for one in near)


def _is_polled(polls: Mapping[str, list[tuple[int, float]]], at_us: int | None) -> bool:
    return any(of_broker[0][0] <= (at_us or 0) + EDGE_US <= of_broker[-1][0] + 2 * EDGE_US for of_broker in polls.values())


def _rise(polls: list[tuple[int, float]]) -> float:
    return sum(max(0.0, later - earlier) for (_, earlier), (_, later) in pairwise(polls))


def _counted(words: Iterable[str]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for word in words:
        counts[word] += 1
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


# --- leaders by the control plane and by clients ----------------------------------------------------------------------


def _old_leaders(facts: Facts) -> Iterator[Finding]:
    """Writes that a replaced leader acknowledged after the election of the next."""
    for partition in facts.partition_events:
        for change in leader_changes(facts, partition):
            if change.previous_leader is None:
                continue
            taken = list(_taken_by_the_old(facts, partition, change))
            if taken:
                last = max(good.resolved_us for _, good in taken)
                new = "it had been taken off as a leader" if change.leader is None else f"broker {change.leader} had been elected"
                text = f"broker {change.previous_leader} acknowledged writes after {new}"
                yield _finding(
                    facts,
                    "old_leader_served",
                    change.previous_leader,
                    partition,
                    (change.started_at_us, last),
                    text,
                    (change.position, change.started_at_us),
                    control_plane=f"leader {change.previous_leader} -> {change.leader or 'none'}, epoch {change.term}",
                    clients=f"acknowledged by {change.previous_leader}: {_counted(prober for prober, _ in taken)}",
                    evidence=(f"partition_changed at {change.position or '-'}",),
                )


def _taken_by_the_old(facts: Facts, partition: Partition, change: Control) -> Iterator[tuple[str, Good]]:
    """Who was acknowledged by the leader that a change had replaced, first after it."""
    for run in facts.answers.get(partition, ()):
        if run.kind in (Kind.WRITE, Kind.DURABLE_WRITE) and is_good(run) and run.leader == change.previous_leader:
            good = GoodRun.of(run).first_issued_from(change.ended_at_us)
            if good is not None and _is_still_his(facts, partition, change, good.issued_us):
                yield run.prober_id, good


def _is_still_his(facts: Facts, partition: Partition, change: Control, at_us: int) -> bool:
    """Nobody has given the partition back to the old leader by then."""
    later = (one for one in leader_changes(facts, partition) if one.started_at_us > change.started_at_us)
    return not any(one.leader == change.previous_leader and one.started_at_us <= at_us for one in later)


def _alive(facts: Facts, absences: Iterable[Absence]) -> Iterator[Finding]:
    unconfirmed = []
    for absence in absences:
        if not absence.is_confirmed:
            unconfirmed.append(absence)
            continue
        begin, end = absence.start.high, absence.end.low
        if absence.fenced is not None or begin is None or end is None or end - begin < ALIVE_US:
            continue
        if all(one.is_polled for one in facts.controls):
            continue
        text = f"broker {absence.broker} served none of our probes for {_seconds(end - begin)} or more, and was not fenced"
        yield _finding(
            facts,
            "not_served_though_alive",
            absence.broker,
            None,
            (begin, end),
            text,
            (begin,),
            control_plane=f"broker {absence.broker} was not fenced",
            clients=f"not served by broker {absence.broker}",
            evidence=absence.rows[:EVIDENCE_MAX],
        )
    if unconfirmed:
        begin = min(one.begun_us for one in unconfirmed)
        end = max(one.end.low if one.end.low is not None else one.begun_us for one in unconfirmed)
        brokers = sorted({one.broker for one in unconfirmed})
        yield _finding(
            facts,
            "all_out_of_sight",
            ", ".join(brokers),
            None,
            (begin, end),
            "no broker served our probes, and nothing else tells that they were down: they were, or the prober was cut off",
            (begin,),
            control_plane="no broker was fenced or registered, and the controller was not seen to fall silent",
            clients=f"not served by {', '.join(brokers)}",
            evidence=tuple(row for one in unconfirmed for row in one.rows)[:EVIDENCE_MAX],
        )


# --- words ------------------------------------------------------------------------------------------------------------


def _finding(
    facts: Facts,
    finding: str,
    subject: str,
    partition: Partition | None,
    span: tuple[int, int],
    said: str,
    parts: tuple[object, ...],
    **views: object,
) -> Finding:
    place = (partition.resource, partition.shard) if partition else (None, None)
    name = identity(facts.cluster_id, finding, subject, *place, *parts)
    return Finding(name, finding, subject, partition, span[0], max(span), said, **views)  # type: ignore[arg-type]


def _seconds(us: int | None) -> str:
    return "?" if us is None else f"{us / 1e6:.3f} s"
