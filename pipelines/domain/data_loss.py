"""Which acknowledged records are gone, and what span of time do they make?

The rule: lost means acknowledged and proven absent. A record is a canary with an identity (run of the prober, lane, partition,
sequence) that its payload carries, under a hash. A read-back lists every intact identity that is in the log; an acknowledged
record whose position it covered and which it did not list is LOST, one below the log's start is UNCHECKABLE, one that the
read-back did not reach yet is not judged. The latest read-back that covers a record decides. Not acknowledged is neither lost nor
duplicated; late is not lost.

Runs of lost records are cut at outages. For a run l1..lm after a retained K a writer that never paused lost data of a span of
at least max(0, i(lm) - r(l1)), and of at most (the latest start of the outage, or r of the next retained acknowledgement) - i(K).
Where nothing is lost the span is [0, start max - i(K)], and exactly 0 only where the control plane proves a clean election.

Committed loss in users' partitions comes from `EpochEnd`: the old epoch ends in the new leader's log below the highest high
watermark that had been seen in it.

Worked example, P = 100 ms: K issued at 0, records 1..20 acknowledged within 5 ms each and gone, the outage starts in
[2000, 2101]. 20 records are lost, the span is [2000 - 105, 2101 - 0] ms = [1895, 2101] ms.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import EpochEnd, Kind, Lane, LateAcks, Outcome, Probes, ReadBack
from pipelines.domain.sequences import Range, common, minus, size, union
from pipelines.domain.unavailability import Outage

RULE_VERSION = "loss-1"

PRESENT = "PRESENT"
LOST = "LOST"
UNCHECKABLE = "UNCHECKABLE"
READBACK = "readback"
EPOCH_END = "epoch_end"


@dataclass(frozen=True, slots=True)
class Acked:
    """A run of acknowledged records: sequence and position rise by one from record to record."""

    boot_id: str
    first_sequence: int
    last_sequence: int
    first_position: int
    started_at_us: int
    period_us: int
    latency_us_max: int

    def issued_us(self, sequence: int) -> int:
        """Intended issue of a record of the run."""
        return self.started_at_us + (sequence - self.first_sequence) * self.period_us

    def acked_by_us(self, sequence: int) -> int:
        """The latest instant at which the record was acknowledged."""
        return self.issued_us(sequence) + self.latency_us_max

    def position(self, sequence: int) -> int:
        """Where the record was stored."""
        return self.first_position + sequence - self.first_sequence

    def sequences_at(self, first_position: int, last_position: int) -> list[Range]:
        """The sequences of the run that were stored within a range of positions."""
        first = max(self.first_sequence, self.first_sequence + first_position - self.first_position)
        last = min(self.last_sequence, self.first_sequence + last_position - self.first_position)
        return [(first, last)] if first <= last else []


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


def losses(
    facts: Facts,
    outages: dict[Stream, list[Outage]],
    clean_elections: frozenset[tuple[Stream, int]] = frozenset(),
) -> list[Loss]:
    """Findings of all read-back streams, and of the users' partitions.

    `clean_elections` names outages, by stream and first_bad_issued_us, whose election the control plane proves to be clean.
    """
    found: list[Loss] = []
    readbacks = _readbacks(facts)
    for stream in facts.probes:
        checked = readbacks.get((stream.resource, stream.shard, stream.kind, stream.lane), [])
        ledger = acked_runs(facts.probes[stream], facts.late_acks.get(stream, ()))
        if checked and ledger:
            found.extend(_judged(stream, ledger, checked, outages.get(stream, []), clean_elections))
    found.extend(_committed_loss(one) for one in facts.epoch_ends if one.lost_records > 0)
    return sorted(found, key=lambda one: (one.checked_at_us, one.stream, one.first_position or 0))


def acked_runs(probes: Iterable[Probes], late: Iterable[LateAcks]) -> list[Acked]:
    """The ledger of one stream: every acknowledged record whose position is known, in order of issue."""
    period = 0
    ledger = []
    for run in probes:
        period = run.period_us
        if run.outcome == Outcome.ACKED and run.first_position is not None:
            slowest = run.latency_us_max if run.latency_us_max is not None else run.ended_at_us - run.last_issued_at_us
            ledger.append(_acked(run, run.period_us, slowest))
    for ack in late:
        if ack.first_position is not None:
            span = ack.last_sequence - ack.first_sequence
            apart = (ack.last_issued_at_us - ack.started_at_us) // span if span else period
            ledger.append(_acked(ack, apart, ack.ended_at_us - ack.started_at_us))
    return sorted(ledger, key=lambda run: (run.started_at_us, run.first_sequence))


def _acked(run: Probes | LateAcks, period_us: int, latency_us_max: int) -> Acked:
    return Acked(
        run.boot_id,
        run.first_sequence,
        run.last_sequence,
        int(run.first_position or 0),
        run.started_at_us,
        period_us,
        latency_us_max,
    )


def _readbacks(facts: Facts) -> dict[tuple[str, str, str, str], list[ReadBack]]:
    found: dict[tuple[str, str, str, str], list[ReadBack]] = defaultdict(list)
    for one in facts.readbacks:
        found[one.resource, one.shard, one.kind, one.lane].append(one)
    return found


def _judged(
    stream: Stream,
    ledger: list[Acked],
    checked: list[ReadBack],
    outages: list[Outage],
    clean_elections: frozenset[tuple[Stream, int]],
) -> Iterator[Loss]:
    for boot_id in sorted({run.boot_id for run in ledger}):
        of_boot = [run for run in ledger if run.boot_id == boot_id]
        verdicts = _Verdicts.of(boot_id, of_boot, checked)
        yield from _lost_runs(stream, of_boot, verdicts, outages)
        yield from _uncheckable(stream, of_boot, verdicts)
        for outage in outages:
            present = _present(stream, of_boot, verdicts, outage, (stream, outage.first_bad_issued_us) in clean_elections)
            if present:
                yield present


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """What the read-backs say of each acknowledged sequence of one run of the prober."""

    present: list[Range]
    lost: list[Range]
    uncheckable: list[Range]
    checked_at_us: int

    @classmethod
    def of(cls, boot_id: str, ledger: list[Acked], checked: list[ReadBack]) -> "_Verdicts":
        present: list[Range] = []
        lost: list[Range] = []
        uncheckable: list[Range] = []
        undecided = union((run.first_sequence, run.last_sequence) for run in ledger)
        for one in sorted(checked, key=lambda each: each.ended_at_us, reverse=True):
            found = [(run.first_sequence, run.last_sequence) for run in one.runs if run.boot_id == boot_id]
            # Only what had been acknowledged before reading began can be missed in it.
            before = [run for run in ledger if run.started_at_us <= one.started_at_us]
            log_start, first, last = int(one.log_start_position), int(one.from_position), int(one.to_position) - 1
            covered = _at(before, max(first, log_start), last, one.started_at_us)
            below = minus(_at(before, 0, log_start - 1, one.started_at_us), found)
            judged = common(undecided, union([*covered, *found]))
            present += common(judged, found)
            lost += minus(judged, found)
            uncheckable += common(minus(undecided, judged), below)
            undecided = minus(minus(undecided, judged), below)
        return cls(union(present), union(lost), union(uncheckable), max(one.ended_at_us for one in checked))


def _at(ledger: list[Acked], first_position: int, last_position: int, before_us: int) -> list[Range]:
    ranges = []
    for run in ledger:
        for first, last in run.sequences_at(first_position, last_position):
            acked = [last, first + (before_us - run.acked_by_us(first)) // max(1, run.period_us)]
            if min(acked) >= first:
                ranges.append((first, min(acked)))
    return union(ranges)


def _lost_runs(stream: Stream, ledger: list[Acked], verdicts: _Verdicts, outages: list[Outage]) -> Iterator[Loss]:
    for first, last in _cut_at_outages(verdicts, ledger, outages):
        run_first, run_last = _run_of(ledger, first), _run_of(ledger, last)
        kept_before = [sequence for _, sequence in verdicts.present if sequence < first]
        kept_after = [sequence for sequence, _ in verdicts.present if sequence > last]
        outage = next((one for one in outages if one.earliest_decided_us >= run_last.issued_us(last)), None)
        low = max(0, run_last.issued_us(last) - run_first.acked_by_us(first))
        high = None
        if kept_before:
            kept = max(kept_before)
            kept_issued = _run_of(ledger, kept).issued_us(kept)
            ends = [_run_of(ledger, min(kept_after)).acked_by_us(min(kept_after))] if kept_after else []
            if outage is not None:
                ends.append(outage.earliest_decided_us)
            high = max(low, min(ends) - kept_issued) if ends else None
        yield Loss(
            stream,
            run_first.boot_id,
            LOST,
            READBACK,
            Bounds.exactly(_acked_between(ledger, first, last)),
            Bounds(low, high),
            _acked_between(ledger, first, last),
            run_first.issued_us(first),
            run_last.acked_by_us(last),
            run_first.position(first),
            run_last.position(last),
            outage,
            verdicts.checked_at_us,
        )


def _uncheckable(stream: Stream, ledger: list[Acked], verdicts: _Verdicts) -> Iterator[Loss]:
    for first, last in verdicts.uncheckable:
        run_first, run_last = _run_of(ledger, first), _run_of(ledger, last)
        count = _acked_between(ledger, first, last)
        yield Loss(
            stream,
            run_first.boot_id,
            UNCHECKABLE,
            READBACK,
            Bounds(0, count),
            Bounds(0, run_last.acked_by_us(last) - run_first.issued_us(first)),
            count,
            run_first.issued_us(first),
            run_last.acked_by_us(last),
            run_first.position(first),
            run_last.position(last),
            None,
            verdicts.checked_at_us,
        )


def _present(stream: Stream, ledger: list[Acked], verdicts: _Verdicts, outage: Outage, is_clean: bool) -> Loss | None:
    """The finding that what was acknowledged before an outage is all there; None while it is not all read back, or is not."""
    before = [
        (run.first_sequence, last)
        for run in ledger
        if (last := _last_issued_by(run, outage.earliest_decided_us)) >= run.first_sequence
    ]
    if not before or outage.is_open or outage.after is None:
        return None
    if minus(before, verdicts.present) or verdicts.checked_at_us < outage.after.resolved_us:
        return None
    first, last = min(one[0] for one in before), max(one[1] for one in before)
    run_first, run_last = _run_of(ledger, first), _run_of(ledger, last)
    high = 0 if is_clean else max(0, outage.earliest_decided_us - run_last.issued_us(last))
    return Loss(
        stream,
        run_first.boot_id,
        PRESENT,
        READBACK,
        Bounds.exactly(0),
        Bounds(0, high),
        size(union(before)),
        run_first.issued_us(first),
        run_last.acked_by_us(last),
        run_first.position(first),
        run_last.position(last),
        outage,
        verdicts.checked_at_us,
    )


def _committed_loss(one: EpochEnd) -> Loss:
    """Committed records of a partition that we do not write to: the sampled high watermarks bound number and span."""
    stream = Stream(one.resource, one.shard, Kind.DURABLE_WRITE, Lane.WATCH, one.prober_id)
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
        int(one.end_position),
        int(one.high_watermark_max) - 1,
        None,
        one.ended_at_us,
    )


def _cut_at_outages(verdicts: _Verdicts, ledger: list[Acked], outages: list[Outage]) -> Iterator[Range]:
    """Runs of lost records: sequences that were never acknowledged do not cut a run; a retained record or an outage does."""
    pieces: list[Range] = []
    for first, last in verdicts.lost:
        before = pieces[-1][1] if pieces else None
        is_same_run = (
            before is not None
            and not common(verdicts.present, [(before, first)])
            and _no_outage_between(ledger, outages, before, first)
        )
        if is_same_run:
            pieces[-1] = (pieces[-1][0], last)
        else:
            pieces.append((first, last))
    yield from pieces


def _no_outage_between(ledger: list[Acked], outages: list[Outage], last: int, first: int) -> bool:
    begin, end = _run_of(ledger, last).issued_us(last), _run_of(ledger, first).issued_us(first)
    return not any(begin <= one.first_bad_issued_us <= end for one in outages)


def _acked_between(ledger: list[Acked], first: int, last: int) -> int:
    return size(common(((run.first_sequence, run.last_sequence) for run in ledger), [(first, last)]))


def _run_of(ledger: list[Acked], sequence: int) -> Acked:
    return next(run for run in ledger if run.first_sequence <= sequence <= run.last_sequence)


def _last_issued_by(run: Acked, instant_us: int) -> int:
    if run.period_us <= 0:
        return run.last_sequence if run.started_at_us <= instant_us else run.first_sequence - 1
    return min(run.last_sequence, run.first_sequence + (instant_us - run.started_at_us) // run.period_us)
