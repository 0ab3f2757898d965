"""What, when, who, verdict: what is read first. Every figure of it leads to the rows that prove it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from dashboards import components, palette, words
from dashboards.components import proof
from dashboards.incidents import subject
from dashboards.pages.overview import what
from dashboards.panels import Request, View
from pipelines import why
from pipelines.serving import Row

CAUSES_SHOWN = 4


def header(request: Request) -> View:
    """What, when, who, verdict."""
    row = subject.incident(request)
    everything = subject.everything(request)
    outages = [one for one in everything if subject.is_of_service(one)]
    is_open = any(one["is_open"] for one in everything) if everything else row["is_open"]
    provisional = any(one.get("is_provisional") for one in everything)
    return View(
        [
            html.Div([dcc.Link("Overview", href="/"), html.Span(" / "), html.Code(row["incident_id"])], className="crumbs"),
            html.Div([html.H1(what(row), tabIndex=-1), _state(outages, is_open=is_open)], className="title"),
            html.P(_when(row, is_open=is_open, provisional=provisional), className="lead"),
            _causes(row["incident_id"], outages),
            html.Div(_tiles(request, row, outages, is_open=any(one["is_open"] for one in outages)), className="tiles"),
            html.P("Every dotted figure on this page leads to the rows that prove it.", className="quiet proof-note"),
        ]
    )


def _state(outages: Sequence[Row], *, is_open: bool) -> Any:
    if is_open:
        return components.chip(palette.STATES["outage"], "Open")
    if not outages:
        return components.chip(palette.STATES["serving"], "Over: the service was not down for everybody")
    return components.chip(palette.STATES["serving"], "Over: served again")


def _when(row: Row, *, is_open: bool, provisional: bool) -> list[Any]:
    began = words.instant_range(row["started_at_min"], row["started_at_max"])
    day = words.instant(row["started_at_max"])[:10]
    ended = "still open" if is_open else f"ended {words.instant_range(row['ended_at_min'], row['ended_at_max'])}"
    said: list[Any] = [f"{day}, began {began}, {ended} (UTC) · {row['system']} cluster ", html.Code(row["cluster_id"])]
    if provisional:
        said.append(html.Span(" · live figures are provisional until the stream has them", className="quiet"))
    return said


def _causes(incident_id: str, outages: Sequence[Row]) -> Any:
    """Why partitions were out: each reason in words, most partitions first."""
    if not outages:
        return None
    reasons: dict[str, list[Row]] = {}
    for one in outages:
        reasons.setdefault(why.outage(one), []).append(one)
    counts = Counter({reason: len(rows) for reason, rows in reasons.items()})
    lines = []
    for reason, count in counts.most_common(CAUSES_SHOWN):
        partitions = len({(one["resource"], one["shard"]) for one in reasons[reason]})
        outages_of = f" ({words.plural(count, 'outage')})" if count != partitions else ""
        of = f"{words.plural(partitions, 'partition')}{outages_of}: "
        lines.append(html.Li([html.Strong(proof(of, "partitions", incident_id)), reason]))
    rest = len(counts) - CAUSES_SHOWN
    if rest > 0:
        lines.append(html.Li(f"{words.plural(rest, 'other reason')}: see the partitions below", className="quiet"))
    return html.Ul(lines, className="causes")


def _tiles(request: Request, row: Row, outages: Sequence[Row], *, is_open: bool) -> list[Any]:
    name = row["incident_id"]
    figures = subject.figures(request)
    verdict = palette.verdict(row["loss_verdict"])
    inferred = figures["partitions"] - figures["partitions_probed"]
    losses = request.snapshot.rows("incident_losses", incident_id=name, limit=1)
    checked = f"read back {words.instant(losses[0]['checked_at'])[11:19]} UTC" if losses else "no read-back yet"
    hit = proof(
        f"{figures['partitions_probed']:,} probed, {inferred:,} inferred · {words.plural(figures['outages'], 'outage')}",
        "partitions",
        name,
    )
    return [
        _worst(row, outages, figures, is_open=is_open),
        components.tile("Partitions hit", proof(f"{figures['partitions']:,}", "partitions", name), [hit, *_apart(name, figures)]),
        components.tile(
            "Acknowledged data",
            proof(_verdict_value(row), "losses", name),
            f"{palette.VERDICT_MEANINGS.get(row['loss_verdict'], '')} · {checked}",
            verdict,
        ),
        components.tile("RPO", proof(_rpo_value(row), "losses", name), _rpo_note(row), verdict),
    ]


def _worst(row: Row, outages: Sequence[Row], figures: Row, *, is_open: bool) -> Any:
    """The worst outage of the service; where only a prober alone or the controller was out, that, by its name."""
    if not outages:
        # The controller's own outage, where it is all there is; gold says so in the same columns.
        is_controller = figures["controller_outages"] > 0 and row["worst_rto_ms_min"] is not None
        value: Any = "none"
        if is_controller:
            lasted = words.duration_range(row["worst_rto_ms_min"], row["worst_rto_ms_max"], is_open=row["is_open"])
            value = proof(lasted, "worst", row["incident_id"])
        note = (
            "of the controller; no partition was out" if is_controller else "the service was not down: one prober alone was not served"
        )
        return components.tile("Worst RTO", value, note, palette.kind("controller") if is_controller else None)
    worst = max(outages, key=lambda one: float(one["rto_ms_min"]))
    low = max([row["worst_rto_ms_min"] or 0.0, *(one["rto_ms_min"] for one in outages)])
    maxima = [one["rto_ms_max"] for one in outages]
    whole = len(outages) == figures["outages"]
    is_unbounded = is_open or (whole and None in maxima)
    high = None if is_unbounded else max([row["worst_rto_ms_max"] or 0.0, *(one or 0.0 for one in maxima)]) or None
    lasted = words.duration_range(low, high, is_open=is_open)
    of = f"proven on {worst['resource']} / {worst['shard']}, {palette.service(worst['kind'], worst['lane'])}"
    return components.tile("Worst RTO", proof(lasted, "worst", row["incident_id"]), of, palette.kind(worst["kind"]))


def _apart(incident_id: str, figures: Row) -> list[Any]:
    """What is not counted, and why not."""
    said = []
    if figures["outages_alone"]:
        of = words.plural(figures["probers_alone"], "prober")
        left = f"{words.plural(figures['outages_alone'], 'outage')} that {of} saw alone"
        said.append(html.Div(["not counted: ", proof(left, "alone", incident_id)]))
    if figures["controller_outages"]:
        said.append(html.Div(f"apart from it: {words.plural(figures['controller_outages'], 'controller outage')}"))
    return said


def _verdict_value(row: Row) -> Any:
    mark = palette.verdict(row["loss_verdict"])
    lost = words.count_range(row["lost_records_min"], row["lost_records_max"], "record")
    return components.chip(mark, f"{lost} lost" if row["loss_verdict"] == "LOST" else mark.word)


def _rpo_value(row: Row) -> str:
    if row["loss_verdict"] == "LOST":
        return words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"])
    return "0 records" if row["loss_verdict"] in ("PRESENT", "NOT_STORED", "DELETED_BY_POLICY") else "not known"


def _rpo_note(row: Row) -> str:
    if row["loss_verdict"] == "LOST":
        return "span of acknowledged data that is gone; the outage itself does not count"
    if row["loss_verdict"] in ("PRESENT", "NOT_STORED", "DELETED_BY_POLICY") and row["rpo_ms_max"]:
        bound = words.duration_range(row["rpo_ms_max"], row["rpo_ms_max"])
        return f"of our canaries; between two of them a continuous writer can have lost at most {bound}"
    return "decided by reading every acknowledged record again"
