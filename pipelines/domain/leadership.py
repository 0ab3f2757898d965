"""When had a partition no serving leader, and when did its acks=all writes wait for a dead replica? For *every* partition.

Nobody writes to the users' partitions, and a clean failover leaves no leaderless record. What is known of them is inferred, with
bounds, from the broker that led them (see `brokers`), from their own change of leader, and from the answers of their leader:

*leader_unavailable*: begins within the bounds of the absence of the broker that led it; ends between its own leader change and
the first answer of the new leader in the new epoch. Where its leader's answers failed by themselves, those bounds count, too.

*acks_all_stalled*: while a broker that is not serving is in its ISR without leading it, acks=all writes wait. It begins with the
absence and ends when the ISR change without that broker has reached the leader, or when the broker serves again.

Worked example, in ms: broker 2 is absent from [90, 160]; at 8050 partition u3 goes from leader 2 to leader 3, epoch 7, and u4,
led by 1, loses 2 from its ISR. ListOffsets of u3 is first answered in epoch 7 at 8300. u3 has no serving leader from [90, 160] to
[8050, 8300]; u4's acks=all writes are stalled from [90, 160] to 8050 and the instant at which its leader acknowledges again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.domain.brokers import Absence
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds, duration, known
from pipelines.domain.observations import Control, ControlEvent, Kind, Lane, Probes
from pipelines.domain.replication import PartitionState, state_before
from pipelines.domain.unavailability import Outage, is_good

RULE_VERSION = "leader-1"
LEADER_UNAVAILABLE = "leader_unavailable"
ACKS_ALL_STALLED = "acks_all_stalled"


@dataclass(frozen=True, slots=True)
class PartitionWindow:
    """A span in which a partition had no serving leader, or in which its acks=all writes waited for a dead replica."""

    window: str
    partition: Partition
    evidence: str
    broker: str | None
    start: Bounds
    end: Bounds
    leader_before: str | None
    leader_after: str | None
    term_before: int | None
    term_after: int | None
    proof: tuple[str, ...]
    seen: Outage | None

    @property
    def is_open(self) -> bool:
        """Its end is not known yet."""
        return self.end.high is None

    @property
    def length(self) -> Bounds:
        """How long it lasted, in microseconds."""
        return duration(self.start, self.end)


def partition_windows(
    facts: Facts,
    outages: dict[Stream, list[Outage]],
    broker_absences: list[Absence],
) -> list[PartitionWindow]:
    """Both kinds of window of every partition, in order of time. `outages` are those of all streams of the cluster."""
    windows = [*_leader_windows(facts, outages, broker_absences), *_stalls(facts, outages, broker_absences)]
    return sorted(windows, key=lambda one: (one.start.high or 0, one.window, one.partition))


# --- leader_unavailable -----------------------------------------------------------------------------------------------


def _leader_windows(
    facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: list[Absence]
) -> Iterator[PartitionWindow]:
    watched = _by_partition(outages, Kind.LEADER)
    explained: set[tuple[Partition, int]] = set()
    for change in _leader_changes(facts):
        partition = Partition(change.resource or "", change.shard or "")
        at = Bounds(change.started_at_us, change.ended_at_us)
        absence = next((one for one in broker_absences if one.broker == change.previous_leader and one.covers(at)), None)
        seen = next((one for one in watched.get(partition, ()) if _touches(one, at)), None)
        if change.previous_leader is None or (absence is None and seen is None):
            # A move that nobody felt, or the end of a leaderless span that the change before it began.
            continue
        if seen:
            explained.add((partition, seen.first_bad_issued_us))
        end, takeover = _answered_after(facts, partition, change)
        yield PartitionWindow(
            LEADER_UNAVAILABLE,
            partition,
            "read_probed" if seen else "inferred",
            change.previous_leader,
            _start(absence, seen),
            end,
            change.previous_leader,
            takeover.leader,
            None if change.term is None else change.term - 1,
            takeover.term,
            _proof(absence, change),
            seen,
        )
    for partition, of_partition in watched.items():
        for outage in of_partition:
            if (partition, outage.first_bad_issued_us) not in explained:
                yield _only_watched(partition, outage)


def _leader_changes(facts: Facts) -> Iterator[Control]:
    for event in facts.controls:
        if event.event == ControlEvent.PARTITION_CHANGED and event.leader != event.previous_leader and event.resource is not None:
            yield event


def _answered_after(facts: Facts, partition: Partition, change: Control) -> tuple[Bounds, Control]:
    """When the partition was served by a leader again: between the change that named one and that leader's first answer."""
    takeover = change
    if change.leader is None:
        later = (
            one
            for one in _leader_changes(facts)
            if (one.resource, one.shard) == (change.resource, change.shard)
            and one.started_at_us >= change.started_at_us
            and one.leader is not None
        )
        takeover = next(later, change)
        if takeover is change:
            return Bounds(change.started_at_us, None), change
    answers = [
        run.first_decided_at_us
        for run in _watch_runs(facts, partition)
        if is_good(run) and run.term is not None and takeover.term is not None and run.term >= takeover.term
    ]
    low = takeover.started_at_us
    high = min((at for at in answers if at >= low), default=None)
    return Bounds(low, high), takeover


def _start(absence: Absence | None, seen: Outage | None) -> Bounds:
    if absence is None or seen is None:
        return absence.start if absence else seen.start if seen else Bounds(None, None)
    # The leader's answers are sparse, the probes are dense: both hold, so what both allow holds. Where they contradict each
    # other the partition did not stop with its broker, and only the hull is safe.
    return absence.start.intersection(seen.start) or absence.start.hull(seen.start)


def _only_watched(partition: Partition, outage: Outage) -> PartitionWindow:
    before, after = outage.before, outage.after
    return PartitionWindow(
        LEADER_UNAVAILABLE,
        partition,
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


# --- acks_all_stalled -------------------------------------------------------------------------------------------------


def _stalls(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: list[Absence]) -> Iterator[PartitionWindow]:
    durable = _by_partition(outages, Kind.DURABLE_WRITE)
    for absence in broker_absences:
        begins = absence.start.high if absence.start.high is not None else 0
        states = state_before(facts, begins)
        for partition, state in sorted(states.items()):
            if not state.isr or absence.broker not in state.isr or state.leader in (None, absence.broker):
                continue
            end, removal = _stall_end(facts, durable, absence, partition, state)
            seen = next((one for one in durable.get(partition, ()) if _touches(one, absence.start)), None)
            yield PartitionWindow(
                ACKS_ALL_STALLED,
                partition,
                "probed" if seen else "inferred",
                absence.broker,
                (absence.start.intersection(seen.start) if seen else None) or absence.start,
                (end.intersection(seen.end) if seen and removal else None) or end,
                state.leader,
                state.leader,
                state.term,
                state.term,
                _proof(absence, removal),
                seen,
            )


def _stall_end(
    facts: Facts,
    durable: dict[Partition, list[Outage]],
    absence: Absence,
    partition: Partition,
    state: PartitionState,
) -> tuple[Bounds, Control | None]:
    removal = next(
        (
            event
            for event in facts.controls
            if event.event == ControlEvent.PARTITION_CHANGED
            and (event.resource, event.shard) == (partition.resource, partition.shard)
            and absence.broker in (event.previous_isr or ())
            and absence.broker not in (event.isr or ())
            and absence.covers(Bounds(event.started_at_us, event.ended_at_us))
        ),
        None,
    )
    if removal is None:
        return absence.end, None
    # The change is decided at the controller and felt at the leader. The probed partitions of the same leader say when; where
    # there are none, the first answer whose metadata shows the new ISR does.
    felt = [
        one.end.high
        for one_partition, of_partition in durable.items()
        for one in of_partition
        if one.after and one.after.leader == state.leader and _touches(one, absence.start) and one_partition.resource
    ]
    shown = [
        run.first_decided_at_us
        for run in _watch_runs(facts, partition)
        if is_good(run) and run.isr and absence.broker not in run.isr and run.started_at_us >= removal.started_at_us
    ]
    later = [at for at in known(*felt) if at >= removal.started_at_us] or shown
    return Bounds(removal.started_at_us, max(later) if felt and later else min(later, default=None)), removal


# --- shared -----------------------------------------------------------------------------------------------------------


def _by_partition(outages: dict[Stream, list[Outage]], kind: Kind) -> dict[Partition, list[Outage]]:
    found: dict[Partition, list[Outage]] = {}
    for stream, of_stream in outages.items():
        if stream.kind == kind and stream.lane != Lane.CLIENT and of_stream:
            found.setdefault(stream.partition, []).extend(of_stream)
    return found


def _watch_runs(facts: Facts, partition: Partition) -> Iterable[Probes]:
    for stream, runs in facts.probes.items():
        if stream.kind == Kind.LEADER and stream.partition == partition:
            yield from runs


def _touches(outage: Outage, instant: Bounds) -> bool:
    """Whether the instant may lie within the outage."""
    begins = outage.start.low is None or instant.high is None or outage.start.low <= instant.high
    goes_on = outage.end.high is None or instant.low is None or instant.low <= outage.end.high
    return begins and goes_on


def _proof(absence: Absence | None, change: Control | None) -> tuple[str, ...]:
    rows = [
        f"{stream.resource}/{stream.shard}/{stream.kind}/{stream.lane}@{outage.first_bad_issued_us}"
        for stream, outage in (absence.proof if absence else ())
    ]
    if change and change.position is not None:
        rows.append(f"metadata log offset {change.position}")
    return tuple(rows)
