"""How are spans with bounds drawn? The pieces that every figure of an incident is made of.

A row of a figure is a list of `Bar`: solid where something is certain, striped within bounds. Stripes take the colours of both
neighbours where there are two, since the truth is one of them.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from dashboards import palette, words
from dashboards.palette import Theme
from pipelines.serving import Row

Span = tuple[datetime | None, datetime | None]
"""The bounds of an instant; None where nothing bounds it."""

FONT = 'Inter, "Segoe UI", system-ui, -apple-system, Roboto, "Helvetica Neue", Arial, sans-serif'
CLEAR = "rgba(0,0,0,0)"
X_TITLE = "seconds after the incident's earliest possible start"


@dataclass(frozen=True, slots=True)
class Bar:
    """One piece of a row: from and to in seconds, what it means, and a second colour where it is striped."""

    row: str
    left: float
    right: float
    colour: str
    name: str
    hover: str
    stripe: str | None = None
    opacity: float = 1.0
    pattern: str = "/"


def seconds(at: datetime | None, zero: datetime) -> float:
    """Seconds after zero; 0 for an instant that nothing bounds."""
    return 0.0 if at is None else (at - zero).total_seconds()


def between(template: Bar, left: Span, right: Span, zero: datetime) -> Bar:
    """What lies between two boundaries for certain; empty where their bounds overlap."""
    begins = seconds(left[1] or left[0], zero)
    ends = seconds(right[0] or right[1], zero)
    return replace(template, left=begins, right=max(begins, ends))


def within(template: Bar, at: Span, zero: datetime, before: str | None = None) -> Bar:
    """The bounds of a boundary, striped with the colour of what was before it; empty where one of them is not known."""
    if at[0] is None or at[1] is None:
        return replace(template, left=0.0, right=0.0)
    return replace(template, left=seconds(at[0], zero), right=seconds(at[1], zero), stripe=before or template.colour)


def span_bars(template: Bar, start: Span, end: Span, zero: datetime) -> list[Bar]:
    """A span with a start and an end of which bounds are known: striped, solid, striped."""
    return seen([between(template, start, end, zero), within(template, start, zero), within(template, end, zero)])


def seen(bars: Iterable[Bar]) -> list[Bar]:
    """The bars that have a width."""
    return [bar for bar in bars if bar.right > bar.left]


def add_bars(figure: go.Figure, bars: Sequence[Bar], **where: Any) -> None:
    """Draws the bars, one trace a colour and pattern. `where` names a subplot."""
    groups: dict[tuple[str, str | None, float, str], list[Bar]] = {}
    for bar in bars:
        groups.setdefault((bar.colour, bar.stripe, bar.opacity, bar.pattern), []).append(bar)
    # Solid ones first: stripes that overlap them stay visible.
    for (colour, stripe, opacity, pattern), group in sorted(groups.items(), key=lambda one: one[0][1] is not None):
        other = None if stripe == colour else stripe
        marker = {"color": colour, "line_width": 0} if stripe is None else striped(colour, other, pattern)
        figure.add_bar(
            orientation="h",
            y=[bar.row for bar in group],
            base=[bar.left for bar in group],
            x=[bar.right - bar.left for bar in group],
            hovertext=[bar.hover for bar in group],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
            marker=marker | {"opacity": opacity},
            **where,
        )


def striped(colour: str, other: str | None, shape: str = "/") -> dict[str, Any]:
    """A marker with stripes (or another pattern) in a colour, over another one or over nothing."""
    pattern = {"shape": shape, "size": 4, "solidity": 0.5, "fgcolor": colour, "bgcolor": other or CLEAR}
    return {"color": CLEAR, "line_width": 0, "pattern": pattern}


def add_legend(figure: go.Figure, entries: Mapping[str, str], theme: Theme, *, with_bounds: bool) -> None:
    """A swatch for each word, and one for what is striped."""
    for word, colour in entries.items():
        figure.add_scatter(x=[None], y=[None], mode="markers", marker={"symbol": "square", "size": 11, "color": colour}, name=word)
    if with_bounds:
        add_swatch(figure, "within bounds", striped(theme.muted, None))


def add_swatch(figure: go.Figure, word: str, marker: dict[str, Any]) -> None:
    """An entry of the legend for a pattern."""
    figure.add_bar(x=[None], y=[None], orientation="h", marker=marker, name=word, showlegend=True)


def timeline(bars: Sequence[Bar], names: Sequence[str], theme: Theme, legend: Mapping[str, str], row_px: int) -> go.Figure:
    """A figure with the named rows from top to bottom, and the bars in them."""
    figure = go.Figure()
    add_bars(figure, bars)
    add_legend(figure, legend, theme, with_bounds=any(bar.stripe and bar.pattern == "/" for bar in bars))
    style(figure, theme, height_px=92 + row_px * max(len(names), 2))
    figure.update_layout(barmode="overlay", bargap=0.3)
    order_rows(figure, names)
    figure.update_xaxes(title_text=X_TITLE)
    return figure


def order_rows(figure: go.Figure, names: Sequence[str]) -> None:
    """The rows from top to bottom, in this order."""
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=list(names), range=[len(names) - 0.5, -0.5], showgrid=False
    )


def add_room(figure: go.Figure, left: float, right: float, row_name: str | None, **where: Any) -> None:
    """Makes the x axis reach from left to right, by points that nobody sees.

    A stated range would do the same, but it is where people zoom: it is never sent again (`panels.MOVING`), and an axis without a
    range grows with its points.
    """
    if row_name is not None:
        marker = {"size": 1, "opacity": 0}
        figure.add_scatter(
            x=[left, right], y=[row_name, row_name], mode="markers", marker=marker, hoverinfo="skip", showlegend=False, **where
        )


def style(figure: go.Figure, theme: Theme, height_px: int) -> None:
    """The look that all figures share."""
    axis = {"gridcolor": theme.line, "zerolinecolor": theme.line, "linecolor": theme.line, "automargin": True}
    figure.update_layout(
        template=None,
        height=height_px,
        margin={"l": 8, "r": 16, "t": 34, "b": 8},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": FONT, "size": 12, "color": theme.text},
        hoverlabel={"bgcolor": theme.surface, "bordercolor": theme.line, "font": {"family": FONT, "size": 12, "color": theme.text}},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left", "itemclick": False},
        # The same revision for good: a refresh never redraws under somebody's zoom.
        uirevision="kept",
        dragmode="zoom",
    )
    figure.update_xaxes(**axis, color=theme.muted, ticks="outside", tickcolor=theme.line, title_font_size=11, zeroline=True)
    figure.update_yaxes(**axis, color=theme.text, fixedrange=True, ticks="", zeroline=False)


def add_ending(figure: go.Figure, outage: Row, label: str, zero: datetime, theme: Theme, **where: Any) -> None:
    """What stands behind the bars of an outage: how long it was, and an arrow where it goes on."""
    text = words.duration_range(outage["rto_ms_min"], outage["rto_ms_max"], is_open=outage["is_open"])
    figure.add_annotation(
        x=seconds(outage["ended_at_max"] or outage["ended_at_min"], zero),
        y=label,
        text=f"▶ {text}" if outage["ended_at_max"] is None else text,
        showarrow=False,
        xanchor="left",
        xshift=6,
        font={"size": 11, "color": theme.text},
        **where,
    )


def evenly(rows: Sequence[Row], limit: int) -> list[Row]:
    """At most `limit` rows, evenly by rank, the first and the last among them."""
    if len(rows) <= limit:
        return list(rows)
    return [rows[round(index * (len(rows) - 1) / (limit - 1))] for index in range(limit)]


def started(row: Row) -> Span:
    """The bounds of a row's start."""
    return row["started_at_min"], row["started_at_max"]


def ended(row: Row) -> Span:
    """The bounds of a row's end."""
    return row["ended_at_min"], row["ended_at_max"]


def partition_name(resource: str, shard: str) -> str:
    """A partition for people, escaped."""
    return f"{html.escape(resource)} / {html.escape(shard)}"


def service_name(row: Row) -> str:
    """Kind and lane of an outage for people, escaped."""
    return html.escape(palette.service(row["kind"], row["lane"]))


def outage_hover(row: Row) -> str:
    """What hovering over an outage says."""
    until = "still open" if row["is_open"] else f"to {words.instant_range(*ended(row))} UTC"
    return (
        f"<b>{partition_name(row['resource'], row['shard'])}</b>, {service_name(row)}<br>"
        f"RTO {words.duration_range(row['rto_ms_min'], row['rto_ms_max'], is_open=row['is_open'])}<br>"
        f"from {words.instant_range(*started(row))} UTC<br>{until}<br>"
        f"evidence: {palette.EVIDENCE.get(row['evidence'], html.escape(row['evidence']))}"
    )
