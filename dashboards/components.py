"""The small things that pages are put together from: states, tables, empty places, running clocks. Nothing here reads data."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from dash import dcc, html

from dashboards import palette
from dashboards.palette import Mark


def wild(**attributes: str) -> dict[str, Any]:
    """Attributes whose names have hyphens: `wild(aria_hidden="true")` is `{"aria-hidden": "true"}`."""
    return {name.replace("_", "-"): value for name, value in attributes.items()}


def chip(mark: Mark, word: str | None = None, title: str | None = None) -> Any:
    """A state: its shape in its colour, and always its word."""
    is_grey = mark.colour == palette.GREY
    glyph = html.Span(
        "" if is_grey else mark.glyph,
        className="glyph hatched" if is_grey else "glyph",
        style={} if is_grey else {"color": mark.colour},
        **wild(aria_hidden="true"),
    )
    return html.Span([glyph, word or mark.word], className="chip", title=title)


def code(text: str) -> Any:
    """A name or value as it stands in a table."""
    return html.Code(text)


def tile(label: str, value: Any, note: Any = None, mark: Mark | None = None, title: str | None = None) -> Any:
    """A figure that is read first: what it is, how much, and what stands behind it."""
    style = {"--mark": mark.colour} if mark else {}
    is_grey = mark is not None and mark.colour == palette.GREY
    return html.Div(
        [html.Div(label, className="label"), html.Div(value, className="value"), html.Div(note, className="note")],
        className="tile hatched-edge" if is_grey else "tile",
        style=style,
        title=title,
    )


def proof_href(*parts: str) -> str:
    """The address of the rows that prove a figure: what kind of figure, then what names it."""
    return "/proof/" + "/".join(quote(part, safe="") for part in parts)


def proof(value: Any, *parts: str) -> Any:
    """A figure that leads to the rows that prove it."""
    return dcc.Link(value, href=proof_href(*parts), className="proof", title="Which rows prove this?")


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]], caption: str | None = None, numeric: Sequence[int] = ()) -> Any:
    """A table of a few rows. `numeric` names the columns that are set right."""

    def align(index: int) -> str:
        return "number" if index in numeric else ""

    parts = [
        html.Thead(html.Tr([html.Th(cell, scope="col", className=align(index)) for index, cell in enumerate(head)])),
        html.Tbody([html.Tr([html.Td(cell, className=align(index)) for index, cell in enumerate(row)]) for row in rows]),
    ]
    if caption:
        parts.insert(0, html.Caption(caption))
    return html.Div(html.Table(parts), className="scroll")


def empty(headline: str, text: Any = None) -> Any:
    """A place where there is nothing to show, and why."""
    return html.Div([html.Div(headline, className="headline"), html.Div(text, className="quiet")], className="empty")


def problem(sentence: str, headline: str = "This panel has no data.", error_id: str | None = None) -> Any:
    """What stands in the place of something that failed."""
    said: list[Any] = [html.Strong(f"{headline} "), sentence]
    if error_id:
        said.append(html.Span(f" (id {error_id})", className="quiet"))
    glyph = html.Span("✖", className="glyph", **wild(aria_hidden="true"))
    return html.Div([glyph, html.Div(said)], className="problem", role="alert")


def banner(mark: Mark, headline: str, text: Any, kind: str = "") -> Any:
    """A sentence across the page that nobody may miss."""
    is_grey = mark.colour == palette.GREY
    glyph = html.Span(
        "" if is_grey else mark.glyph,
        className="glyph hatched" if is_grey else "glyph",
        style={} if is_grey else {"color": mark.colour},
        **wild(aria_hidden="true"),
    )
    return html.Div([glyph, html.Div([html.Strong(f"{headline} "), text])], className=f"banner {kind}", role="status")


def running(since_us: int, text: str) -> Any:
    """A clock that goes on between two refreshes (assets/lastack.js), and stops when the data is no longer fresh."""
    return html.Span(text, className="clock", **wild(data_since_us=str(since_us)))


def stacked_share(served: float, down: float, unmeasured: float, title: str) -> Any:
    """Three shares of a whole as one bar; what is not nothing stays visible, however small."""

    def piece(share: float, name: str) -> Any:
        return html.Span(className=name, style={"flexGrow": f"{share:.6f}", "minWidth": "3px" if share > 0 else "0"})

    pieces = [piece(served, "served"), piece(down, "down"), piece(unmeasured, "unmeasured")]
    return html.Span(pieces, className="share", title=title, role="img", **wild(aria_label=title))


def not_all(shown: int, total: int, noun: str) -> Any:
    """Says that a list is cut; nothing where it is whole."""
    if shown >= total:
        return None
    return html.P(f"The first {shown:,} of {total:,} {noun}s are shown.", className="quiet")
