"""Another host's clock: bounded by stamps between question and answer, stepped by hours, or not known at all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.clock import microseconds
from pipelines.domain.clocks import APPEND_TIME, DRIFT, RESPONSE_TIME, Clocks, placed
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ClockSeen, Control
from pipelines.silver import events

HOUR = 3_600_000_000
SECOND = 1_000_000
ENVELOPE = {"system": "kafka", "cluster_id": "c", "collector": "canary", "prober_id": "p", "boot_id": "b", "clock_id": "k"}


def seen(offset: tuple[int, int], at: tuple[int, int], *, host: str = "2", method: str = APPEND_TIME, clock_id: str = "k") -> ClockSeen:
    return ClockSeen(
        **ENVELOPE | {"clock_id": clock_id},  # type: ignore[arg-type]
        seq=0,
        host=host,
        method=method,
        clock_offset_us_min=offset[0],
        clock_offset_us_max=offset[1],
        started_at_us=at[0],
        ended_at_us=at[1],
    )


def stamped(stamp_us: int, *, seen_us: int, unseen_us: int | None = None, position: str = "5", by: str | None = "2") -> Control:
    return Control(
        **ENVELOPE,  # type: ignore[arg-type]
        seq=0,
        event="broker_fenced",
        source="metadata_fetch",
        started_at_us=stamp_us,
        ended_at_us=stamp_us + 999,
        seen_at_us=seen_us,
        unseen_at_us=unseen_us,
        stamped_by=by,
        position=position,
    )


def at(control: Control, *clocks: ClockSeen) -> tuple[int, int]:
    (one,) = placed([control], Clocks.of([], clocks))
    return one.started_at_us, one.ended_at_us


class TestOffset:
    def test_it_lies_in_what_is_proven_before_and_after(self) -> None:
        clocks = Clocks.of([], [seen((-900, 400), (0, 10 * SECOND)), seen((-100, 700), (20 * SECOND, 30 * SECOND))])

        drift = int(5 * SECOND * DRIFT)
        assert clocks.offset("2", "k", 15 * SECOND) == Bounds(-100 - drift, 400 + drift)
        assert clocks.offset("2", "k", 25 * SECOND) == Bounds(-100, 700)

    def test_what_is_far_away_proves_less_and_after_an_hour_nothing(self) -> None:
        clocks = Clocks.of([], [seen((0, 0), (0, 0))])

        assert clocks.offset("2", "k", 100 * SECOND) == Bounds(-50_000, 50_000)
        assert clocks.offset("2", "k", HOUR + 1) is None

    @pytest.mark.parametrize(("host", "clock_id"), [("1", "k"), ("2", "other")])
    def test_of_another_host_or_by_another_clock_nothing_is_known(self, host: str, clock_id: str) -> None:
        assert Clocks.of([], [seen((0, 0), (0, 0))]).offset(host, clock_id, 0) is None

    def test_the_finer_method_speaks_first(self) -> None:
        clocks = Clocks.of([], [seen((-SECOND, SECOND), (0, 1), method=RESPONSE_TIME), seen((-20, 30), (0, 1))])

        assert clocks.offset("2", "k", 0) == Bounds(-20, 30)

    @pytest.mark.parametrize("by", [2 * HOUR, -2 * HOUR])
    def test_a_step_is_found_between_the_bounds_that_contradict_each_other(self, by: int) -> None:
        clocks = Clocks.of([], [seen((-500, 500), (0, 10 * SECOND)), seen((by - 500, by + 500), (20 * SECOND, 30 * SECOND))])

        (step,) = clocks.steps()
        assert step.by.holds(by)
        assert (step.host, step.begin_us, step.end_us) == ("2", 10 * SECOND, 20 * SECOND)
        assert len(clocks.offsets("2", "k", 15 * SECOND)) == 2

    def test_a_clock_that_is_slewed_is_not_stepped(self) -> None:
        clocks = Clocks.of([], [seen((0, 100), (0, 0)), seen((4_000, 4_100), (10 * SECOND, 10 * SECOND))])

        assert list(clocks.steps()) == []


class TestUsed:
    """Which bound placed an event, and which lines say so."""

    def test_only_the_lines_that_give_an_end_are_named(self) -> None:
        wide = replace(seen((-900, 400), (0, 10 * SECOND)), seq=1)
        low, none = (
            replace(seen(offset, (20 * SECOND, 30 * SECOND)), seq=seq) for offset, seq in (((-100, 700), 2), ((-9_000, 9_000), 3))
        )

        both = Clocks.of([], [wide, low]).used("2", "k", 15 * SECOND)
        assert both is not None
        assert (both.method, both.lines) == (APPEND_TIME, ("p / b / 1", "p / b / 2"))
        assert both.offset == Clocks.of([], [wide, low]).offset("2", "k", 15 * SECOND)
        one = Clocks.of([], [wide, none]).used("2", "k", 15 * SECOND)
        assert one is not None
        assert one.lines == ("p / b / 1",)

    def test_the_finer_method_is_the_one_that_was_used(self) -> None:
        fine, coarse = seen((-20, 30), (0, 1)), replace(seen((-SECOND, SECOND), (0, 1), method=RESPONSE_TIME), seq=7)
        used = Clocks.of([], [coarse, fine]).used("2", "k", 0)
        assert used is not None
        assert (used.method, used.lines) == (APPEND_TIME, ("p / b / 0",))
        assert Clocks.of([], [fine]).used("2", "k", 2 * HOUR) is None

    @pytest.mark.parametrize(("at_us", "offset"), [(50 * SECOND, (7.0, 8.0)), (9 * HOUR, (None, None))])
    def test_an_event_says_which_bound_placed_it(self, at_us: int, offset: tuple[float | None, float | None]) -> None:
        control = stamped(at_us + 7_500, seen_us=at_us + 9_000, unseen_us=at_us - 300_000)
        clock = replace(seen((7_000, 8_000), (45 * SECOND, 55 * SECOND)), seq=1)
        (row,) = events.rows(derive(Facts.of([control, clock]), []))

        assert (row["clock_host"], row["clock_offset_ms_min"], row["clock_offset_ms_max"]) == ("2", *offset)
        assert row["clock_lines"] == (None if offset[0] is None else ["p / b / 1"])
        if offset[0] is not None:
            placed_at = microseconds(row["happened_at_min"]), microseconds(row["happened_at_max"])
            assert placed_at == (control.started_at_us - 8_000, control.ended_at_us - 7_000)

    def test_an_event_of_our_own_clock_used_no_bound(self) -> None:
        (row,) = events.rows(derive(Facts.of([stamped(7, seen_us=2_000, by=None)]), []))

        assert [row[name] for name in ("clock_host", "clock_method", "clock_offset_ms_min", "clock_lines")] == [None] * 4


class TestEvents:
    @pytest.mark.parametrize("skew", [0, 2 * HOUR, -2 * HOUR, 17])
    def test_a_stamp_is_put_to_our_clock_whatever_the_other_shows(self, skew: int) -> None:
        happened = 50 * SECOND
        low, high = at(
            stamped(happened + skew, seen_us=happened + 8_000, unseen_us=happened - 300_000),
            seen((skew - 400, skew + 600), (45 * SECOND, 55 * SECOND)),
        )

        assert low <= happened <= high
        assert high - low <= 999 + 1_000

    @pytest.mark.parametrize("by", [2 * HOUR, -2 * HOUR])
    @pytest.mark.parametrize("is_before", [True, False])
    def test_around_a_step_the_reading_of_the_source_decides_which_clock_it_was(self, by: int, *, is_before: bool) -> None:
        happened = 50 * SECOND
        clocks = seen((-400, 600), (40 * SECOND, 45 * SECOND)), seen((by - 400, by + 600), (55 * SECOND, 60 * SECOND))
        stamp = happened if is_before else happened + by
        low, high = at(stamped(stamp, seen_us=happened + 8_000, unseen_us=happened - 300_000), *clocks)

        assert low <= happened <= high
        assert high - low < 20_000

    def test_a_step_that_nothing_has_shown_yet_makes_nothing_wrong(self) -> None:
        happened = 50 * SECOND
        for by in (2 * HOUR, -2 * HOUR):
            control = stamped(happened + by, seen_us=happened + 8_000, unseen_us=happened - 300_000)
            assert at(control, seen((-400, 600), (40 * SECOND, 45 * SECOND))) == (happened - 300_000, happened + 8_000)

    def test_where_nothing_bounds_the_clock_it_happened_when_it_became_readable(self) -> None:
        assert at(stamped(7 * HOUR, seen_us=50_008_000, unseen_us=49_700_000)) == (49_700_000, 50_008_000)

    def test_a_stamp_by_the_collectors_own_clock_stays_as_it_is(self) -> None:
        assert at(stamped(7, seen_us=2000, by=None), seen((HOUR, HOUR), (0, 1))) == (7, 1006)

    def test_nothing_is_decided_after_it_was_seen(self) -> None:
        assert at(stamped(1_000_000, seen_us=1_000_300), seen((-500, 500), (0, SECOND))) == (999_500, 1_000_300)

    def test_what_comes_later_in_a_log_was_not_decided_earlier(self) -> None:
        clocks = Clocks.of(
            [], [seen((-400, 600), (0, 60 * SECOND)), seen((-SECOND, SECOND), (0, 60 * SECOND), host="3", method=RESPONSE_TIME)]
        )
        first = stamped(10 * SECOND, seen_us=11 * SECOND, position="5")
        second = stamped(10 * SECOND + 5_000, seen_us=11 * SECOND, position="6", by="3")
        third = stamped(10 * SECOND + 9_000, seen_us=11 * SECOND, position="7")

        one, two, three = placed([first, second, third], clocks)
        assert (two.started_at_us, two.ended_at_us) == (one.started_at_us, three.ended_at_us)

    @given(
        skew=st.integers(-5 * HOUR, 5 * HOUR),
        step=st.integers(-5 * HOUR, 5 * HOUR),
        stepped_at=st.integers(0, 100),
        at_s=st.integers(10, 90),
    )
    def test_the_truth_is_always_within(self, skew: int, step: int, stepped_at: int, at_s: int) -> None:
        """A clock that is off and stepped once; stamps every ten seconds; an event that is seen 8 ms later."""

        def offset(at_us: int) -> int:
            return skew + (step if at_us >= stepped_at * SECOND else 0)

        clocks = [seen((offset(t) - 300, offset(t) + 700), (t, t)) for t in range(0, 101 * SECOND, 10 * SECOND)]
        happened = at_s * SECOND + 1_234_567 // 2
        low, high = at(stamped(happened + offset(happened), seen_us=happened + 8_000, unseen_us=happened - 200_000), *clocks)
        assert low <= happened + 999
        assert happened <= high


class TestOurOwnClocks:
    def test_two_of_them_are_compared_by_a_host_that_both_have_seen(self) -> None:
        ours = seen((7_000, 7_400), (0, 10 * SECOND))
        other = seen((2_000, 2_300), (0, 10 * SECOND), clock_id="other")

        # The host showed 5 ms more to one than to the other when they looked: time for the clocks to drift apart by 2 us.
        assert Clocks.of([], [ours, other]).between("k", "other") == Bounds(2_000 - 7_400 - 2, 2_300 - 7_000 + 2)
        assert Clocks.of([], [ours]).between("k", "other") is None
        assert Clocks.of([], []).between("k", "k") == Bounds.exactly(0)

    def test_it_does_not_matter_that_they_show_quite_another_time(self) -> None:
        ours = seen((0, 400), (5 * HOUR, 5 * HOUR))
        other = seen((3 * HOUR, 3 * HOUR + 300), (2 * HOUR, 2 * HOUR), clock_id="other")

        apart = Clocks.of([], [ours, other]).between("k", "other")
        assert apart is not None
        assert apart.holds(3 * HOUR)
        assert (apart.high or 0) - (apart.low or 0) < 1_000
