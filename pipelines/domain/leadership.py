"""When had a partition no serving leader? For *every* partition, the users' too, although nobody writes to them for us.

A clean failover leaves no leaderless record. What is known is inferred, with bounds, from the broker that led the partition (see
`brokers`), from its own change of leader, and from the answers of its leader. The rule: a window begins within the bounds of the
absence of the broker that led it; it ends between the change of leader and the first answer of the new leader in the new epoch,
or, where no other leader was named, with the absence. Changes of leader between which nobody answered are one window; where nothing
proves that nobody was served between them, it may have ended with the first.

Where the leader's answers failed by themselves, those bounds count, too, and alone where no broker was absent; where they never
failed although they were asked, there is no window. A record without a leader is a proof by itself, where nobody was served meanwhile.

Worked example, in ms: broker 2 is absent from [90, 160]; at 8050 partition u3 goes from leader 2 to leader 3, epoch 7. ListOffsets
of u3 is first answered in epoch 7 at 8300. u3 has no serving leader from [90, 160] to [8050, 8300].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.domain.brokers import Absence, touches
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import GoodRun, is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import Control, ControlEvent, EpochEnd, Kind, Probes
from pipelines.domain.replication import partitions, state_at, term_before
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import (
    LEADER_UNAVAILABLE,
    PartitionWindow,
    Seen,
    at,
    by_partition,
    evidence_of,
    first_seen,
    proof_of,
    seen_in,
    was_served,
)

RULE_VERSION = "leader-8"


def leader_windows(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]) -> Iterator[PartitionWindow]:
    """The windows of every partition; those of one partition in order of time. `outages` are those of all streams."""
    seen = by_partition(outages, (Kind.LEADER, Kind.WRITE, Kind.READ))
    for partition in partitions(facts):
        one = _Partition(facts, partition, seen.get(partition, []), facts.answers.get(partition, []), broker_absences)
        windows = [*one.by_change(), *one.by_absence()]
        yield from windows
        yield from one.by_watch(windows)


def taken_over(facts: Facts, partition: Partition, change: Control, broker_absences: Sequence[Absence]) -> tuple[Bounds, Control]:
    """When a partition was served again after a change of leader, and the change by which it was."""
    one = _Partition(facts, partition, [], facts.answers.get(partition, []), broker_absences)
    changes, removed = next((changes, removed) for changes, removed in one.eras() if change in changes)
    end, takeover, _ = one.end_of(change, changes[changes.index(change) + 1 :], removed)
    return end, takeover


def leader_changes(facts: Facts, partition: Partition) -> list[Control]:
    """The control plane's events that changed the leader of a partition, in order of time."""
    return [event for event in facts.partition_events.get(partition, ()) if is_leader_change(event)]


def is_leader_change(event: Control) -> bool:
    """Whether an event changed the leader of a partition."""
    return event.event == ControlEvent.PARTITION_CHANGED and event.leader != event.previous_leader


@dataclass(slots=True)
class _Partition:
    """What is known of one partition."""

    facts: Facts
    partition: Partition
    seen: list[Seen]
    answers: list[Probes]
    absences: Sequence[Absence]

    def by_change(self) -> Iterator[PartitionWindow]:
        """Windows that ended with a change of leader."""
        for changes, removed in self.eras():
            yield from self._by_change(changes, removed)

    def eras(self) -> Iterator[tuple[list[Control], Control | None]]:
        """The changes of leader of each topic that had the partition's name, and its removal: epochs begin anew with each."""
        changes: list[Control] = []
        for event in self.facts.partition_events.get(self.partition, ()):
            if event.event == ControlEvent.PARTITION_REMOVED:
                yield changes, event
                changes = []
            elif is_leader_change(event):
                changes.append(event)
        yield changes, None

    def _by_change(self, changes: list[Control], removed: Control | None) -> Iterator[PartitionWindow]:
        while changes:
            change, *changes = changes
            if change.previous_leader is None:
                continue  # the end of a leaderless span that began before the first event
            end, takeover, changes = self.end_of(change, changes, removed)
            absence = self._absence(change.previous_leader, at(change))
            if absence and was_served(self.answers, absence.start, at(change)):
                absence = None
            found = first_seen(self.seen, change.started_at_us, change.ended_at_us)
            seen = found[1] if found else None
            if absence or change.leader is None:
                start = self._start(absence, seen, change)
            else:
                continue  # a move in order; where it was felt, the leader's own answers say best for how long
            if was_served(self.answers, start, end):
                continue  # the controller took it from a leader that went on, for whoever could reach it (see `findings`)
            yield PartitionWindow(
                LEADER_UNAVAILABLE,
                self.partition,
                evidence_of(found),
                change.previous_leader,
                start,
                end,
                change.previous_leader,
                takeover.leader,
                term_before(self.facts, change, self._preceding(change)),
                takeover.term,
                proof_of(absence, change, takeover if takeover is not change else None),
                seen,
            )

    def by_absence(self) -> Iterator[PartitionWindow]:
        """Windows of a partition that kept its leader although that was absent: it hung and came back."""
        for absence in self.absences:
            state = state_at(self.facts, self.partition, absence.begun_us)
            if state is None or state.leader != absence.broker:
                continue
            if any(one.previous_leader == absence.broker and absence.covers(at(one)) for one in self._changes_after(absence.begun_us)):
                continue
            if was_served(self.answers, absence.start, absence.end):
                continue
            found = seen_in(self.seen, absence)
            seen = found[1] if found else None
            yield PartitionWindow(
                LEADER_UNAVAILABLE,
                self.partition,
                evidence_of(found),
                absence.broker,
                (absence.start.intersection(seen.start) if seen else None) or absence.start,
                (absence.end.intersection(seen.end) if seen else None) or absence.end,
                absence.broker,
                absence.broker if absence.end.high is not None else None,
                state.term,
                state.term if absence.end.high is not None else None,
                proof_of(absence),
                seen,
            )

    def by_watch(self, explained: list[PartitionWindow]) -> Iterator[PartitionWindow]:
        """Windows that only the leader's own answers show."""
        for kind, outage in self.seen:
            if kind != Kind.LEADER or any(touches(outage, one.start, one.end) for one in explained):
                continue
            before, after = outage.before, outage.after
            yield PartitionWindow(
                LEADER_UNAVAILABLE,
                self.partition,
                "read_probed",
                before.leader if before else None,
                outage.start,
                outage.end,
                before.leader if before else None,
                after.leader if after else None,
                before.term if before else None,
                after.term if after else None,
                (),
                outage,
            )

    def _preceding(self, change: Control) -> Control | None:
        """The event of the partition before a change."""
        events = self.facts.partition_events.get(self.partition, [])
        index = events.index(change)
        return events[index - 1] if index > 0 else None

    def _changes_after(self, instant_us: int) -> list[Control]:
        return [one for one in leader_changes(self.facts, self.partition) if one.ended_at_us >= instant_us]

    def _absence(self, broker: str, instant: Bounds) -> Absence | None:
        covering = (one for one in self.absences if one.broker == broker and one.covers(instant))
        return max(covering, key=lambda one: one.start.high or 0, default=None)

    def end_of(self, change: Control, later: list[Control], removed: Control | None) -> tuple[Bounds, Control, list[Control]]:
        """When it was served again, by whose takeover, and the changes after that one."""
        takeover = change
        low: int | None = None
        while True:
            following = later[0] if later else None
            answered = None if takeover.leader is None else self._first_answer(takeover, following, removed)
            if answered is None and following is None and removed is not None:
                answered = self._first_good_from(removed)  # nobody asked in time: what answers next is another topic of its name
            if answered is not None or following is None or (takeover.leader is not None and not self.answers):
                # Where nobody asks, changes cannot be told apart.
                return Bounds(takeover.started_at_us if low is None else low, answered), takeover, later
            if low is None and not self._is_certain(takeover, following):
                low = takeover.started_at_us  # it may have served from here on, unseen
            takeover, *later = later

    def _is_certain(self, takeover: Control, following: Control) -> bool:
        """Whether nobody served between two changes: there was no leader, it was absent, or probes were not served throughout."""
        if takeover.leader is None:
            return True
        absence = self._absence(takeover.leader, at(takeover))
        if absence is not None and absence.end.low is not None and absence.end.low >= following.started_at_us:
            return True
        spans = ((one.earliest_decided_us, one.last_bad_issued_us) for _, one in self.seen if len(one.pieces) == 1)
        return any(begin <= takeover.ended_at_us and end >= following.started_at_us for begin, end in spans)

    def _first_answer(self, takeover: Control, following: Control | None, removed: Control | None) -> int | None:
        """The first answer of the leader that took over, before another change; also to the question where the old epoch ended."""
        ends = (one for one in self.facts.ends.get(self.partition, ()) if self._is_of(one, takeover))
        # One that hung may answer as a leader long after another was elected.
        told = [one.ended_at_us for one in ends if following is None or one.ended_at_us <= following.ended_at_us]
        answered = self._first_good(takeover, following, removed)
        return min([*told, *([] if answered is None else [answered])], default=None)

    def _is_of(self, end: EpochEnd, takeover: Control) -> bool:
        return end.leader == takeover.leader and end.new_term == takeover.term and end.ended_at_us >= takeover.started_at_us

    def _first_good_from(self, removed: Control) -> int | None:
        decided = (run.first_decided_at_us for run in self.answers if is_good(run))
        return next((at for at in decided if at >= removed.started_at_us), None)

    def _first_good(self, takeover: Control, following: Control | None, removed: Control | None) -> int | None:
        for run in self.answers:
            if not is_good(run) or run.first_decided_at_us < takeover.started_at_us:
                continue
            if removed is not None and run.first_decided_at_us > removed.ended_at_us:
                continue
            if takeover.term is not None and run.term is not None:
                is_his = run.term >= takeover.term and (following is None or following.term is None or run.term < following.term)
            else:
                is_his = run.leader == takeover.leader and (following is None or run.started_at_us <= following.ended_at_us)
            if is_his:
                return run.first_decided_at_us
        return None

    def _start(self, absence: Absence | None, seen: Outage | None, change: Control) -> Bounds:
        if absence and seen:
            # The leader's answers are sparse, the probes are dense: both hold, so what both allow holds. Where they contradict
            # each other the partition did not stop with its broker, and only the hull is safe.
            return absence.start.intersection(seen.start) or absence.start.hull(seen.start)
        if absence:
            return absence.start
        if seen:
            return seen.start
        goods = (GoodRun.of(run) for run in self.answers if is_good(run))
        served = [good.issued_us for one in goods if (good := one.last_resolved_before(change.started_at_us))]
        return Bounds(max(served, default=None), change.ended_at_us)
