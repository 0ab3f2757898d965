"""What stands at risk now: is there a controller, what would be lost if leaders died, and whose word is in doubt?

The rule: exposure is said of the last minutes only; what is older is not known now. A partition of which nobody can say anything is
listed with its reason and is never counted as safe, and a leader that is alone in its ISR comes first: nobody else has what it has.

Example: orders / 1 with in-sync followers 40 and 812 records behind is exposed by 40 to 812 records, of at most 1.73 s.
"""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from dash import dcc, html

from dashboards import components, palette, words
from dashboards.components import proof
from dashboards.panels import Request, View
from pipelines import why
from pipelines.domain import clock
from pipelines.serving import Row, Snapshot

EXPOSURE_SHOWN = 8
FRESH = timedelta(minutes=5)
DAY = timedelta(hours=24)


def since(snapshot: Snapshot, span: timedelta) -> datetime:
    """The begin of the last span, by whole minutes: what is asked for again within a minute is not computed again."""
    return clock.instant(snapshot.now_us).replace(second=0, microsecond=0) - span


def open_controllers(snapshot: Snapshot) -> list[Any]:
    """A sentence for each cluster that has no controller, as the tables know it."""
    rows = [row for row in snapshot.rows("open_controllers") if row["is_open"]]
    return [components.banner(palette.STATES["outage"], "No controller.", _no_controller(row), "controller") for row in rows]


def _no_controller(row: Row) -> Any:
    since_ = words.instant_range(row["started_at_min"], row["started_at_max"])
    waiting = words.plural(row["partitions_waiting"], "partition")
    said: list[Any] = [
        f"Cluster {row['cluster_id']} since {since_} UTC, ",
        proof("not seen to end", "outage", row["window_id"]),
        f": {why.outage(row)}. {waiting} waiting. Writes go on where leaders live; elections wait. ",
    ]
    if row["incident_id"]:
        said.append(dcc.Link(row["incident_id"], href=f"/incidents/{quote(row['incident_id'], safe='')}"))
    return html.Span(said)


def exposure(request: Request) -> View:
    """What acks=1 would lose if a leader died now, the worst partitions."""
    rows = request.snapshot.rows("exposure_now", since=since(request.snapshot, FRESH), limit=EXPOSURE_SHOWN)
    if not rows:
        minutes = words.plural(round(FRESH.total_seconds() / 60), "minute")
        text = "It takes the metrics of followers and the watch; unmeasured is not safe."
        return View(components.empty(f"Not known: nothing of the last {minutes} is in the tables.", text))
    total, unknown, exposed = (rows[0][name] for name in ("total_rows", "unknown_rows", "exposed_rows"))
    chips = [
        components.chip(palette.EXPOSED, f"{exposed:,} exposed", "an in-sync follower is behind") if exposed else None,
        components.chip(palette.STATES["unmeasured"], f"{unknown:,} not known", "see why, below") if unknown else None,
        components.chip(palette.STATES["serving"], f"{total - unknown - exposed:,} with nothing to lose", "all in sync are level")
        if total - unknown - exposed
        else None,
    ]
    head = ["Partition", "Leader; ISR", "Records at risk", "Time at risk", "Why not known", "As of (UTC)"]
    table = components.table(head, [_exposure_row(row) for row in rows])
    counts = [proof(one, "exposed", "now") for one in chips if one]
    return View([html.Div(counts, className="chips"), table, components.not_all(len(rows), total, "partition")])


def _exposure_row(row: Row) -> list[Any]:
    name = ("exposure", row["cluster_id"], row["resource"], row["shard"])
    records = words.count_range(row["exposed_records_min"], row["exposed_records_max"], "record", absent="not known")
    time = "not known" if row["exposed_ms_max"] is None else words.duration_range(0.0, row["exposed_ms_max"])
    isr = f"{row['leader'] or 'none'}; {', '.join(row['isr'])}" if row["isr"] else "not known"
    return [
        f"{row['resource']} / {row['shard']}",
        html.Span(isr, className="nowrap"),
        html.Strong(proof(records, *name)),
        proof(time, *name),
        html.Span(why.exposure(row["exposed_reason"]) or "", className="quiet"),
        words.instant(row["minute_at"])[11:16],
    ]


def findings(request: Request) -> View:
    """What disagreed in the last 24 hours, by kind."""
    rows = request.snapshot.rows("finding_counts", since=since(request.snapshot, DAY))
    if not rows:
        if request.snapshot.version("silver.findings") is None:
            return View(components.empty("Not known.", "The stream has not compared anything yet."))
        text = "Control plane, metrics, clients and clocks told the same story, as far as they were read."
        return View(components.empty("Nothing disagreed.", text))
    head = ["What disagrees", "Findings", "Newest (UTC)", "It says", "Incident"]
    return View(components.table(head, [_finding_row(row) for row in rows], numeric=(1,)))


def _finding_row(row: Row) -> list[Any]:
    incident_id = row["newest_incident_id"]
    href = f"/incidents/{quote(incident_id or '', safe='')}"
    link = dcc.Link(incident_id, href=href, className="nowrap") if incident_id else "none"
    return [
        components.chip(palette.FINDING, why.finding(row["finding"])),
        proof(f"{row['findings']:,}", "findings", row["cluster_id"], row["finding"]),
        html.Span(words.instant(row["newest_at"])[:19], className="nowrap"),
        proof(row["newest_said"], "finding", row["newest_finding_id"]),
        link,
    ]
