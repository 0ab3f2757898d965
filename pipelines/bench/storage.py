"""How many bytes of bronze does a healthy partition take in a day, once compacted?

The rule: a healthy stretch is written into bronze at the collectors' real cadences: four lanes at 100 ms with a line every 10 s, the
watch every 30 s, the metrics of three replicas and each broker's own values once a minute, four collectors' status every 2 s.
It is compacted as a day that is over. Bytes are those of the newest version's files, over partitions and scaled to a day.

Latencies, clock offsets and positions are spread as they are in a real record (seeded): constant columns would flatter the figure.

Example: 20 partitions, 2.0 MB after compaction: 100 KB a partition and day.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipelines import bronze
from pipelines.bench.base import Bench, Figure, load
from pipelines.collect.metrics import MetricsConfig
from pipelines.compaction import HOUR_US, compact
from pipelines.lakehouse import Lakehouse, session
from pipelines.settings import Home

PARTITIONS = 20
REPLICAS = 3
COLLECTORS = ("canary", "watch", "control_plane", "metrics")
LANES = (("write", "raw"), ("durable_write", "raw"), ("durable_write", "client"), ("read", "read"))
BEGIN_US = 1_790_035_200_000_000
"""A midnight of UTC."""
DAY_HOURS = 24
BEGIN = f"{BEGIN_US} + hour * {HOUR_US}"
AIM_KB = 50.0
BROKER_VALUES = 40
"""A node of the lab reports about so many values of its own; some twelve of them move all the time."""
MOVING_VALUES = 12
BROKER_EVERY_US = int(1_000_000 * MetricsConfig(system="", cluster_id="", prober_id="", spool="", anchor="", urls=()).flush_seconds)
"""How often a healthy broker's values are written."""
METHOD = (
    f"{PARTITIONS} healthy partitions, 4 lanes at 100 ms + watch + metrics of {REPLICAS} replicas, compacted; live bytes / partitions"
)


def run(bench: Bench) -> list[Figure]:
    """Writes and compacts a day (quick: two hours, scaled) and looks at the files."""
    hours = 2 if bench.is_quick else DAY_HOURS
    home = Home(bench.folder / "storage")
    home.create()
    with session(home) as spark:
        lakehouse = Lakehouse(spark, home)
        lakehouse.create([bronze.OBSERVATIONS])
        frame = _healthy(spark, lakehouse, hours)
        lakehouse.append(bronze.OBSERVATIONS, frame, application="bench", version=0)
        bench.say(f"storage: compacting {hours} h of {PARTITIONS} partitions")
        until_us = BEGIN_US + hours * HOUR_US
        before = _live_bytes(lakehouse)
        done = compact(lakehouse, BEGIN_US, until_us + 2 * DAY_HOURS * HOUR_US)
        total = _live_bytes(lakehouse)
        by_record = _by_record(lakehouse, bench.folder)
    scale = DAY_HOURS / hours / PARTITIONS / 1000
    own = sum(size for record, size in by_record.items() if record in ("probes", "partition_metrics"))
    details = {
        "hours": hours,
        "rows_before": done.rows_before,
        "rows_after": done.rows_after,
        "kb_before_compaction": round(before * scale, 1),
        "kb_by_record_if_alone": {record: round(size * scale, 1) for record, size in by_record.items()},
        "compaction_seconds_per_hour_of_record": round(done.seconds / hours, 2),
        "load": load(),
    }
    limit = (
        "what is left are the minutes of each replica's metrics, which are one run each by definition and superseded by nothing, "
        "and the values of the brokers, which the partitions of a small cluster share among few"
    )
    return [
        Figure("bronze, partition and day", round(total * scale, 1), "KB", METHOD, AIM_KB, limit, details=details),
        Figure(
            "bronze, partition and day, its own rows",
            round(own * scale, 1),
            "KB",
            f"{METHOD}; only probes and partition_metrics, without what brokers and collectors write once for all partitions",
            AIM_KB,
            limit,
            details=details,
        ),
    ]


def _healthy(spark: SparkSession, lakehouse: Lakehouse, hours: int) -> DataFrame:
    parts = [*_probes(spark, hours), _metrics(spark, hours), _brokers(spark, hours), _status(spark, hours)]
    schema = lakehouse.schema(bronze.OBSERVATIONS)
    frames = [
        part.select(
            *((f.col(one.name) if one.name in part.columns else f.lit(None)).cast(one.dataType).alias(one.name) for one in schema)
        )
        for part in map(_enveloped, parts)
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionAll(frame)
    return union


def _probes(spark: SparkSession, hours: int) -> Iterator[DataFrame]:
    for number, (kind, lane) in enumerate(LANES):
        yield _runs(spark, hours, ("canary", kind, lane, number), period_us=100_000, every_us=10_000_000)
    yield _runs(spark, hours, ("watch", "leader", "watch", 9), period_us=1_000_000, every_us=30_000_000)


def _runs(spark: SparkSession, hours: int, who: tuple[str, str, str, int], *, period_us: int, every_us: int) -> DataFrame:
    """The lines of a healthy hour: one run a partition, written again and again, each time longer; the last one closed."""
    collector, kind, lane, number = who
    flushes = HOUR_US // every_us
    per_flush = every_us // period_us
    first = f.col("hour") * (HOUR_US // period_us)
    rows = _hourly(spark, hours, PARTITIONS * flushes).selectExpr("hour", f"i DIV {flushes} AS shard", f"i % {flushes} + 1 AS flush")
    issued = f.expr(BEGIN) + (f.col("flush") * per_flush - 1) * period_us + f.col("shard") * (period_us // PARTITIONS)
    spread = f.pmod(f.hash("shard", "flush", f.lit(number), "hour"), f.lit(4000))
    fields: dict[str, Any] = {
        "record": f.lit("probes"),
        "collector": f.lit(collector),
        "resource": f.lit(f"lastack-canary-{kind}"),
        "kind": f.lit(kind),
        "lane": f.lit(lane),
        "outcome": f.lit("ACKED"),
        "is_answered": f.lit(True),
        "count": f.col("flush") * per_flush,
        "first_sequence": first,
        "last_sequence": first + f.col("flush") * per_flush - 1,
        "started_at_us": f.expr(BEGIN) + f.col("shard") * (period_us // PARTITIONS),
        "last_issued_at_us": issued,
        "first_decided_at_us": f.expr(BEGIN) + 2_000 + f.col("shard") * 5_011,
        "last_decided_at_us": issued + 1_000 + spread,
        "earliest_decided_at_us": f.expr(BEGIN) + 2_000 + f.col("shard") * 5_011,
        "ended_at_us": issued + 1_000 + spread,
        "period_us": f.lit(period_us),
        "lambda_us": f.lit(1_000_000),
        "latency_us_min": f.lit(700) + f.pmod("shard", f.lit(90)),
        "latency_us_max": f.lit(9_000) + spread * f.col("flush"),
        "latency_us_mean": f.lit(1_900) + spread / 10,
        "issue_delay_us_max": f.lit(900) + spread,
        "first_position": (first + f.col("shard") * 1_000_003).cast("string"),
        "last_position": (first + f.col("shard") * 1_000_003 + f.col("flush") * per_flush - 1).cast("string"),
        "term": f.lit(4),
        "leader": (f.pmod("shard", f.lit(REPLICAS)) + 1).cast("string"),
        "first_server_at_us": f.expr(BEGIN),
        "last_server_at_us": issued - issued % 1000,
        "clock_offset_us_min": -spread,
        "clock_offset_us_max": spread + 999,
        "is_open": f.col("flush") < flushes,
    }
    if lane == "watch":
        everyone = f.array(*(f.lit(str(one + 1)) for one in range(REPLICAS)))
        fields |= {"isr": everyone, "replicas": everyone, "first_server_at_us": f.lit(None), "last_server_at_us": f.lit(None)}
        fields |= {"clock_offset_us_min": f.lit(None), "clock_offset_us_max": f.lit(None)}
    return _numbered(rows, number, fields)


def _metrics(spark: SparkSession, hours: int) -> DataFrame:
    """A healthy replica is written once a minute."""
    per_replica = HOUR_US // 60_000_000
    rows = _hourly(spark, hours, PARTITIONS * REPLICAS * per_replica).selectExpr(
        "hour",
        f"i DIV {REPLICAS * per_replica} AS shard",
        f"i DIV {per_replica} % {REPLICAS} AS replica",
        f"i % {per_replica} AS flush",
    )
    # One poll speaks of all partitions of a broker: they share its instants.
    jitter = f.pmod(f.hash("replica", "flush", "hour"), f.lit(30_000))
    is_leader = f.pmod("shard", f.lit(REPLICAS)) == f.col("replica")
    start = f.expr(BEGIN) + f.col("flush") * 60_000_000 + jitter
    fields = {
        "record": f.lit("partition_metrics"),
        "collector": f.lit("metrics"),
        "broker": (f.col("replica") + 1).cast("string"),
        "resource": f.lit("lastack-canary-durable_write"),
        "is_under_replicated": f.when(is_leader, False),
        "is_under_min_isr": f.when(is_leader, False),
        "is_at_min_isr": f.when(is_leader, False),
        "in_sync_replicas": f.when(is_leader, REPLICAS),
        "lag_records_last": f.when(~is_leader, 0),
        "lag_records_max": f.when(~is_leader, 0),
        "log_start_position": f.lit("0"),
        "log_end_position": (f.col("hour") * 36_000 + f.col("flush") * 600 + 590 + f.col("shard") * 1_000_003).cast("string"),
        "count": f.lit(60),
        "started_at_us": start,
        "ended_at_us": start + 59_000_000 + jitter % 7_000,
        "is_open": f.lit(False),
    }
    return _numbered(rows, 5, fields)


def _brokers(spark: SparkSession, hours: int) -> DataFrame:
    per_broker = HOUR_US // BROKER_EVERY_US
    rows = _hourly(spark, hours, REPLICAS * per_broker).selectExpr(
        "hour", f"i DIV {per_broker} AS replica", f"i % {per_broker} AS flush"
    )
    values = []
    for number in range(BROKER_VALUES):
        moving = f.pmod(f.hash("replica", "flush", f.lit(number), "hour"), f.lit(1_000_000)) / 1000.0
        values += [f.lit(f"kafka.server.value{number}"), moving if number < MOVING_VALUES else f.lit(float(number))]
    jitter = f.pmod(f.hash("replica", "flush", "hour"), f.lit(30_000))
    start = f.expr(BEGIN) + f.col("flush") * BROKER_EVERY_US + jitter
    fields = {
        "record": f.lit("broker_metrics"),
        "collector": f.lit("metrics"),
        "broker": (f.col("replica") + 1).cast("string"),
        "outcome": f.lit("ACKED"),
        "count": f.lit(BROKER_EVERY_US // 1_000_000),
        "values": f.create_map(*values),
        "started_at_us": start,
        "ended_at_us": start + BROKER_EVERY_US - 1_000_000 + jitter % 9_000,
    }
    return _numbered(rows, 6, fields)


def _status(spark: SparkSession, hours: int) -> DataFrame:
    lines = HOUR_US // 2_000_000
    rows = _hourly(spark, hours, len(COLLECTORS) * lines).selectExpr("hour", f"i DIV {lines} AS who", f"i % {lines} AS flush")
    names = f.array(*map(f.lit, COLLECTORS))
    at_us = f.expr(BEGIN) + f.col("flush") * 2_000_000 + f.pmod(f.hash("who", "flush", "hour"), f.lit(100_000))
    fields = {
        "record": f.lit("status"),
        "collector": f.get(names, f.col("who").cast("int")),
        "state": f.lit("running"),
        "started_at_us": f.lit(BEGIN_US),
        "ended_at_us": at_us,
    }
    return _numbered(rows, 7, fields)


def _hourly(spark: SparkSession, hours: int, rows: int) -> DataFrame:
    """Columns hour (from 0) and i (from 0 to `rows` within the hour)."""
    return spark.range(0, hours * rows, 1, 1).selectExpr(f"id DIV {rows} AS hour", f"id % {rows} AS i")


def _numbered(rows: DataFrame, number: int, fields: dict[str, Any]) -> DataFrame:
    """With the fields, and a `seq` as a collector gives it: in order of time, over all partitions; `number` tells its parts apart."""
    named = {name: value.alias(name) for name, value in fields.items()}
    within = [f.col(name) * size for name, size in (("shard", 1), ("replica", PARTITIONS), ("who", 1)) if name in rows.columns]
    seq = (f.col("hour") * 10 + number) * 1_000_000 + f.col("flush") * 100 + sum(within, f.lit(0))
    if "shard" in rows.columns:
        named["shard"] = f.col("shard").cast("string").alias("shard")
    return rows.select(seq.alias("seq"), *named.values())


def _enveloped(rows: DataFrame) -> DataFrame:
    """With what every line says, in the stream's own way."""
    day = f.to_date(f.timestamp_micros("ended_at_us"))
    return rows.withColumns(
        {
            "system": f.lit("kafka"),
            "cluster_id": f.lit("5L6g3nShT-eMCtK--X86sw"),
            "prober_id": f.col("collector"),
            "boot_id": f.sha2(f.col("collector"), 256).substr(1, 32),
            "clock_id": f.lit("1b4e28ba-6f0c41d2"),
            "day": day,
            "ingested_at": f.timestamp_micros(f.col("ended_at_us") + 1_500_000),
        }
    )


def _live_bytes(lakehouse: Lakehouse) -> int:
    """Bytes of the files that the newest version of bronze consists of."""
    live: dict[str, int] = {}
    for path in sorted((Path(lakehouse.path(bronze.OBSERVATIONS)) / "_delta_log").glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            if "add" in action:
                live[unquote(action["add"]["path"])] = action["add"]["size"]
            elif "remove" in action:
                live.pop(unquote(action["remove"]["path"]), None)
    return sum(live.values())


def _by_record(lakehouse: Lakehouse, folder: Path) -> dict[str, int]:
    """Bytes of the compacted rows of each record, written by themselves in the same way."""
    sizes = {}
    rows = lakehouse.read(bronze.OBSERVATIONS)
    for record in ("probes", "partition_metrics", "broker_metrics", "status"):
        place = folder / f"alone-{record}"
        rows.where(f.col("record") == record).coalesce(1).write.option("compression", "zstd").parquet(str(place))
        sizes[record] = sum(path.stat().st_size for path in place.glob("*.parquet"))
    return sizes
