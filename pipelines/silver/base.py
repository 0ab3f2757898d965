"""What every silver table shares: identity, instants as timestamps, durations in milliseconds, bounds as two columns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.domain import clock
from pipelines.domain.derivation import Derivation
from pipelines.domain.facts import Facts, Partition
from pipelines.domain.intervals import Bounds
from pipelines.domain.phases import Recovery

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SilverTable:
    """A table, the column by which a region of it is replaced, and how its rows follow from a derivation."""

    name: str
    column: str
    rows: Callable[[Derivation], Iterator[Row]]


def instant(at_us: int | None) -> datetime | None:
    """Microseconds since the epoch as a UTC timestamp; None where there is none."""
    return None if at_us is None else clock.instant(at_us)


def milliseconds(duration_us: int | None) -> float | None:
    """Microseconds as milliseconds."""
    return None if duration_us is None else duration_us / 1000


def cluster(facts: Facts) -> Row:
    """The columns that say which cluster."""
    return {"system": facts.system, "cluster_id": facts.cluster_id}


def shard(partition: Partition) -> Row:
    """The columns that say which partition."""
    return {"resource": partition.resource, "shard": partition.shard}


def span(start: Bounds, end: Bounds) -> Row:
    """The four columns of a span with bounds."""
    return {
        "started_at_min": instant(start.low),
        "started_at_max": instant(start.high),
        "ended_at_min": instant(end.low),
        "ended_at_max": instant(end.high),
    }


def at(name: str, bounds: Bounds | None) -> Row:
    """The two columns of a boundary; both None where it does not apply."""
    return {
        f"{name}_at_min": instant(bounds.low) if bounds else None,
        f"{name}_at_max": instant(bounds.high) if bounds else None,
    }


def lasting(name: str, bounds: Bounds) -> Row:
    """The two columns of a duration in milliseconds."""
    return {f"{name}_ms_min": milliseconds(bounds.low), f"{name}_ms_max": milliseconds(bounds.high)}


def why(recovery: Recovery) -> Row:
    """The columns that explain an outage."""
    return {
        "broker": recovery.broker,
        "cause": recovery.cause,
        **at("fenced", recovery.fenced),
        **at("elected", recovery.elected),
        **at("known", recovery.known),
        "fenced_by": recovery.fenced_by,
        "elected_by": recovery.elected_by,
        "known_by": recovery.known_by,
        "is_clean_election": recovery.is_clean_election,
    }


def incident(derivation: Derivation, start: Bounds, end: Bounds, prober_id: str | None = None) -> Row:
    """The column that says to which incident a span belongs; one of a prober stands on that prober's clock."""
    return {"incident_id": derivation.incident_of(prober_id, start, end)}
