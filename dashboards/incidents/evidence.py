"""The rows of silver that an incident rests on, as they are: sorted, filtered, each column with its meaning."""

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import html

from dashboards import components, data
from dashboards.incidents import subject
from dashboards.panels import Grid, Request, View
from pipelines.ddl import Column
from pipelines.errors import LakehouseError

EVIDENCE = {
    "events": ("silver.events", "evidence_events", "event_id", "Events"),
    "windows": ("silver.outage_windows", "evidence_outage_windows", "outage_id", "Probed outages"),
    "inferred": ("silver.partition_windows", "evidence_partition_windows", "window_id", "Partition windows"),
    "controllers": ("silver.controller_windows", "incident_controllers", "window_id", "Controller windows"),
    "service": ("silver.service_windows", "incident_service", "window_id", "Service windows"),
    "isr": ("silver.isr_windows", "incident_isr", "window_id", "Out of the ISR"),
    "losses": ("silver.losses", "evidence_losses", "loss_id", "Read-backs"),
    "findings": ("silver.findings", "incident_findings", "finding_id", "Findings"),
}
"""The tables that prove an incident: table, dataset, key, and what a tab calls it."""


def evidence(request: Request) -> View:
    """The rows that everything above rests on. A table that cannot be read leaves the others where they are."""
    name = subject.incident(request)["incident_id"]
    problems = []
    rows: dict[str, list[dict[str, Any]]] = {}
    counts = []
    for key, (table, dataset, _, label) in EVIDENCE.items():
        try:
            found = request.snapshot.rows(dataset, incident_id=name, limit=data.MAX_EVIDENCE)
        except LakehouseError as error:
            problems.append(components.problem(str(error), f"{label}: not there."))
            continue
        rows[key] = data.evidence_rows(found)
        total = found[0]["total_rows"] if found else 0
        cut = f", the first {len(found):,} shown" if len(found) < total else ""
        counts.append(html.Span([f"{label}: {total:,} rows of ", html.Code(table), cut]))
    body = [html.Div(counts, className="quiet counts-line"), *problems]
    return View(body, {}, rows, is_problem=bool(problems))


def tabs(parts: Mapping[str, Any]) -> Any:
    """A tab a table."""
    heads = dmc.TabsList([dmc.TabsTab(label, value=key) for key, (_, _, _, label) in EVIDENCE.items()])
    panes = [
        dmc.TabsPanel([html.P("No rows.", className="quiet only-when-empty"), parts[key]], value=key, className="pane")
        for key in EVIDENCE
    ]
    return [parts["body"], dmc.Tabs([heads, *panes], value="events", keepMounted=True)]


def grids() -> dict[str, Grid]:
    """A grid a table."""
    return {key: _grid(table, row_id) for key, (table, _, row_id, _) in EVIDENCE.items()}


def _grid(table: str, key: str) -> Grid:
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
    of_name = {"detail": 380, "proof": 380, "said": 480, "resource": 200, "event": 190, "shard": 90, "broker": 95, "leader": 95}
    of_type = {"TIMESTAMP": 215, "STRING": 150, "BIGINT": 100, "DOUBLE": 120, "BOOLEAN": 90}
    return of_name.get(column.name, max(of_type.get(column.type, 150), 8 * len(column.name) + 50))
