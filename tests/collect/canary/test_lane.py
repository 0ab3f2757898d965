"""Probes are issued on their timetable, decided once, in order, and by the rule."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.brokers.base import Shard
from pipelines.brokers.probing import Flight, Reply
from pipelines.collect.canary.journal import Journal, ShardJournal
from pipelines.collect.canary.lane import BURST_NS, ProbedLane, Timetable
from pipelines.domain.observations import Kind, LateAcks, Outcome, Probes
from pipelines.domain.spans import SpanBuilder
from pipelines.domain.unavailability import longest_runs
from tests.collect.test_spool import HandClock, landed, spool_in

MS = 1_000_000
PERIOD_US, LAMBDA_US = 100_000, 1_000_000


class HandTarget:
    """A target that keeps what it is given."""

    gone: frozenset[str] = frozenset()
    tick_seconds: float | None = None

    def __init__(self) -> None:
        self.flights: list[Flight] = []
        self.overdue_flights: list[Flight] = []

    async def open(self, deadline: float) -> None: ...

    def issue(self, flights: Sequence[Flight]) -> None:
        for flight in flights:
            flight.sent_ns, flight.leader, flight.waits_for = flight.issued_ns, "1", "TIMED_OUT"
        self.flights += flights

    def overdue(self, flight: Flight) -> None:
        self.overdue_flights.append(flight)

    def tick(self) -> None: ...

    async def close(self) -> None: ...


class Bench:
    """One lane over a hand-made target, all instants in milliseconds from its start."""

    def __init__(self, directory: Path, *, shards: int = 1, kind: Kind = Kind.WRITE, **times: Any) -> None:
        self.directory = directory
        self.spool = spool_in(directory, HandClock())
        self.spool.__enter__()
        self.target = HandTarget()
        self.heard: list[Probes] = []
        journal = Journal(self.spool, [self.heard.append])  # type: ignore[list-item]
        table = Timetable(period_us=PERIOD_US, lambda_us=LAMBDA_US, late_us=50_000, **times)
        self.lane = ProbedLane("write", kind, self.target, table, lambda ns: ns // 1000)
        self.replies: list[Reply] = []
        for number in range(shards):
            shared = {"resource": "t", "shard": str(number), "kind": kind.value, "lane": "raw"}
            spans = SpanBuilder(**shared, period_us=PERIOD_US, lambda_us=LAMBDA_US, has_contiguous_positions=True)
            shard_journal = ShardJournal(journal, spans, shared, (10_000_000, 1_000_000), 10_000_000)
            self.lane.add(
                Shard("t", str(number)), lambda n: (b"%d" % n, None), shard_journal, lambda _, reply: self.replies.append(reply)
            )
        self.lane.start(0)

    def at(self, ms: float, *, is_full: bool = False) -> list[Flight]:
        """What a tick at that instant issues."""
        before = len(self.target.flights)
        now = int(ms * MS)
        # The lane looks at the real clock to bound its bursts; here it must not.
        while (due := self.lane.next_ns()) is not None and self.lane._next_ns <= now:
            self.lane.issue_due(now, is_full)
            assert due is not None
        self.lane.decide_overdue(now)
        return self.target.flights[before:]

    def land(self, flight: Flight, ms: float, outcome: Outcome = Outcome.ACKED, code: str | None = None) -> None:
        position = flight.sequence if outcome is Outcome.ACKED else None
        flight.land(Reply(outcome, int(ms * MS), code, is_answered=True, position=position))

    def records(self) -> list[Any]:
        self.lane.close()
        self.spool.close()
        return landed(self.directory)

    def runs(self) -> list[tuple[str, str | None, int, int]]:
        found = longest_runs(one for one in self.records() if isinstance(one, Probes))
        return [(one.outcome, one.code, one.first_sequence, one.last_sequence) for one in found]


@pytest.fixture(autouse=True)
def no_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.collect.canary.lane.BURST_NS", 1 << 62)
    assert BURST_NS < 1 << 62


def test_partitions_are_spread_over_the_period(tmp_path: Path) -> None:
    bench = Bench(tmp_path, shards=4)

    issued = [(flight.shard.shard, flight.issued_ns // MS) for flight in bench.at(210)]

    assert issued == [("0", 0), ("1", 25), ("2", 50), ("3", 75), ("0", 100), ("1", 125), ("2", 150), ("3", 175), ("0", 200)]


def test_without_staggering_all_are_due_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, shards=2, is_staggered=False, delay_us=30_000)

    issued = [(flight.shard.shard, flight.issued_ns // MS) for flight in bench.at(131)]

    assert issued == [("0", 30), ("1", 30), ("0", 130), ("1", 130)]


def test_an_answer_within_lambda_decides(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.land(flight, 1000)

    assert bench.runs() == [("ACKED", None, 0, 0)]


def test_silence_is_unknown_at_lambda_and_the_target_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.at(999.9)
    assert not flight.is_over
    bench.at(1000)

    assert flight.is_over
    assert bench.target.overdue_flights == [flight]
    assert flight.verdict is not None
    assert (flight.verdict.outcome, flight.verdict.code, flight.verdict.decided_at_us) == ("UNKNOWN", "TIMED_OUT", 1_000_000)


def test_an_acknowledgement_after_the_decision_is_a_late_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.at(1000)
    bench.land(flight, 1200)

    records = bench.records()
    (late,) = [one for one in records if isinstance(one, LateAcks)]
    assert (late.first_sequence, late.first_position, late.first_decided_at_us) == (0, "0", 1_200_000)
    assert [one.outcome for one in records if isinstance(one, Probes) and one.first_sequence == 0][-1] == "UNKNOWN"


def test_an_answer_that_is_seen_before_its_time_was_found_to_be_up_is_late_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.land(flight, 1001)

    (late, *_) = [one for one in bench.records() if isinstance(one, LateAcks)]
    assert late.count == 1
    assert bench.target.overdue_flights == []


def test_a_late_refusal_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.at(1000)
    bench.land(flight, 1200, Outcome.REJECTED, "NOT_LEADER_OR_FOLLOWER")

    assert len(bench.replies) == 1, "who keeps committed records hears of late answers, too"
    assert bench.runs()[0] == ("UNKNOWN", "TIMED_OUT", 0, 0)


def test_late_reads_are_not_acknowledged_writes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, kind=Kind.READ)
    (flight,) = bench.at(0)
    bench.land(flight, 1200)

    assert not [one for one in bench.records() if isinstance(one, LateAcks)]


def test_decisions_are_given_on_in_the_order_of_issue(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    slow, fast = bench.at(100)
    bench.land(fast, 103)
    assert bench.heard == []

    bench.land(slow, 700)
    bench.lane.flush_if_due(0)
    assert [(one.first_sequence, one.first_decided_at_us) for one in bench.heard] == [(0, 700_000)]
    assert bench.runs() == [("ACKED", None, 0, 1)]


def test_what_is_due_late_is_issued_late(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    issued = bench.at(249)

    assert [flight.sequence for flight in issued] == [0, 1, 2]
    for flight in issued:
        bench.land(flight, 250)
    assert bench.runs() == [("ACKED", None, 0, 2)]


def test_a_lane_that_fell_back_by_a_quarter_of_lambda_gives_up_what_is_due_and_is_in_time_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert bench.at(351) == []
    (flight,) = bench.at(400)
    bench.land(flight, 401)

    assert bench.runs() == [("VOID", "NOT_ISSUED", 0, 3), ("ACKED", None, 4, 4)]


def test_a_probe_that_was_issued_too_late_is_void_unless_it_was_acknowledged(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    late, punctual = bench.at(100)
    assert (late.excuse, punctual.excuse) == ("PROBER_STALLED", None)
    bench.land(late, 105, Outcome.REJECTED, "NOT_LEADER_OR_FOLLOWER")
    bench.land(punctual, 105, Outcome.REJECTED, "NOT_LEADER_OR_FOLLOWER")

    assert bench.runs() == [("VOID", "PROBER_STALLED", 0, 0), ("REJECTED", "NOT_LEADER_OR_FOLLOWER", 1, 1)]


class TestStalls:
    """Between 500 and 1150 ms the prober was blind."""

    def test_excuse_what_was_due_or_whose_time_was_up(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path)
        before = [flight for ms in range(0, 500, 100) for flight in bench.at(ms)]
        bench.lane.stalled(1150 * MS, was_suspended=False)
        given_up = bench.at(1150)
        after = bench.at(1200)

        assert [flight.excuse for flight in before] == ["PROBER_STALLED", "PROBER_STALLED", None, None, None]
        assert given_up == []
        assert [(flight.sequence, flight.excuse) for flight in after] == [(12, None)]

    def test_excuse_what_was_issued_late_for_it(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path)
        bench.at(0)
        bench.lane.stalled(140 * MS, was_suspended=False)

        assert [(flight.sequence, flight.excuse) for flight in bench.at(140)] == [(1, "PROBER_STALLED")]

    def test_do_not_excuse_what_was_acknowledged_in_time(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path)
        (flight,) = bench.at(0)
        bench.lane.stalled(900 * MS, was_suspended=True)
        assert flight.excuse == "PROBER_STALLED"
        bench.land(flight, 950)

        assert bench.runs() == [("ACKED", None, 0, 0)]

    def test_after_a_suspension_excuse_everything_on_its_way(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path)
        flights = [flight for ms in range(0, 500, 100) for flight in bench.at(ms)]
        bench.lane.stalled(500 * MS, was_suspended=True)

        assert {flight.excuse for flight in flights} == {"PROBER_STALLED"}


def test_while_the_spool_is_full_nothing_is_issued_and_that_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert bench.at(250, is_full=True) == []
    (flight,) = bench.at(300)
    bench.land(flight, 301)

    assert bench.runs() == [("VOID", "SPOOL_FULL", 0, 2), ("ACKED", None, 3, 3)]
    assert bench.lane.void_codes == {"SPOOL_FULL": 3}


def test_after_the_end_nothing_is_decided(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (flight,) = bench.at(0)
    bench.lane.close()
    bench.land(flight, 5, Outcome.UNKNOWN, "_PURGE_INFLIGHT")

    assert bench.runs() == []


def test_observers_get_the_very_records_that_are_spooled(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for flight in bench.at(200):
        bench.land(flight, 201)
    bench.lane.flush_if_due(0)

    records = [one for one in bench.records() if isinstance(one, Probes)]
    assert bench.heard == records
