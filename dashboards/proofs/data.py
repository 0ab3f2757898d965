"""What proves that records are gone, or are not? The findings, the read-backs that decided them, and where the records were."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from dashboards import components, data, palette, words
from dashboards.components import proof
from dashboards.proofs import Listing, Proof, Step, Whole
from dashboards.proofs.formulas import loss_steps
from dashboards.proofs.lines import span
from dashboards.proofs.records import bounding_records
from pipelines import why
from pipelines.domain import clock
from pipelines.domain.sequences import number
from pipelines.serving import Row, Snapshot

MAX_READ_BACKS = 40
MOMENT = timedelta(milliseconds=1)
HEAD = ("loss_id", "Verdict", "Why not lost", "Partition", "Service", "Records gone", "RPO", "Of acknowledged", "outage_id")


def losses(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """The verdict, the lost records and the RPO of an incident: the worst verdict, sums of records, the longest span."""
    row = snapshot.row("incident", incident_id=names[0])
    if row is None:
        return None
    found = snapshot.rows("incident_losses", incident_id=names[0], limit=data.MAX_EVIDENCE)
    mark = palette.verdict(row["loss_verdict"])
    steps = [
        Step("verdict", "the worst of the findings and of outages that nobody read back", f"{len(found):,} findings", mark.word),
        Step("lost records", "sum of records_min; sum of records_max", f"over {len(found):,} findings", _records(row)),
        Step("RPO", "max of rpo_ms_min; max of rpo_ms_max", f"over {len(found):,} findings", _span(row)),
    ]
    counts: dict[str, int] = {}
    for one in found:
        counts[one["verdict"]] = counts.get(one["verdict"], 0) + one["acked_records"]
    steps += [Step(f"acknowledged, {verdict}", "sum of acked_records", "", f"{count:,}") for verdict, count in counts.items()]
    listing = Listing("The findings", f"gold.losses where incident_id = '{names[0]}'", HEAD, [_row(one) for one in found])
    about = palette.VERDICT_MEANINGS.get(row["loss_verdict"], "")
    return Proof("Acknowledged data and RPO", mark.word, about, names[0], steps, [Whole("gold.incidents", names[0], row)], [listing])


def loss(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """One finding: what was acknowledged, where it was, and which read-back did not find it."""
    row = snapshot.row("evidence_loss", loss_id=names[0])
    if row is None:
        return None
    at = row["checked_at"]
    place = {name: row[name] for name in ("cluster_id", "resource", "shard")}
    found = snapshot.rows("evidence_read_backs", **place, **span(at - MOMENT, at + MOMENT), limit=MAX_READ_BACKS)
    note = (
        _behind_the_end(row, found)
        if found
        else f"No line of bronze ended at {words.instant(at)}: it is not there any more, or not yet."
    )
    steps = loss_steps(row, found)
    head = ("Record", "Began (UTC)", "Ended (UTC)", "Read from", "to", "Log start", "Epoch", "Committed up to", "Epoch ends at", "Line")
    source = "bronze.observations where record in ('readback', 'epoch_end') and ended_at_us is checked_at"
    title = "The read-back that decided it" if row["evidence"] == "readback" else "The end of the epoch that decided it"
    listing = Listing(title, source, head, [_read_back(one) for one in found], note)
    whole = Whole("silver.losses", row["loss_id"], row)
    mark = palette.verdict(row["verdict"])
    reason = why.loss(row["reason"])
    about = palette.VERDICT_MEANINGS.get(row["verdict"], "") + (f"; {reason}" if reason else "")
    title = f"{mark.word}: {row['resource']} / {row['shard']}, {palette.service(row['kind'], row['lane'])}"
    return Proof(title, _gone(row), about, row["incident_id"], steps, [whole], [listing, *bounding_records(snapshot, row, place)])


def _behind_the_end(row: Row, found: Sequence[Row]) -> str | None:
    """Why a read-back speaks of positions that it did not reach."""
    ends = [number(one["to_position"]) for one in found if one["record"] == "readback"]
    end, last = next((at for at in ends if at is not None), None), number(row["last_position"])
    if row["verdict"] != "LOST" or end is None or last is None or last < end:
        return None
    return (
        f"The log ended before {end}, and records up to {last} had been acknowledged: a record of a later epoch was read before"
        " them, and behind it a log holds none of an earlier one."
    )


def _gone(row: Row) -> str:
    return words.count_range(row["records_min"], row["records_max"], "record")


def _records(row: Row) -> str:
    return words.count_range(row["lost_records_min"], row["lost_records_max"], "record")


def _span(row: Row) -> str:
    return words.duration_range(row["rpo_ms_min"], row["rpo_ms_max"], absent="not read back")


def _row(one: Row) -> list[Any]:
    return [
        proof(one["loss_id"], "loss", one["loss_id"]),
        palette.verdict(one["verdict"]).word,
        why.loss(one["reason"]) or "",
        f"{one['resource']} / {one['shard']}",
        palette.service(one["kind"], one["lane"]),
        _gone(one),
        words.duration_range(one["rpo_ms_min"], one["rpo_ms_max"]),
        f"{one['acked_records']:,}",
        proof(one["outage_id"], "outage", one["outage_id"]) if one["outage_id"] else "none",
    ]


def _read_back(one: Row) -> list[Any]:
    return [
        one["record"],
        words.instant(clock.instant(one["started_at_us"])),
        words.instant(clock.instant(one["ended_at_us"])),
        one["from_position"] or "",
        one["to_position"] or "",
        one["log_start_position"] or "",
        "" if one["term"] is None else str(one["term"]),
        one["high_watermark_max"] or "",
        one["end_position"] or "",
        components.code(f"{one['prober_id']} / {one['boot_id']} / {one['seq']}"),
    ]
