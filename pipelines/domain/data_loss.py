"""Which acknowledged records are gone, and what span of time do they make?

The rule: lost means acknowledged and proven absent. A record is a canary with an identity (run of the prober, lane, partition,
sequence) that its payload carries, under a hash; `ledger` says how read-backs judge it. Not acknowledged is neither lost nor
duplicated, and late is not lost: the number of lost records is exact as soon as they are judged.

Runs of lost records are cut where outages begin and end, and at retained records. A run belongs to the first outage that was not
over when it was issued, or last seen to be there, and that began before the first read-back that missed it; without one it is a
loss without an outage. For a run l1..lm after a retained K a writer that never paused lost data of a span of at least
max(0, i(lm) - r(l1)), and of at most (the latest start of the outage, or r of the next retained acknowledgement) - i(K). Where
nothing is lost the span is [0, start max - i(K)], and exactly 0 only where the control plane proves a clean election. That nothing
is lost takes a read-back that began after the outage.

What is absent and not lost is said, too. *STRANDED*: it cannot be read while somebody is down who may hold it, since the partition has
no leader, or since a replica that was in the ISR when it was acknowledged, and may still be elected, is away. *DELETED_BY_POLICY*: the
topic was deleted, or the log's start was moved past it while one and the same leader went on, which loses nothing by itself.
*UNCHECKABLE*: it lies below the log's start, and there was an election in between. *NOT_STORED*: it was acknowledged at a position that
holds an earlier record of the same run of the prober, from the same leader in the same epoch. A leader's log only grows as long as it
leads, and takes a connection's records in the order of their sending, so the earlier one was there first: the leader took the later one
for a repetition. The client had used a sequence number of its producer twice; the broker lost nothing.

What is gone from users' partitions, to which nobody writes for us, `committed` says.

Worked example, P = 100 ms: K issued at 0, records 1..20 acknowledged within 5 ms each and gone, the outage starts in
[2000, 2101]. 20 records are lost, the span is [2000 - 105, 2101 - 0] ms = [1895, 2101] ms.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.ledger import Acked, Ledger, Verdicts, acked_runs, is_one_after_the_other
from pipelines.domain.observations import Control, ControlEvent, Outcome, ReadBack
from pipelines.domain.replication import state_at
from pipelines.domain.sequences import Range, common, minus, size, union
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import PartitionWindow

__all__ = ["DELETED_BY_POLICY", "LOST", "NOT_STORED", "PRESENT", "STRANDED", "UNCHECKABLE", "Loss", "acked_runs", "losses"]

RULE_VERSION = "loss-7"

PRESENT = "PRESENT"
LOST = "LOST"
STRANDED = "STRANDED"
DELETED_BY_POLICY = "DELETED_BY_POLICY"
UNCHECKABLE = "UNCHECKABLE"
NOT_STORED = "NOT_STORED"

NO_LEADER = "no_leader"
REPLICA_AWAY = "electable_replica_away"
TOPIC_DELETED = "topic_deleted"
BELOW_LOG_START = "below_log_start"
SEQUENCE_REUSED = "sequence_reused"
READBACK = "readback"
EPOCH_END = "epoch_end"


@dataclass(frozen=True, slots=True)
class Record:
    """One acknowledged record by its name, when it was issued, and by when it was acknowledged."""

    boot_id: str
    sequence: int
    issued_us: int
    acked_by_us: int

    @classmethod
    def of(cls, ledger: Ledger, sequence: int) -> "Record":
        """A record of a ledger."""
        return cls(ledger.boot_id, sequence, ledger.issued_us(sequence), ledger.acked_by_us(sequence))


@dataclass(frozen=True, slots=True)
class Around:
    """What bounds the span of a finding: K, the last retained record before it, the first and last of its own, the first retained one
    after it, and the instant after which nothing of it was written. Each None where there is none, or it bounds nothing."""

    first: Record | None = None
    last: Record | None = None
    before: Record | None = None
    after: Record | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A finding about acknowledged records of one partition and lane. Spans of time in microseconds."""

    stream: Stream
    boot_id: str
    verdict: str
    evidence: str
    records: Bounds
    span: Bounds
    acked_records: int
    acked_from_us: int | None
    acked_to_us: int | None
    first_position: int | None
    last_position: int | None
    outage: Outage | None
    checked_at_us: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    reason: str | None = None
    window: PartitionWindow | None = None
    around: Around | None = None


def losses(
    facts: Facts,
    outages: dict[Stream, list[Outage]],
    clean_elections: frozenset[tuple[Stream, int]] = frozenset(),
) -> list[Loss]:
    """Findings of all read-back streams, stream by stream.

    `clean_elections` names outages, by stream and first_bad_issued_us, whose election the control plane proves to be clean.
    """
    readbacks: dict[tuple[str, str, str, str], list[ReadBack]] = defaultdict(list)
    for one in facts.readbacks:
        readbacks[one.resource, one.shard, one.kind, one.lane].append(_of_topic(facts, one))
    found: list[Loss] = []
    for stream in facts.probes:
        checked = readbacks.get((stream.resource, stream.shard, stream.kind, stream.lane), [])
        is_away = _is_leaderless(facts, stream)
        acked = acked_runs(facts.probes[stream], facts.late_acks.get(stream, ())) if checked or is_away else []
        boots = sorted({run.boot_id for run in acked})
        ledgers = [Ledger.of(boot_id, acked) for boot_id in boots]
        found.extend(_Judge(facts, stream, ledgers, checked, outages.get(stream, []), clean_elections).findings())
    return found


@dataclass(slots=True)
class _Judge:
    """The findings of one stream. `ledgers` are those of all runs of its prober, `readbacks` those of its partition and lane."""

    facts: Facts
    stream: Stream
    ledgers: list[Ledger]
    readbacks: list[ReadBack]
    outages: list[Outage]
    clean_elections: frozenset[tuple[Stream, int]]

    def findings(self) -> Iterator[Loss]:
        judged: list[tuple[Ledger, Verdicts]] = []
        for ledger in self.ledgers:
            verdicts = Verdicts.of(ledger, ledger.sequences, self.readbacks)
            never = self._never_stored(ledger, verdicts.lost)
            yield from (self._absent(NOT_STORED, SEQUENCE_REUSED, ledger, piece, self._checked_at(ledger, piece)) for piece in never)
            judged.append((ledger, replace(verdicts, lost=minus(verdicts.lost, never))))
        for ledger, verdicts in judged:
            lost = [self._lost(ledger, piece, judged) for piece in self._pieces(ledger, verdicts)]
            yield from lost
            for piece in verdicts.uncheckable:
                yield self._uncheckable(ledger, piece)
            for piece in verdicts.replaced:
                yield self._absent(DELETED_BY_POLICY, TOPIC_DELETED, ledger, piece, self._first_of_another(ledger, piece))
            yield from self._unreadable(ledger, verdicts)
            for index, outage in enumerate(self.outages):
                elsewhere = [_sequences(one) for one in lost if one.outage is not outage]
                yield from self._present(ledger, self.outages[index - 1] if index else None, outage, elsewhere)

    # --- lost ---------------------------------------------------------------------------------------------------------

    def _pieces(self, ledger: Ledger, verdicts: Verdicts) -> Iterator[Range]:
        """Runs of lost records: sequences that were never acknowledged do not cut a run; a retained record or an outage does."""
        cuts = [
            at for one in self.outages for at in (one.first_bad_issued_us, one.after.issued_us if one.after else None) if at is not None
        ]
        for lost in self._by_topic(ledger, verdicts.lost):
            retained = [*verdicts.present, *minus(verdicts.lost, lost)]
            pieces: list[Range] = []
            for first, last in self._cut(ledger, lost, cuts):
                before = pieces[-1][1] if pieces else None
                is_same = (
                    before is not None
                    and not common(retained, [(before, first)])
                    and not any(ledger.issued_us(before) < at <= ledger.issued_us(first) for at in cuts)
                )
                if is_same:
                    pieces[-1] = (pieces[-1][0], last)
                else:
                    pieces.append((first, last))
            yield from pieces

    def _by_topic(self, ledger: Ledger, lost: list[Range]) -> list[list[Range]]:
        """Lost sequences, by how often the topic had been deleted when they were first missed: no later deletion explains them."""
        events = self.facts.partition_events.get(self.stream.partition, ())
        removals = [event for event in events if event.event == ControlEvent.PARTITION_REMOVED]
        if not removals:
            return [lost]
        missed: dict[int, list[Range]] = {}
        for each in sorted(self.readbacks, key=lambda one: one.ended_at_us):
            found = ledger.found_in(each)
            missed = {deleted: minus(ranges, found) for deleted, ranges in missed.items()}
            known = union(one for ranges in missed.values() for one in ranges)
            new = minus(common(lost, ledger.covered_by(each)), [*found, *known])
            deleted = sum(event.started_at_us <= each.ended_at_us for event in removals)
            missed[deleted] = union([*missed.get(deleted, []), *new])
        return [ranges for ranges in missed.values() if ranges]

    def _cut(self, ledger: Ledger, lost: list[Range], cuts: list[int]) -> list[Range]:
        """Ranges of lost sequences, each within one run of the ledger and between two outages."""
        found = []
        for run in ledger.runs:
            edges = [run.started_at_us - 1, *(at - 1 for at in cuts), run.issued_us(run.last_sequence)]
            inside = sorted(at for at in set(edges) if edges[0] <= at <= edges[-1])
            for after, by in pairwise(inside):
                found += common(lost, run.sequences_issued_in(after, by))
        return found

    def _lost(self, ledger: Ledger, piece: Range, judged: list[tuple[Ledger, Verdicts]]) -> Loss:
        first, last = piece
        begin, end = ledger.issued_us(first), ledger.issued_us(last)
        since, missed = self._noticed(ledger, last)
        removal = self._removed_between(ledger.issued_us(first), missed.ended_at_us)
        if removal is not None:
            is_before = ledger.all_acked_by_us(first, last) < removal.started_at_us
            return self._absent(DELETED_BY_POLICY if is_before else UNCHECKABLE, TOPIC_DELETED, ledger, piece, missed.ended_at_us)
        outage = next((one for one in self.outages if _may_explain(one, since, missed.started_at_us)), None)
        if self._may_return(ledger, last):
            return self._absent(STRANDED, REPLICA_AWAY, ledger, piece, missed.ended_at_us, outage)
        low = max(0, end - ledger.acked_by_us(first))
        before = [one for each, verdicts in judged if (one := _last_issued(each, verdicts.present, begin)) is not None]
        after = [one for each, verdicts in judged if (one := _first_acked(each, verdicts.present, end)) is not None]
        kept = max(before, key=lambda one: one.issued_us, default=None)
        following = min(after, key=lambda one: one.acked_by_us, default=None)
        until = None if following is None else following.acked_by_us
        if outage is not None and outage.earliest_decided_us >= end:
            until = outage.earliest_decided_us if until is None else min(until, outage.earliest_decided_us)
        high = max(low, until - kept.issued_us) if kept is not None and until is not None else None
        count = size(common(ledger.sequences, [piece]))
        # What follows at positions that no read-back has reached may be gone with it: the new log need not have come so far yet.
        unread = self._unread_after(ledger, last, outage)
        if unread:
            high = None
        found = self._finding(LOST, ledger, piece, Bounds(count, count + unread), Bounds(low, high), outage, missed.ended_at_us)
        around = Around(Record.of(ledger, first), Record.of(ledger, last), kept, following, until)
        return replace(found, around=around)

    def _unread_after(self, ledger: Ledger, sequence: int, outage: Outage | None) -> int:
        """How many acknowledged records no read-back has judged, of those issued after a lost one and before the outage was over, or,
        where it was none, before the next one that is retained."""
        begin = ledger.issued_us(sequence)
        until = ledger.issued_us(ledger.sequences[-1][1])
        if outage is not None:
            until = outage.after.issued_us if outage.after else outage.last_bad_issued_us
        following = ledger.issued_in(begin, until)
        verdicts = Verdicts.of(ledger, following, self.readbacks)
        if outage is None:
            retained = min((first for first, _ in verdicts.present), default=None)
            following = following if retained is None else common(following, [(sequence + 1, retained - 1)])
        judged = [*verdicts.present, *verdicts.lost, *verdicts.uncheckable, *verdicts.replaced]
        return size(minus(following, judged))

    def _noticed(self, ledger: Ledger, sequence: int) -> tuple[int, ReadBack]:
        """Since when a lost record can have been lost (issued, or last read back), and the first read-back that missed it."""
        one = [(sequence, sequence)]
        since = ledger.issued_us(sequence)
        missing: list[ReadBack] = []
        for each in sorted(self.readbacks, key=lambda each: each.ended_at_us):
            if common(ledger.found_in(each), one):
                since = max(since, each.started_at_us)
                missing = []
            elif common(ledger.covered_by(each), one):
                missing.append(each)
        return since, missing[0]

    # --- not lost -----------------------------------------------------------------------------------------------------

    def _checked_at(self, ledger: Ledger, piece: Range) -> int:
        """When a read-back first missed it."""
        return self._noticed(ledger, piece[1])[1].ended_at_us

    def _never_stored(self, ledger: Ledger, lost: list[Range]) -> list[Range]:
        """Of what is missing, the records that were acknowledged where an earlier one of the same run, leader and epoch is."""
        if not lost:
            return []
        sent = [run for run in self.facts.probes.get(self.stream, ()) if run.boot_id == ledger.boot_id]
        found: list[Range] = []
        for run in sent:
            if run.outcome != Outcome.ACKED or run.leader is None or run.term is None or not is_one_after_the_other(run):
                continue
            of_his = [(one.first_sequence, one.last_sequence) for one in sent if (one.leader, one.term) == (run.leader, run.term)]
            for first, last in common(lost, [(run.first_sequence, run.last_sequence)]):
                earlier = self._held_by_earlier(ledger.run_of(first), (first, last))
                found += [
                    one for ranges, away in earlier for one in common(ranges, [(low + away, high + away) for low, high in of_his])
                ]
        return union(found)

    def _held_by_earlier(self, run: Acked, lost: Range) -> Iterator[tuple[list[Range], int]]:
        """Lost sequences of a run at whose positions the last read-back of them found an earlier one, and by how much earlier."""
        undecided = [(run.position(lost[0]), run.position(lost[1]))]
        for one in sorted(self.readbacks, key=lambda each: each.ended_at_us, reverse=True):
            for held in one.runs:
                is_near = held.boot_id == run.boot_id and undecided and held.first_position <= undecided[-1][1]
                if not is_near or held.last_position < undecided[0][0]:
                    continue
                here = common(undecided, [(held.first_position, held.last_position)])
                undecided = minus(undecided, here)
                # Sequence and position rise by one in both: what is held is as much earlier all along.
                shift = run.first_sequence - run.first_position
                away = shift - (held.first_sequence - held.first_position)
                if away > 0:
                    there = [(first + shift, last + shift) for first, last in here]
                    yield common(there, run.sequences_acked_by(one.started_at_us)), away

    def _uncheckable(self, ledger: Ledger, piece: Range) -> Loss:
        below = [one for one in self.readbacks if common(ledger.below(one), [(piece[1], piece[1])])]
        first = min(below, key=lambda one: one.ended_at_us)
        verdict = DELETED_BY_POLICY if self._led_throughout(ledger, piece, first) else UNCHECKABLE
        return self._absent(verdict, BELOW_LOG_START, ledger, piece, first.ended_at_us)

    def _absent(
        self, verdict: str, reason: str, ledger: Ledger, piece: Range, checked_at_us: int, outage: Outage | None = None
    ) -> Loss:
        """What is not there, and of which nobody can say that it is lost: at least nothing, at most all of it."""
        first, last = piece
        is_harmless = verdict in (DELETED_BY_POLICY, NOT_STORED)
        most = 0 if is_harmless else size(common(ledger.sequences, [piece]))
        span = 0 if is_harmless else max(0, ledger.all_acked_by_us(first, last) - ledger.issued_us(first))
        found = self._finding(verdict, ledger, piece, Bounds(0, most), Bounds(0, span), outage, checked_at_us)
        return replace(found, reason=reason)

    def _unreadable(self, ledger: Ledger, verdicts: Verdicts) -> Iterator[Loss]:
        """What nobody can read because the partition has no leader, and no read-back has judged."""
        outage = self.outages[-1] if self.outages and self.outages[-1].is_open else None
        if outage is None or not _is_leaderless(self.facts, self.stream):
            return
        last = self.facts.partition_events[self.stream.partition][-1]
        decided = [*verdicts.present, *verdicts.lost, *verdicts.uncheckable, *verdicts.replaced]
        for piece in minus(ledger.sequences, decided)[-1:]:
            yield self._absent(STRANDED, NO_LEADER, ledger, piece, last.ended_at_us, outage)

    def _may_return(self, ledger: Ledger, sequence: int) -> bool:
        """Whether a replica that had the record may still be elected, and is away."""
        one = [(sequence, sequence)]
        missing = [each for each in self.readbacks if common(ledger.covered_by(each), one)]
        at_us = max(each.ended_at_us for each in missing)
        now = state_at(self.facts, self.stream.partition, at_us)
        then = state_at(self.facts, self.stream.partition, ledger.acked_by_us(sequence))
        if now is None or then is None:
            return False
        electable = {*(now.isr or ()), *(now.eligible or ())} & set(then.isr or ()) - {now.leader}
        return any(_is_fenced(self.facts, broker, at_us) for broker in electable)

    def _removed_between(self, issued_us: int, by_us: int) -> Control | None:
        """The deletion of the topic, where the control plane tells of one."""
        for event in self.facts.partition_events.get(self.stream.partition, ()):
            if event.event == ControlEvent.PARTITION_REMOVED and event.ended_at_us >= issued_us and event.started_at_us <= by_us:
                return event
        return None

    def _first_of_another(self, ledger: Ledger, piece: Range) -> int:
        return min(one.ended_at_us for one in self.readbacks if common(ledger.of_another_topic(one), [piece]))

    def _led_throughout(self, ledger: Ledger, piece: Range, readback: ReadBack) -> bool:
        """Whether one and the same leader led from the acknowledgement to the reading of the log's start: its log loses nothing."""
        term = ledger.run_of(piece[0]).term
        later = (run for run in self.facts.answers.get(self.stream.partition, ()) if run.last_issued_at_us >= readback.started_at_us)
        return term is not None and any(is_good(run) and run.term == term for run in later)

    def _present(self, ledger: Ledger, previous: Outage | None, outage: Outage, elsewhere: list[Range]) -> Iterator[Loss]:
        """The finding that what was acknowledged between two outages is all there; nothing while it is not all read back, or is not.

        What was lost otherwise (`elsewhere`, without an outage or by another) has a finding of its own, and parts this one.
        """
        if outage.after is None:
            return
        since = previous.earliest_decided_us if previous else ledger.runs[0].started_at_us - 1
        before = minus(ledger.issued_in(since, outage.earliest_decided_us), elsewhere)
        later = [one for one in self.readbacks if one.started_at_us >= outage.after.resolved_us]
        if not before or not later or minus(before, Verdicts.of(ledger, before, later).present):
            return
        complete = [one.ended_at_us for one in later if not minus(before, ledger.found_in(one))]
        last = before[-1][1]
        # A leader does not cut its own log: where the same one served before and after, in the same term, nothing can be gone.
        is_his = outage.before is not None and outage.before.term is not None and outage.before.term == outage.after.term
        is_clean = is_his or (self.stream, outage.first_bad_issued_us) in self.clean_elections
        high = 0 if is_clean else max(0, outage.earliest_decided_us - ledger.issued_us(last))
        checked_at = min(complete) if complete else max(one.ended_at_us for one in later)
        for piece in minus([(before[0][0], last)], elsewhere):
            held = common(before, [piece])
            if held:
                span = Bounds(0, high if held[-1][1] == last else 0)
                own = Around(Record.of(ledger, held[0][0]), Record.of(ledger, held[-1][1]))
                if held[-1][1] == last:
                    # K is the last of them: a writer that never paused may have been answered up to the latest start of the outage.
                    own = replace(own, before=own.last, until_us=outage.earliest_decided_us)
                found = self._finding(PRESENT, ledger, (held[0][0], held[-1][1]), Bounds.exactly(0), span, outage, checked_at)
                yield replace(found, around=own)

    def _finding(
        self, verdict: str, ledger: Ledger, piece: Range, records: Bounds, span: Bounds, outage: Outage | None, checked_at_us: int
    ) -> Loss:
        first, last = piece
        return Loss(
            self.stream,
            ledger.boot_id,
            verdict,
            READBACK,
            records,
            span,
            size(common(ledger.sequences, [piece])),
            ledger.issued_us(first),
            ledger.all_acked_by_us(first, last),
            ledger.position(first),
            ledger.position(last),
            outage,
            checked_at_us,
            first,
            last,
            around=Around(Record.of(ledger, first), Record.of(ledger, last)),
        )


def _of_topic(facts: Facts, readback: ReadBack) -> ReadBack:
    """A read-back with the identity of the topic that was read: where it does not say so itself, as it was answered last before it."""
    if readback.topic_id is not None:
        return readback
    goods = (run for run in facts.answers.get(Partition(readback.resource, readback.shard), ()) if is_good(run))
    told = [run.topic_id for run in goods if run.topic_id is not None and run.started_at_us <= readback.started_at_us]
    return replace(readback, topic_id=told[-1]) if told else readback


def _may_explain(outage: Outage, since_us: int, missed_us: int) -> bool:
    """Whether records that were there at one instant, and missed in a read-back begun at another, can be lost by an outage."""
    is_over = outage.after is not None and outage.after.resolved_us < since_us
    return not is_over and outage.earliest_decided_us <= missed_us


def _last_issued(ledger: Ledger, present: list[Range], before_us: int) -> Record | None:
    """The last retained record that was issued before an instant."""
    last = [one for _, one in _runs_within(ledger, present) if ledger.issued_us(one) < before_us]
    return max((Record.of(ledger, one) for one in last), key=lambda one: one.issued_us, default=None)


def _first_acked(ledger: Ledger, present: list[Range], after_us: int) -> Record | None:
    """The first retained record that was issued after an instant."""
    first = next((one for one, _ in _runs_within(ledger, present) if ledger.issued_us(one) > after_us), None)
    return None if first is None else Record.of(ledger, first)


def _runs_within(ledger: Ledger, ranges: list[Range]) -> list[Range]:
    """Ranges of acknowledged sequences cut so that each lies within one run of the ledger."""
    return [found for run in ledger.runs for found in common(ranges, [(run.first_sequence, run.last_sequence)])]


def _sequences(one: Loss) -> Range:
    return one.first_sequence or 0, one.last_sequence or 0


def _is_leaderless(facts: Facts, stream: Stream) -> bool:
    """Whether the control plane's last word on a partition is that it has no leader."""
    events = facts.partition_events.get(stream.partition, [])
    return bool(events) and events[-1].leader is None and events[-1].event == ControlEvent.PARTITION_CHANGED


def _is_fenced(facts: Facts, broker: str, at_us: int) -> bool:
    state = None
    for event in facts.broker_events.get(broker, ()):
        if event.started_at_us <= at_us and event.event in (ControlEvent.BROKER_FENCED, ControlEvent.BROKER_UNFENCED):
            state = event.event
    return state == ControlEvent.BROKER_FENCED
