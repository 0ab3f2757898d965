"""What are the figures of an incident made of? Its outages, each of which leads to its own proof."""

from collections.abc import Sequence
from typing import Any

from dashboards import data, palette, words
from dashboards.components import proof
from dashboards.proofs import Listing, Proof, Step, Whole
from pipelines import why
from pipelines.serving import Row, Snapshot

HEAD = ("outage_id", "Partition", "Service", "RTO", "Why", "Who saw it")
SERVICE_RULE = "kind != 'controller' and cause != 'prober_alone'"


def worst(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """The worst RTO: the maximum over the outages of the service, of the minima and of the maxima apart."""
    row, service = _of(snapshot, names[0])
    if row is None:
        return None
    counted = service or [one for one in _outages(snapshot, names[0]) if one["kind"] == "controller"]
    value = words.duration_range(row["worst_rto_ms_min"], row["worst_rto_ms_max"], is_open=row["is_open"], absent="none")
    note = "One prober alone and the controller are left out." if service else "The service had no outage; this is the controller's."
    return _sum(row, "Worst RTO", value, f"The longest outage of the incident. {note}", _extremes("worst RTO", "max", counted), counted)


def partitions(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """The number of partitions hit, and of outages."""
    row, service = _of(snapshot, names[0])
    if row is None:
        return None
    found = {(one["resource"], one["shard"]) for one in service}
    probed = {(one["resource"], one["shard"]) for one in service if one["lane"] in ("raw", "client", "read")}
    steps = [
        Step("partitions hit", "count of distinct (resource, shard)", f"over {len(service):,} outages", f"{len(found):,}"),
        Step("probed", "of them in a lane raw, client or read", "", f"{len(probed):,}"),
        Step("inferred", "partitions hit - probed", f"{len(found):,} - {len(probed):,}", f"{len(found) - len(probed):,}"),
    ]
    left = [one for one in _outages(snapshot, names[0]) if one["cause"] == "prober_alone"]
    about = (
        f"Partitions of which the service had an outage; {words.plural(len(left), 'outage')} that one prober saw alone are left out."
    )
    return _sum(row, "Partitions hit", f"{len(found):,}", about, steps, service)


def service(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """RTO by kind and lane: worst, median and shortest."""
    if len(names) != 3:
        return None
    row, every = _of(snapshot, names[0])
    if row is None:
        return None
    counted = [one for one in every if (one["kind"], one["lane"]) == (names[1], names[2])]
    if not counted:
        return None
    steps = [*_extremes("worst", "max", counted), *_median(counted), *_extremes("shortest", "min", counted)]
    value = words.plural(len(counted), "outage")
    about = "The quantiles of both bounds bound the quantile of the truth."
    return _sum(row, f"RTO of {palette.service(names[1], names[2])}", value, about, steps, counted)


def isr(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """How many partitions a replica was out of the ISR of, for one reason."""
    if len(names) != 3:
        return None
    every = snapshot.rows("incident_isr", incident_id=names[0], limit=data.MAX_EVIDENCE)
    found = [one for one in every if (one["replica"], one["cause"]) == (names[1], names[2])]
    if not found:
        return None
    count = len({(one["resource"], one["shard"]) for one in found})
    head = ("window_id", "Partition", "Out from (UTC)", "Back (UTC)", "ISR before", "ISR after")
    rows = [
        [
            one["window_id"],
            f"{one['resource']} / {one['shard']}",
            words.instant_range(one["started_at_min"], one["started_at_max"]),
            "still out" if one["is_open"] else words.instant_range(one["ended_at_min"], one["ended_at_max"]),
            ", ".join(one["isr_before"] or ()),
            ", ".join(one["isr_after"] or ()),
        ]
        for one in found
    ]
    mark = palette.isr_cause(names[2])
    steps = [Step("partitions", "count of distinct (resource, shard)", f"over {words.plural(len(found), 'window')}", f"{count:,}")]
    source = f"silver.isr_windows where incident_id = '{names[0]}' and replica = '{names[1]}' and cause = '{names[2]}'"
    title = f"Broker {names[1]} out of the ISR: {mark.word}"
    about = palette.ISR_MEANINGS.get(names[2], "")
    return Proof(title, words.plural(count, "partition"), about, names[0], steps, (), [Listing("Windows", source, head, rows)])


def views(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """The outages of which other probers say the same: confirmed, disputed, alone or single."""
    if len(names) != 2:
        return None
    row = snapshot.row("incident", incident_id=names[0])
    found = [one for one in _outages(snapshot, names[0]) if one["view"] == names[1]]
    if row is None or not found or names[1] not in palette.VIEWS:
        return None
    steps = [Step("outages", "count", f"over {len(found):,} outages", f"{len(found):,}")]
    value = words.plural(len(found), "outage")
    rule = f"view = '{names[1]}'"
    return _sum(row, f"Seen: {palette.VIEWS[names[1]].word}", value, palette.VIEW_MEANINGS[names[1]], steps, found, rule)


def alone(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """What one prober alone was not served, which is in no figure of the service."""
    row = snapshot.row("incident", incident_id=names[0])
    found = [one for one in _outages(snapshot, names[0]) if one["cause"] == "prober_alone"]
    if row is None or not found:
        return None
    probers = sorted({one["prober_id"] for one in found})
    steps = [
        Step("outages", "count", f"over {len(found):,} outages", f"{len(found):,}"),
        Step("probers", "count of distinct prober_id", ", ".join(probers), f"{len(probers):,}"),
    ]
    about = "Others were served in the middle of each: no outage of the service; in availability that time is unmeasured."
    return _sum(
        row, "What one prober alone was not served", words.plural(len(found), "outage"), about, steps, found, "cause = 'prober_alone'"
    )


def finding(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """A disagreement, with the rows that show it."""
    row = snapshot.row("evidence_finding", finding_id=names[0])
    if row is None:
        return None
    rows = [[_link(one)] for one in row["evidence"] or ()]
    note = None if rows else "It is shown by all lines of that clock or log in this span, in bronze.observations."
    listing = Listing("The rows that show it", f"silver.findings.evidence of {row['finding_id']}", ("Row",), rows, note)
    whole = Whole("silver.findings", row["finding_id"], row)
    return Proof(why.finding(row["finding"]), row["subject"], row["said"], row["incident_id"], (), [whole], [listing])


def _link(evidence: str) -> Any:
    kind, _, name = evidence.partition(" ")
    return proof(evidence, "outage", name) if kind == "outage" and name else evidence


def _of(snapshot: Snapshot, incident_id: str) -> tuple[Row | None, list[Row]]:
    row = snapshot.row("incident", incident_id=incident_id)
    return row, [one for one in _outages(snapshot, incident_id) if one["kind"] != "controller" and one["cause"] != "prober_alone"]


def _outages(snapshot: Snapshot, incident_id: str) -> Sequence[Row]:
    return snapshot.rows("incident_outages", incident_id=incident_id, limit=data.MAX_OUTAGES)


def _extremes(name: str, which: str, rows: Sequence[Row]) -> list[Step]:
    """The largest or smallest of the minima, and of the maxima."""
    choose = max if which == "max" else min
    if not rows:
        return []
    low = choose(rows, key=lambda one: float(one["rto_ms_min"]))
    steps = [Step(f"{name} min", f"{which} of rto_ms_min", f"{len(rows):,} outages; {low['outage_id']}", f"{low['rto_ms_min']:g} ms")]
    bounded = [one for one in rows if one["rto_ms_max"] is not None]
    if len(bounded) < len(rows) and which == "max":
        return [*steps, Step(f"{name} max", "max of rto_ms_max", f"{len(rows) - len(bounded):,} have none", "nothing bounds it")]
    if not bounded:
        return steps
    high = choose(bounded, key=lambda one: float(one["rto_ms_max"]))
    return [
        *steps,
        Step(f"{name} max", f"{which} of rto_ms_max", f"{len(rows):,} outages; {high['outage_id']}", f"{high['rto_ms_max']:g} ms"),
    ]


def _median(rows: Sequence[Row]) -> list[Step]:
    index = (len(rows) - 1) // 2
    low = sorted(float(one["rto_ms_min"]) for one in rows)
    high = sorted(float("inf") if one["rto_ms_max"] is None else float(one["rto_ms_max"]) for one in rows)
    at = f"number {index + 1} of {len(rows):,} in order"
    upper = "nothing bounds it" if high[index] == float("inf") else f"{high[index]:g} ms"
    return [Step("median min", "median of rto_ms_min", at, f"{low[index]:g} ms"), Step("median max", "median of rto_ms_max", at, upper)]


def _sum(row: Row, title: str, value: str, about: str, steps: Sequence[Step], rows: Sequence[Row], rule: str = SERVICE_RULE) -> Proof:
    name = row["incident_id"]
    listing = Listing(
        "The outages that it is made of",
        f"gold.outages where incident_id = '{name}' and {rule}",
        HEAD,
        [_row(one) for one in rows],
    )
    return Proof(title, value, about, name, steps, [Whole("gold.incidents", name, row)], [listing])


def _row(one: Row) -> list[Any]:
    return [
        proof(one["outage_id"], "outage", one["outage_id"]),
        f"{one['resource']} / {one['shard']}",
        palette.service(one["kind"], one["lane"]),
        words.duration_range(one["rto_ms_min"], one["rto_ms_max"], is_open=one["is_open"]),
        why.outage(one),
        why.view(one) or "inferred",
    ]
