"""When did acks=all writes wait because the leader was cut off from its followers? For *every* partition, the users' too.

A leader that is cut off from the controllers and the followers, but not from its clients, goes on serving reads and acks=1 writes: it
is not absent. Acks=all writes wait from the cut on, until another leader is elected, a session later. The rule: a broker is *isolated*
when the controller fenced it although it answered probes that were sent after the acks=all writes which it led had stopped; all of
them that we probe, with others in the ISR, while nobody else was absent for whom they may have waited. One that stopped serving itself
before it was fenced was fenced for that: what its writes had waited for, nobody knows. What holds for a probed partition holds for each
one that it led whose ISR holds all members of the probed one's. The window begins within the hull of the bounds of those outages, and
ends between the change that named another leader and that leader's first answer.

Worked example, in ms: 1 leads c0 and u0, both with ISR (1, 2, 3). Acks=all writes of c0 stop in [90, 160]; its acks=1 writes go on. 1
is fenced at 9050 and 2 is elected for both; u0 is first answered by 2 at 9300. Acks=all writes of u0 waited from [90, 160] to
[9050, 9300].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.domain.brokers import (
    PROVING_KINDS,
    Absence,
    Proof,
    answers_within,
    fencings,
    is_leaving,
    leader_before,
    lives_of,
    row_name,
    touches,
)
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds, hull
from pipelines.domain.leadership import leader_changes, taken_over
from pipelines.domain.observations import Control, Kind
from pipelines.domain.replication import partitions, state_at
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import ACKS_ALL_STALLED, PartitionWindow, at_latest, evidence_of, proof_of


@dataclass(frozen=True, slots=True)
class _Isolation:
    """A broker that served its clients, and was out of reach for its followers from `start` on, until it was fenced."""

    broker: str
    start: Bounds
    fenced: Bounds
    proof: dict[Partition, Proof]
    isrs: tuple[frozenset[str], ...]
    """Of the probed partitions whose writes waited."""

    @property
    def begun_us(self) -> int:
        """An instant by which it had begun, before the controller changed anything because of it."""
        fenced = self.fenced.low if self.fenced.low is not None else 0
        return min(self.start.high if self.start.high is not None else fenced, fenced - 1)

    @property
    def rows(self) -> tuple[str, ...]:
        """The outages that prove it."""
        return tuple(row_name(stream, outage) for stream, outage in self.proof.values())


def isolation_windows(
    facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]
) -> Iterator[PartitionWindow]:
    """The windows of every partition, broker by broker. `outages` are those of all streams of the cluster."""
    for one in _isolations(facts, outages, broker_absences):
        for partition in partitions(facts):
            state = state_at(facts, partition, one.begun_us)
            if state is None or state.leader != one.broker or not any(isr <= set(state.isr or ()) for isr in one.isrs):
                continue
            change = _successor(facts, partition, one)
            if change is None:
                continue
            end, takeover = taken_over(facts, partition, change, broker_absences)
            found = one.proof.get(partition)
            seen = found[1] if found else None
            yield PartitionWindow(
                ACKS_ALL_STALLED,
                partition,
                evidence_of(None if seen is None else (Kind.DURABLE_WRITE, seen)),
                one.broker,
                (one.start.intersection(seen.start) if seen else None) or one.start,
                at_latest(end, seen),
                one.broker,
                takeover.leader,
                state.term,
                takeover.term,
                (*one.rows, *proof_of(None, change, takeover if takeover is not change else None)),
                seen,
            )


def _isolations(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]) -> Iterator[_Isolation]:
    for broker in sorted(facts.broker_events):
        for fenced in fencings(facts, broker):
            if fenced.low is None or is_leaving(facts, broker, fenced.low):
                continue
            found = _isolation(facts, outages, broker, fenced)
            if found and not any(_speaks_against(one, found) for one in broker_absences):
                yield found


def _speaks_against(absence: Absence, found: _Isolation) -> bool:
    """Whether somebody else was absent, for whom the writes may have waited, or the broker itself stopped serving before it was fenced.

    By what it led: those whom it followed missed it, too.
    """
    if absence.broker != found.broker:
        return absence.covers(found.start)
    has_stopped = any(stream.kind in PROVING_KINDS for stream, _ in absence.proof)
    return has_stopped and absence.covers(found.fenced) and (absence.start.high or 0) < (found.fenced.low or 0)


def _isolation(facts: Facts, outages: dict[Stream, list[Outage]], broker: str, fenced: Bounds) -> _Isolation | None:
    """The isolation of a broker that ended with its fencing; None where it is not proven."""
    begin = fenced.low if fenced.low is not None else 0
    proof: dict[Partition, Proof] = {}
    isrs = []
    for stream in facts.probes:
        if not stream.waits_for_all:
            continue
        waited = [one for one in outages.get(stream, ()) if one.first_bad_issued_us <= begin and touches(one, fenced, fenced)]
        state = state_at(facts, stream.partition, waited[0].first_bad_issued_us if waited else begin - 1)
        isr = frozenset((state.isr or ()) if state is not None else ())
        leader = leader_before(facts, stream, waited[0]) if waited else state.leader if state is not None else None
        if leader != broker or not isr - {broker}:
            continue
        if not waited:
            return None  # it reached its followers here
        proof[stream.partition] = stream, waited[0]
        isrs.append(isr)
    start = hull(outage.start for _, outage in proof.values())
    if start is None or start.high is None or not answers_within(lives_of(facts).get(broker, ()), start.high, begin):
        return None
    return _Isolation(broker, start, fenced, proof, tuple(isrs))


def _successor(facts: Facts, partition: Partition, one: _Isolation) -> Control | None:
    """The change that took the partition away from the isolated broker."""
    for change in leader_changes(facts, partition):
        if change.previous_leader == one.broker and change.ended_at_us >= one.begun_us:
            return change
    return None
