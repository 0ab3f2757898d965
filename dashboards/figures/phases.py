"""Where did the time of an outage go? Its phases, one after the other, with the bounds of every boundary between them.

Where one phase takes most of the time (the detection of a dead broker usually does: a session has to time out), a second axis
shows the rest enlarged, from the first boundary on.
"""

from collections.abc import Sequence
from datetime import datetime

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboards import palette, words
from dashboards.figures import drawing
from dashboards.figures.drawing import Bar
from dashboards.palette import Theme
from pipelines.serving import Row

BOUNDARIES = {"fenced": "detection", "elected": "election", "known": "propagation"}
"""Each boundary, and the phase that it ends."""

ROW_PX = 42
NARROW = 0.35
NOT_TOLD_APART = "phases not known"


def waterfall(outages: Sequence[Row], zero: datetime, theme: Theme) -> go.Figure:
    """The phases of each given outage, one line an outage.

    Args:
        outages: rows of gold.outages, usually the worst of each kind and lane.
        zero: the instant that the axis counts from.
        theme: colours of text and lines.
    """
    names = [_label(row) for row in outages]
    bars = [bar for row in outages for bar in phase_bars(row, zero)]
    closeup = _closeup(outages, zero)
    columns = [1] if closeup is None else [1, 2]
    figure = make_subplots(
        cols=len(columns), shared_yaxes=True, horizontal_spacing=0.03, column_widths=[1.0] if closeup is None else [0.58, 0.42]
    )
    for column in columns:
        drawing.add_bars(figure, bars, row=1, col=column)
    legend = {mark.word: mark.colour for mark in palette.PHASES.values()}
    if any(bar.name == NOT_TOLD_APART and bar.stripe is None for bar in bars):
        legend[NOT_TOLD_APART] = palette.SKY
    drawing.add_legend(figure, legend, theme, with_bounds=True)
    drawing.style(figure, theme, height_px=96 + ROW_PX * max(len(names), 2))
    figure.update_layout(barmode="overlay", bargap=0.34)
    drawing.order_rows(figure, names)
    whole = max((drawing.seconds(row["ended_at_max"] or row["ended_at_min"], zero) for row in outages), default=1.0)
    figure.update_xaxes(title_text=drawing.X_TITLE, row=1, col=1)
    drawing.add_room(figure, 0.0, whole * 1.24, names[0] if names else None, row=1, col=1)
    for row in outages:
        drawing.add_ending(figure, row, _label(row), zero, theme, row=1, col=1)
        _add_names(figure, row, zero, whole)
    if closeup is not None:
        figure.update_xaxes(title_text="the same, enlarged from the fencing on", range=closeup, row=1, col=2)
        figure.update_yaxes(showticklabels=False, row=1, col=2)
    return figure


def phase_bars(row: Row, zero: datetime) -> list[Bar]:
    """The phases of one outage that apply, and the bounds of the boundaries between them."""
    marks = [(name, (row[f"{name}_at_min"], row[f"{name}_at_max"])) for name in BOUNDARIES if row[f"{name}_at_max"] is not None]
    at, colour_before = drawing.started(row), None
    bars: list[Bar] = []
    for name, until in [*marks, ("end", drawing.ended(row))]:
        template = _template(row, _phase(name, [mark for mark, _ in marks]))
        bars += [drawing.between(template, at, until, zero), drawing.within(template, at, zero, colour_before)]
        colour_before, at = template.colour, until
    bars.append(drawing.within(_template(row, None, colour_before), at, zero))
    return drawing.seen(bars)


def _phase(ends_with: str, known: list[str]) -> str | None:
    """The phase that a boundary ends; None where the boundary before it is missing, so that nobody can tell them apart."""
    if ends_with == "end":
        return "first_write" if known else None
    if ends_with == "elected" and "fenced" not in known:
        return None
    return BOUNDARIES[ends_with]


def _template(row: Row, phase: str | None, colour: str | None = None) -> Bar:
    head = f"<b>{drawing.service_name(row)}</b>, {drawing.partition_name(row['resource'], row['shard'])}"
    if phase is None:
        lasted = words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"])
        return Bar(_label(row), 0, 0, colour or palette.SKY, NOT_TOLD_APART, f"{head}<br>RTO {lasted}")
    mark = palette.PHASES[phase]
    lasted = words.duration_range(row[f"{phase}_ms_min"], row[f"{phase}_ms_max"], is_open=row["is_open"])
    hover = f"{head}<br>{mark.word}: {lasted}<br>{palette.PHASE_MEANINGS[phase]}"
    return Bar(_label(row), 0, 0, mark.colour, f"{mark.word} {lasted}", hover)


def _label(row: Row) -> str:
    where = drawing.partition_name(row["resource"], row["shard"])
    return f"{drawing.service_name(row)}<br><span style='font-size:10px;opacity:.75'>{where}</span>"


def _closeup(outages: Sequence[Row], zero: datetime) -> list[float] | None:
    """The range from just before the first fencing to the last end, where it is a small part of the whole; else None."""
    fenced = [drawing.seconds(row["fenced_at_min"], zero) for row in outages if row["fenced_at_min"] is not None]
    ends = [drawing.seconds(row["ended_at_max"], zero) for row in outages if row["ended_at_max"] is not None]
    if not fenced or not ends or len(ends) < len(outages):
        return None
    width = max(ends) - min(fenced)
    if width <= 0 or width > NARROW * max(ends):
        return None
    return [min(fenced) - 0.08 * width, max(ends) + 0.08 * width]


def _add_names(figure: go.Figure, row: Row, zero: datetime, whole: float) -> None:
    """Names the phases that are long enough to be written on."""
    for bar in phase_bars(row, zero):
        if bar.stripe is None and bar.right - bar.left > 0.4 * whole:
            is_dark = bar.colour in (palette.VERMILLION, palette.GREEN)
            figure.add_annotation(
                x=(bar.left + bar.right) / 2,
                y=bar.row,
                text=bar.name,
                showarrow=False,
                font={"size": 11, "color": "#ffffff" if is_dark else "#111111"},
                row=1,
                col=1,
            )
