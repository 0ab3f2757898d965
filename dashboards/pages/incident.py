"""`/incidents/<id>`: how long was what gone, in which phase, why, and what was lost?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboards import components, data, figures, palette, words
from dashboards.freshness import banners
from dashboards.pages.overview import what
from dashboards.panels import Grid, Page, Panel, Request, View
from pipelines.ddl import Column
from pipelines.domain import clock
from pipelines.domain.health import StreamState
from pipelines.serving import Row

EVIDENCE = {
    "events": ("silver.events", "evidence_events", "event_id", "Events"),
    "windows": ("silver.outage_windows", "evidence_outage_windows", "outage_id", "Probed outages"),
    "inferred": ("silver.partition_windows", "evidence_partition_windows", "window_id", "Partition windows"),
    "losses": ("silver.losses", "evidence_losses", "loss_id", "Read-backs"),
}
"""The tables that prove an incident: table, dataset, key, and what a tab calls it."""


def incident(request: Request) -> Row:
    """The incident that the address names; the page is absent without it."""
    row = request.snapshot.row("incident", incident_id=request.path.get("incident_id", ""))
    return row if row is not None else {}


def absent(request: Request) -> Any:
    """What is shown for an incident that is not there."""
    if incident(request):
        return None
    name = request.path.get("incident_id", "")
    now = data.present(request.snapshot)
    hint = (
        "An outage that has just begun is an incident as soon as the stream has taken it in; this page looks again by itself."
        if now.stream in (StreamState.RUNNING, StreamState.STARTING, StreamState.DRAINING)
        else "The stream is not running, so nothing new can appear here."
    )
    return html.Div(
        [
            html.H1("No such incident", tabIndex=-1),
            html.P(["There is no incident ", html.Code(name), " in the tables. ", hint]),
            dcc.Link("All incidents", href="/"),
        ],
        className="nothing",
    )


def settled(request: Request) -> str | None:
    """A panel of an incident that is over depends on the tables alone; while it goes on, on what probers say."""
    row = incident(request)
    return None if not row or row["is_open"] else "over"


# --- header -----------------------------------------------------------------------------------------------------------


def header(request: Request) -> View:
    """What, when, who, verdict."""
    row = incident(request)
    outages = data.incident_outages(request.snapshot, row["incident_id"])
    is_open = any(one["is_open"] for one in outages) if outages else row["is_open"]
    state = (
        components.chip(palette.STATES["outage"], "Open")
        if is_open
        else components.chip(palette.STATES["serving"], "Over: served again")
    )
    provisional = any(one.get("is_provisional") for one in outages)
    return View(
        [
            html.Div([dcc.Link("Overview", href="/"), html.Span(" / "), html.Code(row["incident_id"])], className="crumbs"),
            html.Div([html.H1(what(row), tabIndex=-1), state], className="title"),
            html.P(_when(row, is_open=is_open, provisional=provisional), className="lead"),
            html.P(_causes(outages), className="quiet causes") if outages else None,
            html.Div(_tiles(request, row, outages, is_open=is_open), className="tiles"),
        ]
    )


def _when(row: Row, *, is_open: bool, provisional: bool) -> list[Any]:
    began = words.instant_range(row["started_at_min"], row["started_at_max"])
    day = words.instant(row["started_at_max"])[:10]
    ended = "still open" if is_open else f"ended {words.instant_range(row['ended_at_min'], row['ended_at_max'])}"
    said: list[Any] = [f"{day}, began {began}, {ended} (UTC) · {row['system']} cluster ", html.Code(row["cluster_id"])]
    if provisional:
        said.append(html.Span(" · live figures are provisional until the stream has them", className="quiet"))
    return said


def _causes(outages: Sequence[Row]) -> str:
    counts = Counter(palette.CAUSES.get(one["cause"], one["cause"]) for one in outages)
    return " · ".join(f"{cause}: {words.plural(count, 'outage')}" for cause, count in counts.most_common())


def _tiles(request: Request, row: Row, outages: Sequence[Row], *, is_open: bool) -> list[Any]:
    worst = outages[0] if outages else None
    for one in outages:
        if worst is None or one["rto_ms_min"] > worst["rto_ms_min"]:
            worst = one
    low = max([row["worst_rto_ms_min"] or 0.0, *(one["rto_ms_min"] for one in outages)])
    maxima = [one["rto_ms_max"] for one in outages]
    whole = len(outages) == row["outages"]
    high = None if is_open or (whole and None in maxima) else max([row["worst_rto_ms_max"] or 0.0, *(m or 0.0 for m in maxima)]) or None
    of = f"proven on {worst['resource']} / {worst['shard']}, {palette.service(worst['kind'], worst['lane'])}" if worst else ""
    verdict = palette.verdict(row["loss_verdict"])
    inferred = row["partitions"] - row["partitions_probed"]
    losses = request.snapshot.rows("incident_losses", incident_id=row["incident_id"], limit=1)
    checked = f"read back {words.instant(losses[0]['checked_at'])[11:19]} UTC" if losses else "no read-back yet"
    return [
        components.tile(
            "Worst RTO", words.duration_range(low, high, is_open=is_open), of, palette.kind(worst["kind"]) if worst else None
        ),
        components.tile(
            "Partitions hit",
            f"{row['partitions']:,}",
            f"{row['partitions_probed']:,} probed, {inferred:,} inferred · {words.plural(row['outages'], 'outage')}",
        ),
        components.tile(
            "Acknowledged data",
            _verdict_value(row),
            f"{palette.VERDICT_MEANINGS.get(row['loss_verdict'], '')} · {checked}",
            verdict,
        ),
        components.tile("RPO", _rpo_value(row), _rpo_note(row), verdict),
    ]


def _verdict_value(row: Row) -> Any:
    mark = palette.verdict(row["loss_verdict"])
    lost = words.count_range(row["lost_records_min"], row["lost_records_max"], "record")
    return components.chip(mark, f"{lost} lost" if row["loss_verdict"] == "LOST" else mark.word)


def _rpo_value(row: Row) -> str:
    if row["loss_verdict"] == "LOST":
        return words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"])
    return "0 records" if row["loss_verdict"] in ("PRESENT", "DELETED_BY_POLICY") else "not known"


def _rpo_note(row: Row) -> str:
    if row["loss_verdict"] == "LOST":
        return "span of acknowledged data that is gone; the outage itself does not count"
    if row["loss_verdict"] in ("PRESENT", "DELETED_BY_POLICY") and row["rpo_ms_max"]:
        bound = words.duration_range(row["rpo_ms_max"], row["rpo_ms_max"])
        return f"of our canaries; between two of them a continuous writer can have lost at most {bound}"
    return "decided by reading every acknowledged record again"


# --- panels -----------------------------------------------------------------------------------------------------------


def phases(request: Request) -> View:
    """The waterfall of each kind's worst outage, and the same as a table."""
    outages = data.incident_outages(request.snapshot, incident(request)["incident_id"])
    if not outages:
        return View(components.empty("The outages of this incident are not in the tables yet."))
    worst = data.worst_by_service(outages)
    head = ["Worst outage of", "Partition", *(mark.word.capitalize() for mark in palette.PHASES.values()), "RTO"]
    rows = [
        [
            components.chip(palette.kind(row["kind"]), palette.service(row["kind"], row["lane"])),
            f"{row['resource']} / {row['shard']}",
            *(_muted(data.phase_text(row, phase)) for phase in palette.PHASES),
            html.Strong(words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"])),
        ]
        for row in worst
    ]
    figure = figures.waterfall(worst, data.zero_of(outages), request.theme)
    return View(components.table(head, rows), {"waterfall": figure})


def _muted(text: str) -> Any:
    return html.Span(text, className="quiet") if text[0] not in "0123456789" and not text.startswith("at ") else text


def rto(request: Request) -> View:
    """RTO by kind of service: worst, median, shortest, and every outage as an interval."""
    name = incident(request)["incident_id"]
    outages = data.incident_outages(request.snapshot, name)
    rows = data.rto_by_service(request.snapshot, name, outages)
    if not rows:
        return View(components.empty("The outages of this incident are not in the tables yet."))
    head = ["Service", "Partitions", "Worst", "Median", "Shortest"]
    table = components.table(head, [_rto_row(row) for row in rows], numeric=(1,))
    return View(table, {"intervals": figures.rto_by_kind(outages, request.theme)})


def _rto_row(row: Row) -> list[Any]:
    is_open = row["open_outages"] > 0
    return [
        components.chip(
            palette.kind(row["kind"]),
            palette.service(row["kind"], row["lane"]) + (" (inferred)" if row["is_inferred"] else ""),
            palette.KIND_MEANINGS.get(row["kind"]),
        ),
        f"{row['partitions']:,}",
        html.Strong(words.duration_range(row["worst_ms_min"], row["worst_ms_max"], is_open=is_open)),
        words.duration_range(row["median_ms_min"], row["median_ms_max"], is_open=is_open),
        words.duration_range(row["least_ms_min"], row["least_ms_max"], is_open=is_open),
    ]


def partitions(request: Request) -> View:
    """Every partition that was hit: when, how long, which phases, whose leader."""
    outages = data.incident_outages(request.snapshot, incident(request)["incident_id"])
    if not outages:
        return View(components.empty("The outages of this incident are not in the tables yet."))
    figure = figures.partitions_timeline(outages, data.zero_of(outages), request.theme)
    notes = [
        components.not_all(min(len(outages), figures.MAX_ROWS), len(outages), "outage"),
        components.not_all(len(outages), outages[0]["total_rows"], "outage"),
    ]
    return View([note for note in notes if note], {"timeline": figure}, {"partitions": data.partition_rows(outages)})


def replication(request: Request) -> View:
    """The ISR and the leaders over time."""
    name = incident(request)["incident_id"]
    absences = request.snapshot.rows("incident_isr", incident_id=name, limit=data.MAX_EVIDENCE)
    events = request.snapshot.rows("evidence_events", incident_id=name, limit=data.MAX_EVIDENCE)
    if not absences and not events:
        text = "No collector read the control plane in this time, or the stream has not taken it in yet."
        return View(components.empty("No change of an ISR or a leader is recorded.", text))
    outages = data.incident_outages(request.snapshot, name)
    zero = data.zero_of(outages) if outages else (absences or events)[0].get("happened_at_min", clock.EPOCH)
    is_open = any(one["is_open"] for one in outages)
    until = clock.instant(request.snapshot.now_us) if is_open else None
    figure = figures.replication_timeline(absences, events, zero, request.theme, until)
    return View(_replication_note(absences), {"timeline": figure})


def _replication_note(absences: Sequence[Row]) -> Any:
    still = len({(row["resource"], row["shard"]) for row in absences if row["is_open"]})
    if not still:
        return None
    return html.P(f"{words.plural(still, 'partition')} still short of a replica.", className="quiet")


def losses(request: Request) -> View:
    """What became of acknowledged data: the findings that are not harmless one by one, the rest summed up."""
    row = incident(request)
    found = request.snapshot.rows("incident_losses", incident_id=row["incident_id"], limit=data.MAX_EVIDENCE)
    if not found:
        text = "Records are read again after every change of leader and every hour. Until then they are neither lost nor safe."
        return View(components.empty("Not read back yet.", text))
    present = [one for one in found if one["verdict"] == "PRESENT"]
    others = [one for one in found if one["verdict"] != "PRESENT"]
    parts: list[Any] = []
    if others:
        head = ["Verdict", "Partition", "Service", "Records gone", "RPO", "Of acknowledged", "Positions", "Checked (UTC)"]
        parts.append(components.table(head, [_loss_row(one) for one in others[:50]]))
        parts.append(components.not_all(min(len(others), 50), len(others), "finding"))
    if present:
        records = sum(one["acked_records"] for one in present)
        latest = max(one["checked_at"] for one in present)
        shards = len({(one["resource"], one["shard"]) for one in present})
        of = f"{words.plural(records, 'acknowledged record')} in {words.plural(shards, 'partition')}"
        parts.append(
            html.P(
                [
                    components.chip(palette.VERDICTS["PRESENT"], "Present"),
                    f" {of} were read again and are there; last checked {words.instant(latest)} UTC. ",
                    html.Span("Not acknowledged is not lost; late is not lost.", className="quiet"),
                ]
            )
        )
    return View(parts)


def _loss_row(row: Row) -> list[Any]:
    mark = palette.verdict(row["verdict"])
    positions = f"{row['first_position']}{words.DASH}{row['last_position']}" if row["first_position"] is not None else "not known"
    return [
        components.chip(mark, None, palette.VERDICT_MEANINGS.get(row["verdict"])),
        f"{row['resource']} / {row['shard']}",
        palette.service(row["kind"], row["lane"]),
        html.Strong(words.count_range(row["records_min"], row["records_max"], "record")),
        words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"]),
        f"{row['acked_records']:,}",
        html.Code(positions),
        words.instant(row["checked_at"])[:19],
    ]


def evidence(request: Request) -> View:
    """The rows that everything above rests on."""
    name = incident(request)["incident_id"]
    rows: dict[str, list[Row]] = {}
    counts = []
    for key, (table, dataset, _, label) in EVIDENCE.items():
        found = request.snapshot.rows(dataset, incident_id=name, limit=data.MAX_EVIDENCE)
        rows[key] = data.evidence_rows(found)
        total = found[0]["total_rows"] if found else 0
        cut = f", the first {len(found):,} shown" if len(found) < total else ""
        counts.append(html.Span([f"{label}: {total:,} rows of ", html.Code(table), cut]))
    return View(html.Div(counts, className="quiet counts-line"), {}, rows)


def _evidence_tabs(parts: Mapping[str, Any]) -> Any:
    tabs = dmc.TabsList([dmc.TabsTab(label, value=key) for key, (_, _, _, label) in EVIDENCE.items()])
    panes = [
        dmc.TabsPanel([html.P("No rows.", className="quiet only-when-empty"), parts[key]], value=key, className="pane")
        for key in EVIDENCE
    ]
    return [parts["body"], dmc.Tabs([tabs, *panes], value="events", keepMounted=True)]


def _evidence_grid(table: str, key: str) -> Grid:
    columns = tuple(
        {
            "field": one.name,
            "headerName": one.name,
            "headerTooltip": one.comment,
            "width": _width(one),
            "filter": one.type == "STRING",
        }
        for one in data.evidence_columns(table, key)
    )
    return Grid(columns, key, table)


def _width(column: Column) -> int:
    """Pixels that the usual values of a column need."""
    of_name = {"detail": 380, "proof": 380, "resource": 200, "event": 190, "shard": 90, "broker": 95, "leader": 95}
    of_type = {"TIMESTAMP": 215, "STRING": 150, "BIGINT": 100, "DOUBLE": 120, "BOOLEAN": 90}
    return of_name.get(column.name, max(of_type.get(column.type, 150), 8 * len(column.name) + 50))


PARTITION_COLUMNS: tuple[dict[str, Any], ...] = (
    {"field": "topic", "filter": True, "width": 200, "headerName": "Topic", "pinned": "left"},
    {"field": "partition", "filter": True, "width": 90, "headerName": "Partition", "pinned": "left"},
    {"field": "service", "filter": True, "width": 215, "headerName": "Service"},
    {
        "field": "rto_ms_min",
        "width": 185,
        "headerName": "RTO",
        "valueFormatter": {"function": "params.data.rto"},
        "filter": "agNumberColumnFilter",
        "sort": "desc",
        "headerTooltip": "from the first instant not served to the first served again; sorted by the minimum",
    },
    {"field": "started", "width": 175, "headerName": "Began (UTC)"},
    {"field": "ended", "width": 215, "headerName": "Ended (UTC)"},
    *(
        {
            "field": phase,
            "width": 125,
            "headerName": mark.word.capitalize(),
            "headerTooltip": palette.PHASE_MEANINGS[phase],
            "sortable": False,
        }
        for phase, mark in palette.PHASES.items()
    ),
    {"field": "leader", "width": 90, "headerName": "Leader"},
    {
        "field": "flaps",
        "width": 75,
        "headerName": "Flaps",
        "headerTooltip": "short serving runs in between that are too short to be told apart",
    },
    {"field": "cause", "filter": True, "width": 250, "headerName": "Cause"},
    {"field": "verdict", "filter": True, "width": 160, "headerName": "Acknowledged data"},
    {"field": "evidence", "filter": True, "width": 120, "headerName": "Evidence"},
    {"field": "errors", "width": 220, "headerName": "Errors"},
)


def _layout(slots: Mapping[str, Any]) -> Any:
    return [
        slots["banners"],
        slots["header"],
        slots["phases"],
        slots["rto"],
        slots["partitions"],
        slots["replication"],
        slots["losses"],
        slots["evidence"],
    ]


PAGE = Page(
    name="incident",
    path="/incidents/<incident_id>",
    title=lambda incident_id="", **_: f"Incident {incident_id} · Lastack",
    panels=(
        Panel("banners", None, banners),
        Panel("header", None, header, key=settled),
        Panel(
            "phases",
            "Where the time went",
            phases,
            "The worst outage of each kind of service. Striped: the boundary lies in there.",
            figures=("waterfall",),
            key=settled,
            arrange=lambda parts: [parts["waterfall"], parts["body"]],
        ),
        Panel(
            "rto",
            "How long",
            rto,
            "RTO by kind of service. Every line of the figure is one partition.",
            figures=("intervals",),
            key=settled,
            arrange=lambda parts: html.Div([parts["body"], parts["intervals"]], className="side-by-side"),
        ),
        Panel(
            "partitions",
            "Partitions hit",
            partitions,
            figures=("timeline",),
            grids={"partitions": Grid(PARTITION_COLUMNS, "outage_id", "partitions hit")},
            key=settled,
        ),
        Panel("replication", "In-sync replicas and leaders", replication, figures=("timeline",), key=settled),
        Panel("losses", "Acknowledged data", losses, "What was acknowledged, read again from the log.", key=settled),
        Panel(
            "evidence",
            "Evidence",
            evidence,
            "The rows that everything above rests on. Hover over a column's name for its meaning; times are UTC.",
            grids={key: _evidence_grid(table, row_id) for key, (table, _, row_id, _) in EVIDENCE.items()},
            arrange=_evidence_tabs,
            key=lambda _request: "tables",
        ),
    ),
    layout=_layout,
    absent=absent,
)
