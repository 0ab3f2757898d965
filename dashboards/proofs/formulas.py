"""How does a figure of an outage follow from its instants? The formulas of ARCHITECTURE.md with the row's numbers filled in.

The rule: RTO in [max(0, i(Bn) - min q), r(T) - i(S)]; a phase lies in [max(0, low of its end - high of its begin), high of its end
- low of its begin]. An operand that is missing makes the formula say what is missing, never 0. Where goods or blindness cut an outage
into pieces, its minimum is the longest piece, and the step says that.

Worked example: i(S) 12:00:00.000, min q 12:00:00.101, i(Bn) 12:00:09.000, r(T) 12:00:09.103: RTO min = i(Bn) - min q =
12:00:09.000 - 12:00:00.101 = 8899 ms, RTO max = r(T) - i(S) = 12:00:09.103 - 12:00:00.000 = 9103 ms.
"""

from collections.abc import Sequence
from datetime import datetime

from dashboards.proofs import Step
from pipelines.serving import Row

NAMES = {
    "probe": ("i(S)", "min q", "i(Bn)", "r(T)"),
    "window": ("start min", "start max", "end min", "end max"),
}
"""What the four instants of a span are called: of a probed one, and of one that follows from decisions."""

PHASES = (("detection", "start", "fenced"), ("election", "fenced", "elected"), ("propagation", "elected", "known"))
TOLERANCE_MS = 0.0015


def rto(row: Row, names: Sequence[str], low: str = "rto_ms_min", high: str = "rto_ms_max", what: str = "RTO") -> list[Step]:
    """Both bounds of a span's length."""
    begin_low, begin_high, end_low, end_high = names
    least = _difference(row["ended_at_min"], row["started_at_max"])
    note = None
    if least is not None and abs(least - row[low]) > TOLERANCE_MS:
        note = (
            f"the longest piece in which nothing contradicts it, {_ms(row[low])}: short served runs or unmeasured gaps cut the span "
            f"of {_ms(least)}"
        )
    whole = _difference(row["ended_at_max"], row["started_at_min"], floor=False)
    narrower = None
    if whole is not None and row[high] is not None and abs(whole - row[high]) > TOLERANCE_MS:
        narrower = f"the row says {_ms(row[high])}: another bound of it is tighter"
    return [
        Step(
            f"{what} min",
            f"max(0, {end_low} - {begin_high})",
            f"{_at(row['ended_at_min'])} - {_at(row['started_at_max'])}",
            _ms(row[low]),
            note,
        ),
        Step(
            f"{what} max",
            f"{end_high} - {begin_low}",
            f"{_at(row['ended_at_max'])} - {_at(row['started_at_min'])}",
            "nothing bounds it" if row[high] is None else _ms(row[high]),
            narrower or _unbounded(row, names),
        ),
    ]


def phases(row: Row) -> list[Step]:
    """Both bounds of each phase that applies."""
    found: list[Step] = []
    for phase, begin, end in (*PHASES, ("first_write", _last_boundary(row), "end")):
        if begin is None or (row[f"{phase}_ms_min"] is None and row[f"{phase}_ms_max"] is None):
            continue
        found += [
            _bound(row, phase, "min", (end, "min"), (begin, "max")),
            _bound(row, phase, "max", (end, "max"), (begin, "min")),
        ]
    return found


def computed(row: Row, end: tuple[str, str], begin: tuple[str, str]) -> float | None:
    """A bound of a phase in milliseconds, from the two instants that it is the difference of."""
    return _difference(_instant(row, *end), _instant(row, *begin))


def _bound(row: Row, phase: str, bound: str, end: tuple[str, str], begin: tuple[str, str]) -> Step:
    value = row[f"{phase}_ms_{bound}"]
    return Step(
        f"{phase.replace('_', ' ')} {bound}",
        f"max(0, {end[0]} {end[1]} - {begin[0]} {begin[1]})",
        f"{_at(_instant(row, *end))} - {_at(_instant(row, *begin))}",
        "nothing bounds it" if value is None else _ms(value),
    )


def _last_boundary(row: Row) -> str | None:
    """The last boundary that applies, from which the first served probe is counted."""
    known = (name for name in ("known", "elected", "fenced") if row[f"{name}_at_min"] or row[f"{name}_at_max"])
    return next(known, None)


def _instant(row: Row, name: str, bound: str) -> datetime | None:
    column = {"start": "started", "end": "ended"}.get(name, name)
    at: datetime | None = row[f"{column}_at_{bound}"]
    return at


def _unbounded(row: Row, names: Sequence[str]) -> str | None:
    if row["is_open"]:
        return "it has not been seen to end"
    missing = [name for name, at in ((names[0], row["started_at_min"]), (names[3], row["ended_at_max"])) if at is None]
    return f"there is no {' and no '.join(missing)}" if missing else None


def _difference(later: datetime | None, earlier: datetime | None, *, floor: bool = True) -> float | None:
    if later is None or earlier is None:
        return None
    lasted = (later - earlier).total_seconds() * 1000
    return max(0.0, lasted) if floor else lasted


def _at(at: datetime | None) -> str:
    if at is None:
        return "none"
    digits = f"{at.microsecond:06d}"
    return f"{at:%H:%M:%S}.{digits[:3] if digits.endswith('000') else digits}"


def _ms(value: float) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return f"{text} ms"
