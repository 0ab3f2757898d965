"""What would be gone if a leader died: the lags of its in-sync followers, and the looks that these lags are made of.

The rule: a follower's lag in records is what its own line says. Its lag in time is since when its leader's log had reached where its
own ends: interpolated between the last look at the leader that showed less and the first that showed as much, and both are named.

Example: follower 3 ended at 1812 when it was looked at at 12:00:30.0; the leader was seen at 1800 at 12:00:27.0 and at 1840 at
12:00:29.0: it reached 1812 at 12:00:27.6, so the follower was 2400 ms behind.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from dashboards import words
from dashboards.components import proof
from dashboards.proofs import Listing, Proof, Step, Whole
from dashboards.proofs.lines import GONE, line, span, utc
from dashboards.standing import FRESH, since
from pipelines import why
from pipelines.serving import Row, Snapshot

MAX_LOOKS = 120
MAX_RUNS = 40
MAX_PARTITIONS = 500
MINUTE = timedelta(minutes=1)
LAG_HEAD = ("Follower", "In sync", "Behind, at most", "In time", "Why not in time", "Polls")
LOOK_HEAD = (
    "Follower", "Looked at (UTC)", "Its log ended at", "Behind: last; highest in its run", "Line",
    "Leader showed less", "Line", "Leader showed as much", "Line", "Leader reached it", "Behind in time",
)  # fmt: skip
TOLD_HEAD = ("Told from (UTC)", "to", "Leader", "ISR", "Probes", "Line")


def exposure(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """What would be gone if the leader died in the newest minute: the lag of the best and the worst in-sync follower."""
    if len(names) != 3:
        return None
    place = dict(zip(("cluster_id", "resource", "shard"), names, strict=True))
    rows = snapshot.rows("evidence_exposure", **place)
    if not rows:
        return None
    row = rows[0]
    reason = why.exposure(row["exposed_reason"])
    minute = f"{row['minute_at']:%Y-%m-%d %H:%M}"
    where = " and ".join(f"{name} = '{value}'" for name, value in place.items())
    lags = Listing(
        "How far each follower was behind",
        f"silver.replication_lag where {where} and minute_at = '{minute}'",
        LAG_HEAD,
        [_lag(row, one) for one in rows if one["replica"] is not None],
    )
    value = words.count_range(row["exposed_records_min"], row["exposed_records_max"], "record", absent="not known")
    whole = {name: one for name, one in row.items() if not name.startswith("replica")}
    return Proof(
        f"Exposure of {names[1]} / {names[2]}",
        value,
        reason or "What acks=1 would lose if the leader died now.",
        None,
        _steps(row, rows, reason),
        [Whole("silver.exposure", f"{names[1]} / {names[2]}, {row['minute_at']:%H:%M}", whole)],
        [lags, *_lines(snapshot, row, place, where)],
    )


def _steps(row: Row, rows: Sequence[Row], reason: str | None) -> list[Step]:
    in_sync = [
        one for one in rows if one["replica"] is not None and one["replica"] in (row["isr"] or ()) and one["replica"] != row["leader"]
    ]
    records = [f"{one['replica']}: {one['replica_lag_records_max']:,}" for one in in_sync]
    times = [f"{one['replica']}: {one['replica_lag_ms_max']:g} ms" for one in in_sync if one["replica_lag_ms_max"] is not None]
    of = f"ISR {', '.join(row['isr'] or ()) or 'not known'}, leader {row['leader'] or 'not known'}"
    time = "not known" if row["exposed_ms_max"] is None else f"{row['exposed_ms_max']:g} ms"
    return [
        Step("records min", "lag of the best in-sync follower", f"min({'; '.join(records)})", _count(row["exposed_records_min"]), of),
        Step("records max", "lag of the worst in-sync follower", f"max({'; '.join(records)})", _count(row["exposed_records_max"])),
        Step("time max", "longest lag in time of an in-sync follower", f"max({'; '.join(times)})", time, reason),
    ]


def _lag(row: Row, one: Row) -> list[Any]:
    return [
        one["replica"],
        "not known" if row["isr"] is None else "yes" if one["replica"] in row["isr"] else "no",
        words.plural(one["replica_lag_records_max"], "record"),
        words.duration_range(0.0, one["replica_lag_ms_max"]) if one["replica_lag_ms_max"] is not None else "not known",
        why.exposure(one["replica_lag_ms_reason"]) or "",
        f"{one['replica_samples']:,}",
    ]


def _lines(snapshot: Snapshot, row: Row, place: dict[str, str], where: str) -> list[Listing]:
    """The looks at the followers and their leader, and what clients were told in the minute."""
    times = span(row["minute_at"], row["minute_at"] + MINUTE)
    looks = snapshot.rows("evidence_lag", **place, **times, limit=MAX_LOOKS)
    told = snapshot.rows("evidence_told", **place, **times, limit=MAX_RUNS)
    cut = f"The first {MAX_LOOKS} are shown." if len(looks) == MAX_LOOKS else None
    return [
        Listing(
            "The looks that it was interpolated from",
            f"bronze.observations where record = 'partition_metrics' and {where}",
            LOOK_HEAD,
            [_look(one) for one in looks],
            cut if looks else f"No look at a follower in this minute: {GONE}.",
        ),
        Listing(
            "Who led and who was in sync, as clients were told",
            f"bronze.observations where record = 'probes' and lane = 'watch' and {where}",
            TOLD_HEAD,
            [_told(one) for one in told],
            "The last one that reaches into the minute counts." if told else f"Nobody was told in this minute: {GONE}.",
        ),
    ]


def _look(one: Row) -> list[Any]:
    return [
        one["broker"],
        utc(one["ended_at_us"]),
        "not known" if one["log_end"] is None else str(one["log_end"]),
        f"{one['lag_records_last']:,}; {one['lag_records_max']:,}",
        line(one["line_id"]),
        _leader(one, "less"),
        line(one["less_line"]),
        _leader(one, "enough"),
        line(one["enough_line"]),
        "not interpolated" if one["reached_at_us"] is None else utc(one["reached_at_us"]),
        "not known" if one["lag_ms"] is None else f"{one['lag_ms']:.3f} ms",
    ]


def _leader(one: Row, which: str) -> str:
    if one[f"{which}_line"] is None:
        return "never"
    return f"{one[f'{which}_broker']}: {one[f'{which}_log_end']} at {utc(one[f'{which}_at_us'])}"


def _told(one: Row) -> list[Any]:
    return [
        utc(one["started_at_us"]), utc(one["ended_at_us"]), one["leader"] or "none", ", ".join(one["isr"]),
        f"{one['probes'] or 0:,} {one['outcome']}", line(one["line_id"]),
    ]  # fmt: skip


def exposed(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """How many partitions are exposed, how many have nothing to lose, and of how many nobody can say."""
    rows = snapshot.rows("exposure_now", since=since(snapshot, FRESH), limit=MAX_PARTITIONS)
    if not rows or list(names) != ["now"]:
        return None
    total, unknown, hit = (rows[0][name] for name in ("total_rows", "unknown_rows", "exposed_rows"))
    steps = [
        Step("exposed", "count of exposed_records_max > 0", f"over {total:,} partitions", f"{hit:,}"),
        Step("not known", "count of exposed_records_max is NULL", f"over {total:,} partitions", f"{unknown:,}"),
        Step("nothing to lose", "all - exposed - not known", f"{total:,} - {hit:,} - {unknown:,}", f"{total - hit - unknown:,}"),
    ]
    head = ("Partition", "Minute (UTC)", "Records at risk", "Why not known")
    listed = [_exposed(one) for one in rows]
    note = f"The first {len(rows):,} of {total:,} are shown." if len(rows) < total else None
    source = f"silver.exposure, the newest minute of each partition since {since(snapshot, FRESH):%Y-%m-%d %H:%M}"
    listing = Listing("By partition", source, head, listed, note)
    return Proof("If a leader died now", words.plural(total, "partition"), "Not known is not safe.", None, steps, (), [listing])


def _exposed(one: Row) -> list[Any]:
    records = words.count_range(one["exposed_records_min"], one["exposed_records_max"], "record", absent="not known")
    return [
        f"{one['resource']} / {one['shard']}",
        f"{one['minute_at']:%Y-%m-%d %H:%M}",
        proof(records, "exposure", one["cluster_id"], one["resource"], one["shard"]),
        why.exposure(one["exposed_reason"]) or "",
    ]


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
