"""What became of acknowledged data? Every verdict with its reason; present is what was read again and is there."""

from typing import Any

from dash import html

from dashboards import components, data, palette, words
from dashboards.components import proof
from dashboards.incidents import subject
from dashboards.panels import Request, View
from pipelines import why
from pipelines.serving import Row

SHOWN = 50


def losses(request: Request) -> View:
    """The findings that are not harmless one by one, the rest summed up."""
    row = subject.incident(request)
    found = request.snapshot.rows("incident_losses", incident_id=row["incident_id"], limit=data.MAX_EVIDENCE)
    if not found:
        text = "Records are read again after every change of leader and every hour. Until then they are neither lost nor safe."
        return View(components.empty("Not read back yet.", text))
    present = [one for one in found if one["verdict"] == "PRESENT"]
    others = [one for one in found if one["verdict"] != "PRESENT"]
    parts: list[Any] = []
    if others:
        head = ["Verdict", "Partition", "Service", "Records gone", "RPO", "Of acknowledged", "Positions", "Checked (UTC)"]
        parts.append(components.table(head, [_loss_row(one) for one in others[:SHOWN]]))
        parts.append(components.not_all(min(len(others), SHOWN), len(others), "finding"))
    if present:
        records = sum(one["acked_records"] for one in present)
        latest = max(one["checked_at"] for one in present)
        shards = len({(one["resource"], one["shard"]) for one in present})
        of = f"{words.plural(records, 'acknowledged record')} in {words.plural(shards, 'partition')}"
        parts.append(
            html.P(
                [
                    components.chip(palette.VERDICTS["PRESENT"], "Present"),
                    " ",
                    proof(of, "losses", row["incident_id"]),
                    f" were read again and are there; last checked {words.instant(latest)} UTC. ",
                    html.Span("Not acknowledged is not lost; late is not lost.", className="quiet"),
                ]
            )
        )
    return View(parts)


def _loss_row(row: Row) -> list[Any]:
    positions = f"{row['first_position']}{words.DASH}{row['last_position']}" if row["first_position"] is not None else "not known"
    is_lost = row["verdict"] == "LOST"
    gone = words.count_range(row["records_min"], row["records_max"], "record")
    span = words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"])
    return [
        _verdict(row),
        f"{row['resource']} / {row['shard']}",
        palette.service(row["kind"], row["lane"]),
        html.Strong(proof(gone if is_lost else _not_gone(row), "loss", row["loss_id"])),
        proof(span, "loss", row["loss_id"]) if is_lost else html.Span(_no_span(row), className="quiet"),
        proof(f"{row['acked_records']:,}", "loss", row["loss_id"]),
        html.Code(positions),
        words.instant(row["checked_at"])[:19],
    ]


def _verdict(row: Row) -> Any:
    """The verdict, and why it is not called lost."""
    mark = palette.verdict(row["verdict"])
    reason = why.loss(row["reason"])
    return html.Div(
        [
            components.chip(mark, None, palette.VERDICT_MEANINGS.get(row["verdict"])),
            html.Div(reason, className="quiet reason") if reason else None,
        ]
    )


def _not_gone(row: Row) -> str:
    return "none lost" if row["verdict"] in ("NOT_STORED", "DELETED_BY_POLICY") else "not known"


def _no_span(row: Row) -> str:
    return words.NOT_APPLICABLE if row["verdict"] in ("NOT_STORED", "DELETED_BY_POLICY") else "not known"
