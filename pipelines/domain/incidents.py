"""Which outages are one incident? Spans of one cluster that overlap, or that are less than a minute apart.

The rule: sorted by the latest possible start, a span joins the incident before it when it may begin within `QUIET_US` after the
latest possible end of that incident so far. An incident is named by the first instant at which its first span was certainly not
serving, which later evidence does not move.

Worked example: outages of [0 s, 9 s] and [35 s, 36 s] are one incident; one of [120 s, 121 s] is the next.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.domain.intervals import Bounds

QUIET_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident: its name, and from when to when it may have lasted."""

    incident_id: str
    low_us: int
    high_us: int | None

    def includes(self, low_us: int, high_us: int | None) -> bool:
        """Whether a span belongs to it: it overlaps the incident or the quiet minute behind it."""
        begins = self.high_us is None or low_us <= self.high_us + QUIET_US
        return begins and (high_us is None or high_us >= self.low_us)


def incidents(cluster_id: str, spans: Iterable[tuple[Bounds, Bounds]]) -> list[Incident]:
    """The incidents of a cluster from the (start, end) of its outages, in order of time."""
    found: list[Incident] = []
    for start, end in sorted(spans, key=lambda span: (_latest(span[0]), span[1].low or 0)):
        low = start.low if start.low is not None else _latest(start)
        if found and found[-1].includes(low, end.high):
            last = found[-1]
            high = None if last.high_us is None or end.high is None else max(last.high_us, end.high)
            found[-1] = Incident(last.incident_id, min(last.low_us, low), high)
        else:
            found.append(Incident(_name(cluster_id, _latest(start)), low, end.high))
    return found


def incident_of(found: list[Incident], start: Bounds, end: Bounds) -> str | None:
    """The name of the incident that a span belongs to."""
    low = start.low if start.low is not None else _latest(start)
    return next((one.incident_id for one in found if one.includes(low, end.high)), None)


def _latest(start: Bounds) -> int:
    if start.high is not None:
        return start.high
    return start.low if start.low is not None else 0


def _name(cluster_id: str, at_us: int) -> str:
    stamp = datetime.fromtimestamp(at_us / 1_000_000, tz=UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{hashlib.blake2b(cluster_id.encode(), digest_size=3).hexdigest()}"
