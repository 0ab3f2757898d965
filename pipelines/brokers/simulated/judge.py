"""Does the truth lie within what was derived? A history's truth against the windows and losses that follow from its observations.

The rule, for every lane: each reported outage claims one not-served span (or some, where it says so: flapping, or the prober was
blind); the span's begin lies in its start bounds, its end in its end bounds, its length in its RTO bounds. Every span that (H) allows
to be seen, and that the prober was there to see, is claimed by exactly one outage. Windows of partitions are held against the truth of
the partition, or of what the watch was served, whichever they claim; lost records are counted.

Example: a span [10.000, 19.200] s and an outage with start [9.9, 10.05], end [19.15, 19.27]: it holds, and is 0.27 s wide.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipelines.brokers.simulated.history import USER_TOPIC, History, Truth
from pipelines.brokers.simulated.logs import Record
from pipelines.brokers.simulated.service import Down
from pipelines.domain.data_loss import LOST, PRESENT, Loss
from pipelines.domain.derivation import Derivation, Explained
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.ledger import Ledger, acked_runs
from pipelines.domain.observations import Kind, Lane, ReadBack
from pipelines.domain.windows import ACKS_ALL_STALLED, PartitionWindow

NEVER = 2**62


@dataclass(slots=True)
class Judgement:
    """What was found, for one history or, added up, for many. `widths` in microseconds by (kind, how it failed)."""

    outages: int = 0
    windows: int = 0
    spans: int = 0
    flapping: int = 0
    lost_records: int = 0
    widths: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Judgement") -> None:
        """Adds the judgement of another history."""
        self.outages += other.outages
        self.windows += other.windows
        self.spans += other.spans
        self.flapping += other.flapping
        self.lost_records += other.lost_records
        for key, widths in other.widths.items():
            self.widths.setdefault(key, []).extend(widths)
        self.causes.update(other.causes)
        self.violations += other.violations


def judge(history: History, derivation: Derivation) -> Judgement:
    """Holds a derivation of a history's observations against its truth."""
    found = Judgement()
    by_stream: dict[Stream, list[Explained]] = {}
    for one in derivation.outages:
        by_stream.setdefault(one.stream, []).append(one)
        found.causes[one.recovery.cause] += 1
    for stream, downs in history.truth.lanes.items():
        _Lane(history, stream, downs, by_stream.get(stream, []), found).judge()
    _judge_windows(history, derivation, found)
    _judge_losses(history, derivation, found)
    return found


# --- outages of lanes -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lane:
    history: History
    stream: Stream
    downs: list[Down]
    reported: list[Explained]
    found: Judgement

    def judge(self) -> None:
        claimed: Counter[Down] = Counter()
        for one in self.reported:
            self.found.outages += 1
            claims = self._claims(one)
            if not claims:
                near = _touched(self.downs, one.outage.start, one.outage.end)
                self._violated(f"outage {_shown(one.outage.start, one.outage.end)} claims nothing; near it are {_told(near)}")
            claimed.update(claims)
            self._measure(one, claims)
        for down in self.downs:
            self.found.spans += 1
            if claimed[down] > 1:
                self._violated(f"span {_told([down])} is claimed by {claimed[down]} outages")
            if not claimed[down] and down.is_long and not self._is_blind(down):
                self._violated(f"span {_told([down])} is missed")
        self._judge_order()

    def _claims(self, one: Explained) -> list[Down]:
        """The spans that the outage is about: one that fits, or neighbours together where the outage says that it is not sure."""
        outage = one.outage
        near = _touched(self.downs, outage.start, outage.end)
        fitting = [down for down in near if _fits(one, [down])]
        if fitting:
            return fitting[:1]
        is_unsure = outage.flaps or len(outage.pieces) > 1 or outage.void_probes or not all(down.is_long for down in near)
        if is_unsure or any(self._is_blind(down) for down in near):
            for first in range(len(near)):
                for last in range(len(near) - 1, first, -1):
                    if _fits(one, near[first : last + 1]):
                        return near[first : last + 1]
        return []

    def _measure(self, one: Explained, claims: list[Down]) -> None:
        outage = one.outage
        if outage.flaps:
            self.found.flapping += 1
        if len(claims) != 1 or not claims[0].is_long or self._is_blind(claims[0]) or outage.rto.high is None:
            return
        how = "refused" if outage.rejected_probes == outage.bad_probes else "hung"
        width = outage.rto.high - (outage.rto.low or 0)
        allowed = 2 * one.period_us + 20_000 + (2 * one.lambda_us if how == "hung" else 0)
        self.found.widths.setdefault((self.stream.kind, how), []).append((width, allowed))

    def _judge_order(self) -> None:
        for before, after in zip(self.reported, self.reported[1:], strict=False):
            earlier, later = before.outage, after.outage
            is_ordered = (
                (earlier.end.low or 0) < (later.start.high or 0)
                and (later.start.low is None or later.start.low >= (earlier.end.low or 0))
                and earlier.end.high is not None
                and earlier.end.high <= (later.end.high or NEVER)
            )
            if not is_ordered:
                self._violated(f"outages overlap: {_shown(earlier.start, earlier.end)} and {_shown(later.start, later.end)}")

    def _is_blind(self, down: Down) -> bool:
        scenario = self.history.scenario
        around = 2 * (scenario.watch_gap_us if self.stream.lane == Lane.WATCH else scenario.gap_us)
        begin, end = down.begin_us - around, (down.end_us if down.end_us is not None else NEVER) + around
        edges = [(-NEVER, around), (scenario.end_us - around, NEVER)]
        return any(low < end and begin < high for low, high in [*self.history.truth.blind[self.stream.prober_id], *edges])

    def _violated(self, text: str) -> None:
        self.found.violations.append(f"seed {self.history.seed}: {'/'.join(_name(self.stream))}: {text}")


def _fits(one: Explained, downs: Sequence[Down]) -> bool:
    outage = one.outage
    begin, end = downs[0].begin_us, downs[-1].end_us
    if not outage.start.holds(begin) or not outage.end.holds(NEVER if end is None else end):
        return False
    if end is None:
        return outage.is_open
    lengths = [down.end_us - down.begin_us for down in downs if down.end_us is not None]
    # Between spans that are not long the service may have run unseen, for less than (H) asks for.
    is_exact = all(down.is_long for down in downs)
    longest, total = (max(lengths), sum(lengths)) if is_exact else (end - begin, end - begin)
    is_within = (outage.rto.low or 0) <= longest and (outage.rto.high is None or end - begin <= outage.rto.high)
    return is_within and outage.downtime_us_min <= total


# --- windows of partitions --------------------------------------------------------------------------------------------


def _judge_windows(history: History, derivation: Derivation, found: Judgement) -> None:
    claimed: Counter[tuple[str, Partition, str | None, Down]] = Counter()
    for window, _ in derivation.windows:
        found.windows += 1
        candidates = _candidates(history.truth, window)
        fits = {down for downs in candidates for down in _fitting(window, downs)}
        if not fits:
            near = _touched((down for downs in candidates for down in downs), window.start, window.end)
            name = f"seed {history.seed}: {window.partition.resource}/{window.partition.shard}: {window.window}"
            text = f"{window.evidence} by {window.broker} {_shown(window.start, window.end)} claims nothing"
            found.violations.append(f"{name} {text}; near it are {_told(near)}")
        for down in fits:
            claimed[window.window, window.partition, _waited_for(window), down] += 1
    for (partition, broker, name), downs in _expected(history).items():
        for down in downs:
            found.spans += 1
            times = claimed[name, partition, broker, down]
            if times != 1:
                text = f"{name} by {broker} {_told([down])} is claimed by {times} windows"
                found.violations.append(f"seed {history.seed}: {partition.resource}/{partition.shard}: {text}")


def _waited_for(window: PartitionWindow) -> str | None:
    return window.broker if window.window == ACKS_ALL_STALLED else None


def _candidates(truth: Truth, window: PartitionWindow) -> list[list[Down]]:
    if window.window == ACKS_ALL_STALLED:
        return [truth.stalled.get((window.partition, str(window.broker)), [])]
    watched = Stream(window.partition.resource, window.partition.shard, Kind.LEADER, Lane.WATCH, "watch")
    return [truth.leaderless[window.partition], truth.lanes[watched]]


def _fitting(window: PartitionWindow, downs: list[Down]) -> list[Down]:
    """The spans that a window is about: one, or several with less between them than (H) lets anyone see."""
    near = _touched(downs, window.start, window.end)
    for down in near:
        if window.start.holds(down.begin_us) and _ends(window, down):
            return [down]
    if any(down.is_long for down in near):
        return []
    runs = (near[first : last + 1] for first in range(len(near)) for last in range(len(near) - 1, first, -1))
    return next((run for run in runs if window.start.holds(run[0].begin_us) and _ends(window, run[-1])), [])


def _ends(window: PartitionWindow, down: Down) -> bool:
    return window.end.holds(NEVER if down.end_us is None else down.end_us)


def _expected(history: History) -> dict[tuple[Partition, str | None, str], list[Down]]:
    """The spans that must be reported: those that (H) lets a watch see, and stalls for brokers that somebody could miss."""
    limit = history.scenario.end_us - 2 * history.scenario.watch_gap_us
    expected: dict[tuple[Partition, str | None, str], list[Down]] = {}
    for partition, downs in history.truth.leaderless.items():
        expected[partition, None, "leader_unavailable"] = [
            down for down in downs if down.is_long and down.end_us is not None and down.end_us < limit
        ]
    for (partition, broker), downs in history.truth.stalled.items():
        expected[partition, broker, ACKS_ALL_STALLED] = [
            down
            for down in downs
            if down.is_long and down.end_us is not None and down.end_us < limit and _leads(history, broker, down.begin_us)
        ]
    return expected


def _leads(history: History, broker: str, at_us: int) -> bool:
    trace = history.truth.trace
    return any(trace.current(partition, at_us).leader == broker for partition in trace.replicas)


# --- losses -----------------------------------------------------------------------------------------------------------


def _judge_losses(history: History, derivation: Derivation, found: Judgement) -> None:
    facts = derivation.facts
    for stream, gone in history.truth.gone.items():
        acked = acked_runs(facts.probes.get(stream, []), facts.late_acks.get(stream, []))
        ledgers = {boot_id: Ledger.of(boot_id, acked) for boot_id in {run.boot_id for run in acked}}
        lost = {(one.boot_id, one.sequence): one for one in gone if _was_acked(ledgers.get(one.boot_id), one.sequence)}
        last = max((one for one in facts.readbacks if _is_of(one, stream)), key=lambda one: one.ended_at_us)
        certain = [one for one in lost.values() if int(last.log_start_position) <= one.position < int(last.to_position)]
        reported = [one for one in derivation.losses if one.stream == stream]
        count = sum(one.records.low or 0 for one in reported if one.verdict == LOST)
        found.lost_records += count
        name = f"seed {history.seed}: {'/'.join(_name(stream))}"
        if not len(certain) <= count <= len(lost):
            found.violations.append(f"{name}: {count} records are reported lost, {len(certain)} to {len(lost)} are")
        for one in reported:
            text = _contradiction(one, lost, ledgers[one.boot_id])
            if text:
                found.violations.append(f"{name}: {text}")
    users = [of for partition, of in history.truth.trace.versions.items() if partition.resource == USER_TOPIC]
    expected = sum(version.is_unclean for of in users for version in of)
    committed = sum(1 for one in derivation.losses if one.evidence == "epoch_end")
    if expected != committed:
        found.violations.append(f"seed {history.seed}: {committed} losses of users' records are reported, {expected} happened")


def _was_acked(ledger: Ledger | None, sequence: int) -> bool:
    if ledger is None:
        return False
    try:
        ledger.run_of(sequence)
    except KeyError:
        return False
    return True


def _is_of(readback: ReadBack, stream: Stream) -> bool:
    return (readback.resource, readback.shard, readback.kind, readback.lane) == _name(stream)


def _contradiction(one: Loss, lost: dict[tuple[str, int], Record], ledger: Ledger) -> str | None:
    """What the truth says against a finding; None when it holds."""
    first, last = one.first_sequence or 0, one.last_sequence or 0
    inside = sorted(sequence for boot_id, sequence in lost if boot_id == one.boot_id and first <= sequence <= last)
    if one.verdict == PRESENT and inside:
        return f"{len(inside)} records of {first} to {last} are gone, said to be present"
    if one.verdict == LOST:
        if len(inside) < (one.records.low or 0):
            return f"{one.records.low} records of {first} to {last} are said to be lost, {len(inside)} are"
        span = ledger.issued_us(inside[-1]) - ledger.issued_us(inside[0])
        if one.span.high is not None and span > one.span.high:
            return f"lost records span {span} us, said is at most {one.span.high}"
    return None


# --- words ------------------------------------------------------------------------------------------------------------


def _touched(downs: Iterable[Down], start: Bounds, end: Bounds) -> list[Down]:
    low = start.low if start.low is not None else -NEVER
    high = end.high if end.high is not None else NEVER
    return [down for down in downs if down.begin_us <= high and (down.end_us is None or down.end_us >= low)]


def _shown(start: Bounds, end: Bounds) -> str:
    return f"[{start.low}, {start.high}] to [{end.low}, {end.high}]"


def _told(downs: Iterable[Down]) -> str:
    return ", ".join(f"[{down.begin_us}, {down.end_us}){'' if down.is_long else ' short'}" for down in downs) or "none"


def _name(stream: Stream) -> tuple[str, ...]:
    return stream.resource, stream.shard, stream.kind, stream.lane
