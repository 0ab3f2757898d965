"""What is known of an instant or a duration is an interval, and stays true through arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.intervals import Bounds, duration, hull, known

ENDS = st.one_of(st.none(), st.integers(-50, 50))


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    low, high = draw(ENDS), draw(ENDS)
    return Bounds(high, low) if low is not None and high is not None and high < low else Bounds(low, high)


def test_bounds_that_are_not_ordered_are_refused() -> None:
    with pytest.raises(ValueError, match="low 2 is above high 1"):
        Bounds(2, 1)


def test_bounds_hold_their_own_ends_and_nothing_beyond() -> None:
    assert [Bounds(1, 3).holds(value) for value in (0, 1, 3, 4)] == [False, True, True, False]
    assert Bounds(None, 3).holds(-99)
    assert Bounds(1, None).holds(99)


def test_the_duration_of_the_worked_example() -> None:
    assert duration(Bounds(100, 160), Bounds(900, 990)) == Bounds(740, 890)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (Bounds(100, 160), Bounds(900, None), Bounds(740, None)),
        (Bounds(None, 160), Bounds(900, 990), Bounds(740, None)),
        (Bounds(100, 200), Bounds(150, 190), Bounds(0, 90)),
        (Bounds(100, None), Bounds(150, 190), Bounds(0, 90)),
    ],
    ids=["open", "there before we looked", "overlapping bounds are not negative", "nothing bounds the start from above"],
)
def test_a_duration_is_never_negative_and_open_where_an_end_is(start: Bounds, end: Bounds, expected: Bounds) -> None:
    assert duration(start, end) == expected


@given(bounds(), bounds(), st.integers(-50, 50), st.integers(-50, 50))
def test_the_duration_of_any_instants_within_the_bounds_is_within_its_bounds(start: Bounds, end: Bounds, one: int, other: int) -> None:
    if start.holds(one) and end.holds(other) and other >= one:
        assert duration(start, end).holds(other - one)


@given(bounds(), bounds(), st.integers(-60, 60))
def test_an_intersection_allows_what_both_allow_and_a_hull_what_either_does(one: Bounds, other: Bounds, value: int) -> None:
    both = one.intersection(other)

    assert (both is not None and both.holds(value)) == (one.holds(value) and other.holds(value))
    assert one.hull(other).holds(value) or not (one.holds(value) or other.holds(value))


@given(bounds(), st.integers(0, 20), st.integers(-80, 80), st.integers(-20, 20))
def test_widened_bounds_hold_what_a_wrong_clock_makes_of_a_true_value(one: Bounds, error: int, value: int, shift: int) -> None:
    if one.holds(value) and abs(shift) <= error:
        assert one.widened(error).holds(value + shift)


def test_the_hull_of_nothing_is_nothing() -> None:
    assert hull([]) is None
    assert hull([Bounds(1, 2), Bounds(5, None)]) == Bounds(1, None)
    assert known(None, 0, None, 3) == [0, 3]
    assert Bounds.exactly(4) == Bounds(4, 4)


@given(bounds(), bounds(), st.integers(-50, 50), st.integers(-50, 50))
def test_the_later_of_two_instants_is_held_by_what_is_known_of_both(one: Bounds, other: Bounds, at: int, other_at: int) -> None:
    if one.holds(at) and other.holds(other_at):
        assert one.later_of(other).holds(max(at, other_at))
