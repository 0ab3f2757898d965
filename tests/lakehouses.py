"""Small real lakehouses for tests of what reads them: Delta tables made from sql/ddl, live files and stream progress beside them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from pipelines import ddl
from pipelines.settings import Home

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_CLUSTER = "c0ffeeNTcwNTJENDM2Qk"
SYSTEM = "kafka"
PROBER = "canary-1"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CANARY = {
    ("write", "raw"): "lastack-canary-write",
    ("durable_write", "raw"): "lastack-canary-durable",
    ("durable_write", "client"): "lastack-canary-client",
    ("read", "read"): "lastack-canary-read",
}
USERS = {"orders": 6, "payments": 3}


def write_table(home: Home, table: str, rows: list[dict[str, Any]]) -> None:
    """Appends rows to a Delta table that has exactly the columns of its DDL; columns that are not given are NULL."""
    schema = ddl.arrow_schema(table)
    unknown = {name for row in rows for name in row} - set(schema.names)
    assert not unknown, f"{table} has no columns {sorted(unknown)}"
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    write_deltalake(str(home.table(table)), pa.table(columns, schema=schema), mode="append")


def write_json(path: Path, document: Any) -> None:
    """Replaces a file whole, as its real writers do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(document), encoding="utf-8")
    part.replace(path)


def instant(at_us: int | None) -> datetime | None:
    return None if at_us is None else EPOCH + timedelta(microseconds=at_us)


def leader_of(shard: int) -> str:
    """Leaders are spread over brokers 1, 2, 3 in turn."""
    return str(shard % 3 + 1)


def wobble(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    return (sum(ord(char) * (index + 7) for index, char in enumerate("/".join(map(str, parts)))) * 2_654_435_761 % 1_000) / 1_000


def availability(
    home: Home, at_us: int, down_ms: float = 9_800.0, cluster_id: str = CLUSTER, prober_id: str = PROBER, alone_ms: float = 0.0
) -> None:
    """The UTC day of `at_us`: measured from its first hour on, with one hole of 90 s that nobody measured, and one of `alone_ms`."""
    now = instant(at_us)
    assert now is not None
    day_start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = min(day_start + timedelta(minutes=3), now)
    unmeasured_ms = 90_000.0 + alone_ms
    measured_ms = max((now - first).total_seconds() * 1000 - unmeasured_ms, 1000.0)
    rows = []
    for (kind, lane), resource in CANARY.items():
        for shard in range(6):
            is_hit = kind == "durable_write" or leader_of(shard) == "2"
            low, high = (down_ms * (0.9 + 0.1 * wobble(shard, kind)), down_ms * 1.02) if is_hit else (0.0, 0.0)
            high = min(high, measured_ms)
            low = min(low, high)
            rows.append(
                {
                    "system": SYSTEM,
                    "cluster_id": cluster_id,
                    "resource": resource,
                    "shard": str(shard),
                    "kind": kind,
                    "lane": lane,
                    "prober_id": prober_id,
                    "day": day_start.date(),
                    "observed_from_at": first,
                    "observed_to_at": now,
                    "measured_ms": measured_ms,
                    "unmeasured_ms": unmeasured_ms,
                    "alone_ms": alone_ms,
                    "down_ms_min": low,
                    "down_ms_max": high,
                    "availability_ratio_min": (measured_ms - high) / measured_ms,
                    "availability_ratio_max": (measured_ms - low) / measured_ms,
                    "coverage_ratio": measured_ms / (measured_ms + unmeasured_ms),
                    "outages": 1 if is_hit else 0,
                    "rule_version": "test-1",
                }
            )
    write_table(home, "gold.availability", rows)


def refused(home: Home, at_us: int) -> None:
    """A line that is no observation."""
    row = {
        "line_id": "l1",
        "file": "canary-1.jsonl",
        "reason": "not JSON",
        "line": "garbage",
        "ingested_at": instant(at_us - 60_000_000),
    }
    write_table(home, "bronze.quarantine", [row])


def live(home: Home, at_us: int, prober_id: str = PROBER, cluster_id: str = CLUSTER, **more: Any) -> None:
    """A prober's live file, written at `at_us`: all 24 streams are served unless told otherwise."""
    document = {
        "format": 1,
        "system": SYSTEM,
        "cluster_id": cluster_id,
        "prober_id": prober_id,
        "boot_id": "7f3c",
        "written_at_us": at_us,
        "state": "measuring",
        "blind_since_us": None,
        "streams": {"up": 24, "down": 0, "unmeasured": 0},
        "open": [],
        "recent": [],
        "alerts": [],
    }
    write_json(home.live / f"{prober_id}.json", document | more)


def progress(home: Home, at_us: int, **more: Any) -> None:
    """The stream's progress, written at `at_us`."""
    document = {
        "format": 1,
        "batch_id": 212,
        "state": "running",
        "started_at_us": at_us - 900_000_000,
        "written_at_us": at_us,
        "rows": 1240,
        "quarantined": 0,
        "batch_ms": 2345,
        "landing_files_waiting": 1,
        "newest_event_at_us": at_us - 3_100_000,
        "error": None,
    }
    write_json(home.stream / "progress.json", document | more)
