"""How is a measured figure written for people? As what is known of it: an interval, never one number that nobody measured.

The rules: bounds are rounded outward, so what is written stays true. Nothing above: "at least". A ratio below 1 is never written
as 100 %. NULL has a word of its own, chosen by the caller ("does not apply", "not read back"). Instants are UTC.

Examples (a range is written with an en dash): `duration_range(8903.2, 9101.0)` is "8.90-9.11 s"; `duration_range(4212.0, None,
is_open=True)` is "at least 4.21 s (open)"; `ratio_range(0.999312, 0.9999996)` is "99.931-99.99996 %".
"""

import math
from datetime import datetime, timedelta

DASH = "\N{EN DASH}"
NOT_APPLICABLE = "does not apply"

_SECONDS_FROM_MS = 1000.0
_MINUTES_FROM_MS = 120_000.0
_HOURS_FROM_MS = 2 * 3_600_000.0


def duration_range(low_ms: float | None, high_ms: float | None, *, is_open: bool = False, absent: str = NOT_APPLICABLE) -> str:
    """A duration of which bounds are known, in milliseconds; `absent` where it has none."""
    if low_ms is None:
        return absent if high_ms is None else f"at most {_duration(high_ms, high_ms, up=True)}"
    if high_ms is None:
        return f"at least {_duration(low_ms, low_ms, up=False)} ({'open' if is_open else 'no upper bound'})"
    low, high = _duration(low_ms, high_ms, up=False), _duration(high_ms, high_ms, up=True)
    if low == high:
        return low
    low_number, _, low_unit = low.rpartition(" ")
    _, _, high_unit = high.rpartition(" ")
    return f"{low_number}{DASH}{high}" if low_unit == high_unit and " " not in low_number else f"{low} {DASH} {high}"


def at_least(low_ms: float) -> str:
    """A proven minimum, where it is plain that more may come."""
    return f"at least {_duration(low_ms, low_ms, up=False)}"


def duration(value_ms: float) -> str:
    """A duration that was simply read off a clock, rounded to what is read at a glance."""
    if value_ms < _SECONDS_FROM_MS:
        return f"{value_ms:.0f} ms"
    if value_ms < _MINUTES_FROM_MS:
        return f"{value_ms / 1000:.1f} s"
    return _duration(value_ms, value_ms, up=False)


def instant(at: datetime | None, *, absent: str = "not known") -> str:
    """An instant to the millisecond, with its date; the zone is said once, by the panel."""
    return absent if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def instant_range(low: datetime | None, high: datetime | None) -> str:
    """An instant of which bounds are known, without its date: "03:17:02.004-.106"."""
    high = None if high is None else high + timedelta(microseconds=-high.microsecond % 1000)
    if low is None:
        return "not known" if high is None else f"before {_time(high)}"
    if high is None:
        return f"after {_time(low)}"
    first, second = _time(low), _time(high)
    if low.date() != high.date():
        return f"{instant(low)} {DASH} {instant(high)}"
    if first == second:
        return first
    # Seconds that differ are written whole; only what is read at a glance as the same is left out.
    return f"{first}{DASH}{second[8:] if first[:8] == second[:8] else second}"


def age(age_us: int | None) -> str:
    """How long ago something was, coarsely: it is read at a glance, and says so where it lies in the future."""
    if age_us is None:
        return "never"
    if age_us < -1_000_000:
        return f"{_coarse(-age_us)} ahead of this clock"
    return f"{_coarse(max(0, age_us))} ago"


def elapsed(lasted_us: int) -> str:
    """A running time, coarsely."""
    return _coarse(max(0, lasted_us))


def count_range(low: int | None, high: int | None, noun: str, *, absent: str = "not read back") -> str:
    """A number of things of which bounds are known: "397 records", "12-20 records", "at least 3 records"."""
    if low is None:
        return absent
    if high is None:
        return f"at least {plural(low, noun)}"
    return plural(low, noun) if low == high else f"{low:,}{DASH}{plural(high, noun)}"


def plural(number: int, noun: str) -> str:
    """A number with its noun; thousands are set apart."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ratio(value: float | None, *, absent: str = "not measured") -> str:
    """A ratio in percent, rounded down."""
    return absent if value is None else f"{_percent(value, up=False)} %"


def ratio_range(low: float | None, high: float | None, *, absent: str = "not measured") -> str:
    """A ratio of which bounds are known, in percent."""
    if low is None or high is None:
        return absent
    first, second = _percent(low, up=False), _percent(high, up=True)
    return f"{first} %" if first == second else f"{first}{DASH}{second} %"


def natural(text: str) -> tuple[int, int, str]:
    """Sorts partitions as people do: 2 before 10, names after numbers."""
    return (0, int(text), text) if text.isdigit() else (1, 0, text)


def _duration(value_ms: float, scale_ms: float, *, up: bool) -> str:
    if scale_ms < _SECONDS_FROM_MS:
        return f"{_rounded(value_ms, 0, up=up):.0f} ms"
    if scale_ms < _MINUTES_FROM_MS:
        return f"{_rounded(value_ms / 1000, 2, up=up):.2f} s"
    seconds = _rounded(value_ms / 1000, 0, up=up)
    minutes, rest = divmod(round(seconds), 60)
    if scale_ms < _HOURS_FROM_MS:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min {rest:02d} s"


def _rounded(value: float, digits: int, *, up: bool) -> float:
    # A value that is a multiple of the step stays what it is, also where binary fractions put it a hair beside it.
    step = float(10**digits)
    scaled = round(value * step, 6)
    return (math.ceil(scaled) if up else math.floor(scaled)) / step


def _percent(value: float, *, up: bool) -> str:
    if value >= 1:
        return "100"
    for digits in (3, 4, 5, 6, 7):
        rounded = _rounded(value * 100, digits, up=up)
        if rounded < 100:
            return f"{rounded:.{digits}f}"
    return "99.9999999"


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def _coarse(lasted_us: int) -> str:
    seconds = lasted_us / 1_000_000
    if seconds < 60:
        return f"{math.floor(seconds)} s"
    minutes, rest = divmod(math.floor(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} days"
