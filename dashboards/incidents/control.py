"""What did the control plane do: when was there no controller, who was out of the ISR, and why?"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dash import html

from dashboards import components, data, figures, palette, words
from dashboards.components import proof
from dashboards.incidents import subject
from dashboards.panels import Request, View
from pipelines import why
from pipelines.domain import clock
from pipelines.serving import Row

SHOWN = 20


def controllers(request: Request) -> View:
    """The spans without a controller: an outage of its own, which no partition's figure holds."""
    name = subject.incident(request)["incident_id"]
    rows = request.snapshot.rows("incident_controllers", incident_id=name, limit=SHOWN)
    if not rows:
        text = "Somebody could decide throughout, as far as the control plane was read; or nobody read it."
        return View(components.empty("No controller outage is recorded.", text))
    waiting: dict[str, list[Row]] = defaultdict(list)
    for one in request.snapshot.rows("incident_waiting", incident_id=name, limit=data.MAX_EVIDENCE):
        waiting[one["controller_window_id"]].append(one)
    head = ["Cause", "No controller from (UTC)", "To (UTC)", "RTO", "Controller", "Partitions that waited for it"]
    table = components.table(head, [_controller_row(row, waiting[row["window_id"]]) for row in rows])
    return View([table, components.not_all(len(rows), rows[0]["total_rows"], "span")])


def _controller_row(row: Row, waited: Sequence[Row]) -> list[Any]:
    mark = palette.STATES["outage"] if row["is_open"] else palette.kind("controller")
    # What is open is known by what was not decided since: its minimum may be 0, which says nothing to anybody.
    is_plain = row["is_open"] and not row["duration_ms_min"]
    lasted = (
        "not seen to end" if is_plain else words.duration_range(row["duration_ms_min"], row["duration_ms_max"], is_open=row["is_open"])
    )
    after = row["controller_after"] or ("none yet" if row["is_open"] else "not known")
    return [
        html.Div([components.chip(mark, "Open" if row["is_open"] else "Over"), html.Div(why.outage(row), className="quiet")]),
        words.instant_range(row["started_at_min"], row["started_at_max"]),
        "still none" if row["is_open"] else words.instant_range(row["ended_at_min"], row["ended_at_max"]),
        html.Strong(proof(lasted, "outage", row["window_id"])),
        html.Span(f"{row['controller_before'] or 'not known'} → {after}", className="nowrap"),
        _waited(row, waited),
    ]


def _waited(row: Row, waited: Sequence[Row]) -> Any:
    count = row["partitions_waiting"]
    if not count:
        return html.Span("none: no partition was without a leader or held up meanwhile", className="quiet")
    named = why.partitions_waiting(waited) if waited else "not listed in silver.partition_windows"
    return html.Details([html.Summary(proof(words.plural(count, "partition"), "outage", row["window_id"])), html.Div(named)])


def findings(request: Request) -> View:
    """What disagrees: who said what, and which rows show it."""
    name = subject.incident(request)["incident_id"]
    rows = request.snapshot.rows("incident_findings", incident_id=name, limit=data.MAX_EVIDENCE)
    if not rows:
        return View(
            components.empty(
                "Nothing disagrees.", "Control plane, metrics, clients and clocks tell the same story, as far as they were read."
            )
        )
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kind[row["finding"]].append(row)
    items = [_finding(name, of_kind) for name, of_kind in by_kind.items()]
    return View([html.Div(items, className="findings"), components.not_all(len(rows), rows[0]["total_rows"], "finding")])


def _finding(name: str, rows: Sequence[Row]) -> Any:
    """All findings of a kind: the headline once, each one's words below it."""
    headline = why.finding(name) + (f" ({len(rows):,})" if len(rows) > 1 else "")
    so_what = why.SO_WHAT.get(name)
    return html.Div(
        [
            html.Div([components.chip(palette.FINDING), html.Strong(headline, className="wraps")], className="head"),
            html.P(so_what, className="quiet") if so_what else None,
            *(_said(row) for row in rows[:SHOWN]),
            components.not_all(min(len(rows), SHOWN), len(rows), "finding"),
        ],
        className="finding",
    )


def _said(row: Row) -> Any:
    voices = [("control plane", row["control_plane"]), ("metrics", row["metrics"]), ("clients and probes", row["clients"])]
    place = f"{row['resource']} / {row['shard']}: " if row["resource"] else ""
    said = [html.Div([html.Dt(f"{who} says"), html.Dd(text)]) for who, text in voices if text]
    evidence = list(row["evidence"] or ())
    shown = ", ".join(evidence[:5]) + (f" and {len(evidence) - 5} more" if len(evidence) > 5 else "")
    return html.Details(
        [
            html.Summary(f"{place}{row['said']}"),
            html.Dl(said, className="voices"),
            html.P(
                [
                    f"{words.instant(row['started_at'])} to {words.instant(row['ended_at'])[11:]} UTC. ",
                    f"Shown by {shown or 'the lines of its clock or log'}. ",
                    proof("Rows that prove it", "finding", row["finding_id"]),
                ],
                className="quiet",
            ),
        ]
    )


def replication(request: Request) -> View:
    """The ISR and the leaders over time."""
    name = subject.incident(request)["incident_id"]
    absences = request.snapshot.rows("incident_isr", incident_id=name, limit=data.MAX_EVIDENCE)
    events = request.snapshot.rows("evidence_events", incident_id=name, limit=data.MAX_EVIDENCE)
    if not absences and not events:
        text = "No collector read the control plane in this time, or the stream has not taken it in yet."
        return View(components.empty("No change of an ISR or a leader is recorded.", text))
    outages = subject.everything(request)
    zero = data.zero_of(outages) if outages else (absences or events)[0].get("happened_at_min", clock.EPOCH)
    is_open = any(one["is_open"] for one in outages)
    until = clock.instant(request.snapshot.now_us) if is_open else None
    figure = figures.replication_timeline(absences, events, zero, request.theme, until)
    return View(_absences(absences), {"timeline": figure})


def _absences(rows: Sequence[Row]) -> Any:
    """Who was out of how many ISRs, and why: one line a replica and cause."""
    if not rows:
        return None
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["replica"], row["cause"]].append(row)
    head = ["Replica out of the ISR", "Cause", "Partitions", "First out (UTC)", "Last back (UTC)", "Still out"]
    return components.table(head, [_absence_row(key, of) for key, of in sorted(groups.items())], numeric=(2,))


def _absence_row(key: tuple[str, str], rows: Sequence[Row]) -> list[Any]:
    replica, cause = key
    first = min(rows, key=lambda row: row["started_at_max"])
    closed = [row for row in rows if not row["is_open"]]
    last = max(closed, key=lambda row: row["ended_at_min"], default=None)
    still = sorted({(row["resource"], row["shard"]) for row in rows if row["is_open"]})
    count = len({(row["resource"], row["shard"]) for row in rows})
    return [
        f"broker {replica}",
        components.chip(palette.isr_cause(cause), None, palette.ISR_MEANINGS.get(cause)),
        proof(f"{count:,}", "isr", first["incident_id"], replica, cause),
        words.instant_range(first["started_at_min"], first["started_at_max"]),
        words.instant_range(last["ended_at_min"], last["ended_at_max"]) if last else "not yet",
        html.Strong(words.plural(len(still), "partition")) if still else "none",
    ]
