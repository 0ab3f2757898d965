"""When did acks=all writes of a partition wait for a dead replica? For *every* partition, the users' too.

A leader acknowledges acks=all once every member of the ISR has the record. While a member is dead or hung, and the controller or
the leader has not yet dropped it from the ISR, nothing is acknowledged, although the leader serves. The rule: while a broker that
is not serving (see `brokers`) is in the ISR of a partition that it does not lead, acks=all writes of it are stalled. The window
begins with the absence; it ends when the change without that broker has reached the leader, or when the broker serves again.

The change is decided at the controller and felt at the leader. Other partitions of the same leader say when: a leader takes the
metadata log in order, so when acks=all writes of one of them go on after a change in the same batch or a later one, or when it
answers in an epoch that began there, the earlier changes have reached it. Where there is no such partition, the first answer beside
metadata without the broker has to do, and one more period.

Worked example, in ms: broker 2 is absent from [90, 160]; at 8050 partition u4, led by 1, loses 2 from its ISR; a probed partition
led by 1 loses it in the same batch and is acknowledged again by 8090. u4's acks=all writes are stalled from [90, 160] to
[8050, 8090].
"""

from collections.abc import Iterator, Sequence

from pipelines.domain.brokers import Absence, touches
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.leadership import leader_changes
from pipelines.domain.observations import Control, Kind, Lane, Probes
from pipelines.domain.replication import partitions, state_at
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import (
    ACKS_ALL_STALLED,
    PartitionWindow,
    Seen,
    at,
    by_partition,
    evidence_of,
    proof_of,
    seen_in,
    was_served,
)


def stall_windows(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]) -> Iterator[PartitionWindow]:
    """The windows of every partition, absence by absence. `outages` are those of all streams of the cluster."""
    durable = by_partition(outages, [Kind.DURABLE_WRITE])
    probed = {stream.partition: runs for stream, runs in facts.probes.items() if _is_durable(stream)}
    everyone = partitions(facts)
    for absence in broker_absences:
        begin = absence.start.high if absence.start.high is not None else 0
        released = _releases(facts, durable, absence)
        for partition in everyone:
            state = state_at(facts, partition, begin)
            if state is None or absence.broker not in (state.isr or ()) or state.leader in (None, absence.broker):
                continue
            removal = _removal(facts, absence, partition)
            end = absence.end if removal is None else _reached(facts, absence, partition, removal, released)
            if was_served(probed.get(partition, ()), absence.start, end):
                continue
            found = seen_in(durable.get(partition, ()), absence)
            seen = found[1] if found else None
            yield PartitionWindow(
                ACKS_ALL_STALLED,
                partition,
                evidence_of(found),
                absence.broker,
                _start(absence, seen, broker_absences),
                _at_latest(end, seen),
                state.leader,
                state.leader,
                state.term,
                state.term,
                proof_of(absence, removal),
                seen,
            )


def _start(absence: Absence, seen: Outage | None, broker_absences: Sequence[Absence]) -> Bounds:
    """With the absence; more exactly where the partition's own writes stopped for no other absent broker."""
    is_alone = not any(one.broker != absence.broker and one.covers(absence.start) for one in broker_absences)
    return (absence.start.intersection(seen.start) if seen and is_alone else None) or absence.start


def _at_latest(end: Bounds, seen: Outage | None) -> Bounds:
    """The end, not later than acknowledgements came again; it may well be earlier: something else may have held them up, too."""
    if seen is None or seen.end.high is None:
        return end
    return end.intersection(Bounds(None, seen.end.high)) or end


def _is_durable(stream: Stream) -> bool:
    return stream.kind == Kind.DURABLE_WRITE and stream.lane != Lane.CLIENT


def _removal(facts: Facts, absence: Absence, partition: Partition) -> Control | None:
    """The change that dropped the absent broker from the ISR, or made it the leader, so that nothing waits for it as a follower."""
    for event in facts.partition_events.get(partition, ()):
        is_dropped = absence.broker in (event.previous_isr or ()) and absence.broker not in (event.isr or ())
        is_named = event.leader == absence.broker and event.previous_leader != absence.broker
        if (is_dropped or is_named) and absence.covers(at(event)):
            return event
    return None


Release = tuple[str, Control, int]
"""A leader, a change, and an instant by which the leader certainly followed that change."""


def _releases(facts: Facts, durable: dict[Partition, list[Seen]], absence: Absence) -> list[Release]:
    """What leaders had followed, and by when: partitions on which acks=all writes went on, or that answered in a new epoch."""
    found: list[Release] = []
    for partition, of_partition in durable.items():
        removal = _removal(facts, absence, partition)
        if removal is None or removal.leader is None:
            continue
        found += [
            (removal.leader, removal, outage.after.resolved_us)
            for _, outage in of_partition
            if outage.after and outage.after.leader in (None, removal.leader) and touches(outage, absence.start, at(removal))
        ]
    for partition in partitions(facts):
        for change in leader_changes(facts, partition):
            if change.leader is not None and absence.covers(at(change)):
                answered = (run.first_decided_at_us for run in facts.answers.get(partition, ()) if _is_answer(run, change))
                found += [(change.leader, change, by) for by in list(answered)[:1]]
    return found


def _is_answer(run: Probes, change: Control) -> bool:
    """Whether a run shows that the leader named by a change has followed it."""
    return is_good(run) and run.leader == change.leader and run.term is not None and run.term == change.term


def _reached(facts: Facts, absence: Absence, partition: Partition, removal: Control, released: list[Release]) -> Bounds:
    """From the decision of a change to the instant by which the partition's leader certainly followed it."""
    low = removal.started_at_us
    if removal.leader == absence.broker:
        return at(removal)
    by_log = [by for leader, change, by in released if leader == removal.leader and _is_not_before(change, removal) and by >= low]
    if by_log:
        return Bounds(low, min(by_log))
    shown = [
        run.first_decided_at_us + run.period_us
        for run in facts.answers.get(partition, ())
        if is_good(run) and run.isr is not None and absence.broker not in run.isr and run.first_decided_at_us >= low
    ]
    return Bounds(low, min(shown, default=None))


def _is_not_before(change: Control, other: Control) -> bool:
    """Whether who follows a change has followed the other: it is the same batch of the log (one stamp) or a later one."""
    return change.started_at_us == other.started_at_us or _offset(change) >= _offset(other) > 0


def _offset(event: Control) -> int:
    position = event.position or ""
    return int(position) if position.isdigit() else 0
