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


def loss_steps(row: Row, decided_by: Sequence[Row] = ()) -> list[Step]:
    """How many records a finding says are gone, and the span of time that they make."""
    gone = f"{row['records_min']:,}" if row["records_max"] == row["records_min"] else f"{row['records_min']:,} to {_most(row)}"
    if row["evidence"] == "epoch_end":
        ends = [one for one in decided_by if one["record"] == "epoch_end" and one["end_position"] is not None]
        numbers = "; ".join(f"{one['high_watermark_max']} - {one['end_position']}" for one in ends)
        sampled = "the instants are those of sampled high watermarks: each lies within a sample of the truth"
        watermarks = f"{_at(row['acked_to_at'])} - {_at(row['acked_from_at'])}"
        return [
            Step(
                "records gone", "highest high watermark - end of the old epoch", numbers, gone, "committed records of a user, at least"
            ),
            Step("RPO min", "last watermark - first, less two samples and answers", watermarks, _ms(row["rpo_ms_min"]), sampled),
            Step("RPO max", "start max of the partition's window - first watermark", "", _bound_of(row["rpo_ms_max"])),
        ]
    records = Step("records gone", "acknowledged and proven absent", f"of {row['acked_records']:,} acknowledged", gone)
    if row["verdict"] not in ("LOST", "PRESENT"):
        # Nobody can say that it is lost: at least nothing, at most all of it.
        most = f"{_at(row['acked_to_at'])} - {_at(row['acked_from_at'])}"
        harmless = None if row["rpo_ms_max"] else "it loses nothing by itself"
        return [records, Step("RPO min", "0", "", _ms(row["rpo_ms_min"])),
                Step("RPO max", "max(0, r(lm) - i(l1))", most, _bound_of(row["rpo_ms_max"]), harmless)]  # fmt: skip
    least = f"{_at(row['last_issued_at'])} - {_at(row['first_acked_at'])}"
    nothing = "nothing is lost: no span at least" if row["verdict"] == "PRESENT" else None
    return [
        records,
        Step("RPO min", "0" if nothing else "max(0, i(lm) - r(l1))", "" if nothing else least, _ms(row["rpo_ms_min"]), nothing),
        Step("RPO max", "min(start max of the outage, r(next retained)) - i(K)",
             f"{_at(row['lost_until_at'])} - {_at(row['retained_before_at'])}", _bound_of(row["rpo_ms_max"]), _why_not(row)),
    ]  # fmt: skip


def _why_not(row: Row) -> str | None:
    """Why the span of a finding is not the difference of its two instants."""
    whole = _difference(row["lost_until_at"], row["retained_before_at"])
    if row["rpo_ms_max"] is None:
        return "what follows was not read back yet and may be gone with it" if whole is not None else "nothing retained bounds it"
    if whole is None or abs(whole - row["rpo_ms_max"]) <= TOLERANCE_MS:
        return None
    if row["verdict"] == "PRESENT":
        return (
            "a clean election, or one and the same leader in the same epoch, or what follows is lost by a finding of its own: nothing"
        )
    return f"no less than the minimum: {_ms(row['rpo_ms_max'])}"


def _most(row: Row) -> str:
    return "not bounded" if row["records_max"] is None else f"{row['records_max']:,}"


def _bound_of(value: float | None) -> str:
    return "nothing bounds it" if value is None else _ms(value)


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
