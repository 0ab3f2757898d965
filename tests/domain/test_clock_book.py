"""When is it written down how far a broker's clock is off ours?"""

from typing import Any

from pipelines.domain.clock_book import ClockBook
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ClockSeen

SECOND = 1_000_000


def written(*stamps: tuple[str, int, int, float], is_closed: bool = False) -> list[dict[str, Any]]:
    """What is written of stamps (host, offset at least, at most, second)."""
    lines: list[dict[str, Any]] = []

    def write(record: type, **fields: Any) -> None:
        assert record is ClockSeen
        lines.append(fields)

    book = ClockBook("append_time", write)
    for host, low, high, second in stamps:
        book.take(host, Bounds(low, high), int(second * SECOND), int(second * SECOND) + 2_000)
    if is_closed:
        book.close()
    return lines


def offsets(lines: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(one["host"], one["clock_offset_us_min"], one["clock_offset_us_max"]) for one in lines]


def test_what_is_first_known_of_a_host_is_written_at_once() -> None:
    assert offsets(written(("2", -900, 400, 0), ("3", -800, 300, 0))) == [("2", -900, 400), ("3", -800, 300)]


def test_stamps_of_ten_seconds_are_put_together_and_written_once_a_minute() -> None:
    lines = written(*[("2", -900 + 5 * second, 400 + 5 * second, second) for second in range(200)])

    assert 3 <= len(lines) <= 5
    assert all(one["ended_at_us"] - one["started_at_us"] <= 11 * SECOND for one in lines)
    assert lines[-1]["clock_offset_us_min"] > lines[1]["clock_offset_us_min"]


def test_a_step_is_written_on_both_sides_at_once() -> None:
    lines = written(("2", -500, 500, 0), ("2", -400, 600, 5), ("2", 7_199_000, 7_200_000, 6))

    assert offsets(lines) == [("2", -500, 500), ("2", -400, 500), ("2", 7_199_000, 7_200_000)]
    assert lines[1]["ended_at_us"] < lines[2]["started_at_us"]
    assert [one["has_stepped"] for one in lines] == [False, False, True]


def test_what_is_open_at_the_end_is_written() -> None:
    assert offsets(written(("2", -500, 500, 0), ("2", -400, 600, 5), is_closed=True))[-1] == ("2", -400, 500)
