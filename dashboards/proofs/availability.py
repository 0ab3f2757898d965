"""What are an availability and a coverage made of? Each prober's day of each partition, its outages, and its runs of probes.

Time has three values: served, not served, not measured. While a prober was proven alone, others were served in the middle of what it
was not served, so it measured its own way to the service: that time is not measured, and lowers the coverage, not the availability.

Example: two probers look at a partition for 60 s each, one of them is alone for 6 s: availability 100 % of 114 s, coverage 95 %.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from dashboards import palette, words
from dashboards.components import code, proof
from dashboards.proofs import Listing, Proof, Step, Whole
from dashboards.proofs.lines import GONE, span, utc
from pipelines.serving import Row, Snapshot

MAX_ROWS = 500
HEAD = ("Partition", "prober_id", "Measured", "Unmeasured", "Of it alone", "Not served", "Availability", "Coverage", "Outages")
OUTAGE_HEAD = ("outage_id", "Partition", "prober_id", "Began (UTC)", "Ended (UTC)", "RTO", "Counts as")
RUN_HEAD = ("Issued from (UTC)", "to", "Outcome", "Probes", "Period", "boot_id", "seq", "sequences")


def availability(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """Availability and coverage of a kind of service on a day, over all partitions."""
    if len(names) != 4:
        return None
    cluster_id, kind, lane, day = names
    of = _date(day)
    rows = snapshot.rows("evidence_availability", cluster_id=cluster_id, kind=kind, lane=lane, day=of, limit=MAX_ROWS) if of else ()
    if of is None or not rows:
        return None
    where = f"cluster_id = '{cluster_id}' and kind = '{kind}' and lane = '{lane}'"
    total = rows[0]["total_rows"]
    note = f"The first {len(rows):,} of {total:,} are shown, and summed up here." if total > len(rows) else None
    listed = [[_measured(row, cluster_id, day), *_figures(row)] for row in rows]
    return Proof(
        f"{palette.service(kind, lane)}, {day} (UTC)",
        words.plural(total, "row"),
        "In milliseconds, over all partitions and probers. What one prober alone was not served is not measured, and not down.",
        None,
        _steps(rows),
        (),
        [
            Listing("By partition and prober", f"gold.availability where {where} and day = '{day}'", HEAD, listed, note),
            _outages(snapshot, {"cluster_id": cluster_id, "kind": kind, "lane": lane}, of, where),
        ],
    )


def measured(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """What one prober measured of a partition on a day, down to its runs of probes."""
    if len(names) != len(KEYS) + 1:
        return None
    stream = dict(zip(KEYS, names, strict=False))
    of = _date(names[-1])
    row = snapshot.row("evidence_measured", **stream, day=of) if of else None
    if of is None or row is None:
        return None
    where = " and ".join(f"{name} = '{value}'" for name, value in stream.items())
    begin = datetime.combine(of, time(), UTC)
    runs = snapshot.rows("evidence_probes", **stream, **span(begin, begin + timedelta(days=1)), limit=MAX_ROWS)
    cut = f"The first {MAX_ROWS} runs are shown." if len(runs) == MAX_ROWS else None
    place = {name: stream[name] for name in ("cluster_id", "kind", "lane")}
    whole = Whole("gold.availability", f"{row['resource']} / {row['shard']}, {row['prober_id']}, {names[-1]}", row)
    return Proof(
        f"{row['resource']} / {row['shard']}, {palette.service(row['kind'], row['lane'])}, {names[-1]} (UTC), by {row['prober_id']}",
        words.ratio_range(row["availability_ratio_min"], row["availability_ratio_max"]),
        "Measured is what valid probes cover, each for a period, less the time in which the prober was proven alone.",
        None,
        [*_covered(row), *_steps([row])],
        [whole],
        [
            _outages(snapshot, place, of, where, stream),
            Listing(
                "The runs of probes of the day",
                f"bronze.observations where record = 'probes' and {where}",
                RUN_HEAD,
                [_run(one) for one in runs],
                cut if runs else f"No run of this day: {GONE}.",
            ),
        ],
    )


KEYS = ("cluster_id", "prober_id", "resource", "shard", "kind", "lane")


def _date(day: str) -> date | None:
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def _covered(row: Row) -> list[Step]:
    observed = f"{words.instant(row['observed_from_at'])} to {words.instant(row['observed_to_at'])}"
    whole = (row["observed_to_at"] - row["observed_from_at"]).total_seconds() * 1000
    alone = row["alone_ms"] or 0.0
    return [
        Step("observed", "last probe + period - first probe", observed, f"{whole:.0f} ms"),
        Step(
            "unmeasured",
            "observed - measured",
            f"{whole:.0f} - {row['measured_ms']:.0f}; alone: {alone:.0f}",
            f"{row['unmeasured_ms']:.0f} ms",
        ),
    ]


def _steps(rows: Sequence[Row]) -> list[Step]:
    taken, left, least, most, alone = (
        sum(row[name] or 0.0 for row in rows) for name in ("measured_ms", "unmeasured_ms", "down_ms_min", "down_ms_max", "alone_ms")
    )
    note = f"of the unmeasured, {alone:.0f} ms in which a prober was proven alone" if alone else None
    return [
        Step(
            "availability min",
            "(measured - down max) / measured",
            f"({taken:.0f} - {most:.0f}) / {taken:.0f}",
            _ratio(taken - most, taken),
        ),
        Step(
            "availability max",
            "(measured - down min) / measured",
            f"({taken:.0f} - {least:.0f}) / {taken:.0f}",
            _ratio(taken - least, taken),
        ),
        Step(
            "coverage",
            "measured / (measured + unmeasured)",
            f"{taken:.0f} / ({taken:.0f} + {left:.0f})",
            _ratio(taken, taken + left),
            note,
        ),
    ]


def _ratio(part: float, whole: float) -> str:
    return words.ratio(max(0.0, part) / whole if whole else None)


def _measured(row: Row, cluster_id: str, day: str) -> Any:
    names = (cluster_id, row["prober_id"], row["resource"], row["shard"], row["kind"], row["lane"], day)
    return proof(f"{row['resource']} / {row['shard']}", "measured", *names)


def _figures(row: Row) -> list[Any]:
    return [
        row["prober_id"],
        words.duration(row["measured_ms"]),
        words.duration(row["unmeasured_ms"]),
        words.duration(row["alone_ms"]) if row["alone_ms"] else "none",
        words.duration_range(row["down_ms_min"], row["down_ms_max"]),
        words.ratio_range(row["availability_ratio_min"], row["availability_ratio_max"]),
        words.ratio(row["coverage_ratio"]),
        f"{row['outages']:,}",
    ]


def _outages(snapshot: Snapshot, place: Mapping[str, str], day: date, where: str, stream: Mapping[str, str] | None = None) -> Listing:
    """What was not served on the day: by the service, or by one prober alone. `stream`: only of that one, and what is inferred."""
    found = snapshot.rows("evidence_day_outages", **place, day=day, limit=MAX_ROWS)
    if stream is not None:
        found = tuple(one for one in found if _is_of(one, stream))
    rows = [
        [
            proof(one["outage_id"], "outage", one["outage_id"]) if one["is_in_gold"] else code(one["outage_id"]),
            f"{one['resource']} / {one['shard']}",
            one["prober_id"] or "inferred",
            words.instant_range(one["started_at_min"], one["started_at_max"]),
            words.instant_range(one["ended_at_min"], one["ended_at_max"]),
            words.duration_range(one["rto_ms_min"], one["rto_ms_max"], is_open=one["is_open"]),
            "unmeasured: the prober was alone" if one["cause"] == "prober_alone" else "not served",
        ]
        for one in found
    ]
    note = f"The first {MAX_ROWS} are shown." if len(found) == MAX_ROWS else None
    source = f"gold.outages, silver.outage_windows where {where}, touching {day:%Y-%m-%d}"
    return Listing("What was not served", source, OUTAGE_HEAD, rows, note if rows else "Nothing: no outage touches the day.")


def _is_of(one: Row, stream: Mapping[str, str]) -> bool:
    is_there = (one["resource"], one["shard"]) == (stream["resource"], stream["shard"])
    return is_there and one["prober_id"] in (None, stream["prober_id"])


def _run(run: Row) -> list[Any]:
    outcome = f"{run['outcome']} {run['code'] or ''}".strip()
    return [
        utc(run["started_at_us"]), utc(run["last_issued_at_us"]), outcome, f"{run['count'] or 0:,}", f"{run['period_us'] / 1000:g} ms",
        code(run["boot_id"]), str(run["seq"]), f"{run['first_sequence']} to {run['last_sequence']}",
    ]  # fmt: skip
