"""When did acks=all writes of a partition wait for a dead replica? For *every* partition, the users' too.

A leader acknowledges acks=all once every member of the ISR has the record. While a member is dead or hung (or too slow: `laggards`),
and the controller or the leader has not yet dropped it from the ISR, nothing is acknowledged, although the leader serves. The rule:
while a broker that is not serving (see `brokers`) is in the ISR of a partition that it does not lead, its acks=all writes are stalled.
The window begins with the absence, however exactly the writes themselves say when they stopped: they may have waited for somebody else
before, of whom nobody knows (a broker that led nothing and came back in time). It ends when the change without that broker has reached
the leader, or when the broker serves again. Where no such change is known, the broker's fencing may have ended it.

The change is decided at the controller and felt at the leader. Where decisions are read from the metadata log, other partitions of the
same leader say when: a leader takes the log in order, so when acks=all writes of one of them go on after a change in the same batch or
a later one, or when it answers in an epoch that began there, the earlier changes have reached it. (In ZooKeeper mode the controller
sends each leader requests of its own, in no order that znodes show: a partition says nothing of another.) Where there is no such
partition, the first answer beside metadata without the broker has to do, and one more period.

Worked example, in ms: broker 2 is absent from [90, 160]; at 8050 partition u4, led by 1, loses 2 from its ISR; a probed partition
led by 1 loses it in the same batch and is acknowledged again by 8090. u4's acks=all writes are stalled from [90, 160] to
[8050, 8090].
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipelines.domain.brokers import Absence, touches
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import is_good
from pipelines.domain.intervals import Bounds, known
from pipelines.domain.leadership import leader_changes
from pipelines.domain.observations import FOLLOWED_IN_ORDER, Control, Kind, Probes
from pipelines.domain.replication import partitions, state_at
from pipelines.domain.sequences import number
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import (
    ACKS_ALL_STALLED,
    PartitionWindow,
    Seen,
    at,
    at_latest,
    by_partition,
    evidence_of,
    proof_of,
    seen_in,
    was_served,
)


def stall_windows(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]) -> Iterator[PartitionWindow]:
    """The windows of every partition, absence by absence, also of those that only lagged. `outages` are those of all streams of the
    cluster."""
    durable = by_partition(outages, [Kind.DURABLE_WRITE])
    probed = {stream.partition: runs for stream, runs in facts.probes.items() if stream.waits_for_all}
    everyone = partitions(facts)
    for absence in broker_absences:
        followed = _followed(facts, durable, absence)
        for partition in everyone:
            state = state_at(facts, partition, absence.begun_us)
            if state is None or absence.broker not in (state.isr or ()) or state.leader in (None, absence.broker):
                continue
            removal = _removal(facts, absence, partition)
            if removal is None and absence.is_slow:
                continue  # it may have kept up here
            end = _unnoticed(absence) if removal is None else _reached(facts, absence, partition, removal, followed)
            if was_served(probed.get(partition, ()), absence.start, end):
                continue
            found = seen_in(durable.get(partition, ()), absence)
            seen = found[1] if found else None
            yield PartitionWindow(
                ACKS_ALL_STALLED,
                partition,
                evidence_of(found),
                absence.broker,
                absence.start,
                at_latest(end, seen),
                state.leader,
                state.leader,
                state.term,
                state.term,
                proof_of(absence, removal),
                seen,
            )


def _removal(facts: Facts, absence: Absence, partition: Partition) -> Control | None:
    """The change that dropped the absent broker from the ISR, or made it the leader, so that nothing waits for it as a follower."""
    for event in facts.partition_events.get(partition, ()):
        is_dropped = absence.broker in (event.previous_isr or ()) and absence.broker not in (event.isr or ())
        is_named = event.leader == absence.broker and event.previous_leader != absence.broker
        if (is_dropped or is_named) and absence.covers(at(event)):
            return event
    return None


def _unnoticed(absence: Absence) -> Bounds:
    """The end where no change without the broker is known: it came back, or it was dropped by a decision of which we have not heard,
    which its fencing brings with it."""
    if absence.fenced is None or absence.fenced.low is None or absence.end.low is None:
        return absence.end
    return Bounds(min(absence.end.low, absence.fenced.low), absence.end.high)


Batch = tuple[str | None, int, int, int]
"""What decisions of one batch share: the writer, its one stamp, and when it was seen. Not the instants that the stamp stands for: where
nothing bounds the writer's clock all that was seen by one look has the same."""


@dataclass(slots=True)
class _Followed:
    """By when leaders had certainly followed the metadata log, and how far: (leader, change, instant), asked again and again."""

    facts: Facts
    by_stamp: dict[tuple[str, Batch], int] = field(default_factory=dict)
    by_offset: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    by_change: dict[Control, int] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Facts, releases: Iterable[tuple[str, Control, int]]) -> "_Followed":
        """Sorted so that a question takes no longer for ten thousand partitions than for ten."""
        found = cls(facts)
        for leader, change, by_us in releases:
            found.by_change[change] = min(by_us, found.by_change.get(change, by_us))
            if change.source not in FOLLOWED_IN_ORDER:
                continue
            key = (leader, _batch(facts, change))
            found.by_stamp[key] = min(by_us, found.by_stamp.get(key, by_us))
            found.by_offset.setdefault(leader, []).append((_offset(change), by_us))
        for leader, offsets in found.by_offset.items():
            earliest: list[tuple[int, int]] = []
            for offset, by_us in sorted(offsets, reverse=True):
                earliest.append((offset, min(by_us, earliest[-1][1] if earliest else by_us)))
            found.by_offset[leader] = earliest[::-1]
        return found

    def by(self, leader: str, change: Control) -> int | None:
        """The earliest instant by which a leader had followed a change: by itself, the same batch (one stamp), or a later offset."""
        if change.source not in FOLLOWED_IN_ORDER:
            return self.by_change.get(change)
        offsets = self.by_offset.get(leader, [])
        index = bisect_left(offsets, (_offset(change), -1)) if change.position is not None else len(offsets)
        later = offsets[index][1] if index < len(offsets) else None
        return min(known(later, self.by_stamp.get((leader, _batch(self.facts, change)))), default=None)


def _followed(facts: Facts, durable: dict[Partition, list[Seen]], absence: Absence) -> _Followed:
    """What leaders had followed, and by when: partitions on which acks=all writes went on, or that answered in a new epoch."""
    found: list[tuple[str, Control, int]] = []
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
    return _Followed.of(facts, found)


def _is_answer(run: Probes, change: Control) -> bool:
    """Whether a run shows that the leader named by a change has followed it."""
    # In a topic of the same name that was deleted before, the same leader may have led in an epoch of the same number.
    is_after = run.first_decided_at_us >= change.started_at_us
    return is_after and is_good(run) and run.leader == change.leader and run.term is not None and run.term == change.term


def _reached(facts: Facts, absence: Absence, partition: Partition, removal: Control, followed: _Followed) -> Bounds:
    """From the decision of a change to the instant by which the partition's leader certainly followed it."""
    low = removal.started_at_us
    if removal.leader == absence.broker:
        return at(removal)
    by_us = None if removal.leader is None else followed.by(removal.leader, removal)
    if by_us is not None and by_us >= low:
        return Bounds(low, by_us)
    shown = [
        run.first_decided_at_us + max(0, run.period_us)
        for run in facts.answers.get(partition, ())
        if is_good(run) and run.isr is not None and absence.broker not in run.isr and run.first_decided_at_us >= low
    ]
    return Bounds(low, min(shown, default=None))


def _batch(facts: Facts, event: Control) -> Batch:
    return event.stamped_by, *facts.stamp(event), event.seen_at_us


def _offset(event: Control) -> int:
    return number(event.position) or 0
