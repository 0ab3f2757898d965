"""How long was each partition gone, and when?"""

import html
from collections.abc import Sequence
from datetime import datetime

import plotly.graph_objects as go

from dashboards import palette, words
from dashboards.figures import drawing
from dashboards.figures.drawing import Bar
from dashboards.palette import Theme
from pipelines.serving import Row

ROW_PX = 21
MAX_ROWS = 40
MAX_SHOWN_PER_KIND = 24


def rto_by_kind(outages: Sequence[Row], theme: Theme) -> go.Figure:
    """The RTO of each outage as an interval, one short line an outage, grouped by kind and lane, longest first.

    Of many outages of a kind an even choice by rank is shown, the longest and the shortest among them. An outage that nothing
    bounds from above is an arrow at its minimum. The axis need not begin at 0: positions are compared, not lengths.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(outages, key=lambda one: (-one["rto_ms_min"], one["resource"], words.natural(one["shard"]))):
        groups.setdefault((row["kind"], row["lane"]), []).append(row)
    figure = go.Figure()
    ticks: list[tuple[float, str]] = []
    height = 0.0
    for (kind, lane), rows in groups.items():
        shown = drawing.evenly(rows, MAX_SHOWN_PER_KIND)
        # A group is at least as high as its two lines of text.
        room = max(float(len(shown)), 4.0)
        first = height + (room - len(shown)) / 2
        _add_intervals(figure, shown, [first + index for index in range(len(shown))], palette.kind(kind))
        ticks.append((height + (room - 1) / 2, f"{html.escape(palette.service(kind, lane))}<br>{_of(shown, rows)}"))
        height += room + 1.0
    drawing.style(figure, theme, height_px=round(70 + height * (9 if height < 60 else 6)))
    figure.update_layout(barmode="overlay", bargap=0.2, showlegend=False, margin_t=8)
    figure.update_yaxes(
        tickvals=[at for at, _ in ticks], ticktext=[text for _, text in ticks], range=[height - 0.5, -1], showgrid=False
    )
    figure.update_xaxes(title_text="RTO in seconds, from proven minimum to maximum", zeroline=False)
    return figure


def partitions_timeline(outages: Sequence[Row], zero: datetime, theme: Theme) -> go.Figure:
    """When each partition was not served, one line a partition and lane; of many, the first `MAX_ROWS` given."""
    shown = sorted(
        outages[:MAX_ROWS],
        key=lambda row: (row["evidence"] == "inferred", row["kind"], row["lane"], row["resource"], words.natural(row["shard"])),
    )
    bars = [bar for row in shown for bar in outage_bars(row, zero)]
    legend = {palette.kind(row["kind"]).word: palette.kind(row["kind"]).colour for row in shown}
    names = list(dict.fromkeys(_label(row) for row in shown))
    figure = drawing.timeline(bars, names, theme, legend, ROW_PX)
    for row in shown:
        drawing.add_ending(figure, row, _label(row), zero, theme)
    whole = max((drawing.seconds(row["ended_at_max"] or row["ended_at_min"], zero) for row in shown), default=1.0)
    drawing.add_room(figure, 0.0, whole * 1.13, names[0] if names else None)
    return figure


def outage_bars(row: Row, zero: datetime) -> list[Bar]:
    """One outage from start to end."""
    mark = palette.kind(row["kind"])
    template = Bar(_label(row), 0, 0, mark.colour, mark.word, drawing.outage_hover(row))
    return drawing.span_bars(template, drawing.started(row), drawing.ended(row), zero)


def _add_intervals(figure: go.Figure, rows: Sequence[Row], ys: Sequence[float], mark: palette.Mark) -> None:
    bounded = [(row, y) for row, y in zip(rows, ys, strict=True) if row["rto_ms_max"] is not None]
    unbounded = [(row, y) for row, y in zip(rows, ys, strict=True) if row["rto_ms_max"] is None]
    figure.add_bar(
        orientation="h",
        y=[y for _, y in bounded],
        base=[row["rto_ms_min"] / 1000 for row, _ in bounded],
        x=[(row["rto_ms_max"] - row["rto_ms_min"]) / 1000 for row, _ in bounded],
        marker={"color": mark.colour, "line_width": 0},
        hovertext=[drawing.outage_hover(row) for row, _ in bounded],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.add_scatter(
        x=[row["rto_ms_min"] / 1000 for row, _ in unbounded],
        y=[y for _, y in unbounded],
        mode="markers",
        marker={"symbol": "triangle-right", "size": 10, "color": mark.colour},
        hovertext=[drawing.outage_hover(row) for row, _ in unbounded],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _of(shown: Sequence[Row], whole: Sequence[Row]) -> str:
    if len(shown) < len(whole):
        return f"{len(shown)} of {len(whole)} by rank"
    is_one_each = len({(row["resource"], row["shard"]) for row in whole}) == len(whole)
    return words.plural(len(whole), "partition" if is_one_each else "outage")


def _label(row: Row) -> str:
    return f"{drawing.partition_name(row['resource'], row['shard'])} · {html.escape(str(palette.LANES.get(row['lane'], row['lane'])))}"
