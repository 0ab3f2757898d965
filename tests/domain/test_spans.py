"""Runs of probes say exactly what the single probes said, as far as any bound of an outage can ask."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.observations import Probes
from pipelines.domain.spans import (
    CLOCK_WINDOW_US,
    CROWDED_COUNT_MAX,
    CROWDED_CUTS,
    RUN_US_MAX,
    Decided,
    LateAck,
    Line,
    SpanBuilder,
    late_runs,
)
from pipelines.domain.unavailability import Outage, longest_runs, outages

PERIOD = 100
LAMBDA = 1000
ENVELOPE = {
    "system": "kafka",
    "cluster_id": "c",
    "collector": "canary",
    "prober_id": "p",
    "boot_id": "b",
    "clock_id": "k",
}


def builder(**changed: Any) -> SpanBuilder:
    given = {"period_us": PERIOD, "lambda_us": LAMBDA, "has_contiguous_positions": True} | changed
    return SpanBuilder(resource="t", shard="0", kind="write", lane="raw", **given)


def good(n: int, latency: int = 5, *, position: int | None = None, **changed: Any) -> Decided:
    issued = n * PERIOD
    return Decided(n, issued, issued + latency, "ACKED", position=n if position is None else position, **changed)


def bad(n: int, latency: int = LAMBDA, outcome: str = "UNKNOWN", code: str | None = "_MSG_TIMED_OUT") -> Decided:
    return Decided(n, n * PERIOD, n * PERIOD + latency, outcome, code)


def written(probes: list[Decided], flush_after: frozenset[int] = frozenset(), **changed: Any) -> list[Line]:
    """Every line that a collector would write for these probes, with a flush after some of them."""
    spans = builder(**changed)
    lines: list[Line] = []
    for index, probe in enumerate(probes):
        lines += spans.add(probe)
        if index in flush_after:
            lines += spans.flush()
    return lines + spans.close()


def kept(lines: list[Line]) -> list[Probes]:
    """What a reader keeps: the longest line of each run."""
    return longest_runs(Probes(**ENVELOPE, seq=seq, **line) for seq, line in enumerate(lines))


@st.composite
def histories(draw: st.DrawFn) -> list[Decided]:
    """Probes of one partition in order of issue, with slow and out-of-order answers, refusals, hangs, blindness, failovers, gaps
    in the numbering, positions that jump and such between which others write."""
    stretches = draw(st.lists(st.tuples(st.sampled_from("AAACUURRV"), st.integers(1, 8), st.integers(0, 2)), min_size=1, max_size=8))
    probes: list[Decided] = []
    sequence, position = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    for kind, length, jump in stretches:
        sequence += draw(st.sampled_from((0, 0, 0, 1, 15)))
        position += jump
        leader = draw(st.sampled_from(("1", "2")))
        for _ in range(length * 2 if kind == "C" else length):
            issued = sequence * PERIOD
            if kind in "AC":
                latency = draw(st.one_of(st.integers(0, 20), st.integers(0, LAMBDA)))
                probes.append(Decided(sequence, issued, issued + latency, "ACKED", leader=leader, position=position))
                position += 1 if kind == "A" else draw(st.integers(1, 3))
            elif kind == "R":
                latency = draw(st.integers(0, LAMBDA - 1))
                code = draw(st.sampled_from(("NOT_LEADER_OR_FOLLOWER", "_TRANSPORT")))
                probes.append(Decided(sequence, issued, issued + latency, "REJECTED", code, code[0] != "_", leader))
            elif kind == "U":
                probes.append(Decided(sequence, issued, issued + LAMBDA, "UNKNOWN", "_MSG_TIMED_OUT", leader=leader))
            else:
                probes.append(Decided(sequence, issued, issued + LAMBDA, "VOID", "STALLED"))
            sequence += 1
    return probes


def bounds(outage: Outage) -> tuple[Any, ...]:
    """What the fold says of an outage. Voids at its end may be counted to it or not: they bound nothing."""
    before, after = outage.before, outage.after
    return (
        outage.first_bad_issued_us,
        outage.last_bad_issued_us,
        outage.earliest_decided_us,
        before and (before.issued_us, before.resolved_us),
        after and after.issued_us,
        outage.pieces,
        outage.bad_probes,
        outage.rejected_probes,
        outage.answered_probes,
    )


def bounds_from_first_principles(probes: list[Decided]) -> list[tuple[Any, ...]]:
    """B1, Bn, min q, S and T of every group of bads that are at most g apart, straight from the definition."""
    bads = [probe for probe in probes if probe.outcome in {"REJECTED", "UNKNOWN"}]
    goods = [probe for probe in probes if probe.outcome == "ACKED"]
    groups: list[list[Decided]] = []
    for probe in bads:
        if groups and probe.issued_at_us - groups[-1][-1].issued_at_us <= PERIOD + LAMBDA:
            groups[-1].append(probe)
        else:
            groups.append([probe])
    found = []
    for group in groups:
        first, last = group[0], group[-1]
        before = [g for g in goods if g.decided_at_us < first.issued_at_us]
        after = [g for g in goods if g.issued_at_us > last.issued_at_us]
        s = max(before, key=lambda g: g.issued_at_us, default=None)
        t = min(after, key=lambda g: g.issued_at_us, default=None)
        found.append(
            (
                first.issued_at_us,
                last.issued_at_us,
                min(probe.decided_at_us for probe in group),
                s and (s.issued_at_us, s.decided_at_us),
                t and (t.issued_at_us, t.decided_at_us),
            )
        )
    return found


def bounds_from_lines(runs: list[Probes]) -> list[tuple[Any, ...]]:
    """The same from runs: of goods only the first and the last are known exactly, of bads the issues and one decision."""
    singles = []
    for run in runs:
        ends = [(run.first_sequence, run.started_at_us, run.first_decided_at_us)]
        if run.count > 1:
            ends.append((run.last_sequence, run.last_issued_at_us, run.last_decided_at_us))
        if run.outcome in {"REJECTED", "UNKNOWN"}:
            ends = [(n, run.started_at_us + n * PERIOD, run.earliest_decided_at_us) for n in range(run.count)]
        singles += [Decided(sequence, issued, decided, run.outcome) for sequence, issued, decided in ends]
    return bounds_from_first_principles(singles)


def the_line_of(probes: list[Decided]) -> dict[str, Any]:
    """The fields that a run of these probes must have, added up plainly."""
    latencies = [probe.decided_at_us - probe.issued_at_us for probe in probes]
    is_acked = probes[0].outcome == "ACKED"
    return {
        "outcome": probes[0].outcome,
        "code": probes[0].code,
        "leader": probes[0].leader,
        "is_answered": probes[0].is_answered,
        "count": len(probes),
        "first_sequence": probes[0].sequence,
        "last_sequence": probes[-1].sequence,
        "started_at_us": probes[0].issued_at_us,
        "last_issued_at_us": probes[-1].issued_at_us,
        "first_decided_at_us": probes[0].decided_at_us,
        "last_decided_at_us": probes[-1].decided_at_us,
        "earliest_decided_at_us": min(probe.decided_at_us for probe in probes),
        "ended_at_us": max(probe.decided_at_us for probe in probes),
        "latency_us_min": min(latencies) if is_acked else None,
        "latency_us_max": max(latencies) if is_acked else None,
        "latency_us_mean": sum(latencies) // len(latencies) if is_acked else None,
        "first_position": str(probes[0].position) if is_acked else None,
        "last_position": str(probes[-1].position) if is_acked else None,
    }


@given(histories(), st.frozensets(st.integers(0, 60)))
def test_the_lines_hold_exactly_the_probes_that_came_in(probes: list[Decided], flush_after: frozenset[int]) -> None:
    by_sequence = {probe.sequence: probe for probe in probes}

    lines = written(probes, flush_after)

    for line in lines:
        inside = [by_sequence[sequence] for sequence in range(line["first_sequence"], line["last_sequence"] + 1)]
        expected = the_line_of(inside)
        assert {name: line[name] for name in expected} == expected
        assert all(p.issued_at_us == line["started_at_us"] + n * PERIOD for n, p in enumerate(inside))
        if line["outcome"] == "ACKED":
            positions = [p.position for p in inside]
            # One or more from record to record; exactly one where the ends say so.
            assert all(later > earlier for earlier, later in pairwise(positions))
            assert (line["first_position"], line["last_position"]) == (str(positions[0]), str(positions[-1]))
    sequences = [s for run in kept(lines) for s in range(run.first_sequence, run.last_sequence + 1)]
    assert sequences == [probe.sequence for probe in probes]


@given(histories(), st.frozensets(st.integers(0, 60)))
def test_a_run_only_ever_grows_and_its_last_line_is_closed(probes: list[Decided], flush_after: frozenset[int]) -> None:
    ends: dict[int, Line] = {}
    for line in written(probes, flush_after):
        before = ends.get(line["first_sequence"])
        assert before is None or (before["is_open"] and before["last_sequence"] <= line["last_sequence"])
        ends[line["first_sequence"]] = line
    assert not any(line["is_open"] for line in ends.values())


@given(histories(), st.frozensets(st.integers(0, 60)))
def test_every_bound_of_an_outage_is_the_same_from_runs_as_from_single_probes(
    probes: list[Decided], flush_after: frozenset[int]
) -> None:
    assert bounds_from_lines(kept(written(probes, flush_after))) == bounds_from_first_principles(probes)


@given(histories(), st.frozensets(st.integers(0, 60)))
def test_the_outage_fold_says_the_same_of_runs_as_of_single_probes(probes: list[Decided], flush_after: frozenset[int]) -> None:
    of_runs = list(outages(kept(written(probes, flush_after))))
    of_singles = list(outages(kept([line for probe in probes for line in written([probe])])))

    assert [bounds(o) for o in of_runs] == [bounds(o) for o in of_singles]
    for one, other in zip(of_runs, of_singles, strict=True):
        # T at a run's begin, as after every long outage, is known exactly; within a run, to the run's longest latency.
        assert one.end.high is None or (other.end.high or 0) <= one.end.high <= (other.end.high or 0) + LAMBDA


@given(st.integers(1, 400), st.integers(1, 50), st.integers(0, 99))
def test_a_healthy_partition_costs_one_line_a_flush(count: int, every: int, latency: int) -> None:
    flushes = frozenset(range(every - 1, count, every))

    lines = written([good(n, latency) for n in range(count)], flushes)

    assert len(lines) <= 1 + len(flushes) + 1  # it begins, it is flushed, it ends
    assert len(kept(lines)) == 1


def test_a_flush_without_news_writes_nothing() -> None:
    spans = builder()
    spans.add(good(0))
    spans.add(good(1))

    assert len(spans.flush()) == 1
    assert spans.flush() == []


def test_a_good_that_was_unanswered_at_the_first_bad_one_is_a_run_of_its_own() -> None:
    """The worked example of the module."""
    probes = [good(0, 10), good(1, 190), good(2, 110), bad(3)]

    runs = kept(written(probes))

    assert [(run.outcome, run.first_sequence, run.last_sequence) for run in runs] == [
        ("ACKED", 0, 1),
        ("ACKED", 2, 2),
        ("UNKNOWN", 3, 3),
    ]


def test_an_open_line_ends_at_the_last_good_that_was_answered_before_the_next_issue() -> None:
    spans = builder()
    for probe in (good(0, 10), good(1, 10), good(2, 350), good(3, 350)):
        spans.add(probe)

    (line,) = spans.flush()

    assert (line["last_sequence"], line["is_open"]) == (1, True)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (good(1)._replace(leader="2"), "another leader"),
        (good(1)._replace(term=5), "another epoch"),
        (good(1)._replace(isr=("1",)), "another ISR"),
        (good(1)._replace(sequence=2), "a missing sequence"),
        (good(1)._replace(issued_at_us=101), "an issue off the grid"),
        (good(1, position=2), "a position that is not the next"),
        (good(1, position=0), "a position again: the log was cut back"),
        (bad(1), "another outcome"),
    ],
)
def test_a_run_is_cut_by(second: Decided, why: str) -> None:
    assert len(kept(written([good(0), second]))) == 2, why


def test_positions_that_others_write_between_do_not_cut_a_run_where_none_was_promised() -> None:
    probes = [good(0), good(1, position=9)]

    assert len(kept(written(probes, has_contiguous_positions=False))) == 1


def crowded(first: int, count: int, position: int, others: int = 1) -> list[Decided]:
    """Probes between whose records others write."""
    return [good(first + n, position=position + n * (1 + others)) for n in range(count)]


def test_where_others_write_to_the_partition_too_not_every_probe_is_a_line() -> None:
    runs = kept(written(crowded(0, 8 + 3 * CROWDED_COUNT_MAX + 10, 0)))

    assert [run.count for run in runs] == [1] * CROWDED_CUTS + [CROWDED_COUNT_MAX] * 3 + [10]
    assert [run.last_position for run in runs[-2:]] == ["314", "334"]


def test_when_the_others_are_gone_every_position_is_known_again() -> None:
    alone = [good(100 + n, position=1000 + n) for n in range(2 * CROWDED_COUNT_MAX)]
    jump = [good(100 + 2 * CROWDED_COUNT_MAX, position=5000)]

    runs = kept(written([*crowded(0, 100, 0), *alone, *jump]))

    # The one that began amid the others, the first without them, the rest; and a jump ends a run again.
    assert [run.count for run in runs[-4:]] == [50, 50, 42, 1]


def test_a_log_that_was_cut_back_ends_a_run_however_many_write_to_it() -> None:
    runs = kept(written([*crowded(0, 20, 100), good(20, position=50)]))

    assert runs[-1].first_position == "50"


def test_a_run_is_cut_after_an_hour() -> None:
    minute = 60_000_000
    probes = [Decided(n, n * minute, n * minute + 5, "ACKED") for n in range(90)]

    runs = kept(written(probes, period_us=minute, has_contiguous_positions=False))

    assert [run.count for run in runs] == [RUN_US_MAX // minute, 30]


def test_a_closed_builder_begins_anew() -> None:
    spans = builder()
    spans.add(good(0))

    assert [line["is_open"] for line in spans.close()] == [False]
    assert spans.close() == []
    assert [line["first_sequence"] for line in spans.add(good(7))] == [7]


class TestClockBounds:
    """The leader's clock minus ours, from send, append stamp and answer."""

    OFFSET = 7_000

    def acked(self, n: int, sent_after: int, appended_after: int, latency: int, offset: int = OFFSET) -> Decided:
        issued = n * PERIOD
        stamp = (issued + appended_after + offset) // 1000 * 1000
        return good(n, latency)._replace(sent_at_us=issued + sent_after, server_at_us=stamp)

    @given(
        st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(0, 900)).map(sorted), min_size=1, max_size=30),
        st.integers(-5_000_000, 5_000_000),
    )
    def test_hold_the_true_offset(self, instants: list[list[int]], offset: int) -> None:
        probes = [self.acked(n, *times, offset=offset) for n, times in enumerate(instants)]

        for run in kept(written(probes)):
            assert run.clock_offset_us_min is not None
            assert run.clock_offset_us_max is not None
            assert run.clock_offset_us_min <= offset <= run.clock_offset_us_max

    def test_are_those_of_the_last_windows_when_the_clock_was_stepped(self) -> None:
        probes = [self.acked(n, 1, 2, 3) for n in range(5)]
        probes += [self.acked(n, 1, 2, 3, offset=900_000) for n in range(5, 10)]

        (run,) = kept(written(probes))

        assert run.clock_offset_us_min is not None
        assert run.clock_offset_us_max is not None
        assert run.clock_offset_us_min <= 900_000 <= run.clock_offset_us_max

    def test_forget_what_was_proven_long_ago(self) -> None:
        period = CLOCK_WINDOW_US
        probes = [
            Decided(n, n * period, n * period + 40, "ACKED", sent_at_us=n * period, server_at_us=n * period + 1000 * n)
            for n in range(10)
        ]

        (run,) = kept(written(probes, period_us=period, has_contiguous_positions=False))

        assert run.clock_offset_us_min is not None
        assert run.clock_offset_us_max is not None
        assert run.clock_offset_us_min <= 9000 <= run.clock_offset_us_max


def test_late_acknowledgements_are_runs_of_neighbours() -> None:
    acks = [LateAck(4, 400, 1700, 11), LateAck(3, 300, 1650, 10), LateAck(5, 500, 1720, 13), LateAck(9, 900, 2000, None)]

    assert [(run["first_sequence"], run["last_sequence"], run["first_position"]) for run in late_runs(acks)] == [
        (3, 4, "10"),
        (5, 5, "13"),
        (9, 9, None),
    ]
    assert late_runs(acks)[0] == {
        "count": 2,
        "first_sequence": 3,
        "last_sequence": 4,
        "first_position": "10",
        "last_position": "11",
        "started_at_us": 300,
        "last_issued_at_us": 400,
        "first_decided_at_us": 1650,
        "ended_at_us": 1700,
    }
