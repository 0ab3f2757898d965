"""How long was each partition not served, in which phase, why, and who saw it?"""

from collections.abc import Sequence
from typing import Any

from dash import html

from dashboards import components, data, figures, palette, words
from dashboards.components import proof
from dashboards.incidents import subject
from dashboards.panels import Request, View
from pipelines import why
from pipelines.serving import Row

ALONE_SHOWN = 12
NO_ROWS = "The outages of this incident are not in the tables yet."
NOT_DOWN = "The service was not down for everybody: see what single probers saw, and the controller, below."


def phases(request: Request) -> View:
    """The waterfall of each kind's worst outage, and the same as a table."""
    outages = subject.outages(request)
    if not outages:
        return _none(request)
    worst = data.worst_by_service(outages)
    head = ["Worst outage of", "Partition", *(mark.word.capitalize() for mark in palette.PHASES.values()), "RTO"]
    rows = [
        [
            components.chip(palette.kind(row["kind"]), palette.service(row["kind"], row["lane"])),
            f"{row['resource']} / {row['shard']}",
            *(_phase(row, phase) for phase in palette.PHASES),
            html.Strong(_proven(row)),
        ]
        for row in worst
    ]
    figure = figures.waterfall(worst, data.zero_of(outages), request.theme)
    return View(components.table(head, rows), {"waterfall": figure})


def _none(request: Request) -> View:
    return View(components.empty(NOT_DOWN if subject.everything(request) else NO_ROWS))


def _phase(row: Row, phase: str) -> Any:
    text = data.phase_text(row, phase)
    if text[0] not in "0123456789" and not text.startswith("at "):
        return html.Span(text, className="quiet")
    return proof(text, "outage", row["outage_id"])


def _proven(row: Row) -> Any:
    return proof(words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"]), "outage", row["outage_id"])


def rto(request: Request) -> View:
    """RTO by kind of service: worst, median, shortest, and every outage as an interval."""
    name = subject.incident(request)["incident_id"]
    outages = subject.outages(request)
    rows = data.rto_by_service(request.snapshot, name, outages)
    if not rows:
        return _none(request)
    head = ["Service", "Partitions", "Worst", "Median", "Shortest"]
    table = components.table(head, [_rto_row(name, row) for row in rows], numeric=(1,))
    return View(table, {"intervals": figures.rto_by_kind(outages, request.theme)})


def _rto_row(name: str, row: Row) -> list[Any]:
    is_open = row["open_outages"] > 0
    of = ("service", name, row["kind"], row["lane"])
    return [
        components.chip(
            palette.kind(row["kind"]),
            palette.service(row["kind"], row["lane"]) + (" (inferred)" if row["is_inferred"] else ""),
            palette.KIND_MEANINGS.get(row["kind"]),
        ),
        proof(f"{row['partitions']:,}", *of),
        html.Strong(proof(words.duration_range(row["worst_ms_min"], row["worst_ms_max"], is_open=is_open), *of)),
        proof(words.duration_range(row["median_ms_min"], row["median_ms_max"], is_open=is_open), *of),
        proof(words.duration_range(row["least_ms_min"], row["least_ms_max"], is_open=is_open), *of),
    ]


def partitions(request: Request) -> View:
    """Every partition that was hit: when, how long, which phases, whose leader, and why."""
    outages = subject.outages(request)
    if not outages:
        return _none(request)
    figure = figures.partitions_timeline(outages, data.zero_of(outages), request.theme)
    notes = [
        components.not_all(min(len(outages), figures.MAX_ROWS), len(outages), "outage"),
        components.not_all(len(subject.everything(request)), outages[0]["total_rows"], "outage"),
    ]
    return View([note for note in notes if note], {"timeline": figure}, {"partitions": data.partition_rows(outages)})


def views(request: Request) -> View:
    """What several probers say: where all of them were not served, and what one saw alone."""
    everything = subject.everything(request)
    probed = [row for row in everything if row["view"] is not None]
    service = request.snapshot.rows("incident_service", incident_id=subject.incident(request)["incident_id"], limit=data.MAX_EVIDENCE)
    if not any(row["view"] != "single" for row in probed):
        probers = sorted({row["prober_id"] for row in probed})
        only = f"Only {', '.join(probers)} looked." if probers else "No prober looked."
        text = "What lies between one prober and the service cannot be told from the service; a second prober elsewhere could."
        return View(components.empty(only, text))
    parts: list[Any] = [_agreement(subject.incident(request)["incident_id"], probed)]
    if service:
        head = ["Down for every prober that looked", "Service", "RTO", "Probers"]
        parts.append(components.table(head, [_service_row(row) for row in service[:ALONE_SHOWN]]))
        parts.append(components.not_all(min(len(service), ALONE_SHOWN), service[0]["total_rows"], "span"))
    apart = [row for row in probed if row["view"] in ("alone", "disputed")]
    if apart:
        head = ["Not everybody's", "Partition", "Service", "Prober", "Not served for", "Who saw it"]
        parts.append(components.table(head, [_alone_row(row) for row in apart[:ALONE_SHOWN]]))
        parts.append(components.not_all(min(len(apart), ALONE_SHOWN), len(apart), "outage"))
    return View(parts)


def _agreement(incident_id: str, probed: Sequence[Row]) -> Any:
    counts = {name: sum(row["view"] == name for row in probed) for name in palette.VIEWS}
    chips = [
        proof(components.chip(mark, f"{counts[name]:,} {mark.word}", palette.VIEW_MEANINGS[name]), "views", incident_id, name)
        for name, mark in palette.VIEWS.items()
    ]
    return html.Div([chip for chip, count in zip(chips, counts.values(), strict=True) if count], className="chips")


def _service_row(row: Row) -> list[Any]:
    lasted = words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"])
    return [
        f"{row['resource']} / {row['shard']}",
        components.chip(palette.kind(row["kind"]), palette.service(row["kind"], row["lane"])),
        html.Strong(proof(lasted, "agreed", row["window_id"])),
        ", ".join(row["probers"]),
    ]


def _alone_row(row: Row) -> list[Any]:
    return [
        components.chip(palette.VIEWS[row["view"]], None, palette.VIEW_MEANINGS[row["view"]]),
        f"{row['resource']} / {row['shard']}",
        palette.service(row["kind"], row["lane"]),
        row["prober_id"],
        _proven(row),
        why.view(row),
    ]


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
    {
        "field": "proof",
        "width": 80,
        "headerName": "Proof",
        "cellRenderer": "markdown",
        "sortable": False,
        "headerTooltip": "the rows that prove the figures of this line",
    },
    {"field": "why", "filter": True, "width": 540, "headerName": "Why", "tooltipField": "why"},
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
    {"field": "seen", "filter": True, "width": 260, "headerName": "Who saw it", "tooltipField": "seen"},
    {"field": "verdict", "filter": True, "width": 160, "headerName": "Acknowledged data"},
    {"field": "evidence", "filter": True, "width": 120, "headerName": "Evidence"},
    {"field": "errors", "width": 220, "headerName": "Errors"},
)
