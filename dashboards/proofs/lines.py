"""What proofs say of lines of bronze: where to look for them, and how an instant and a name are written."""

from datetime import datetime, timedelta
from typing import Any

from dashboards import components
from pipelines.domain import clock

GONE = "its line is not in bronze any more, or not yet"


def span(first: datetime, last: datetime) -> dict[str, Any]:
    """The parameters that keep a query of bronze small. A line is filed under the day of its end, by the clock that stamped it."""
    return {**days(first, last), "from_us": clock.microseconds(first), "to_us": clock.microseconds(last)}


def days(first: datetime, last: datetime) -> dict[str, Any]:
    """The days that such lines are filed under."""
    day = timedelta(days=1)
    return {"day_from": (first - day).date(), "day_to": (last + day).date()}


def utc(at_us: float | None) -> str:
    """An instant of a line, to the microsecond."""
    if at_us is None:
        return "not known"
    at = clock.instant(round(at_us))
    return f"{at:%H:%M:%S}.{at.microsecond:06d}"


def line(name: str | None) -> Any:
    """A line's name, prober_id / boot_id / seq."""
    return "none" if name is None else components.code(name)
