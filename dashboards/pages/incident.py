"""`/incidents/<id>`: how long was what gone, in which phase, why, who saw it, and what was lost?"""

from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from dashboards import data
from dashboards.freshness import banners
from dashboards.incidents import control, evidence, service
from dashboards.incidents.header import header
from dashboards.incidents.losses import losses
from dashboards.incidents.subject import incident, settled
from dashboards.panels import Grid, Page, Panel, Request
from pipelines.domain.health import StreamState


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


def _layout(slots: Mapping[str, Any]) -> Any:
    return list(slots.values())


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
            service.phases,
            "The worst outage of each kind of service. Striped: the boundary lies in there.",
            figures=("waterfall",),
            key=settled,
            arrange=lambda parts: [parts["waterfall"], parts["body"]],
        ),
        Panel(
            "rto",
            "How long",
            service.rto,
            "RTO by kind of service. Every line of the figure is one outage of a partition.",
            figures=("intervals",),
            key=settled,
            arrange=lambda parts: html.Div([parts["body"], parts["intervals"]], className="side-by-side"),
        ),
        Panel(
            "partitions",
            "Partitions hit",
            service.partitions,
            figures=("timeline",),
            grids={"partitions": Grid(service.PARTITION_COLUMNS, "outage_id", "partitions hit")},
            key=settled,
        ),
        Panel("losses", "Acknowledged data", losses, "What was acknowledged, read again from the log.", key=settled),
        Panel(
            "controllers",
            "Controller",
            control.controllers,
            "An outage of its own: without a controller writes go on, and elections wait. In no figure above.",
            key=settled,
        ),
        Panel("views", "Who saw it", service.views, "Was it the service, or what lies between one prober and it?", key=settled),
        Panel(
            "findings",
            "What disagrees",
            control.findings,
            "Neither outages nor losses: somebody's word that cannot be relied on.",
            key=lambda _request: "tables",
        ),
        Panel(
            "replication",
            "In-sync replicas and leaders",
            control.replication,
            figures=("timeline",),
            key=settled,
            arrange=lambda parts: [parts["timeline"], parts["body"]],
        ),
        Panel(
            "evidence",
            "Evidence",
            evidence.evidence,
            "The rows that everything above rests on. Hover over a column's name for its meaning; times are UTC.",
            grids=evidence.grids(),
            arrange=evidence.tabs,
            key=lambda _request: "tables",
        ),
    ),
    layout=_layout,
    absent=absent,
)
