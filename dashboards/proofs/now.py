"""What are the figures of the overview made of: exposure now, availability and coverage of a day?"""

from collections.abc import Sequence
from datetime import date

from dashboards import palette, words
from dashboards.proofs import Listing, Proof, Step, Whole
from pipelines import why
from pipelines.serving import Snapshot

MAX_ROWS = 500


def exposure(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """What would be gone if the leader died in the newest minute: the lag of the best and the worst in-sync follower."""
    if len(names) != 3:
        return None
    rows = snapshot.rows("evidence_exposure", cluster_id=names[0], resource=names[1], shard=names[2])
    if not rows:
        return None
    row = rows[0]
    reason = why.exposure(row["exposed_reason"])
    followers = [one for one in rows if one["replica"] is not None]
    head = ("Follower", "In sync", "Behind, at most", "In time", "Why not in time", "Polls")
    listed = [
        [
            one["replica"],
            "not known" if row["isr"] is None else "yes" if one["replica"] in row["isr"] else "no",
            words.plural(one["replica_lag_records_max"], "record"),
            words.duration_range(0.0, one["replica_lag_ms_max"]) if one["replica_lag_ms_max"] is not None else "not known",
            why.exposure(one["replica_lag_ms_reason"]) or "",
            f"{one['replica_samples']:,}",
        ]
        for one in followers
    ]
    steps = [
        Step(
            "records min",
            "lag of the best in-sync follower",
            f"ISR {', '.join(row['isr'] or ()) or 'not known'}",
            _count(row["exposed_records_min"]),
        ),
        Step(
            "records max",
            "lag of the worst in-sync follower",
            f"leader {row['leader'] or 'not known'}",
            _count(row["exposed_records_max"]),
        ),
        Step(
            "time max", "its lag in time", "", "not known" if row["exposed_ms_max"] is None else f"{row['exposed_ms_max']:g} ms", reason
        ),
    ]
    minute = f"{row['minute_at']:%Y-%m-%d %H:%M}"
    place = f"cluster_id = '{names[0]}' and resource = '{names[1]}' and shard = '{names[2]}' and minute_at = '{minute}'"
    whole = Whole(
        "silver.exposure",
        f"{names[1]} / {names[2]}, {row['minute_at']:%H:%M}",
        {k: v for k, v in row.items() if not k.startswith("replica")},
    )
    listing = Listing("How far each follower was behind", f"silver.replication_lag where {place}", head, listed)
    value = words.count_range(row["exposed_records_min"], row["exposed_records_max"], "record", absent="not known")
    return Proof(
        f"Exposure of {names[1]} / {names[2]}",
        value,
        reason or "What acks=1 would lose if the leader died now.",
        None,
        steps,
        [whole],
        [listing],
    )


def availability(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """Availability and coverage of a kind of service on a day, over all partitions."""
    if len(names) != 4:
        return None
    cluster_id, kind, lane, day = names
    try:
        of = date.fromisoformat(day)
    except ValueError:
        return None
    rows = snapshot.rows("evidence_availability", cluster_id=cluster_id, kind=kind, lane=lane, day=of, limit=MAX_ROWS)
    if not rows:
        return None
    measured, unmeasured, least, most = (
        sum(row[name] for row in rows) for name in ("measured_ms", "unmeasured_ms", "down_ms_min", "down_ms_max")
    )
    steps = [
        Step(
            "availability min",
            "(measured - down max) / measured",
            f"({measured:.0f} - {most:.0f}) / {measured:.0f}",
            words.ratio((measured - most) / measured if measured else None),
        ),
        Step(
            "availability max",
            "(measured - down min) / measured",
            f"({measured:.0f} - {least:.0f}) / {measured:.0f}",
            words.ratio((measured - least) / measured if measured else None),
        ),
        Step(
            "coverage",
            "measured / (measured + unmeasured)",
            f"{measured:.0f} / ({measured:.0f} + {unmeasured:.0f})",
            words.ratio(measured / (measured + unmeasured) if measured + unmeasured else None),
        ),
    ]
    head = ("Partition", "prober_id", "Measured", "Unmeasured", "Not served", "Availability", "Coverage", "Outages")
    listed = [
        [
            f"{row['resource']} / {row['shard']}",
            row["prober_id"],
            words.duration(row["measured_ms"]),
            words.duration(row["unmeasured_ms"]),
            words.duration_range(row["down_ms_min"], row["down_ms_max"]),
            words.ratio_range(row["availability_ratio_min"], row["availability_ratio_max"]),
            words.ratio(row["coverage_ratio"]),
            f"{row['outages']:,}",
        ]
        for row in rows
    ]
    source = f"gold.availability where cluster_id = '{cluster_id}' and kind = '{kind}' and lane = '{lane}' and day = '{day}'"
    total = rows[0]["total_rows"]
    note = f"The first {len(rows):,} of {total:,} are shown, and summed up here." if total > len(rows) else None
    title = f"{palette.service(kind, lane)}, {day} (UTC)"
    return Proof(
        title,
        words.plural(total, "row"),
        "In milliseconds, over all partitions.",
        None,
        steps,
        (),
        [Listing("By partition", source, head, listed, note)],
    )


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
