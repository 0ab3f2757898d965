"""Which records bound a loss? K, l1, lm and the next retained one, each with the line that holds it.

The rule: silver.losses names them, `boot_id/sequence`; bronze is asked for runs of that lane that hold these sequences. A record of a
run was issued a period after the one before it, and acknowledged at the latest with the longest latency of its run; a late one when its
own line says.

Example: `retained_before` 7f3c/4 is in the line of sequences 0 to 19 that began at 0 ms: issued at 400 ms, acknowledged by 402 ms.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dashboards import components, words
from dashboards.proofs import Listing
from dashboards.proofs.lines import GONE, days, line, span, utc
from pipelines.serving import Row, Snapshot

MAX_LINES = 40
MAX_RUNS = 40
ROLES = (
    ("retained_before", "K: last retained before"),
    ("first_record", "l1: first of them"),
    ("last_record", "lm: last of them"),
    ("retained_after", "next retained"),
)
HEAD = ("Which", "Record", "Issued (UTC)", "Acknowledged by", "Position", "How", "Leader, epoch", "Line", "sequences")
RUN_HEAD = ("Issued from (UTC)", "to", "Answered", "High watermark", "Leader, epoch", "Line")


def bounding_records(snapshot: Snapshot, row: Row, place: Mapping[str, Any]) -> list[Listing]:
    """The records that bound a finding; where they are a user's, the watermarks between which they were committed."""
    if row["evidence"] != "readback":
        return _watermarks(snapshot, row, place)
    named = {column: row[column] for column, _ in ROLES if row[column] is not None}
    pairs = sorted({_pair(name) for name in named.values()})
    first = row["retained_before_at"] or row["acked_from_at"] or row["checked_at"]
    found = snapshot.rows(
        "evidence_acknowledged",
        **place,
        **days(first, row["checked_at"]),
        kind=row["kind"],
        lane=row["lane"],
        boot_ids=[boot_id for boot_id, _ in pairs],
        sequences=[sequence for _, sequence in pairs],
        limit=MAX_LINES,
    ) if pairs else ()  # fmt: skip
    by_name: dict[str, list[Row]] = {}
    for one in found:
        by_name.setdefault(one["record_name"], []).append(one)
    rows = [cells for column, role in ROLES for cells in _named(role, row[column], by_name)]
    source = f"silver.losses of {row['loss_id']}; bronze.observations where record in ('probes', 'late_acks')"
    return [
        Listing("The records that bound it", source, HEAD, rows, None if named else "The row names none: it was made by an older rule.")
    ]


def _pair(name: str) -> tuple[str, int]:
    boot_id, _, sequence = name.rpartition("/")
    return boot_id, int(sequence)


def _named(role: str, name: str | None, by_name: Mapping[str, Sequence[Row]]) -> list[list[Any]]:
    if name is None:
        return [[role, "none", *[""] * (len(HEAD) - 2)]]
    if name not in by_name:
        return [[role, components.code(name), GONE, *[""] * (len(HEAD) - 3)]]
    return [_record(role, name, one) for one in by_name[name]]


def _record(role: str, name: str, one: Row) -> list[Any]:
    step = one["record_number"] - one["first_sequence"]
    apart = one["last_sequence"] - one["first_sequence"]
    period = one["period_us"] or ((one["last_issued_at_us"] - one["started_at_us"]) // apart if apart else 0)
    issued = one["started_at_us"] + step * period
    latency = one["latency_us_max"] if one["latency_us_max"] is not None else one["ended_at_us"] - one["last_issued_at_us"]
    acked = issued + latency if one["record"] == "probes" else issued + one["ended_at_us"] - one["started_at_us"]
    position = "not known" if one["first_position"] is None else str(int(one["first_position"]) + step)
    term = "" if one["term"] is None else f", {one['term']}"
    return [
        role,
        components.code(name),
        utc(issued),
        utc(acked),
        one["last_position"] if one["record_number"] == one["last_sequence"] and one["last_position"] else position,
        "in time" if one["record"] == "probes" else "late",
        (one["leader"] or "not known") + term,
        line(f"{one['prober_id']} / {one['boot_id']} / {one['seq']}"),
        f"{one['first_sequence']} to {one['last_sequence']}",
    ]


def _watermarks(snapshot: Snapshot, row: Row, place: Mapping[str, Any]) -> list[Listing]:
    first, last = row["acked_from_at"], row["acked_to_at"]
    source = "bronze.observations where record = 'probes' and lane = 'watch'"
    if first is None or last is None:
        note = "The highest high watermark of the old epoch was the first that was seen: no span of time follows."
        return [Listing("The watermarks in between", source, (), (), note)]
    runs = snapshot.rows("evidence_watermarks", **place, **span(first, last), limit=MAX_RUNS)
    rows = [
        [
            utc(one["started_at_us"]), utc(one["last_issued_at_us"]), f"{one['probes'] or 0:,} {one['outcome']}",
            f"{one['first_position'] or 'none'}{words.DASH}{one['last_position'] or 'none'}",
            (one["leader"] or "not known") + ("" if one["term"] is None else f", {one['term']}"), line(one["line_id"]),
        ]
        for one in runs
    ]  # fmt: skip
    return [Listing("The watermarks in between", source, RUN_HEAD, rows, None if runs else f"No look at the leader: {GONE}.")]
