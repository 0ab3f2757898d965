"""`/proof/<what>/<name>`: which rows prove this figure? The formula with its numbers, the rows, and the lines below them."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dash import dcc, html

from dashboards import components, data
from dashboards.freshness import banners
from dashboards.panels import Page, Panel, Request, View
from dashboards.proofs import Listing, Proof, Whole
from dashboards.proofs.book import proof_of
from pipelines import ddl


def _proof(request: Request) -> Proof | None:
    return proof_of(request.snapshot, request.path.get("figure", ""))


def absent(request: Request) -> Any:
    """What is shown for a figure that is not there."""
    if _proof(request) is not None:
        return None
    return html.Div(
        [
            html.H1("No such figure", tabIndex=-1),
            html.P(["The tables have nothing under ", html.Code(request.path.get("figure", "")), "."]),
            html.P("What was derived anew may have another name: go back to its incident.", className="quiet"),
            dcc.Link("Overview", href="/"),
        ],
        className="nothing",
    )


def header(request: Request) -> View:
    """Which figure, how much, and what it means."""
    found = _proof(request)
    if found is None:
        return View()
    crumbs: list[Any] = [dcc.Link("Overview", href="/"), " / "]
    if found.incident_id:
        crumbs += [dcc.Link(found.incident_id, href=f"/incidents/{quote(found.incident_id, safe='')}"), " / "]
    return View(
        [
            html.Div([*crumbs, "proof"], className="crumbs"),
            html.Div([html.H1(found.title, tabIndex=-1), html.Span(found.value, className="figure")], className="title"),
            html.P(found.about, className="lead"),
        ]
    )


def formula(request: Request) -> View:
    """The arithmetic, with the numbers filled in."""
    found = _proof(request)
    if found is None or not found.steps:
        return View(components.empty("It is a row as it stands.", "No arithmetic is between the row and the figure."))
    rows = [
        [
            step.name,
            components.code(step.formula),
            components.code(step.numbers),
            html.Div([html.Strong(f"= {step.result}"), html.Div(step.note, className="quiet reason") if step.note else None]),
        ]
        for step in found.steps
    ]
    return View(components.table(["Figure", "Formula", "Numbers (UTC)", "Result"], rows))


def rows(request: Request) -> View:
    """The rows that the numbers come from, each with all its columns."""
    found = _proof(request)
    if found is None or not found.wholes:
        return View(components.empty("See the rows below.", "The figure is a sum over them; it is no row by itself."))
    return View([_whole(one) for one in found.wholes])


def _whole(one: Whole) -> Any:
    said = {column.name: column.comment for column in ddl.columns(one.table)}
    body = [[components.code(name), _text(one.row[name]), said[name]] for name in said if name in one.row]
    summary = html.Summary([html.Code(one.table), " ", html.Code(one.name)])
    return html.Details([summary, components.table(["Column", "Value", "Meaning"], body)], className="whole")


def _text(value: Any) -> Any:
    (row,) = data.evidence_rows([{"value": value}])
    if row["value"] is None:
        return html.Span("NULL", className="quiet")
    return components.code(str(row["value"]))


def below(request: Request) -> View:
    """What those rows were made of, down to the lines that were landed."""
    found = _proof(request)
    return View([_listing(one) for one in found.listings] if found is not None else None)


def _listing(one: Listing) -> Any:
    parts: list[Any] = [html.H3(one.title), html.P(components.code(one.source), className="quiet source")]
    if one.rows:
        parts.append(components.table(list(one.head), one.rows))
    if one.note:
        parts.append(html.P(one.note, className="quiet"))
    return html.Div(parts, className="listing")


def _layout(slots: Mapping[str, Any]) -> Any:
    return list(slots.values())


PAGE = Page(
    name="proof",
    path="/proof/<figure>",
    title=lambda **_: "Proof · Lastack",
    panels=(
        Panel("banners", None, banners),
        Panel("header", None, header, key=lambda _request: "tables"),
        Panel(
            "formula", "How it follows", formula, "Low bounds of one end minus high bounds of the other.", key=lambda _request: "tables"
        ),
        Panel(
            "below",
            "What they are made of",
            below,
            "Down to the lines as they were landed. Times are UTC.",
            key=lambda _request: "tables",
        ),
        Panel("rows", "The rows", rows, "All columns, and what each means.", key=lambda _request: "tables"),
    ),
    layout=_layout,
    absent=absent,
)
