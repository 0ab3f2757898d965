"""What does a page need to know? The datasets, the live files and the stream put together, by name. Reads only, through serving.

Where two sources speak of the same outage the rule is: the tables for what is settled, the live file of a prober that writes for what
is going on. What only a live file says is marked provisional. A live file that is stale says what was, never what is.

Example: gold has an outage as open with at least 9.1 s; the prober wrote 0.4 s ago that it is at least 11.6 s: 11.6 s, provisional.
Had the prober been silent for a minute, the outage would be shown as last seen a minute ago, in an unknown state now.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboards import components, palette, words
from pipelines import ddl, why
from pipelines.domain import clock
from pipelines.domain.health import ClusterHealth, LiveOutage, LiveView, StreamProgress, StreamState, cluster_health, stream_state
from pipelines.errors import DamagedFile, LakehouseError
from pipelines.serving import Row, Snapshot

MAX_OUTAGES = 2_000
MAX_EVIDENCE = 2_000
MAX_OPEN = 200

EVIDENCE_FIRST = ("happened_at_min", "happened_at_max", "event", "detail", "verdict")
EVIDENCE_LAST = ("system", "cluster_id", "incident_id", "rule_version")


@dataclass(frozen=True, slots=True)
class Present:
    """How things are now: each cluster, the stream, and what could not be read of either."""

    clusters: tuple[ClusterHealth, ...]
    views: tuple[LiveView, ...]
    damaged: tuple[str, ...]
    """One sentence for each file or table that cannot be read. The live view stands by itself."""
    measured_from: Mapping[str, datetime]
    """Since when a cluster has been measured, as far as the tables know."""
    progress: StreamProgress | None
    stream: StreamState
    now_us: int


@dataclass(frozen=True, slots=True)
class OpenOutage:
    """An outage that is open: as a prober sees it now, as it was last seen, or as the tables have it."""

    outage_id: str
    cluster_id: str
    resource: str
    shard: str
    kind: str
    lane: str
    since_min_us: int | None
    since_max_us: int
    rto_ms_min: float
    codes: tuple[str, ...]
    leader_before: str | None
    source: str
    """live, last seen or tables."""
    as_of_us: int | None
    incident_id: str | None = None


def present(snapshot: Snapshot) -> Present:
    """The present; clusters that only the tables know are in it, as unmeasured."""
    live = snapshot.live()
    damaged = list(live.damaged)
    progress = None
    try:
        progress = snapshot.progress()
        state = stream_state(progress, snapshot.now_us)
    except DamagedFile as error:
        damaged.append(str(error))
        state = StreamState.STALE
    rows: tuple[Row, ...] = ()
    try:
        rows = snapshot.rows("clusters")
    except LakehouseError as error:
        damaged.append(str(error))
    clusters = cluster_health(live.views, [(row["system"], row["cluster_id"]) for row in rows], snapshot.now_us)
    since = {row["cluster_id"]: row["measured_from_at"] for row in rows}
    return Present(tuple(clusters), live.views, tuple(damaged), since, progress, state, snapshot.now_us)


@dataclass(frozen=True, slots=True)
class Opened:
    """The outages that are open, the longest first; and why the tables' part is missing, where it is."""

    outages: tuple[OpenOutage, ...]
    problem: str | None


def open_outages(snapshot: Snapshot) -> Opened:
    """Every outage that is open as far as anyone knows. What probers say does not wait for the tables, and needs none."""
    found: dict[str, OpenOutage] = {}
    settled: set[str] = set()
    fresh_probers: set[str] = set()
    for view in snapshot.live().views:
        is_fresh = view.is_fresh(snapshot.now_us)
        settled |= {one.outage_id for one in view.recent if one.ended_at_max_us is not None}
        if is_fresh and view.state == "measuring":
            fresh_probers.add(view.prober_id)
        for one in view.open:
            found[one.outage_id] = _from_live(view, one, "live" if is_fresh and view.state == "measuring" else "last seen")
    problem = None
    incidents: dict[str, str] = {}
    try:
        for row in snapshot.rows("open_outages", limit=MAX_OPEN):
            # A prober that measures and no longer has it open has seen its end; the tables follow in a batch or two.
            is_over = row["outage_id"] in settled or row["prober_id"] in fresh_probers
            if row["outage_id"] not in found and not is_over:
                found[row["outage_id"]] = _from_tables(row, _tables_as_of(snapshot))
        incidents = _incidents_of(snapshot, found)
    except LakehouseError as error:
        problem = str(error)
    linked = [_linked(one, incidents.get(outage_id)) for outage_id, one in found.items()]
    linked.sort(key=lambda one: (one.source != "live", one.since_max_us, one.resource, words.natural(one.shard), one.kind))
    return Opened(tuple(linked), problem)


def incident_outages(snapshot: Snapshot, incident_id: str) -> tuple[Row, ...]:
    """The outages of an incident, with what a live file knows better; see `is_provisional` and `total_rows` of each row."""
    rows = snapshot.rows("incident_outages", incident_id=incident_id, limit=MAX_OUTAGES)
    live = _live_by_id(snapshot)
    return tuple(_with_live(row, live.get(row["outage_id"])) for row in rows)


def incidents(snapshot: Snapshot, limit: int) -> tuple[Row, ...]:
    """The last incidents; of those that are open, the worst outage as a prober has it now."""
    rows = snapshot.rows("incidents", limit=limit)
    if not any(row["is_open"] for row in rows):
        return rows
    lasted: dict[str | None, float] = {}
    for one in open_outages(snapshot).outages:
        lasted[one.incident_id] = max(lasted.get(one.incident_id, 0.0), one.rto_ms_min)
    return tuple(
        row | {"worst_rto_ms_min": max(row["worst_rto_ms_min"] or 0.0, lasted.get(row["incident_id"], 0.0))} if row["is_open"] else row
        for row in rows
    )


def rto_by_service(snapshot: Snapshot, incident_id: str, outages: Sequence[Row]) -> tuple[Row, ...]:
    """Worst, median and shortest RTO by kind and lane: from the tables, or from what a prober knows better while it goes on."""
    if not any(row["is_provisional"] for row in outages):
        return snapshot.rows("incident_rto", incident_id=incident_id)
    groups: dict[tuple[str, str, bool], list[Row]] = {}
    for row in outages:
        groups.setdefault((row["kind"], row["lane"], row["evidence"] == "inferred"), []).append(row)
    summed = [_summed(key, rows) for key, rows in groups.items()]
    return tuple(sorted(summed, key=lambda row: -row["worst_ms_min"]))


def _summed(key: tuple[str, str, bool], rows: Sequence[Row]) -> Row:
    """What sql/serve/incident_rto.sql says of a group: the quantiles of both bounds bound the quantile of the truth."""
    low = sorted(row["rto_ms_min"] for row in rows)
    high = sorted(math.inf if row["rto_ms_max"] is None else row["rto_ms_max"] for row in rows)
    median = (len(rows) - 1) // 2
    return {
        "kind": key[0],
        "lane": key[1],
        "is_inferred": key[2],
        "outages": len(rows),
        "partitions": len({(row["resource"], row["shard"]) for row in rows}),
        "open_outages": sum(row["is_open"] for row in rows),
        **{
            f"{name}_ms_{bound}": None if math.isinf(values[at]) else values[at]
            for name, at in (("worst", -1), ("median", median), ("least", 0))
            for bound, values in (("min", low), ("max", high))
        },
    }


def zero_of(outages: Sequence[Row]) -> datetime:
    """The earliest instant at which any of the outages can have begun: where the axes of an incident's figures begin."""
    return min((row["started_at_min"] or row["started_at_max"] for row in outages), default=clock.EPOCH)


def worst_by_service(outages: Sequence[Row]) -> list[Row]:
    """The outage of each kind and lane with the highest proven minimum, worst first."""
    worst: dict[tuple[str, str], Row] = {}
    for row in sorted(outages, key=lambda one: -one["rto_ms_min"]):
        worst.setdefault((row["kind"], row["lane"]), row)
    return list(worst.values())


def partition_rows(outages: Sequence[Row]) -> list[Row]:
    """The outages as rows of the partitions' grid: words for people, and numbers where a column is sorted by them."""
    return [
        {
            "outage_id": row["outage_id"],
            "service": palette.service(row["kind"], row["lane"]),
            "topic": row["resource"],
            "partition": row["shard"],
            "rto_ms_min": row["rto_ms_min"],
            "rto": words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"]),
            "started": words.instant_range(row["started_at_min"], row["started_at_max"]),
            "ended": "open" if row["is_open"] else words.instant_range(row["ended_at_min"], row["ended_at_max"]),
            **{phase: phase_text(row, phase) for phase in palette.PHASES},
            "leader": _leaders(row),
            "flaps": row["flaps"],
            "cause": palette.CAUSES.get(row["cause"], row["cause"]),
            "why": why.outage(row),
            "seen": why.view(row) or "inferred: no prober asked for it",
            "proof": f"[rows]({components.proof_href('outage', row['outage_id'])})",
            "verdict": palette.verdict(row["loss_verdict"]).word,
            "evidence": row["evidence"],
            "errors": ", ".join(row["codes"] or ()),
        }
        for row in outages
    ]


def _leaders(row: Row) -> str:
    after = row["leader_after"] or ("none yet" if row["is_open"] else "not known")
    return f"{row['leader_before'] or 'not known'} → {after}"


def phase_text(row: Row, phase: str) -> str:
    """A phase of an outage: its bounds, or why it has none. Never 0 for what did not happen."""
    low, high = row[f"{phase}_ms_min"], row[f"{phase}_ms_max"]
    if low is None and high is None:
        if row["is_open"]:
            return "not yet"
        return words.NOT_APPLICABLE if row["cause"] not in ("unknown", None) else "not known"
    return words.duration_range(low, high, is_open=row["is_open"])


def evidence_columns(table: str, key: str) -> tuple[ddl.Column, ...]:
    """The columns of an evidence table: what people read first, what only names the row last."""
    order = {name: rank for rank, name in enumerate((key, *EVIDENCE_LAST), start=2)}
    first = dict.fromkeys(EVIDENCE_FIRST, 0)
    return tuple(sorted(ddl.columns(table), key=lambda one: (first | order).get(one.name, 1)))


def evidence_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of a table as they are, each value as text or number: instants in UTC, lists with commas, NULL as nothing."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value


def _tables_as_of(snapshot: Snapshot) -> int | None:
    try:
        progress = snapshot.progress()
    except DamagedFile:
        return None
    return progress.newest_event_at_us if progress else None


def _from_live(view: LiveView, one: LiveOutage, source: str) -> OpenOutage:
    return OpenOutage(
        outage_id=one.outage_id,
        cluster_id=view.cluster_id,
        resource=one.resource,
        shard=one.shard,
        kind=one.kind,
        lane=one.lane,
        since_min_us=one.started_at_min_us,
        since_max_us=one.started_at_max_us,
        rto_ms_min=one.rto_ms_min,
        codes=one.codes,
        leader_before=one.leader_before,
        source=source,
        as_of_us=view.written_at_us,
    )


def _from_tables(row: Row, as_of_us: int | None) -> OpenOutage:
    return OpenOutage(
        outage_id=row["outage_id"],
        cluster_id=row["cluster_id"],
        resource=row["resource"],
        shard=row["shard"],
        kind=row["kind"],
        lane=row["lane"],
        since_min_us=None if row["started_at_min"] is None else clock.microseconds(row["started_at_min"]),
        since_max_us=clock.microseconds(row["started_at_max"]),
        rto_ms_min=row["rto_ms_min"],
        codes=tuple(row["codes"] or ()),
        leader_before=row["leader_before"],
        source="tables",
        as_of_us=as_of_us,
        incident_id=row["incident_id"],
    )


def _incidents_of(snapshot: Snapshot, found: Mapping[str, OpenOutage]) -> dict[str, str]:
    unknown = sorted(outage_id for outage_id, one in found.items() if one.incident_id is None)
    if not unknown:
        return {}
    return {row["outage_id"]: row["incident_id"] for row in snapshot.rows("outages_by_id", outage_ids=unknown)}


def _linked(one: OpenOutage, incident_id: str | None) -> OpenOutage:
    if incident_id is None:
        return one
    return OpenOutage(**{name: getattr(one, name) for name in OpenOutage.__slots__ if name != "incident_id"}, incident_id=incident_id)


def _live_by_id(snapshot: Snapshot) -> dict[str, LiveOutage]:
    fresh = [view for view in snapshot.live().views if view.is_fresh(snapshot.now_us)]
    return {one.outage_id: one for view in fresh for one in (*view.recent, *view.open)}


def _with_live(row: Row, live: LiveOutage | None) -> Row:
    if live is None or not row["is_open"]:
        return row | {"is_provisional": False}
    ends = {
        "ended_at_min": clock.instant(live.ended_at_min_us) if live.ended_at_min_us is not None else row["ended_at_min"],
        "ended_at_max": clock.instant(live.ended_at_max_us) if live.ended_at_max_us is not None else None,
    }
    if live.ended_at_max_us is None:
        # It goes on: not served at least until the last bad probe, which is so long after the latest possible start.
        last_bad_us = live.started_at_max_us + round(live.rto_ms_min * 1000)
        ends["ended_at_min"] = max(row["ended_at_min"], clock.instant(last_bad_us))
    return (
        row
        | ends
        | {
            "rto_ms_min": max(row["rto_ms_min"], live.rto_ms_min),
            "rto_ms_max": live.rto_ms_max,
            "is_open": live.ended_at_max_us is None,
            "is_provisional": True,
        }
    )
