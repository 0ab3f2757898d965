"""Which replicas were out of sync, and who led? A lane for each broker, then the partitions.

A partition whose leader changed has a line of its own. The others of a topic share one, on which their spans lie over each other:
where it is darkest all of them were out of sync. So a thousand partitions stay readable, and each one is in the evidence.
"""

import html
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import plotly.graph_objects as go

from dashboards import palette, words
from dashboards.figures import drawing
from dashboards.figures.drawing import Bar, evenly
from dashboards.palette import Theme
from pipelines.serving import Row

ROW_PX = 22
MAX_PARTITIONS = 24
MAX_TOPICS = 16
MAX_SPANS_IN_SHARED_ROW = 60

SILENT = "metrics silent"
BROKER_EVENTS = {
    "fault": ("x", palette.VERMILLION, "fault injected"),
    "controller_changed": ("star", palette.ORANGE, "became controller"),
    "broker_unfenced": ("circle", palette.GREEN, "unfenced"),
    "broker_shutting_down": ("triangle-down", palette.BLUE, "shutting down"),
}


def replication_timeline(
    absences: Sequence[Row], events: Sequence[Row], zero: datetime, theme: Theme, now: datetime | None = None
) -> go.Figure:
    """The figure.

    Args:
        absences: rows of silver.isr_windows.
        events: rows of silver.events: fences, leader changes, faults.
        zero: the instant that the axis counts from.
        theme: colours of text and lines.
        now: where the axis ends at least, while the incident is open.
    """
    changes = [one for one in events if is_leader_change(one)]
    marked = [one for one in events if one["event"] in BROKER_EVENTS or one["event"] in ("broker_fenced", "broker_silent")]
    until = max(_latest([*absences, *changes, *marked], zero), drawing.seconds(now, zero))
    moved = sorted({(one["resource"], one["shard"]) for one in changes}, key=lambda one: (one[0], words.natural(one[1])))
    labels = _labels(moved[:MAX_PARTITIONS], absences)
    brokers = sorted({row["replica"] for row in absences} | {one["broker"] for one in events if one["broker"]}, key=words.natural)
    bars = [bar for broker in brokers for bar in _broker_bars(broker, absences, events, zero, until)]
    bars += [bar for row in _drawn(absences, labels) for bar in _absence_bars(row, labels, zero, until)]
    legend = {f"out of the ISR: {palette.isr_cause(row['cause']).word}": palette.isr_cause(row["cause"]).colour for row in absences}
    names = [_broker(broker) for broker in brokers] + list(dict.fromkeys(labels.values()))
    figure = drawing.timeline(bars, names, theme, legend, ROW_PX)
    if any(bar.name == SILENT for bar in bars):
        drawing.add_swatch(figure, SILENT, drawing.striped(palette.GREY, None, "."))
    _add_leader_changes(figure, [one for one in changes if (one["resource"], one["shard"]) in labels], labels, zero, theme)
    _add_broker_events(figure, events, zero, theme)
    # Room on the left for what is written before the first leader change.
    drawing.add_room(figure, -0.03 * until, until, names[0] if names else None)
    return figure


def is_leader_change(event: Row) -> bool:
    """Whether an event says that a partition got another leader, or lost its own."""
    return event["event"] == "partition_changed" and event["leader"] != event["previous_leader"] and event["resource"] is not None


def _labels(moved: Sequence[tuple[str, str]], absences: Sequence[Row]) -> dict[tuple[str, str], str]:
    """The row of each partition that is drawn: its own, or the one that the rest of its topic shares."""
    labels = {one: drawing.partition_name(*one) for one in moved}
    rest: dict[str, list[tuple[str, str]]] = {}
    for row in absences:
        key = (row["resource"], row["shard"])
        if key not in labels and key not in rest.setdefault(row["resource"], []):
            rest[row["resource"]].append(key)
    for resource, keys in sorted(rest.items())[:MAX_TOPICS]:
        if keys:
            name = f"{html.escape(resource)}: {words.plural(len(keys), 'other partition')}"
            labels |= dict.fromkeys(keys, drawing.partition_name(*keys[0]) if len(keys) == 1 else name)
    return labels


def _drawn(absences: Sequence[Row], labels: dict[tuple[str, str], str]) -> list[Row]:
    """The spans that are drawn: of a row that many partitions share, as many as an eye can tell apart."""
    by_label: dict[str, list[Row]] = {}
    for row in absences:
        label = labels.get((row["resource"], row["shard"]))
        if label is not None:
            by_label.setdefault(label, []).append(row)
    return [row for rows in by_label.values() for row in evenly(rows, MAX_SPANS_IN_SHARED_ROW)]


def _absence_bars(row: Row, labels: dict[tuple[str, str], str], zero: datetime, until: float) -> list[Bar]:
    label, mark = labels[row["resource"], row["shard"]], palette.isr_cause(row["cause"])
    end = (zero + timedelta(seconds=until), None) if row["is_open"] else drawing.ended(row)
    hover = (
        f"<b>{drawing.partition_name(row['resource'], row['shard'])}</b>: "
        f"replica {html.escape(row['replica'])} out of the ISR, {mark.word}<br>"
        f"from {words.instant_range(*drawing.started(row))} UTC<br>"
        f"{'still out' if row['is_open'] else f'to {words.instant_range(*end)} UTC'}<br>"
        f"ISR {_list(row['isr_before'])} → {_list(row['isr_after'])}"
    )
    is_shared = ":" in label
    template = Bar(label, 0, 0, mark.colour, mark.word, hover, opacity=0.3 if is_shared else 0.75)
    bars = drawing.span_bars(template, drawing.started(row), end, zero)
    # Spans that lie over each other show by themselves how their ends differ; stripes would hide it.
    return [replace(bar, stripe=None) for bar in bars] if is_shared else bars


def _broker_bars(broker: str, absences: Sequence[Row], events: Sequence[Row], zero: datetime, until: float) -> list[Bar]:
    """Fenced spans of a broker, and spans in which its metrics did not answer."""
    missing = len({(row["resource"], row["shard"]) for row in absences if row["replica"] == broker})
    bars: list[Bar] = []
    fenced: Row | None = None
    for event in sorted((one for one in events if one["broker"] == broker), key=lambda one: one["happened_at_min"]):
        at = drawing.seconds(event["happened_at_min"], zero)
        if event["event"] == "broker_fenced" and fenced is None:
            fenced = event
        elif event["event"] == "broker_unfenced" and fenced is not None:
            bars.append(_fenced_bar(broker, fenced, at, missing, zero))
            fenced = None
        elif event["event"] == "broker_silent":
            hover = f"{_broker(broker)}: {html.escape(event['detail'] or '')}"
            ends = drawing.seconds(event["happened_at_max"], zero)
            bars.append(Bar(_broker(broker), at, ends, palette.GREY, SILENT, hover, stripe=palette.GREY, pattern="."))
    if fenced is not None:
        bars.append(_fenced_bar(broker, fenced, until, missing, zero))
    return drawing.seen(bars)


def _fenced_bar(broker: str, fenced: Row, until: float, missing: int, zero: datetime) -> Bar:
    hover = (
        f"{_broker(broker)} fenced at {words.instant_range(fenced['happened_at_min'], fenced['happened_at_max'])} UTC<br>"
        f"missing from the ISR of {words.plural(missing, 'partition')}"
    )
    return Bar(
        _broker(broker), drawing.seconds(fenced["happened_at_min"], zero), until, palette.VERMILLION, "fenced", hover, opacity=0.9
    )


def _add_leader_changes(
    figure: go.Figure, changes: Sequence[Row], labels: dict[tuple[str, str], str], zero: datetime, theme: Theme
) -> None:
    if not changes:
        return
    figure.add_scatter(
        x=[_middle(event, zero) for event in changes],
        y=[labels[event["resource"], event["shard"]] for event in changes],
        mode="markers+text",
        marker={"symbol": "diamond", "size": 10, "color": palette.BLUE, "line": {"color": theme.surface, "width": 1}},
        text=[f"leader {html.escape(one['previous_leader'] or 'none')} → {html.escape(one['leader'] or 'none')}  " for one in changes],
        textposition="middle left",
        textfont={"size": 11, "color": theme.text},
        hovertext=[_event_hover(event) for event in changes],
        hovertemplate="%{hovertext}<extra></extra>",
        name="leader changed",
    )


def _add_broker_events(figure: go.Figure, events: Sequence[Row], zero: datetime, theme: Theme) -> None:
    for name, (symbol, colour, word) in BROKER_EVENTS.items():
        marked = [event for event in events if event["event"] == name and event["broker"] is not None]
        if marked:
            figure.add_scatter(
                x=[_middle(event, zero) for event in marked],
                y=[_broker(event["broker"]) for event in marked],
                mode="markers",
                marker={"symbol": symbol, "size": 12, "color": colour, "line": {"color": theme.surface, "width": 1.5}},
                hovertext=[_event_hover(event) for event in marked],
                hovertemplate="%{hovertext}<extra></extra>",
                name=word,
            )


def _event_hover(event: Row) -> str:
    at = words.instant_range(event["happened_at_min"], event["happened_at_max"])
    return f"{html.escape(event['detail'] or event['event'])}<br>{at} UTC<br>seen by {html.escape(event['source'] or 'not known')}"


def _middle(event: Row, zero: datetime) -> float:
    return (drawing.seconds(event["happened_at_min"], zero) + drawing.seconds(event["happened_at_max"], zero)) / 2


def _latest(rows: Sequence[Row], zero: datetime) -> float:
    instants = [row[name] for row in rows for name in ("ended_at_max", "ended_at_min", "happened_at_max") if row.get(name)]
    return max((drawing.seconds(at, zero) for at in instants), default=1.0)


def _broker(broker: str) -> str:
    return f"broker {html.escape(broker)}"


def _list(values: Sequence[str] | None) -> str:
    return html.escape(",".join(values)) if values else "not known"
