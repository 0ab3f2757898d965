"""What becomes of a probe of the simulated cluster?

The rule: a probe is issued on its grid; what becomes of it follows from the mode of its partition at its arrival (`service`), and
from what happens while it waits. It is decided at its answer, at the latest at issue + lambda; it is void when the prober stalled
meanwhile. Where a leader's append times are acknowledged they are those of the leader's own clock.

Example: a write that arrives at a hung broker waits in its socket. Back within lambda: acknowledged. Later: UNKNOWN, and a late
acknowledgement, if the client still listens. Replaced meanwhile: acknowledged by a leader whose log is thrown away.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pipelines.brokers.simulated.cluster import Trace
from pipelines.brokers.simulated.logs import Record
from pipelines.brokers.simulated.observers import Boot, Observer
from pipelines.brokers.simulated.scenario import Scenario
from pipelines.brokers.simulated.service import (
    AWAITING_ISR,
    CUT,
    IN_SOCKET,
    QUEUED,
    REFUSED,
    SERVED,
    UNREACHABLE,
    Mode,
    Segment,
    Service,
)
from pipelines.domain.observations import Kind, Lane, Outcome
from pipelines.domain.spans import Decided

NEVER = 2**62


@dataclass(slots=True)
class Result:
    """What became of one probe."""

    outcome: str
    decided_us: int
    code: str | None = None
    is_answered: bool = False
    leader: str | None = None
    term: int | None = None
    record: Record | None = None
    late_us: int | None = None
    in_vain_us: int | None = None


@dataclass(slots=True)
class Probing:
    """One lane of one partition, probed by one observer. What `writes` to a log knows its positions when the log has been played."""

    scenario: Scenario
    trace: Trace
    service: Service
    observer: Observer
    kind: str
    lane: str
    rng: random.Random
    append_time: Callable[[str, int], int] | None = None
    writes: bool = False
    decided: list[tuple[Boot, list[Decided]]] = field(default_factory=list)
    appended: list[Record] = field(default_factory=list)
    late: list[tuple[Record, int, int]] = field(default_factory=list)
    in_vain: list[tuple[Record, int]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    _index: int = 0
    _arrived: int = 0
    _boot_id: str = ""
    _sequence: int = 0
    _term: int = 0
    _topic_id: str | None = None

    @property
    def period_us(self) -> int:
        """The time between probes of this lane."""
        return self.scenario.watch_period_us if self.lane == Lane.WATCH else self.scenario.period_us

    @property
    def lambda_us(self) -> int:
        """The latency up to which this lane counts as served."""
        return self.scenario.watch_lambda_us if self.lane == Lane.WATCH else self.scenario.lambda_us

    def run(self) -> None:
        """Probes until the end of the history."""
        self.segments = self.service.segments(self.observer.prober_id, self.kind)
        phase = self.rng.randrange(self.period_us)
        for boot in self.observer.boots:
            self._boot_id = boot.boot_id
            self.decided.append((boot, list(self._decided(boot, phase))))

    # --- probing ------------------------------------------------------------------------------------------------------

    def _decided(self, boot: Boot, phase: int) -> Iterator[Decided]:
        stalls = list(self.observer.stalls)
        random_ = self.rng.random
        latency, spikes = self.scenario.latency_us, self.scenario.spike_ratio
        half, lambda_us = latency // 2, self.lambda_us
        sequence = -1
        for issued in range(boot.begin_us + phase, boot.end_us, self.period_us):
            sequence += 1
            took = half + int(random_() * latency)
            if spikes and random_() < spikes:
                took += int(random_() * lambda_us / 2)
            if stalls:
                while stalls and stalls[0][1] <= issued:
                    stalls.pop(0)
                if stalls and stalls[0][0] <= issued + lambda_us:
                    yield self._around_a_stall(boot, sequence, issued, took, stalls[0])
                    continue
            yield self._calm(sequence, issued, took) or self._told(boot, sequence, issued, self._result(sequence, issued, took))

    def _around_a_stall(self, boot: Boot, sequence: int, issued: int, took: int, stall: tuple[int, int]) -> Decided:
        """A probe is void when the prober stood still at some time before it was decided."""
        if stall[0] <= issued:
            return Decided(sequence, issued, stall[1], Outcome.VOID, "STALLED")
        result = self._result(sequence, issued, took)
        if stall[0] <= result.decided_us:
            return Decided(sequence, issued, stall[1], Outcome.VOID, "STALLED")
        return self._told(boot, sequence, issued, result)

    def _calm(self, sequence: int, issued: int, took: int) -> Decided | None:
        """The usual case, made short: served, and nothing changes while the probe is under way."""
        segment = self.segments[self._index]
        arrived = max(issued + took // 2, self._arrived)
        decided = arrived + took - took // 2 + (self.scenario.replication_us if self.kind == Kind.DURABLE_WRITE else 0)
        is_last = self._index + 1 == len(self.segments)
        until = NEVER if is_last else self.segments[self._index + 1].begin_us
        if segment.mode.what != SERVED or until <= decided or self.lane == Lane.WATCH or decided > issued + self.lambda_us:
            return None
        self._arrived = arrived
        self._sequence = sequence
        self._term, self._topic_id = segment.term, segment.topic_id
        record = self._append(arrived)
        if record is None:
            term, topic = self._term, self._topic_id
            return Decided(sequence, issued, decided, Outcome.ACKED, None, False, segment.mode.broker, term, None, None, topic)
        return self._acked(sequence, issued, decided, segment.mode.broker, record)

    def _acked(self, sequence: int, issued: int, decided: int, leader: str | None, record: Record) -> Decided:
        """An acknowledged record. Its position, which the log will give it, is for now its number among those of this lane."""
        sent, stamp = None, None
        if self.append_time is not None and leader is not None:
            sent, stamp = issued + (record.appended_us - issued) // 4, self.append_time(leader, record.appended_us)
        term, number = self._term, record.number
        return Decided(
            sequence, issued, decided, Outcome.ACKED, None, False, leader, term, None, None, self._topic_id, number, sent, stamp
        )

    def _result(self, sequence: int, issued: int, took: int) -> Result:
        self._sequence = sequence
        return self._arrives(issued, issued + took // 2, took - took // 2)

    def _take(self, boot: Boot, issued: int, result: Result) -> None:
        """Takes note of late acknowledgements, as far as the prober lives to see them."""
        deaf_from = self._deaf_from(boot)
        if result.record is not None and result.late_us is not None and result.late_us < deaf_from:
            self.late.append((result.record, issued, result.late_us))
        if result.in_vain_us is not None and result.in_vain_us < deaf_from:
            self.in_vain.append((Record(boot.boot_id, self._sequence, result.in_vain_us), issued))

    def _deaf_from(self, boot: Boot) -> int:
        stalls = [begin for begin, _ in self.observer.stalls if begin > boot.begin_us]
        return min([boot.end_us, *stalls]) if self.scenario.hears_late else 0

    def _told(self, boot: Boot, sequence: int, issued: int, result: Result) -> Decided:
        if result.late_us is not None or result.in_vain_us is not None:
            self._take(boot, issued, result)
        if result.record is not None and result.outcome == Outcome.ACKED:
            return self._acked(sequence, issued, result.decided_us, result.leader, result.record)
        term: int | None = self._term
        isr, replicas = None, None
        if self.lane == Lane.WATCH:
            partition = self.service.partition
            told = self.trace.known_by(self.trace.told[self.observer.prober_id], partition, issued)
            term, isr, replicas = result.term, told.isr, self.trace.replicas[partition]
        return Decided(
            sequence,
            issued,
            result.decided_us,
            result.outcome,
            result.code,
            result.is_answered,
            result.leader,
            term,
            isr,
            replicas,
            self._topic_id,
        )

    def _arrives(self, issued: int, arrived: int, back: int) -> Result:
        """What becomes of a request that reaches the cluster, or would, at an instant."""
        deadline = issued + self.lambda_us
        arrived = self._arrived = max(arrived, self._arrived)  # one connection: nothing overtakes
        segments = self.segments
        index = self._index
        while index + 1 < len(segments) and segments[index + 1].begin_us <= arrived:
            index += 1
        self._index = index
        while segments[index].mode.what == QUEUED:
            # The client keeps it until it knows where to send it, and gives up at the deadline.
            index += 1
            if index == len(segments) or segments[index].begin_us > deadline:
                self._told_of(segments[index - 1])
                return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=segments[index - 1].mode.broker)
            arrived = segments[index].begin_us
        self._told_of(segments[index])  # as the client knows it when it sends
        until = segments[index + 1].begin_us if index + 1 < len(segments) else NEVER
        result = self._at_mode(segments[index].mode, arrived, until, back, deadline)
        if result.outcome == Outcome.ACKED and result.decided_us > deadline:
            result.outcome, result.code, result.late_us = Outcome.UNKNOWN, "_MSG_TIMED_OUT", result.decided_us
        if result.decided_us > deadline:
            result.outcome, result.code, result.decided_us = Outcome.UNKNOWN, "_MSG_TIMED_OUT", deadline
            result.is_answered = False
        return result

    def _at_mode(self, mode: Mode, arrived: int, until: int, back: int, deadline: int) -> Result:
        if mode.what == SERVED:
            return self._served(mode, arrived, until, back, deadline)
        if mode.what == REFUSED:
            return Result(Outcome.REJECTED, arrived + back, mode.code, is_answered=True, leader=mode.broker, term=mode.term)
        if mode.what == UNREACHABLE and self.scenario.dead_is == "refused":
            return Result(Outcome.REJECTED, arrived + back, "_TRANSPORT", leader=mode.broker)
        if mode.what == AWAITING_ISR:
            return self._awaits(mode, self._append(arrived), arrived, back, deadline)
        if mode.what == IN_SOCKET:
            return self._in_socket(mode, arrived, back, deadline)
        if mode.what == CUT and self._sequence % 2:
            self._append(arrived)  # it arrives; its acknowledgement does not
        return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=mode.broker)

    def _served(self, mode: Mode, arrived: int, until: int, back: int, deadline: int) -> Result:
        record = self._append(arrived)
        if self.kind == Kind.DURABLE_WRITE:
            committed = arrived + self.scenario.replication_us
            following = self.segments[self._index + 1].mode if until < NEVER else mode
            if until <= committed and following.what != SERVED:
                return self._awaits(mode, record, until - 1, back, deadline)
            return Result(Outcome.ACKED, committed + back, leader=mode.broker, term=mode.term, record=record)
        if until <= arrived + back and self._is_stopped(mode, until):
            # The acknowledgement is lost with the broker that gave it.
            return self._reset(mode, until, back, deadline)
        return Result(Outcome.ACKED, arrived + back, leader=mode.broker, term=mode.term, record=record)

    def _awaits(self, mode: Mode, record: Record | None, since: int, back: int, deadline: int) -> Result:
        """Stored, and waiting for the ISR to have it, for as long as its broker leads."""
        changes = self.service.broker_changes(str(mode.broker), self.kind, since)
        for index, (instant, now) in enumerate(changes):
            if now.what == SERVED and now.term == mode.term:
                committed = instant + self.scenario.replication_us
                if index + 1 == len(changes) or changes[index + 1][0] > committed or changes[index + 1][1] == now:
                    return Result(Outcome.ACKED, committed + back, leader=mode.broker, term=mode.term, record=record)
            elif now.what == REFUSED:
                return Result(Outcome.REJECTED, instant + back, now.code, is_answered=True, leader=mode.broker, term=now.term)
            elif now.what != AWAITING_ISR:
                return self._reset(mode, instant, back, deadline)
        return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=mode.broker)

    def _in_socket(self, mode: Mode, since: int, back: int, deadline: int) -> Result:
        """In the socket of a broker that is hung: handled when it comes back, if it does."""
        partition = self.service.partition
        for instant, now in self.service.broker_changes(str(mode.broker), self.kind, since):
            if now.what == IN_SOCKET:
                continue
            if now.what == REFUSED:
                return Result(Outcome.REJECTED, instant + back, now.code, is_answered=True, leader=mode.broker, term=now.term)
            if now.what in (SERVED, AWAITING_ISR):
                if self.trace.current(partition, instant).leader != mode.broker:
                    # It does not know yet that it was replaced: what it stores is thrown away.
                    in_vain = instant + back if self.kind == Kind.WRITE and now.what == SERVED else None
                    return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=mode.broker, in_vain_us=in_vain)
                record = self._append(instant)
                if now.what == AWAITING_ISR:
                    return self._awaits(now, record, instant, back, deadline)
                slow = self.scenario.replication_us if self.kind == Kind.DURABLE_WRITE else 0
                return Result(Outcome.ACKED, instant + slow + back, leader=mode.broker, term=now.term, record=record)
            return self._reset(mode, instant, back, deadline)
        return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=mode.broker)

    def _reset(self, mode: Mode, instant: int, back: int, deadline: int) -> Result:
        """The broker stopped with the request in its hands: the client sees the connection break, or nothing."""
        if self.scenario.dead_is == "silent":
            return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=mode.broker)
        return Result(Outcome.REJECTED, instant + back, "_TRANSPORT", leader=mode.broker)

    def _is_stopped(self, mode: Mode, instant: int) -> bool:
        return self.service.broker_mode(str(mode.broker), self.kind, instant).what not in (SERVED, REFUSED, AWAITING_ISR)

    def _told_of(self, segment: Segment) -> None:
        self._term, self._topic_id = segment.term, segment.topic_id

    def _append(self, at_us: int) -> Record | None:
        if not self.writes:
            return None
        record = Record(self._boot_id, self._sequence, at_us, number=len(self.appended))
        self.appended.append(record)
        return record
