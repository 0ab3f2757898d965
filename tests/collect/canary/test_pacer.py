"""The loop that drives the lanes knows when it was blind."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipelines.brokers.base import Shard
from pipelines.brokers.probing import Flight, Reply
from pipelines.collect.canary import pacer as pacing
from pipelines.collect.canary.journal import Journal, ShardJournal
from pipelines.collect.canary.lane import ProbedLane, Timetable
from pipelines.collect.canary.pacer import Pacer
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Blind, Kind, Outcome, Probes
from pipelines.domain.spans import SpanBuilder
from pipelines.domain.unavailability import longest_runs
from tests.collect.test_spool import landed, spool_in


class Echo:
    """A target that acknowledges at once; at some sequence it does something first."""

    gone: frozenset[str] = frozenset()
    tick_seconds: float | None = None

    def __init__(self, at: int = -1, does: object = None, answers: bool = True) -> None:
        self.at = at
        self.does = does
        self.answers = answers
        self.ticks = 0
        self.issued: list[int] = []

    async def open(self, deadline: float) -> None: ...

    def issue(self, flights: Sequence[Flight]) -> None:
        for flight in flights:
            self.issued.append(flight.sequence)
            flight.sent_ns = time.monotonic_ns()
            if flight.sequence == self.at and callable(self.does):
                self.does()
            if self.answers:
                loop = asyncio.get_running_loop()
                loop.call_soon(lambda one: one.land(Reply(Outcome.ACKED, time.monotonic_ns(), position=one.sequence)), flight)

    def overdue(self, flight: Flight) -> None: ...

    def tick(self) -> None:
        self.ticks += 1

    async def close(self) -> None: ...


def paced(
    directory: Path, target: Echo, *, probes: int, period_us: int = 10_000, stall_us: int = 50_000, lambda_us: int = 200_000
) -> list[object]:
    """Everything that was recorded until so many probes were issued."""
    clock = Anchor.now()
    with spool_in(directory, clock) as spool:  # type: ignore[arg-type]
        journal = Journal(spool)
        times = Timetable(period_us=period_us, lambda_us=lambda_us, late_us=stall_us)
        lane = ProbedLane("write", Kind.WRITE, target, times, clock.at_us)
        shared = {"resource": "t", "shard": "0", "kind": "write", "lane": "raw"}
        spans = SpanBuilder(**shared, period_us=period_us, lambda_us=lambda_us, has_contiguous_positions=True)
        lane.add(Shard("t", "0"), lambda n: (b"%d" % n, None), ShardJournal(journal, spans, shared, (10**7, 10**6), 10**7))
        pacer = Pacer([lane], journal, clock.at_us, stall_us)
        asyncio.run(pacer.run(lambda: len(target.issued) >= probes, spool.flush_if_due))
        lane.close()
    return list(landed(directory))


def outcomes(records: list[object]) -> list[tuple[str, str | None]]:
    return [(one.outcome, one.code) for one in longest_runs(one for one in records if isinstance(one, Probes))]


def test_probes_are_issued_in_time_and_nothing_is_blind(tmp_path: Path) -> None:
    target = Echo()
    began = time.monotonic()
    # On a machine that is busy with something else a pause of a second is still a pause.
    records = paced(tmp_path, target, probes=50, stall_us=5_000_000, lambda_us=9_000_000)

    assert time.monotonic() - began > 0.45
    assert target.issued == list(range(50))
    assert outcomes(records) == [("ACKED", None)]
    assert not [one for one in records if isinstance(one, Blind)]


def test_a_loop_that_did_not_come_round_was_blind(tmp_path: Path) -> None:
    began_us = Anchor.now().now_us()
    records = paced(tmp_path, Echo(at=20, does=lambda: _busy(0.12)), probes=40)

    blinds = [one for one in records if isinstance(one, Blind)]
    longest = max(blinds, key=lambda one: one.ended_at_us - one.started_at_us)
    assert longest.cause == "stall"
    assert longest.ended_at_us - longest.started_at_us > 100_000
    assert longest.started_at_us > began_us


def test_what_was_due_in_a_blind_span_is_void_where_nothing_answered(tmp_path: Path) -> None:
    records = paced(tmp_path, Echo(at=20, does=lambda: _busy(0.5), answers=False), probes=60)

    (blind,) = [one for one in records if isinstance(one, Blind) and one.ended_at_us - one.started_at_us > 400_000]
    found = longest_runs(one for one in records if isinstance(one, Probes))
    inside = [one for one in found if blind.started_at_us < one.started_at_us and one.last_issued_at_us < blind.ended_at_us]
    assert {one.outcome for one in inside} == {"VOID"}
    assert {one.code for one in inside} <= {"NOT_ISSUED", "PROBER_STALLED"}
    sequences = [n for one in found for n in range(one.first_sequence, one.last_sequence + 1)]
    assert sequences == list(range(len(sequences))), "no probe is missing from the record"


def test_a_suspended_host_was_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suspended = iter([0, 0, 3_000_000_000])
    monkeypatch.setattr(pacing, "_suspended_ns", lambda: next(suspended, 3_000_000_000))

    records = paced(tmp_path, Echo(), probes=60, stall_us=5_000_000, lambda_us=9_000_000)

    assert len([one for one in records if isinstance(one, Blind)]) == 1


def test_a_target_that_must_be_asked_is_asked_while_something_is_on_its_way(tmp_path: Path) -> None:
    target = Echo(answers=False)
    target.tick_seconds = 0.005
    paced(tmp_path, target, probes=6, period_us=100_000)

    assert target.ticks > 60


def _busy(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
