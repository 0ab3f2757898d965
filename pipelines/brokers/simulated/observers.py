"""What is seen of the simulated cluster, and how is it written down? The canary, the watch, the control plane's reader, the read-back.

The rule: an observer knows nothing but what reaches it. A probe is issued on its grid; what becomes of it follows from the mode of its
partition at its arrival (`service`), and from what happens while it waits. It is decided at its answer, at the latest at issue +
lambda; it is void when the prober stalled meanwhile. Decided probes go through the span builder of the real collectors, which is
flushed at odd moments; a prober that is killed takes with it what was not decided, written or flushed yet.

Example: a write that arrives at a hung broker waits in its socket. Back within lambda: acknowledged. Later: UNKNOWN, and a late
acknowledgement, if the client still listens. Replaced meanwhile: acknowledged by a leader whose log is thrown away.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.brokers.simulated.cluster import CANARY, WATCH, Trace
from pipelines.brokers.simulated.logs import Log, Record
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
from pipelines.domain.facts import Partition
from pipelines.domain.observations import Kind, Lane, Outcome
from pipelines.domain.spans import Decided, LateAck, Line, SpanBuilder, late_runs

NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Boot:
    """One run of a prober. One that crashes loses what it had not written."""

    boot_id: str
    begin_us: int
    end_us: int
    is_crash: bool


@dataclass(frozen=True, slots=True)
class Observer:
    """A prober: its runs, and the spans in which it stood still."""

    prober_id: str
    client: str
    boots: tuple[Boot, ...]
    stalls: tuple[tuple[int, int], ...]


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
    """One lane of one partition, probed by one observer; `log` where it writes."""

    scenario: Scenario
    trace: Trace
    service: Service
    observer: Observer
    kind: str
    lane: str
    rng: random.Random
    log: Log | None = None
    lines: list[tuple[str, Line]] = field(default_factory=list)
    late: dict[str, list[LateAck]] = field(default_factory=dict)
    in_vain: list[tuple[str, int, int, int]] = field(default_factory=list)
    readbacks: list[tuple[int, int, int, tuple[Any, ...]]] = field(default_factory=list)
    read_at: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    _index: int = 0
    _arrived: int = 0
    _boot_id: str = ""
    _sequence: int = 0

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
        self.segments = self.service.segments(self.observer.client, self.kind)
        phase = self.rng.randrange(self.period_us)
        for boot in self.observer.boots:
            self._boot_id = boot.boot_id
            self._write(boot, self._decided(boot, phase))
        if self.log is not None:
            self._read_back(self.scenario.end_us)
            self.log.advance(self.scenario.end_us)
            self._end_in_vain()

    # --- writing down -------------------------------------------------------------------------------------------------

    def _write(self, boot: Boot, probes: Iterator[Decided]) -> None:
        partition = self.service.partition
        builder = SpanBuilder(
            resource=partition.resource,
            shard=partition.shard,
            kind=self.kind,
            lane=self.lane,
            period_us=self.period_us,
            lambda_us=self.lambda_us,
            has_contiguous_positions=self.log is not None,
        )
        flush_at = boot.begin_us + self.rng.randint(0, self.scenario.flush_us)
        known_at = 0
        for probe in probes:
            known_at = max(known_at, probe.decided_at_us)
            if boot.is_crash and known_at > boot.end_us:
                return
            while flush_at < known_at:
                self.lines += [(boot.boot_id, line) for line in builder.flush()]
                flush_at += self.rng.randint(1, self.scenario.flush_us)
            self.lines += [(boot.boot_id, line) for line in builder.add(probe)]
        if not boot.is_crash:
            self.lines += [(boot.boot_id, line) for line in builder.close()]

    def late_lines(self) -> Iterator[tuple[str, Line]]:
        """Late acknowledgements as runs, by run of the prober."""
        fixed = {
            "resource": self.service.partition.resource,
            "shard": self.service.partition.shard,
            "kind": self.kind,
            "lane": self.lane,
        }
        for boot_id, acks in self.late.items():
            for line in late_runs(acks):
                yield boot_id, fixed | line

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
        record = self._append(arrived)
        position = None if record is None else record.position
        return Decided(sequence, issued, decided, Outcome.ACKED, None, False, segment.mode.broker, None, None, None, position)

    def _result(self, sequence: int, issued: int, took: int) -> Result:
        self._sequence = sequence
        return self._arrives(issued, issued + took // 2, took - took // 2)

    def _take(self, boot: Boot, issued: int, result: Result) -> None:
        """Takes note of late acknowledgements, as far as the prober lives to see them."""
        deaf_from = self._deaf_from(boot)
        if result.record is not None and result.late_us is not None and result.late_us < deaf_from:
            ack = LateAck(self._sequence, issued, result.late_us, result.record.position)
            self.late.setdefault(boot.boot_id, []).append(ack)
        if result.in_vain_us is not None and result.in_vain_us < deaf_from:
            self.in_vain.append((boot.boot_id, self._sequence, issued, result.in_vain_us))

    def _deaf_from(self, boot: Boot) -> int:
        stalls = [begin for begin, _ in self.observer.stalls if begin > boot.begin_us]
        return min([boot.end_us, *stalls]) if self.scenario.hears_late else 0

    def _told(self, boot: Boot, sequence: int, issued: int, result: Result) -> Decided:
        if result.late_us is not None or result.in_vain_us is not None:
            self._take(boot, issued, result)
        position = result.record.position if result.record is not None and result.outcome == Outcome.ACKED else None
        term, isr, replicas = None, None, None
        if self.lane == Lane.WATCH:
            partition = self.service.partition
            told = self.trace.known_by(self.trace.told[self.observer.client], partition, issued)
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
            position,
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
                return Result(Outcome.UNKNOWN, deadline, "_MSG_TIMED_OUT", leader=segments[index - 1].mode.broker)
            arrived = segments[index].begin_us
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

    # --- the log ------------------------------------------------------------------------------------------------------

    def _append(self, at_us: int) -> Record | None:
        if self.log is None:
            return None
        if self.read_at and self.read_at[0] <= at_us:
            self._read_back(at_us)
        return self.log.append(self._boot_id, self._sequence, at_us)

    def _read_back(self, up_to_us: int) -> None:
        """The read-backs that are due by an instant."""
        while self.log is not None and self.read_at and self.read_at[0] <= up_to_us:
            at_us = self.read_at.pop(0)
            self.log.advance(at_us)
            if self.rng.random() < 0.1:
                self.log.log_start = max(self.log.log_start, self.rng.randint(0, self.log.end // 4))
            end, runs = self.log.found()
            self.readbacks.append((at_us, self.log.log_start, end, runs))

    def _end_in_vain(self) -> None:
        """Positions in the logs of replaced leaders are known once those logs' ends are."""
        if self.log is not None:
            for boot_id, sequence, issued, late_us in self.in_vain:
                record = self.log.append_in_vain(boot_id, sequence, late_us)
                self.late.setdefault(boot_id, []).append(LateAck(sequence, issued, late_us, record.position))


def observers(scenario: Scenario, client: str, prober_id: str, *, is_disturbed: bool) -> Observer:
    """The prober of a scenario, with its runs and stalls; the undisturbed one runs from begin to end."""
    boots: list[Boot] = []
    begin = 0
    stalls: list[tuple[int, int]] = []
    for fault in _of_prober(scenario) if is_disturbed else ():
        end = fault.at_us + fault.duration_us
        if fault.kind == "stall":
            stalls.append((fault.at_us, end))
        elif fault.at_us > begin:
            boots.append(Boot(f"{prober_id}-{len(boots)}", begin, fault.at_us, fault.kind == "crash"))
            begin = end
    boots.append(Boot(f"{prober_id}-{len(boots)}", begin, scenario.end_us, is_crash=False))
    return Observer(prober_id, client, tuple(boots), tuple(stalls))


def _of_prober(scenario: Scenario) -> Sequence[Any]:
    return sorted((one for one in scenario.faults if one.kind in ("stall", "restart", "crash")), key=lambda one: one.at_us)


def leader_seen(trace: Trace, partition: Partition, rng: random.Random) -> Iterator[Line]:
    """When clients were told of another leader, as the watch sees it."""
    told = trace.told[WATCH]
    for before, (at_us, batch) in enumerate(list(zip(told.times, told.values, strict=True))[1:]):
        old, new = trace.version(partition, told.values[before]), trace.version(partition, batch)
        if old.leader != new.leader:
            yield {
                "resource": partition.resource,
                "shard": partition.shard,
                "leader": new.leader,
                "previous_leader": old.leader,
                "term": new.term,
                "started_at_us": max(told.times[before], at_us - rng.randint(1_000, 200_000)),
                "ended_at_us": at_us,
            }


__all__ = ["CANARY", "Boot", "Observer", "Probing", "leader_seen", "observers"]
