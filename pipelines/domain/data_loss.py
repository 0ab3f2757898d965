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

Committed loss in users' partitions comes from `EpochEnd`: the old epoch ends in the new leader's log below the highest high
watermark that had been seen in it.

Worked example, P = 100 ms: K issued at 0, records 1..20 acknowledged within 5 ms each and gone, the outage starts in
[2000, 2101]. 20 records are lost, the span is [2000 - 105, 2101 - 0] ms = [1895, 2101] ms.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.ledger import Ledger, Verdicts, acked_runs
from pipelines.domain.observations import EpochEnd, Kind, Lane, ReadBack
from pipelines.domain.sequences import Range, common, minus, number, size
from pipelines.domain.unavailability import Outage

__all__ = ["LOST", "PRESENT", "UNCHECKABLE", "Loss", "acked_runs", "losses"]

RULE_VERSION = "loss-2"

PRESENT = "PRESENT"
LOST = "LOST"
UNCHECKABLE = "UNCHECKABLE"
READBACK = "readback"
EPOCH_END = "epoch_end"


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


def losses(
    facts: Facts,
    outages: dict[Stream, list[Outage]],
    clean_elections: frozenset[tuple[Stream, int]] = frozenset(),
) -> list[Loss]:
    """Findings of all read-back streams, and of the users' partitions.

    `clean_elections` names outages, by stream and first_bad_issued_us, whose election the control plane proves to be clean.
    """
    readbacks: dict[tuple[str, str, str, str], list[ReadBack]] = defaultdict(list)
    for one in facts.readbacks:
        readbacks[one.resource, one.shard, one.kind, one.lane].append(one)
    found: list[Loss] = []
    for stream in facts.probes:
        checked = readbacks.get((stream.resource, stream.shard, stream.kind, stream.lane), [])
        acked = acked_runs(facts.probes[stream], facts.late_acks.get(stream, ())) if checked else []
        boots = sorted({run.boot_id for run in acked})
        ledgers = [Ledger.of(boot_id, acked) for boot_id in boots]
        found.extend(_Judge(stream, ledgers, checked, outages.get(stream, []), clean_elections).findings())
    found.extend(_committed_loss(one) for one in facts.epoch_ends if one.lost_records > 0)
    return sorted(found, key=lambda one: (one.checked_at_us, one.stream, one.first_position or 0))


@dataclass(slots=True)
class _Judge:
    """The findings of one stream. `ledgers` are those of all runs of its prober, `readbacks` those of its partition and lane."""

    stream: Stream
    ledgers: list[Ledger]
    readbacks: list[ReadBack]
    outages: list[Outage]
    clean_elections: frozenset[tuple[Stream, int]]

    def findings(self) -> Iterator[Loss]:
        judged = [(ledger, Verdicts.of(ledger, ledger.sequences, self.readbacks)) for ledger in self.ledgers]
        for ledger, verdicts in judged:
            for piece in self._pieces(ledger, verdicts):
                yield self._lost(ledger, piece, judged)
            for piece in verdicts.uncheckable:
                yield self._uncheckable(ledger, piece)
            for index, outage in enumerate(self.outages):
                present = self._present(ledger, self.outages[index - 1] if index else None, outage)
                if present:
                    yield present

    # --- lost ---------------------------------------------------------------------------------------------------------

    def _pieces(self, ledger: Ledger, verdicts: Verdicts) -> Iterator[Range]:
        """Runs of lost records: sequences that were never acknowledged do not cut a run; a retained record or an outage does."""
        cuts = [
            at for one in self.outages for at in (one.first_bad_issued_us, one.after.issued_us if one.after else None) if at is not None
        ]
        pieces: list[Range] = []
        for first, last in self._cut(ledger, verdicts.lost, cuts):
            before = pieces[-1][1] if pieces else None
            is_same = (
                before is not None
                and not common(verdicts.present, [(before, first)])
                and not any(ledger.issued_us(before) < at <= ledger.issued_us(first) for at in cuts)
            )
            if is_same:
                pieces[-1] = (pieces[-1][0], last)
            else:
                pieces.append((first, last))
        yield from pieces

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
        outage = next((one for one in self.outages if _may_explain(one, since, missed.started_at_us)), None)
        low = max(0, end - ledger.acked_by_us(first))
        kept = [at for one, verdicts in judged if (at := _last_issued(one, verdicts.present, begin)) is not None]
        ends = [at for one, verdicts in judged if (at := _first_acked(one, verdicts.present, end)) is not None]
        if outage is not None and outage.earliest_decided_us >= end:
            ends.append(outage.earliest_decided_us)
        high = max(low, min(ends) - max(kept)) if kept and ends else None
        count = size(common(ledger.sequences, [piece]))
        return self._finding(LOST, ledger, piece, Bounds.exactly(count), Bounds(low, high), outage, missed.ended_at_us)

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

    def _uncheckable(self, ledger: Ledger, piece: Range) -> Loss:
        first, last = piece
        count = size(common(ledger.sequences, [piece]))
        span = Bounds(0, max(0, ledger.acked_by_us(last) - ledger.issued_us(first)))
        below = [one.ended_at_us for one in self.readbacks if common(ledger.below(one), [(last, last)])]
        return self._finding(UNCHECKABLE, ledger, piece, Bounds(0, count), span, None, min(below))

    def _present(self, ledger: Ledger, previous: Outage | None, outage: Outage) -> Loss | None:
        """The finding that what was acknowledged between two outages is all there; None while it is not all read back, or is not."""
        if outage.after is None:
            return None
        since = previous.earliest_decided_us if previous else ledger.runs[0].started_at_us - 1
        before = ledger.issued_in(since, outage.earliest_decided_us)
        later = [one for one in self.readbacks if one.started_at_us >= outage.after.resolved_us]
        if not before or not later or minus(before, Verdicts.of(ledger, before, later).present):
            return None
        complete = [one.ended_at_us for one in later if not minus(before, ledger.found_in(one))]
        first, last = before[0][0], before[-1][1]
        is_clean = (self.stream, outage.first_bad_issued_us) in self.clean_elections
        high = 0 if is_clean else max(0, outage.earliest_decided_us - ledger.issued_us(last))
        checked_at = min(complete) if complete else max(one.ended_at_us for one in later)
        return self._finding(PRESENT, ledger, (first, last), Bounds.exactly(0), Bounds(0, high), outage, checked_at)

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
            ledger.acked_by_us(last),
            ledger.position(first),
            ledger.position(last),
            outage,
            checked_at_us,
            first,
            last,
        )


def _may_explain(outage: Outage, since_us: int, missed_us: int) -> bool:
    """Whether records that were there at one instant, and missed in a read-back begun at another, can be lost by an outage."""
    is_over = outage.after is not None and outage.after.resolved_us < since_us
    return not is_over and outage.earliest_decided_us <= missed_us


def _last_issued(ledger: Ledger, present: list[Range], before_us: int) -> int | None:
    """Issue of the last retained record that was issued before an instant."""
    issues = [ledger.issued_us(last) for first, last in _runs_within(ledger, present) if ledger.issued_us(last) < before_us]
    return max(issues, default=None)


def _first_acked(ledger: Ledger, present: list[Range], after_us: int) -> int | None:
    """Acknowledgement of the first retained record that was issued after an instant."""
    first = next((one for one, _ in _runs_within(ledger, present) if ledger.issued_us(one) > after_us), None)
    return None if first is None else ledger.acked_by_us(first)


def _runs_within(ledger: Ledger, ranges: list[Range]) -> list[Range]:
    """Ranges of acknowledged sequences cut so that each lies within one run of the ledger."""
    return [found for run in ledger.runs for found in common(ranges, [(run.first_sequence, run.last_sequence)])]


def _committed_loss(one: EpochEnd) -> Loss:
    """Committed records of a partition that we do not write to: the sampled high watermarks bound number and span."""
    stream = Stream(one.resource, one.shard, Kind.DURABLE_WRITE, Lane.WATCH, one.prober_id)
    last = number(one.high_watermark_max)
    return Loss(
        stream,
        one.boot_id,
        LOST,
        EPOCH_END,
        Bounds(one.lost_records, None),
        Bounds(0, None),
        one.lost_records,
        one.lost_started_at_us,
        one.lost_ended_at_us,
        number(one.end_position),
        None if last is None else last - 1,
        None,
        one.ended_at_us,
    )
