"""When was a partition not served, and how sure are we? The fold from probes to outage windows.

The rule (the proof is in ARCHITECTURE.md, "The interval of an outage"): lambda is the latency up to which a service counts as
serving, P the probe period, g = P + lambda. For a probe, i is its intended issue and r its resolution. A probe is *good* when it
was ACKED with r - i <= lambda, *void* when nothing was measured, *bad* otherwise, with q = r if it was refused before i + lambda,
else i + lambda. Bads issued at most g apart form one outage B1..Bn. S is the last good with r(S) < i(B1); T the first good issued
after Bn and not before min q. Then

    start in [i(S), min q]    end in [i(Bn), r(T)]    RTO in [max(0, i(Bn) - min q), r(T) - i(S)]

No T: the outage is open and has no maximum. No S: it was there before we looked, and has no maximum either. A gap without any
valid probe longer than g inside an outage cuts it into measured pieces: the RTO's minimum is the longest piece, the minimum of
the downtime their sum, and the RTO's maximum spans the gap.

Three refinements keep every bound true where the prober was blind or an outage is shorter than the theory asks for:

- T is not issued before min q. Where probes are dense that is no condition: an outage lasts 2g and a probe of its first P is bad,
  so min q <= start + g <= i(Bn). Where they are not, a good issued earlier may have been served before the outage began.
- Bads more than g apart are two outages only when a good proves it: issued not before min q of the first, and answered before the
  second's first bad was issued. Else they are two pieces of one.
- Goods between bads that are at most g apart are flapping: counted, each cutting a piece. There, and where r(T) - i(S) < 2g, the
  service ran or failed for less than 2g and "the first good after Bn" proves nothing: T is then the first good issued at or after
  the last q, which was served after every bad was not, whatever the service did in between.

Worked example, P = 100 ms, lambda = 1 s, instants in ms: a good at 0 (acknowledged at 2), refusals at 100 (known at 101) to 9000,
a good at 9100 (acknowledged at 9103). start in [0, 101], end in [9000, 9103], RTO in [8899, 9103] ms.

The fold is pure. `step` takes the runs of one stream (one prober, resource, shard, kind and lane) in order of issue and returns
the outages that are settled: no later probe can change them. `current` is the outage that is not settled yet.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipelines.domain.goods import Good, GoodRun, is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import Outcome, Probes

__all__ = ["Good", "Outage", "Piece", "Watching", "current", "is_good", "longest_runs", "outages", "step"]

RULE_VERSION = "outage-4"
"""The version of this rule. Every row that it made carries it; raise it whenever a row can come out differently."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A measured part of an outage: bads with neither a good nor a gap longer than g between them."""

    earliest_decided_us: int
    last_issued_us: int

    @property
    def length_us(self) -> int:
        """How long the service was certainly not serving in this piece, if nothing but this piece was seen."""
        return max(0, self.last_issued_us - self.earliest_decided_us)


@dataclass(frozen=True, slots=True)
class Outage:
    """A span of time in which one stream was not served. All `_us` are microseconds; instants are UTC since the epoch.

    `next_good` is the first good after the last bad, `sure_good` the first one after the last decision of any bad; `refused_by` is
    the broker that answered the first bad probe, where one did.
    """

    first_bad_issued_us: int
    last_bad_issued_us: int
    earliest_decided_us: int
    latest_decided_us: int
    gap_us: int
    before: Good | None
    next_good: Good | None
    sure_good: Good | None
    pieces: tuple[Piece, ...]
    bad_probes: int
    rejected_probes: int
    answered_probes: int
    void_probes: int
    flaps: int
    codes: tuple[str, ...]
    refused_by: str | None = None
    is_interrupted: bool = False
    is_cut: bool = False

    @property
    def after(self) -> Good | None:
        """T: the good probe that proves that it was over."""
        return self.next_good if self.is_long else self.sure_good

    @property
    def is_open(self) -> bool:
        """No good probe has been seen after it."""
        return self.after is None and not self.is_cut

    @property
    def start(self) -> Bounds:
        """The first instant that was not served."""
        return Bounds(self.before.issued_us if self.before else None, self.earliest_decided_us)

    @property
    def end(self) -> Bounds:
        """The first instant that was served again."""
        return Bounds(self.last_bad_issued_us, self.after.resolved_us if self.after else None)

    @property
    def rto(self) -> Bounds:
        """How long it lasted, in microseconds."""
        low = max(piece.length_us for piece in self.pieces)
        high = self.after.resolved_us - self.before.issued_us if self.after and self.before else None
        return Bounds(low, high)

    @property
    def downtime_us_min(self) -> int:
        """The sum of the measured pieces."""
        return sum(piece.length_us for piece in self.pieces)

    def is_over(self, instant_us: int) -> bool:
        """Whether a bad probe issued at that instant would belong to another outage."""
        after = self.after
        return after is not None and after.resolved_us < instant_us and instant_us > self.last_bad_issued_us + self.gap_us

    @property
    def is_long(self) -> bool:
        """Nothing contradicts that it, and the serving around it, lasted 2g."""
        if self.flaps or self.next_good is None:
            return False
        return self.before is None or self.next_good.resolved_us - self.before.issued_us >= 2 * self.gap_us


@dataclass(frozen=True, slots=True)
class Watching:
    """The fold's state for one stream: what a later run needs to know of the earlier ones."""

    goods: tuple[GoodRun, ...] = ()
    outage: Outage | None = None
    clock_id: str | None = None


def step(state: Watching, run: Probes) -> tuple[Watching, tuple[Outage, ...]]:
    """Takes the next run of the stream, in order of issue. Returns the new state and the outages that are settled by it."""
    settled: tuple[Outage, ...] = ()
    if state.clock_id != run.clock_id:
        # Instants of two clocks cannot be compared without an error bound: nothing seen before may bound what comes now.
        settled = tuple(_cut(state.outage))
        state = Watching(clock_id=run.clock_id)
    if run.outcome == Outcome.VOID:
        return _void(state, run), settled
    state, more = _good(state, run) if is_good(run) else _bad(state, run)
    return state, settled + more


def current(state: Watching) -> Outage | None:
    """The outage that is open, or over for so short a time that a bad probe could still prolong it."""
    return state.outage


def outages(runs: Iterable[Probes]) -> Iterator[Outage]:
    """Every outage in the runs of one stream, given in order of issue; the last may be open."""
    state = Watching()
    for run in runs:
        state, settled = step(state, run)
        yield from settled
    if state.outage:
        yield state.outage


def longest_runs(runs: Iterable[Probes]) -> list[Probes]:
    """The runs of one stream in order of issue, without repetitions and without the shorter forms of a run that was extended.

    Runs of one clock stay together: by another clock their instants have no order.
    """
    longest: dict[tuple[str, int], Probes] = {}
    for run in runs:
        key = (run.boot_id, run.first_sequence)
        known = longest.get(key)
        if known is None or _length(run) > _length(known):
            longest[key] = run
    ranks = _ranks(longest.values())
    return sorted(
        longest.values(),
        key=lambda run: (ranks[run.clock_id], run.clock_id, run.started_at_us, run.boot_id, run.first_sequence),
    )


def _ranks(runs: Iterable[Probes]) -> dict[str, tuple[int, int]]:
    """The order of clocks: by the first instant that each shows, but for those that one boot read one after the other. Their
    instants have no order (the wall clock was set when the second was anchored), and the boot's sequences do."""
    begins: dict[str, int] = {}
    sequences: dict[str, dict[str, int]] = {}
    for run in runs:
        begins[run.clock_id] = min(run.started_at_us, begins.get(run.clock_id, run.started_at_us))
        of_boot = sequences.setdefault(run.boot_id, {})
        of_boot[run.clock_id] = min(run.first_sequence, of_boot.get(run.clock_id, run.first_sequence))
    ranks = {clock_id: (begin, 0) for clock_id, begin in begins.items()}
    for boot_id in sorted(sequences):
        first, *later = sorted(sequences[boot_id], key=lambda clock_id: (sequences[boot_id][clock_id], clock_id))
        for clock_id in later:
            ranks[clock_id] = (begins[first], sequences[boot_id][clock_id])
    return ranks


def _length(run: Probes) -> tuple[int, bool, int]:
    # A closed form of the same length is the last word; seq settles what is left, so that the order of reading never matters.
    return run.last_sequence, not run.is_open, run.seq


def _void(state: Watching, run: Probes) -> Watching:
    if state.outage is None:
        return state
    return replace(state, outage=replace(state.outage, void_probes=state.outage.void_probes + run.count))


def _good(state: Watching, run: Probes) -> tuple[Watching, tuple[Outage, ...]]:
    good = GoodRun.of(run)
    goods = _pruned(state.goods, good)
    outage = state.outage
    if outage is None:
        return Watching(goods, None, state.clock_id), ()
    behind = outage.last_bad_issued_us + 1
    outage = replace(
        outage,
        next_good=outage.next_good or good.first_issued_from(max(behind, outage.earliest_decided_us)),
        sure_good=outage.sure_good or good.first_issued_from(max(behind, outage.latest_decided_us)),
        is_interrupted=True,
    )
    if outage.is_over(run.last_issued_at_us):
        return Watching(goods, None, state.clock_id), (outage,)
    return Watching(goods, outage, state.clock_id), ()


def _bad(state: Watching, run: Probes) -> tuple[Watching, tuple[Outage, ...]]:
    outage = state.outage
    if outage is None or outage.is_over(run.started_at_us):
        return replace(state, outage=_begun(state.goods, run)), (outage,) if outage else ()
    # Far from the last bad and yet not proven to be another outage: one outage as far as anyone can say.
    return replace(state, outage=_extended(outage, run)), ()


def _begun(goods: tuple[GoodRun, ...], run: Probes) -> Outage:
    candidates = (good.last_resolved_before(run.started_at_us) for good in goods)
    decided = _earliest_decided(run)
    return Outage(
        first_bad_issued_us=run.started_at_us,
        last_bad_issued_us=run.last_issued_at_us,
        earliest_decided_us=decided,
        latest_decided_us=_latest_decided(run),
        gap_us=_gap(run),
        before=max((good for good in candidates if good), key=lambda good: good.issued_us, default=None),
        next_good=None,
        sure_good=None,
        pieces=(Piece(decided, run.last_issued_at_us),),
        bad_probes=run.count,
        rejected_probes=run.count if run.outcome == Outcome.REJECTED else 0,
        answered_probes=run.count if run.is_answered else 0,
        void_probes=0,
        flaps=0,
        codes=(run.code,) if run.code else (),
        refused_by=run.leader if run.is_answered else None,
    )


def _extended(outage: Outage, run: Probes) -> Outage:
    decided = _earliest_decided(run)
    last = outage.pieces[-1]
    if outage.is_interrupted or run.started_at_us > outage.last_bad_issued_us + outage.gap_us:
        pieces = (*outage.pieces, Piece(decided, run.last_issued_at_us))
    else:
        pieces = (*outage.pieces[:-1], Piece(min(last.earliest_decided_us, decided), run.last_issued_at_us))
    return replace(
        outage,
        last_bad_issued_us=max(outage.last_bad_issued_us, run.last_issued_at_us),
        earliest_decided_us=min(outage.earliest_decided_us, decided),
        latest_decided_us=max(outage.latest_decided_us, _latest_decided(run)),
        gap_us=max(outage.gap_us, _gap(run)),
        next_good=None,
        sure_good=None,
        pieces=pieces,
        bad_probes=outage.bad_probes + run.count,
        rejected_probes=outage.rejected_probes + (run.count if run.outcome == Outcome.REJECTED else 0),
        answered_probes=outage.answered_probes + (run.count if run.is_answered else 0),
        flaps=outage.flaps + outage.is_interrupted,
        codes=outage.codes if run.code is None or run.code in outage.codes else (*outage.codes, run.code),
        is_interrupted=False,
    )


def _cut(outage: Outage | None) -> Iterator[Outage]:
    if outage is not None:
        yield replace(outage, is_cut=outage.after is None)


def _earliest_decided(run: Probes) -> int:
    return max(run.started_at_us, min(run.earliest_decided_at_us, run.started_at_us + run.lambda_us))


def _latest_decided(run: Probes) -> int:
    return max(run.last_issued_at_us, min(run.ended_at_us, run.last_issued_at_us + run.lambda_us))


def _gap(run: Probes) -> int:
    return max(0, run.period_us + run.lambda_us)


def _pruned(goods: tuple[GoodRun, ...], latest: GoodRun) -> tuple[GoodRun, ...]:
    """Of the goods resolved before the latest issue only the last can become S; those that were in flight then, all can."""
    issued = latest.last_issued_us
    if latest.last_resolved_before(issued) is not None:
        return (latest,)
    resolved = [good for good in goods if good.last_decided_us < issued]
    in_flight = (good for good in goods if good.last_decided_us >= issued)
    return (*sorted(resolved, key=lambda good: good.last_issued_us)[-1:], *in_flight, latest)
