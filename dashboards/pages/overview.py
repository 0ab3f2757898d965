"""`/`: is anything on fire, what happened last, and can what this page says be trusted?"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote

from dash import dcc, html

from dashboards import components, data, palette, words
from dashboards.components import proof
from dashboards.data import OpenOutage, Present
from dashboards.freshness import banners, measured_since
from dashboards.panels import Page, Panel, Request, View
from dashboards.standing import exposure, findings, open_controllers
from pipelines.domain import clock
from pipelines.domain.health import ClusterHealth, ClusterState, LiveView, StreamState
from pipelines.errors import LakehouseError
from pipelines.serving import Row, Snapshot

INCIDENTS_SHOWN = 20
OPEN_SHOWN = 24
STREAM_MARKS = {
    StreamState.RUNNING: palette.STATES["serving"],
    StreamState.STARTING: palette.Mark(palette.BLUE, "square", "■", "Starting"),
    StreamState.DRAINING: palette.Mark(palette.BLUE, "square", "■", "Draining"),
    StreamState.FAILED: palette.Mark(palette.VERMILLION, "x", "✖", "Failed"),
}


def incident_link(incident_id: str) -> str:
    """The address of an incident's page."""
    return f"/incidents/{quote(incident_id, safe='')}"


# --- clusters ---------------------------------------------------------------------------------------------------------


def clusters(request: Request) -> View:
    """One card a cluster, worst first."""
    now = data.present(request.snapshot)
    if not now.clusters:
        return View(
            components.empty(
                "No cluster is known yet.",
                "A collector that runs writes its state here within a second of its first probe.",
            )
        )
    cards = [_card(one, now.measured_from.get(one.cluster_id), now.now_us) for one in now.clusters]
    return View(html.Div(cards, className="cards"))


def _card(cluster: ClusterHealth, since: datetime | None, now_us: int) -> Any:
    mark = palette.STATES[cluster.state]
    fresh = [view for view in cluster.views if view.is_fresh(now_us)]
    counts = [
        ("served", sum(view.up for view in fresh)),
        ("not served", sum(view.down for view in fresh)),
        ("unmeasured", sum(view.unmeasured for view in fresh)),
    ]
    written = cluster.written_at_us
    return html.Div(
        [
            components.chip(mark),
            html.Div(
                [
                    html.Div(_reason(cluster)),
                    html.Div(f"last word {words.age(None if written is None else now_us - written)}", className="quiet card-foot"),
                ]
            ),
            html.Dl(
                [html.Div([html.Dt(name), html.Dd(proof(f"{count:,}", "live", cluster.cluster_id))]) for name, count in counts],
                className="counts",
                title="streams: one a partition, kind of service and lane",
            )
            if fresh
            else html.Div("its streams: not known now", className="quiet"),
            html.Div(
                [
                    html.Div([f"{cluster.system} ", html.Code(cluster.cluster_id)]),
                    html.Div(f"measured since {words.instant(since)[:16]} UTC" if since else "not in the tables yet"),
                ],
                className="quiet card-foot",
            ),
        ],
        className="card hatched-edge" if mark.colour == palette.GREY else "card",
        style={"--mark": mark.colour},
        **components.wild(data_state=str(cluster.state)),
    )


def _reason(cluster: ClusterHealth) -> Any:
    """Why it is in that state; what probers said last proves it."""
    reason = cluster.reason[:1].upper() + cluster.reason[1:] + "."
    return proof(reason, "live", cluster.cluster_id) if cluster.views else reason


# --- open outages -----------------------------------------------------------------------------------------------------


def open_outages(request: Request) -> View:
    """What is down now, with running clocks."""
    now = data.present(request.snapshot)
    opened = data.open_outages(request.snapshot)
    found = opened.outages
    controllers = open_controllers(request.snapshot)
    missing = components.problem(opened.problem, "The tables' part is missing.") if opened.problem else None
    if not found:
        return View([*controllers, _none_open(now, is_controlled=not controllers), missing])
    head = ["Running for", "Proven", "Partition", "Service", "Errors", "Leader was", "Incident", "Known from"]
    rows = [_open_row(one, now.now_us) for one in found[:OPEN_SHOWN]]
    return View([*controllers, components.table(head, rows), components.not_all(len(rows), len(found), "open outage"), missing])


def _none_open(now: Present, *, is_controlled: bool) -> Any:
    measuring = [one for one in now.clusters if one.state == ClusterState.SERVING]
    if measuring and len(measuring) == len(now.clusters):
        streams = sum(view.up for one in measuring for view in one.views if view.is_fresh(now.now_us))
        headline = "No outage is open." if is_controlled else "No partition's outage is open."
        counted = proof(f"{streams} streams", "live", measuring[0].cluster_id) if len(measuring) == 1 else f"{streams} streams"
        return components.empty(headline, [counted, " are probed and served, as of the last second."])
    if not now.clusters:
        return components.empty("Not known.", "Nothing has been measured yet.")
    return components.empty(
        "Not known for every cluster.", "No outage is known to be open, but some of this is unmeasured: see the clusters' states."
    )


def _open_row(one: OpenOutage, now_us: int) -> list[Any]:
    lasted = words.elapsed(now_us - one.since_max_us)
    clock: Any = components.running(one.since_max_us, lasted) if one.source == "live" else "not known now"
    sources = {
        "live": "live, provisional",
        "last seen": f"last seen {words.age(None if one.as_of_us is None else now_us - one.as_of_us)}",
        "tables": f"tables, as of {words.age(None if one.as_of_us is None else now_us - one.as_of_us)}",
    }
    link = (
        dcc.Link(one.incident_id, href=incident_link(one.incident_id))
        if one.incident_id
        else html.Span("not in the tables yet", className="quiet")
    )
    return [
        html.Strong(clock),
        _proven(one),
        f"{one.resource} / {one.shard}",
        components.chip(palette.kind(one.kind), palette.service(one.kind, one.lane)),
        html.Code(", ".join(one.codes) or "none"),
        one.leader_before or "not known",
        link,
        html.Span(sources[one.source], className="quiet"),
    ]


def _proven(one: OpenOutage) -> Any:
    """How long it has lasted at least: proven by the tables as soon as they have it, till then by the live file."""
    of = ("outage", one.outage_id) if one.incident_id or one.source == "tables" else ("live", one.cluster_id)
    return proof(words.at_least(one.rto_ms_min), *of)


# --- incidents --------------------------------------------------------------------------------------------------------


def incidents(request: Request) -> View:
    """The last incidents."""
    rows = data.incidents(request.snapshot, INCIDENTS_SHOWN)
    if not rows:
        return View(components.empty("No incident recorded yet.", measured_since(request.snapshot)))
    head = ["Incident", "Began (UTC)", "What", "Partitions", "Services", "Worst RTO", "Acknowledged data", "RPO"]
    body = [components.table(head, [_incident_row(row) for row in rows])]
    return View([*body, components.not_all(len(rows), rows[0]["total_rows"], "incident")])


def _incident_row(row: Row) -> list[Any]:
    verdict = palette.verdict(row["loss_verdict"])
    lost = words.count_range(row["lost_records_min"], row["lost_records_max"], "record", absent="")
    is_lost = row["loss_verdict"] == "LOST"
    state = [components.chip(palette.STATES["outage"], "open")] if row["is_open"] else []
    return [
        html.Div([dcc.Link(row["incident_id"], href=incident_link(row["incident_id"])), *state], className="incident-name"),
        html.Span(words.instant(row["started_at_min"] or row["started_at_max"])[:19], className="nowrap"),
        what(row),
        proof(f"{row['partitions']:,}", "partitions", row["incident_id"]),
        html.Div([components.chip(palette.kind(kind)) for kind in row["kinds"] or ()], className="kinds"),
        html.Strong(_worst(row)),
        proof(
            components.chip(verdict, f"{verdict.word}: {lost}" if is_lost else None, palette.VERDICT_MEANINGS.get(row["loss_verdict"])),
            *("losses", row["incident_id"]),
        ),
        html.Span(
            proof(
                words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"], absent="not read back") if is_lost else rpo(row),
                *("losses", row["incident_id"]),
            ),
            className="nowrap",
        ),
    ]


def _worst(row: Row) -> Any:
    """The worst outage of the service; none where one prober alone saw any."""
    if row["worst_rto_ms_min"] is None:
        return html.Span("none of the service", className="quiet")
    lasted = words.duration_range(row["worst_rto_ms_min"], row["worst_rto_ms_max"], is_open=row["is_open"])
    return proof(lasted, "worst", row["incident_id"])


def rpo(row: Row) -> str:
    """The span of lost data in words: nothing lost is 0 records, whatever the bounds of a continuous writer would be."""
    if row["loss_verdict"] == "NOT_APPLICABLE":
        return words.NOT_APPLICABLE
    if row["loss_verdict"] in ("UNCHECKED", "UNCHECKABLE", "STRANDED"):
        return "not known"
    return "no record"


def what(row: Row) -> str:
    """An incident in a few words: the broker that explains most of its outages, else the cause of most of them."""
    if row["broker"] and row["cause"] in ("leader_failed", "isr_member_dead"):
        return f"Broker {row['broker']} was not serving"
    if row["broker"] and row["cause"] == "leader_moved":
        return f"Leaders moved off broker {row['broker']}"
    if row["cause"] == "prober_alone":
        return "One prober alone was not served"
    if row["broker"] and row["cause"] == "controller_failed":
        return f"Controller {row['broker']} failed"
    cause = str(palette.CAUSES.get(row["cause"], row["cause"]))
    return cause[:1].upper() + cause[1:]


# --- availability -----------------------------------------------------------------------------------------------------


def availability(request: Request) -> View:
    """Today by kind of service: how much was served, how much of it was measured."""
    today = datetime.fromtimestamp(request.snapshot.now_us / 1_000_000, tz=UTC).date()
    rows = request.snapshot.rows("availability", day=today)
    if not rows:
        return View(components.empty(f"Nothing measured on {today} (UTC) is in the tables yet.", measured_since(request.snapshot)))
    head = ["Service", "Partitions", "Availability", "Worst partition", "Coverage", "Served, not served, unmeasured"]
    return View(components.table(head, [_availability_row(row, today) for row in rows], numeric=(1,)))


def _availability_row(row: Row, day: date) -> list[Any]:
    coverage = row["coverage_ratio"] or 0.0
    down = coverage * (1 - (row["availability_ratio_min"] or 0.0))
    title = (
        f"not served {words.duration_range(row['down_ms_min'], row['down_ms_max'])} in sum over the partitions, "
        f"unmeasured {words.duration(row['unmeasured_ms'])}"
    )
    if row["alone_ms"]:
        title += f", {words.duration(row['alone_ms'])} of it while a prober was proven alone"
    is_whole = coverage >= 0.9995
    of = ("availability", row["cluster_id"], row["kind"], row["lane"], f"{day:%Y-%m-%d}")
    return [
        components.chip(palette.kind(row["kind"]), palette.service(row["kind"], row["lane"])),
        proof(f"{row['partitions']:,}", *of),
        html.Strong(proof(words.ratio_range(row["availability_ratio_min"], row["availability_ratio_max"]), *of)),
        html.Span(
            [
                f"{row['worst_resource']} / {row['worst_shard']}: ",
                proof(words.ratio_range(row["worst_ratio_min"], row["worst_ratio_max"]), *of),
            ]
        ),
        html.Span([proof(words.ratio(row["coverage_ratio"]), *of), _alone(row)], className="" if is_whole else "gap"),
        components.stacked_share(coverage - down, down, 1 - coverage, title),
    ]


def _alone(row: Row) -> Any:
    """Who measured only what lies between it and the service, for so long: a row is a partition and a prober."""
    if not row["alone_ms"]:
        return None
    said = f"{words.plural(row['probers_alone'], 'prober')} of {row['probers']} stood alone"
    return html.Div(said, className="quiet reason")


# --- freshness --------------------------------------------------------------------------------------------------------


def freshness(request: Request) -> View:
    """How old everything on this page is."""
    now = data.present(request.snapshot)
    rows = [_prober_row(view, now.now_us) for view in now.views] or [
        ["Probers", components.chip(palette.STATES["unmeasured"], "None"), "never", "no live file: start a collector"]
    ]
    rows.append(_stream_row(now))
    rows.append(_quarantine_row(request.snapshot, now.now_us))
    return View(components.table(["Source", "State", "Last word", "What it says"], rows))


def _quarantine_row(snapshot: Snapshot, now_us: int) -> list[Any]:
    try:
        row = snapshot.row("quarantine")
        version = snapshot.version("bronze.quarantine")
    except LakehouseError as error:
        return ["Quarantine", components.chip(palette.VERDICTS["LOST"], "Not readable"), "not known", str(error)]
    if row is None or version is None:
        return ["Quarantine", components.chip(palette.STATES["unmeasured"], "None yet"), "never", "no line has been taken in yet"]
    lines = row["quarantined_lines"]
    if not lines:
        said = "every line of the landing was an observation"
        return ["Quarantine", components.chip(palette.STATES["serving"], "0 lines"), "none", said]
    mark = palette.Mark(palette.ORANGE, "triangle-up", "▲", "Lines refused")
    newest = words.age(now_us - clock.microseconds(row["newest_at"]))
    return [
        "Quarantine",
        proof(components.chip(mark, words.plural(lines, "line")), "quarantine", "lines"),
        newest,
        f"newest: {row['newest_reason']}",
    ]


def _prober_row(view: LiveView, now_us: int) -> list[Any]:
    is_fresh = view.is_fresh(now_us)
    state = "serving" if is_fresh and view.is_measuring_all else "unmeasured" if is_fresh else "stale"
    word = {"serving": "Measuring", "stale": "Silent"}.get(state, view.state.capitalize())
    blind = f"; blind since {words.instant(clock.instant(view.blind_since_us))} UTC" if view.blind_since_us is not None else ""
    counts = f"{view.up} served, {view.down} not served, {view.unmeasured} unmeasured"
    said = html.Span([proof(counts if is_fresh else f"was: {counts}", "live", view.cluster_id), blind])
    return [f"Prober {view.prober_id}", components.chip(palette.STATES[state], word), words.age(view.age_us(now_us)), said]


def _stream_row(now: Present) -> list[Any]:
    progress = now.progress
    if progress is None:
        return ["Stream", components.chip(palette.STATES["unmeasured"], "Not running"), "never", "the tables are not being filled"]
    mark = STREAM_MARKS.get(now.stream, palette.STATES["stale"])
    word = "Running" if now.stream == StreamState.RUNNING else str(now.stream).capitalize()
    parts = []
    if progress.newest_event_at_us is not None:
        parts.append(f"newest event {words.age(now.now_us - progress.newest_event_at_us)}")
    if progress.batch_ms is not None:
        parts.append(f"last batch took {words.duration(progress.batch_ms)}")
    if progress.landing_files_waiting is not None:
        parts.append(f"{words.plural(progress.landing_files_waiting, 'file')} waiting in the landing")
    if progress.error:
        parts.append(progress.error)
    return ["Stream", components.chip(mark, word), words.age(now.now_us - progress.written_at_us), "; ".join(parts) or "no batch yet"]


# --- the page ---------------------------------------------------------------------------------------------------------


def _layout(slots: Mapping[str, Any]) -> Any:
    return [
        html.H1("Overview", tabIndex=-1),
        slots["banners"],
        slots["clusters"],
        slots["open"],
        slots["exposure"],
        slots["incidents"],
        slots["availability"],
        slots["findings"],
        slots["freshness"],
    ]


PAGE = Page(
    name="overview",
    path="/",
    title=lambda **_: "Overview · Lastack",
    panels=(
        Panel("banners", None, banners),
        Panel("clusters", "Clusters", clusters, "Worst first. Unmeasured is neither up nor down."),
        Panel("open", "Open outages", open_outages),
        Panel(
            "exposure", "If a leader died now", exposure, "Acknowledged to acks=1, and not on every follower. Not known is not safe."
        ),
        Panel("incidents", "Last incidents", incidents, "Outages of a cluster that overlap or are less than a minute apart."),
        Panel(
            "availability",
            "Availability today",
            availability,
            "UTC day. Unmeasured time, and what one prober alone was not served, lower coverage.",
        ),
        Panel("findings", "What disagreed in 24 hours", findings, "Neither outages nor losses: a word that cannot be relied on."),
        Panel("freshness", "Data freshness", freshness),
    ),
    layout=_layout,
)
