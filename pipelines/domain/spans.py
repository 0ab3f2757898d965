"""How are single probes written down as runs without losing anything that a bound needs?

The rule: probes of one partition, kind and lane come in in the order of their issue. Equal neighbours share a run; a run is cut

- when outcome, code, leader, term, `is_answered`, the ISR, the replicas or the topic's identity change,
- when a sequence is missing or the issue is not exactly one period after the one before, so that the issue of every probe in a
  run is known: `started_at_us + (sequence - first_sequence) * period_us`,
- in write lanes, when a position is not the one before plus one, so that the position of every record in a run is known; where
  others are seen to write to the partition, too (several probers share their topics), only after `CROWDED_COUNT_MAX` probes,
- at the first good one issued at or after the earliest or the latest decision of a run of bad ones,
- after an hour.

An outage (design: "the interval of an outage") needs i and r of S, the last good probe that was answered before the first bad
one was issued; of T, the first good one after the last bad one and their earliest decision, or where the outage was short after
their latest decision; and the earliest and the latest decision of the bad ones, which are kept. T is the first of a run, since a
run is cut there. S need not be the last of its run: with answers slower than the period, goods at the end
of a run are still unanswered when the next probe is issued. Such goods are *unsettled*. A run never ends with an unsettled good
unless it is alone: when a run is cut, the goods after its last settled one go out as runs of one probe each, and while it lasts
its open line ends at the last settled one. So every good that can ever be S is the last of its line, and no line shrinks.

Example: period 100, goods issued at 0, 100, 200 and answered at 10, 290, 230; then a bad one issued at 300. All three are
settled, since 230 < 300: one run of three that ends with S = (200, 230). Had the last one been answered at 310, S would be
(100, 290): a run of two, and a run of one for (200, 310).
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from pipelines.domain.observations import Outcome

RUN_US_MAX = 3_600_000_000
"""A run is cut after an hour, so that what was open when a collector died is never more than an hour old."""

CLOCK_WINDOW_US = 5_000_000
CLOCK_DRIFT_US = 2 * CLOCK_WINDOW_US // 10_000
"""Bounds of the leader's clock are what the last one to two such windows of a run prove together: long enough to meet fast
answers, and short enough that two clocks that drift apart by 100 parts in a million do so by a millisecond, which is added."""

MILLISECOND_US = 1000

CROWDED_CUTS = 8
"""After so many runs in a row that only a position ended, somebody else writes to the partition, too."""
CROWDED_COUNT_MAX = 50
"""The probes of a run whose positions are not one after the other. A read-back that begins or ends amid such a run says less of it
(`ledger.Acked.sequences_at`), so it is short; ten probers would otherwise write a line for every probe."""

BAD = frozenset((Outcome.REJECTED, Outcome.UNKNOWN))

Line = dict[str, Any]
"""The fields of one `Probes` (or `LateAcks`) record, without its envelope."""


class Decided(NamedTuple):
    """One probe whose outcome is known. Instants are microseconds; `sent_at_us` is the real issue, where it is known."""

    sequence: int
    issued_at_us: int
    decided_at_us: int
    outcome: str
    code: str | None = None
    is_answered: bool = False
    leader: str | None = None
    term: int | None = None
    isr: tuple[str, ...] | None = None
    replicas: tuple[str, ...] | None = None
    topic_id: str | None = None
    position: int | str | None = None
    sent_at_us: int | None = None
    server_at_us: int | None = None


class LateAck(NamedTuple):
    """One acknowledgement that came after its probe had been decided otherwise."""

    sequence: int
    issued_at_us: int
    decided_at_us: int
    position: int | str | None = None


class SpanBuilder:
    """The runs of one (resource, shard, kind, lane): give it every decided probe in order, write down what it returns.

    `has_contiguous_positions` is true for lanes that write to their partition; that others do, too, is noticed.
    """

    def __init__(
        self,
        *,
        resource: str,
        shard: str,
        kind: str,
        lane: str,
        period_us: int,
        lambda_us: int,
        has_contiguous_positions: bool = False,
    ) -> None:
        self._fixed: Line = {
            "resource": resource,
            "shard": shard,
            "kind": kind,
            "lane": lane,
            "period_us": period_us,
            "lambda_us": lambda_us,
        }
        self._period_us = period_us
        self._has_contiguous_positions = has_contiguous_positions
        self._run: _Run | None = None
        self._unsettled: deque[Decided] = deque()
        self._last: Decided | None = None
        self._asked_for: list[int] = []
        self._cuts_by_position = 0

    @property
    def outcome(self) -> str | None:
        """Outcome of the run that is open now; None before the first probe and after `close()`."""
        return self._last.outcome if self._run is not None and self._last is not None else None

    def add(self, probe: Decided) -> list[Line]:
        """Takes the next probe. Returns lines only where something changed: the runs that ended and the one that began."""
        last, run = self._last, self._run
        if run is None or last is None:
            return [self._begin(probe)]
        if self._continues(run, last, probe):
            if probe.outcome == Outcome.ACKED:
                self._settle(run, probe.issued_at_us)
                self._unsettled.append(probe)
            else:
                run.extend(probe)
            self._last = probe
            return []
        self._note_others(run, last, probe)
        lines = self._end(run, probe.issued_at_us)
        lines.append(self._begin(probe))
        return lines

    @property
    def is_crowded(self) -> bool:
        """Whether others are seen to write to the partition, too."""
        return self._cuts_by_position >= CROWDED_CUTS

    def _note_others(self, run: "_Run", last: Decided, probe: Decided) -> None:
        """Counts the runs that ended because somebody else's record lay between ours; one that was long without that is proof of
        the contrary."""
        count = run.count + len(self._unsettled)
        if not self._has_contiguous_positions or not isinstance(last.position, int) or not isinstance(run.first.position, int):
            return
        if count >= CROWDED_CUTS and last.position - run.first.position == last.sequence - run.first.sequence:
            self._cuts_by_position = 0
        elif isinstance(probe.position, int) and probe.position > last.position + 1 and not self.is_crowded:
            self._cuts_by_position += 1

    def flush(self) -> list[Line]:
        """The open run as far as it is settled, if it has grown since it was last written."""
        run, last = self._run, self._last
        if run is None or last is None:
            return []
        self._settle(run, last.issued_at_us + self._period_us)
        return [self._line(run, is_open=True)] if run.count > run.written_count else []

    def close(self) -> list[Line]:
        """Ends the open run because no probe follows; the builder can be used again after it."""
        run, last = self._run, self._last
        if run is None or last is None:
            return []
        return self._end(run, last.issued_at_us + self._period_us)

    def _continues(self, run: "_Run", last: Decided, probe: Decided) -> bool:
        return (
            probe[3:11] == last[3:11]  # outcome, code, is_answered, leader, term, isr, replicas, topic_id
            and probe.sequence == last.sequence + 1
            and probe.issued_at_us == last.issued_at_us + self._period_us
            and (not self._has_contiguous_positions or self._is_in_place(run, last, probe))
            and probe.issued_at_us - run.first.issued_at_us < RUN_US_MAX
            and not (self._asked_for and self._is_asked_for(probe))
        )

    def _is_in_place(self, run: "_Run", last: Decided, probe: Decided) -> bool:
        if not self.is_crowded:
            return _is_next(last.position, probe.position)
        if isinstance(last.position, int) and isinstance(probe.position, int):
            return probe.position > last.position and run.count + len(self._unsettled) < CROWDED_COUNT_MAX
        return last.position is None and probe.position is None

    def _is_asked_for(self, probe: Decided) -> bool:
        """Whether the probe is the first that was issued at or after a decision of bad ones before it: it may be their T."""
        if probe.outcome != Outcome.ACKED:
            return False
        waiting = [instant for instant in self._asked_for if instant > probe.issued_at_us]
        is_asked_for = len(waiting) < len(self._asked_for)
        self._asked_for = waiting
        return is_asked_for

    def _begin(self, probe: Decided) -> Line:
        # The first probe is in its line at once, settled or not: a line of one probe says all there is to say of it.
        self._run = _Run(probe)
        self._last = probe
        return self._line(self._run, is_open=True)

    def _settle(self, run: "_Run", next_issued_at_us: int) -> None:
        """Moves into the run what ends with the last good that was answered before the next probe's issue."""
        unsettled = self._unsettled
        settled = len(unsettled)
        while settled and unsettled[settled - 1].decided_at_us >= next_issued_at_us:
            settled -= 1
        for _ in range(settled):
            run.extend(unsettled.popleft())

    def _end(self, run: "_Run", next_issued_at_us: int) -> list[Line]:
        self._settle(run, next_issued_at_us)
        if run.first.outcome in BAD:
            decisions = {run.decided_min, run.decided_max}
            self._asked_for += [instant for instant in decisions if instant > next_issued_at_us]
        lines = [self._line(run, is_open=False)]
        lines += [self._line(_Run(probe), is_open=False) for probe in self._unsettled]
        self._unsettled.clear()
        self._run = self._last = None
        return lines

    def _line(self, run: "_Run", *, is_open: bool) -> Line:
        run.written_count = run.count
        return {**self._fixed, **run.fields(), "is_open": is_open}


class _Run:
    """Sums of a run: constant size, however many probes it holds."""

    __slots__ = (
        "clock",
        "count",
        "decided_max",
        "decided_min",
        "delay_max",
        "first",
        "last",
        "latency_max",
        "latency_min",
        "latency_sum",
        "written_count",
    )

    def __init__(self, probe: Decided) -> None:
        decided_at = probe.decided_at_us
        latency = decided_at - probe.issued_at_us
        self.first = self.last = probe
        self.count, self.written_count = 1, 0
        self.decided_min = self.decided_max = decided_at
        self.latency_min = self.latency_max = self.latency_sum = latency
        self.delay_max = None if probe.sent_at_us is None else probe.sent_at_us - probe.issued_at_us
        self.clock: _ClockBounds | None = None
        if probe.server_at_us is not None and probe.sent_at_us is not None:
            self.clock = _ClockBounds(probe.issued_at_us, *_clock_offset(probe.sent_at_us, probe.server_at_us, decided_at))

    def extend(self, probe: Decided) -> None:
        """Adds the probe that follows. Called for every probe, so it does no more than it must."""
        self.last = probe
        self.count += 1
        decided = probe.decided_at_us
        latency = decided - probe.issued_at_us
        self.latency_sum += latency
        if decided > self.decided_max:
            self.decided_max = decided
        elif decided < self.decided_min:
            self.decided_min = decided
        if latency > self.latency_max:
            self.latency_max = latency
        elif latency < self.latency_min:
            self.latency_min = latency
        if probe.sent_at_us is None:
            return
        delay = probe.sent_at_us - probe.issued_at_us
        if self.delay_max is None or delay > self.delay_max:
            self.delay_max = delay
        if probe.server_at_us is not None:
            low, high = _clock_offset(probe.sent_at_us, probe.server_at_us, decided)
            if self.clock is None:
                self.clock = _ClockBounds(probe.issued_at_us, low, high)
            else:
                self.clock.extend(probe.issued_at_us, low, high)

    def fields(self) -> Line:
        """The run as fields of a `Probes` record."""
        first, last = self.first, self.last
        is_acked = first.outcome == Outcome.ACKED
        clock_min, clock_max = (None, None) if self.clock is None else self.clock.bounds()
        return {
            "outcome": str(first.outcome),
            "code": first.code,
            "is_answered": first.is_answered,
            "count": self.count,
            "first_sequence": first.sequence,
            "last_sequence": last.sequence,
            "started_at_us": first.issued_at_us,
            "last_issued_at_us": last.issued_at_us,
            "first_decided_at_us": first.decided_at_us,
            "last_decided_at_us": last.decided_at_us,
            "earliest_decided_at_us": self.decided_min,
            "ended_at_us": self.decided_max,
            "latency_us_min": self.latency_min if is_acked else None,
            "latency_us_max": self.latency_max if is_acked else None,
            "latency_us_mean": self.latency_sum // self.count if is_acked else None,
            "issue_delay_us_max": self.delay_max,
            "first_position": None if first.position is None else str(first.position),
            "last_position": None if last.position is None else str(last.position),
            "term": first.term,
            "leader": first.leader,
            "isr": first.isr,
            "replicas": first.replicas,
            "topic_id": first.topic_id,
            "first_server_at_us": first.server_at_us,
            "last_server_at_us": last.server_at_us,
            "clock_offset_us_min": clock_min,
            "clock_offset_us_max": clock_max,
        }


class _ClockBounds:
    """The leader's clock minus ours: each acknowledgement that carries the leader's time of append bounds it."""

    __slots__ = ("high", "low", "previous_high", "previous_low", "window")

    def __init__(self, at_us: int, low: int, high: int) -> None:
        self.previous_low: int | None = None
        self.previous_high: int | None = None
        self.window, self.low, self.high = at_us, low, high

    def extend(self, at_us: int, low: int, high: int) -> None:
        if at_us - self.window >= CLOCK_WINDOW_US:
            self.previous_low, self.previous_high = self.low, self.high
            self.window, self.low, self.high = at_us, low, high
            return
        both_low, both_high = max(low, self.low), min(high, self.high)
        if both_low > both_high:
            # The two cannot both be true of one offset: the leader's clock was stepped. What was proven before is void.
            self.previous_low = self.previous_high = None
            self.window, self.low, self.high = at_us, low, high
        else:
            self.low, self.high = both_low, both_high

    def bounds(self) -> tuple[int, int]:
        low, high = self.low, self.high
        if self.previous_low is not None and self.previous_high is not None:
            both = max(low, self.previous_low), min(high, self.previous_high)
            low, high = both if both[0] <= both[1] else (low, high)
        return low - CLOCK_DRIFT_US, high + CLOCK_DRIFT_US


def late_runs(acks: Iterable[LateAck]) -> list[Line]:
    """Late acknowledgements of one partition and lane as runs: sequence (and position, where known) rise by one within a run."""
    runs: list[list[LateAck]] = []
    for ack in sorted(acks):
        last = runs[-1][-1] if runs else None
        if last is not None and ack.sequence == last.sequence + 1 and _is_next(last.position, ack.position):
            runs[-1].append(ack)
        else:
            runs.append([ack])
    return [
        {
            "count": len(run),
            "first_sequence": run[0].sequence,
            "last_sequence": run[-1].sequence,
            "first_position": None if run[0].position is None else str(run[0].position),
            "last_position": None if run[-1].position is None else str(run[-1].position),
            "started_at_us": run[0].issued_at_us,
            "last_issued_at_us": run[-1].issued_at_us,
            "first_decided_at_us": min(ack.decided_at_us for ack in run),
            "ended_at_us": max(ack.decided_at_us for ack in run),
        }
        for run in runs
    ]


def _is_next(position: int | str | None, following: int | str | None) -> bool:
    """Whether a position is the one after another; positions that are not numbers have no such order."""
    if isinstance(position, int) and isinstance(following, int):
        return following == position + 1
    return position is None and following is None


def _clock_offset(sent_at_us: int, server_at_us: int, decided_at_us: int) -> tuple[int, int]:
    """The append lay between our send and our receipt, and its stamp is cut to milliseconds."""
    return server_at_us - decided_at_us, server_at_us + MILLISECOND_US - 1 - sent_at_us
