"""What proves an outage? Its rows, the probes that bound it, the decisions that explain it, the clocks in between.

The rule: bronze is asked for the days, the cluster, the partition, the lane and the span of time of this outage only: the answer
does not depend on how much bronze there is. The lines of S, B1, Bn and T are found by the names that silver.outage_windows gives
them; a line that is not there any more is said to be missing. `decisions` finds what the control plane did.

Example: `last_good_probe` 7f3c/999 is in the line of boot 7f3c with sequences 950 to 999, so S is its last probe.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dashboards import components, data, palette, words
from dashboards.components import proof
from dashboards.proofs import Listing, Proof, Whole, formulas
from dashboards.proofs.decisions import decisions
from dashboards.proofs.lines import GONE, span, utc
from pipelines import why
from pipelines.domain import clock
from pipelines.serving import Row, Snapshot

MAX_RUNS = 60
OUTAGE_NAME = re.compile(r"(.+)/([^/]+)/([a-z_]+)/([a-z]+)@(\d+)")
ROLES = (
    ("last_good_probe", "S: last good before it"),
    ("first_bad_probe", "B1: first bad"),
    ("last_bad_probe", "Bn: last bad"),
    ("first_good_probe", "T: first good after it"),
)
PROBE_HEAD = (
    "Which", "Probe", "Issued (UTC)", "Decided (UTC)", "Outcome", "Leader", "prober_id", "boot_id", "seq", "sequences",
)  # fmt: skip
RUN_HEAD = (
    "Issued from (UTC)", "to", "Outcome", "Probes", "Leader, term", "prober_id", "boot_id", "seq", "sequences",
)  # fmt: skip


def outage(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """The proof of one outage, of a partition or of the controller."""
    row = snapshot.row("evidence_outage", outage_id=names[0]) if names else None
    if row is None:
        return None
    window = snapshot.row("evidence_outage_window", outage_id=row["outage_id"])
    steps = [*formulas.rto(row, formulas.NAMES["probe" if window else "window"]), *formulas.phases(row)]
    service = palette.service(row["kind"], row["lane"])
    place = "the controller" if row["kind"] == "controller" else f"{row['resource']} / {row['shard']}, {service}"
    said = [why.outage(row), why.view(row)]
    wholes = _wholes(snapshot, row, window)
    return Proof(
        f"Outage of {place}",
        words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"]),
        "; ".join(text for text in said if text),
        row["incident_id"],
        steps,
        wholes,
        [*_probes(snapshot, window), *_inferred(snapshot, row, wholes), *_losses(snapshot, row), *decisions(snapshot, row)],
    )


def _wholes(snapshot: Snapshot, row: Row, window: Row | None) -> list[Whole]:
    found = [Whole("gold.outages", row["outage_id"], row)]
    if window is not None:
        found.append(Whole("silver.outage_windows", window["outage_id"], window))
    for table, dataset in (
        ("silver.partition_windows", "evidence_partition_window"),
        ("silver.controller_windows", "evidence_controller_window"),
    ):
        below = snapshot.row(dataset, outage_id=row["outage_id"])
        if below is not None:
            found.append(Whole(table, below["window_id"], below))
    return found


# --- the probes ---------------------------------------------------------------------------------------------------------


def _probes(snapshot: Snapshot, window: Row | None) -> list[Listing]:
    if window is None:
        return [Listing("Probes", "bronze.observations", (), (), "No probe asked for this: it follows from the rows below.")]
    first = window["started_at_min"] or window["started_at_max"] - timedelta(milliseconds=window["lambda_ms"])
    last = window["ended_at_max"] or window["ended_at_min"]
    keys = ("cluster_id", "prober_id", "resource", "shard", "kind", "lane")
    of_stream = {name: window[name] for name in keys}
    runs = snapshot.rows("evidence_probes", **of_stream, **span(first, last), limit=MAX_RUNS)
    source = "bronze.observations where record = 'probes' and " + " and ".join(
        f"{name} = '{value}'" for name, value in of_stream.items()
    )
    bounding = [_bounding(runs, window[column], role) for column, role in ROLES]
    counts = (
        f"{window['bad_probes']:,} bad probes, {window['rejected_probes']:,} of them refused, {window['answered_probes']:,} "
        f"answered by a broker itself; {window['void_probes']:,} measured nothing; period {window['period_ms']:g} ms, "
        f"lambda {window['lambda_ms']:g} ms; all instants by clock {window['clock_id']}. {_decided_first(runs, window)}"
    )
    cut = f" The first {MAX_RUNS} runs are shown." if len(runs) == MAX_RUNS else ""
    return [
        Listing("The probes that bound it", source, PROBE_HEAD, bounding, counts),
        Listing("All runs of probes from S to T", source, RUN_HEAD, [_run_row(run) for run in runs], cut or None),
    ]


def _inferred(snapshot: Snapshot, row: Row, wholes: Sequence[Whole]) -> list[Listing]:
    """The rows that a window follows from, as it names them; outages among them lead to their own proofs."""
    named = [one for one in wholes if one.row.get("proof")]
    if not named:
        return []
    windows = (
        snapshot.rows("evidence_outage_windows", incident_id=row["incident_id"], limit=data.MAX_EVIDENCE) if row["incident_id"] else ()
    )
    return [
        Listing(
            "What it follows from",
            f"{one.table}.proof of {one.name}",
            ("Row",),
            [[_source(text, windows)] for text in one.row["proof"]],
        )
        for one in named
    ]


def _source(text: str, windows: Sequence[Row]) -> Any:
    """A row that a window names: an outage by its stream and the issue of its first bad probe, or a position of a log."""
    found = OUTAGE_NAME.fullmatch(text)
    if found is None:
        return text
    place, at_us = found.groups()[:-1], int(found.groups()[-1])
    for one in windows:
        begun = one["started_at_min"] or one["started_at_max"] - timedelta(milliseconds=one["lambda_ms"])
        is_it = (one["resource"], one["shard"], one["kind"], one["lane"]) == place
        if is_it and clock.microseconds(begun) <= at_us <= clock.microseconds(one["started_at_max"]):
            return proof(text, "outage", one["outage_id"])
    return text


def _bounding(runs: Sequence[Row], name: str | None, role: str) -> list[Any]:
    if name is None:
        return [role, "none was seen", *[""] * (len(PROBE_HEAD) - 2)]
    boot_id, _, number = name.rpartition("/")
    sequence = int(number)
    holding = [run for run in runs if run["boot_id"] == boot_id and run["first_sequence"] <= sequence <= run["last_sequence"]]
    if not holding:
        return [role, components.code(name), GONE, *[""] * (len(PROBE_HEAD) - 3)]
    run = holding[0]
    is_last = sequence == run["last_sequence"]
    issued = run["last_issued_at_us"] if is_last else run["started_at_us"] + (sequence - run["first_sequence"]) * run["period_us"]
    return [role, components.code(name), utc(issued), _decided(run, sequence), *_outcome(run), *_line(run)]


def _decided(run: Row, sequence: int) -> str:
    """When a probe of a run was decided: exactly for its first and last, else at the latest."""
    if sequence == run["last_sequence"]:
        return utc(run["last_decided_at_us"])
    if sequence == run["first_sequence"]:
        return utc(run["first_decided_at_us"])
    return "not kept by itself: see min q"


def _decided_first(runs: Sequence[Row], window: Row) -> str:
    """The line whose earliest decision is min q."""
    q = clock.microseconds(window["started_at_max"])
    for run in runs:
        if run["outcome"] != "ACKED" and run["earliest_decided_at_us"] == q:
            return f"min q, {utc(q)}, is earliest_decided_at_us of line {run['boot_id']}, seq {run['seq']}."
    return f"min q is {utc(q)}; the line that it is the earliest decision of is not in bronze any more, or not yet."


def _run_row(run: Row) -> list[Any]:
    term = "" if run["term"] is None else f", {run['term']}"
    outcome, leader = _outcome(run)
    return [utc(run["started_at_us"]), utc(run["last_issued_at_us"]), outcome, f"{run['count'] or 0:,}", leader + term, *_line(run)]


def _outcome(run: Row) -> tuple[str, str]:
    code = f" {run['code']}" if run["code"] else ""
    return f"{run['outcome']}{code}", run["leader"] or "not known"


def _line(run: Row) -> tuple[Any, ...]:
    sequences = f"{run['first_sequence']} to {run['last_sequence']}"
    return run["prober_id"], components.code(run["boot_id"]), str(run["seq"]), sequences


# --- data --------------------------------------------------------------------------------------------


def _losses(snapshot: Snapshot, row: Row) -> list[Listing]:
    if row["loss_verdict"] == "NOT_APPLICABLE":
        return []
    found = snapshot.rows("evidence_outage_losses", outage_id=row["outage_id"])
    note = None if found else f"{palette.verdict(row['loss_verdict']).word}: no finding names this outage."
    rows = [
        [
            proof(one["loss_id"], "loss", one["loss_id"]),
            palette.verdict(one["verdict"]).word,
            why.loss(one["reason"]) or "",
            words.count_range(one["records_min"], one["records_max"], "record"),
            words.duration_range(one["rpo_ms_min"], one["rpo_ms_max"]),
            f"{one['acked_records']:,}",
        ]
        for one in found
    ]
    head = ("loss_id", "Verdict", "Why not lost", "Records gone", "RPO", "Of acknowledged")
    return [Listing("What became of its data", f"silver.losses where outage_id = '{row['outage_id']}'", head, rows, note)]


# --- several probers ----------------------------------------------------------------------------------------------------


def agreed(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """A span in which a partition was down for every prober: the intersection of what each of them was not served."""
    row = snapshot.row("evidence_service_window", window_id=names[0])
    if row is None:
        return None
    head = ("outage_id", "prober_id", "Began (UTC)", "Ended (UTC)", "RTO")
    rows = []
    for outage_id in row["proof"]:
        one = snapshot.row("evidence_outage", outage_id=outage_id)
        if one is not None:
            began, ended = words.instant_range(*_start(one)), words.instant_range(one["ended_at_min"], one["ended_at_max"])
            lasted = words.duration_range(one["rto_ms_min"], one["rto_ms_max"], is_open=one["is_open"])
            rows.append([proof(outage_id, "outage", outage_id), one["prober_id"], began, ended, lasted])
    listing = Listing("What each prober was not served", "gold.outages, by the ids in silver.service_windows.proof", head, rows)
    place = f"{row['resource']} / {row['shard']}, {palette.service(row['kind'], row['lane'])}"
    value = words.duration_range(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"])
    about = "Start: the latest of the starts. End: the earliest of the ends. At least the longest stretch in which nobody was served."
    whole = Whole("silver.service_windows", row["window_id"], row)
    steps = formulas.rto(row, formulas.NAMES["window"])
    return Proof(f"Down for every prober: {place}", value, about, row["incident_id"], steps, [whole], [listing])


def _start(row: Row) -> tuple[datetime | None, datetime | None]:
    return row["started_at_min"], row["started_at_max"]
