"""When is each probe of a lane issued, and what does what came back mean?

The rule is open loop: probe n of a partition is meant for t0 + phase + n * period, whatever became of the ones before. It is issued
late rather than not at all, and its latency counts from the intended instant. Where the lane has fallen back by a quarter of
lambda, though, all that is due by then is given up as void (NOT_ISSUED): a prober that tries to catch up with everything is late
for ever. A probe is decided at its answer, or at its issue + lambda, whichever comes first:

- ACKED: acknowledged within lambda;
- as its target says (REJECTED, UNKNOWN, VOID) when that comes within lambda;
- UNKNOWN when nothing came within lambda, with what it was waiting for as the code;
- VOID instead of anything but ACKED when it has an excuse: a quota held it up, or the prober was stalled at the instant of its
  issue or at its issue + lambda.

A stall between these two does no harm: the probe went out in time, and whatever came back meanwhile is looked at before its time
is up. At the issue a stall takes time away from the service, at the end it hides an answer that came in time.

An acknowledgement that comes after the decision is a late one. Decisions are given on in the order of issue, so a slow probe holds
back the faster ones behind it for lambda at most.

Example, period 100 ms, lambda 1 s: a probe meant for 0 and answered at 1.2 s was decided at 1.0 s as UNKNOWN (TIMED_OUT), and is a late
acknowledgement at 1.2 s.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from pipelines.brokers.base import Shard
from pipelines.brokers.probing import Flight, Reply, Target
from pipelines.collect.canary.journal import ShardJournal
from pipelines.domain.observations import Kind, Outcome
from pipelines.domain.spans import Decided, LateAck

NOT_ISSUED = "NOT_ISSUED"
STALLED = "PROBER_STALLED"
SPOOL_FULL = "SPOOL_FULL"
BURST_NS = 5_000_000
"""How long probes are issued without a look at the answers, when many are due at once."""

Letter = Callable[[int], tuple[bytes, int | str | None]]
"""Sequence to what the probe carries: the bytes to write, or the bytes to read and their position."""
OnReply = Callable[[Flight, Reply], None]
"""Hears of each reply, late ones too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When probes are due. With `is_staggered` the partitions are spread over the period, else all are due at once; the lane begins
    `delay_us` after the others. A probe that is issued more than `late_us` late has an excuse."""

    period_us: int
    lambda_us: int
    late_us: int
    is_staggered: bool = True
    delay_us: int = 0


class ProbedLane:
    """One lane: its partitions, its target and its timetable. All instants are `time.monotonic_ns()`; `at_us` puts them on the
    shared clock."""

    def __init__(self, name: str, kind: Kind, target: Target, times: Timetable, at_us: Callable[[int], int]) -> None:
        self.name = name
        self.kind = kind
        self.target = target
        self.times = times
        self.at_us = at_us
        self.lambda_ns = times.lambda_us * 1000
        self.is_closed = False
        self.void_codes: Counter[str] = Counter()
        self.lateness_ns_max = 0
        self.check_stall: Callable[[int], None] = lambda _: None
        self._period_ns = times.period_us * 1000
        self._late_ns = times.late_us * 1000
        self._tracks: list[Track] = []
        self._outstanding: deque[tuple[Track, Flight]] = deque()
        self._blind_until_ns = 0
        self._skip_until_ns = 0
        self._slot = 0
        self._start_ns = 0
        self._next_ns = 0

    def add(self, shard: Shard, letter: Letter, shard_journal: ShardJournal, on_reply: OnReply | None = None) -> None:
        """One more partition; before `start`."""
        self._tracks.append(Track(self, shard, letter, shard_journal, on_reply))

    def start(self, start_ns: int) -> None:
        """The timetable begins at `start_ns`."""
        self._start_ns = self._next_ns = start_ns + self.times.delay_us * 1000

    def next_ns(self) -> int | None:
        """When there is something to do next; None when there is nothing to probe."""
        if not self._tracks:
            return None
        if not self._outstanding:
            return self._next_ns
        deadline_ns = self._outstanding[0][1].issued_ns + self.lambda_ns
        return min(self._next_ns, deadline_ns)

    @property
    def is_waiting(self) -> bool:
        """Some probe is on its way."""
        return bool(self._outstanding)

    def issue_due(self, now_ns: int, is_full: bool) -> None:
        """Issues what is due, but not for longer than BURST_NS: answers must be looked at, too."""
        flights = []
        while self._tracks and self._next_ns <= now_ns and time.monotonic_ns() - now_ns < BURST_NS:
            track, intended_ns = self._tracks[self._slot % len(self._tracks)], self._next_ns
            self._advance()
            flight = track.begin(intended_ns)
            lateness = now_ns - intended_ns
            if lateness >= self.lambda_ns // 4:
                self._skip_until_ns = now_ns
            if is_full or intended_ns < self._skip_until_ns:
                flight.excuse = SPOOL_FULL if is_full else NOT_ISSUED
                track.give_up(flight)
                continue
            self.lateness_ns_max = max(self.lateness_ns_max, lateness)
            if intended_ns < self._blind_until_ns or lateness > self._late_ns:
                flight.excuse = STALLED
            self._outstanding.append((track, flight))
            flights.append(flight)
        if flights:
            self.target.issue(flights)

    def decide_overdue(self, now_ns: int) -> None:
        """Decides the probes whose time is up."""
        outstanding = self._outstanding
        while outstanding:
            track, flight = outstanding[0]
            if not flight.is_over:
                if flight.issued_ns + self.lambda_ns > now_ns:
                    return
                self.target.overdue(flight)
                track.give_up(flight)
            outstanding.popleft()

    def stalled(self, until_ns: int, *, was_suspended: bool) -> None:
        """The prober was blind until then: what was due or whose time was up meanwhile has an excuse; after a suspension of the
        host, which ends connections, all that was on its way has one."""
        self._blind_until_ns = until_ns
        for _, flight in self._outstanding:
            if flight.issued_ns + self.lambda_ns > until_ns and not was_suspended:
                return
            if not flight.is_over:
                flight.excuse = STALLED

    def flush_if_due(self, now_us: int) -> None:
        """Writes what is to be written by now."""
        for track in self._tracks:
            track.shard_journal.flush_if_due(now_us)

    def close(self) -> None:
        """Writes all that is decided; what is still on its way stays undecided, whatever becomes of it."""
        self.is_closed = True
        for track in self._tracks:
            track.shard_journal.close()

    def _advance(self) -> None:
        self._slot += 1
        turn, place = divmod(self._slot, len(self._tracks))
        phase = self._period_ns * place // len(self._tracks) // 1000 * 1000 if self.times.is_staggered else 0
        self._next_ns = self._start_ns + turn * self._period_ns + phase


class Track:
    """One partition of a lane: the order of its probes."""

    def __init__(self, lane: ProbedLane, shard: Shard, letter: Letter, shard_journal: ShardJournal, on_reply: OnReply | None) -> None:
        self.shard = shard
        self.shard_journal = shard_journal
        self._lane = lane
        self._letter = letter
        self._on_reply = on_reply
        self._sequence = 0
        self._flights: deque[Flight] = deque()

    def begin(self, intended_ns: int) -> Flight:
        """The next probe."""
        payload, position = self._letter(self._sequence)
        flight = Flight(self.shard, self._sequence, intended_ns, payload, self._landed, position)
        self._sequence += 1
        self._flights.append(flight)
        return flight

    def give_up(self, flight: Flight) -> None:
        """Decides a probe whose time is up."""
        self._decide(flight, Reply(Outcome.UNKNOWN, flight.issued_ns + self._lane.lambda_ns, flight.waits_for))

    def _landed(self, flight: Flight, reply: Reply) -> None:
        lane = self._lane
        if lane.is_closed:
            return
        lane.check_stall(reply.at_ns)
        is_late = flight.is_over or reply.at_ns - flight.issued_ns > lane.lambda_ns
        if is_late and not flight.is_over:
            self.give_up(flight)
        if self._on_reply is not None:
            self._on_reply(flight, reply)
        if is_late and reply.outcome is Outcome.ACKED and lane.kind is not Kind.READ:
            self._acknowledged_late(flight, reply)
        if not is_late:
            self._decide(flight, reply)

    def _acknowledged_late(self, flight: Flight, reply: Reply) -> None:
        at_us = self._lane.at_us
        self.shard_journal.acknowledged_late(LateAck(flight.sequence, at_us(flight.issued_ns), at_us(reply.at_ns), reply.position))

    def _decide(self, flight: Flight, reply: Reply) -> None:
        outcome, at_ns, code, is_answered, position, server_at_us = reply
        if outcome is not Outcome.ACKED and flight.excuse is not None:
            outcome, code, is_answered = Outcome.VOID, flight.excuse, False
        if outcome is Outcome.VOID and code is not None:
            self._lane.void_codes[code] += 1
        at_us = self._lane.at_us
        flight.is_over = True
        flight.verdict = Decided(
            flight.sequence,
            at_us(flight.issued_ns),
            at_us(at_ns),
            outcome,
            code,
            is_answered,
            flight.leader,
            flight.term,
            None,
            None,
            flight.topic_id,
            position,
            None if flight.sent_ns is None else at_us(flight.sent_ns),
            server_at_us,
        )
        flights = self._flights
        while flights and (verdict := flights[0].verdict) is not None:
            flights.popleft()
            self.shard_journal.decided(verdict)
