# ruff: noqa: RUF001 - ranges are written with an en dash
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards import words

AT = datetime(2026, 11, 21, 3, 17, 2, 4_100, tzinfo=UTC)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (8903.2, 9101.0, "8.90–9.11 s"),
        (0.0, 0.999, "0–1 ms"),
        (0.0, 0.0, "0 ms"),
        (397.0, 397.0, "397 ms"),
        (400.0, 1500.0, "0.40–1.50 s"),
        (110_000.0, 130_000.0, "1 min 50 s – 2 min 10 s"),
        (9_000_000.0, 9_100_000.0, "2 h 30 min 00 s – 2 h 31 min 40 s"),
        (4212.0, None, "at least 4.21 s (no upper bound)"),
        (None, 4212.0, "at most 4.22 s"),
        (None, None, "does not apply"),
    ],
)
def test_a_duration_is_written_as_what_is_known_of_it(low, high, said):
    assert words.duration_range(low, high) == said


def test_an_open_duration_says_so():
    assert words.duration_range(4212.0, None, is_open=True) == "at least 4.21 s (open)"


@given(st.floats(0, 114_000), st.floats(0, 5_000))
def test_what_is_written_of_a_duration_holds_whatever_is_measured(low, width):
    said = words.duration_range(low, low + width)
    number, unit = said.rsplit(" ", 1)
    first, _, second = number.partition("–")
    scale = {"ms": 1, "s": 1000}[unit]
    assert float(first) * scale <= low + 1e-3
    assert float(second or first) * scale >= low + width - 1e-3


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.999312, 0.9999996, "99.931–99.99996 %"),
        (0.999999999999, 1.0, "99.9999–100 %"),
        (1.0, 1.0, "100 %"),
        (0.0, 0.5, "0.000–50.000 %"),
        (None, None, "not measured"),
    ],
)
def test_a_ratio_is_written_within_its_bounds(low, high, said):
    assert words.ratio_range(low, high) == said


@given(st.floats(0, 1, exclude_max=True))
def test_less_than_everything_is_never_written_as_everything(value):
    assert not words.ratio(value).startswith("100")
    assert "100" not in words.ratio_range(value, value).split(".")[0]


def test_instants_share_what_is_the_same():
    assert words.instant_range(AT, AT + timedelta(milliseconds=50)) == "03:17:02.004–.055"
    assert words.instant_range(AT, AT + timedelta(milliseconds=1500)) == "03:17:02.004–03:17:03.505"
    assert words.instant_range(AT, AT + timedelta(days=1)) == "2026-11-21 03:17:02.004 – 2026-11-22 03:17:02.005"


def test_an_instant_with_one_bound_says_which():
    assert words.instant_range(None, AT) == "before 03:17:02.005"
    assert words.instant_range(AT, None) == "after 03:17:02.004"
    assert words.instant_range(None, None) == "not known"


@pytest.mark.parametrize(
    ("age_us", "said"),
    [
        (None, "never"),
        (0, "0 s ago"),
        (59_900_000, "59 s ago"),
        (61_000_000, "1 min 01 s ago"),
        (7_260_000_000, "2 h 01 min ago"),
        (3 * 86_400_000_000, "3 days ago"),
        (-400_000, "0 s ago"),
        (-90_000_000, "1 min 30 s ahead of this clock"),
    ],
)
def test_an_age_is_read_at_a_glance(age_us, said):
    assert words.age(age_us) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(397, 397, "397 records"), (1, 1, "1 record"), (12, 2000, "12–2,000 records"), (3, None, "at least 3 records"), (None, None, "?")],
)
def test_a_count_is_written_with_its_bounds(low, high, said):
    assert words.count_range(low, high, "record", absent="?") == said


def test_a_duration_that_was_read_off_a_clock_is_rounded():
    assert [words.duration(value) for value in (345.2, 2345, 125_000)] == ["345 ms", "2.3 s", "2 min 05 s"]


def test_partitions_sort_as_people_do():
    assert sorted(["10", "2", "b", "1", "a"], key=words.natural) == ["1", "2", "10", "a", "b"]
