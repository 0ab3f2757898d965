"""Which rows of bronze say nothing that another row does not say, and when are they dropped?

The rule: while a run lasts it is written again and again, each time longer, under the same key (`domain.observations`). Once an hour
is over, of each run only the longest form is kept; what is left of a day lies in one file. Status lines, which only say "alive",
are thinned to the last one a minute once they are older than a day. No other record is touched, so no derived row can change:
every derivation takes the longest form of a run (`unavailability.longest_runs`, the `runs` of gold's SQL) and none reads a status.

The newest rows, those of the hour that is not over, are left alone: they are what the next batch derives from. A run that goes on into
the next hour keeps its longest form of this hour until the next compaction, which looks at whole days. Doing it twice changes nothing.

Concurrent readers keep the version that they read: files of any table that were replaced stay for VACUUM_HOURS, then they are deleted.

Example: a healthy partition is probed in four lanes and written every 10 s: 1,440 rows an hour, of which 4 are left.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipelines import bronze
from pipelines.ddl import table_names
from pipelines.domain.observations import PartitionMetrics, Probes, Status
from pipelines.lakehouse import Lakehouse

log = structlog.get_logger()

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
LATE_US = 60 * SECOND_US
"""So long after the full hour its lines are awaited: a spool rotates twice a second, a batch takes some seconds."""
VACUUM_HOURS = 2

PROBES_KEY = ("cluster_id", "prober_id", "boot_id", "clock_id", "resource", "shard", "kind", "lane", "first_sequence")
METRICS_KEY = ("cluster_id", "prober_id", "boot_id", "clock_id", "broker", "resource", "shard", "started_at_us")
ORDER = ("record", "prober_id", "broker", "lane", "started_at_us", "ended_at_us", "resource", "shard", "seq")
"""One poll speaks of many partitions with the same instants: neighbours that are alike take next to no room."""
COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: rows before and after, and how long it took."""

    rows_before: int
    rows_after: int
    seconds: float


class Compaction:
    """The compaction of one lakehouse's bronze, at most once an hour of event time. Not for several threads."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._lakehouse = lakehouse
        self._done_us = 0

    def is_due(self, newest_us: int) -> bool:
        """Whether an hour has ended since the last time; `newest_us` is the newest instant in bronze, 0 when it is empty."""
        return closed_hour(newest_us) > self._done_us

    def run(self, newest_us: int) -> Compacted:
        """Compacts every closed hour that is not compacted yet; the first time of a process the two days before, too."""
        closed_us = closed_hour(newest_us)
        first_us = closed_us - 2 * DAY_US if not self._done_us or _day(closed_us) != _day(self._done_us) else closed_us - 2 * HOUR_US
        done = compact(self._lakehouse, first_us - first_us % DAY_US, closed_us)
        self._done_us = closed_us
        for table in table_names():
            self._lakehouse.vacuum(table, VACUUM_HOURS)
        log.info("compaction", rows_before=done.rows_before, rows_after=done.rows_after, seconds=round(done.seconds, 1))
        return done


def closed_hour(newest_us: int) -> int:
    """The end of the last hour of which no line is awaited any more."""
    return max(0, newest_us - LATE_US) // HOUR_US * HOUR_US


def compact(lakehouse: Lakehouse, from_us: int, until_us: int) -> Compacted:
    """Rewrites the rows that ended in [from_us, until_us), microseconds since the epoch; `from_us` is the begin of a UTC day."""
    began = time.monotonic()
    where = f"day >= DATE '{_day(from_us)}' AND day <= DATE '{_day(until_us)}' AND ended_at_us < {until_us}"
    rows = lakehouse.read(bronze.OBSERVATIONS).where(where)
    if not rows.limit(1).count():
        return Compacted(0, 0, time.monotonic() - began)  # as at the begin of an installation
    before, superfluous = _counted(rows, until_us)
    if superfluous or _is_scattered(rows):
        kept = remaining(rows, until_us).repartition(1, "day").sortWithinPartitions("day", *ORDER)
        writer = kept.write.format("delta").mode("overwrite").option("replaceWhere", where).option("compression", COMPRESSION)
        writer.save(lakehouse.path(bronze.OBSERVATIONS))
    return Compacted(before, before - superfluous, time.monotonic() - began)


def remaining(rows: DataFrame, until_us: int) -> DataFrame:
    """The rows without those that another of them makes superfluous."""
    return _marked(rows, until_us).where("NOT is_superfluous").drop("is_superfluous")


def _counted(rows: DataFrame, until_us: int) -> tuple[int, int]:
    found = _marked(rows, until_us).agg(f.count("*"), f.sum(f.col("is_superfluous").cast("long"))).collect()[0]
    return int(found[0]), int(found[1] or 0)


def _is_scattered(rows: DataFrame) -> bool:
    found = rows.select("day", f.col("_metadata.file_path").alias("file")).distinct().groupBy("day").count()
    return bool(found.where("count > 1").limit(1).count())


def _marked(rows: DataFrame, until_us: int) -> DataFrame:
    """With `is_superfluous`: a longer form of the same run is there (or, for a status that is old, a later one of its minute)."""
    record = f.col("record")
    minute = (f.col("ended_at_us") / (60 * SECOND_US)).cast("long")
    is_old = (record == Status.record) & (f.col("day") < f.to_date(f.timestamp_micros(f.lit(until_us - DAY_US))))
    # What is no run is its own group: alone, and kept.
    key = (
        f.when(record == Probes.record, _key(PROBES_KEY))
        .when(record == PartitionMetrics.record, _key(METRICS_KEY))
        .when(is_old, f.struct(f.concat_ws("\x1f", "prober_id", "boot_id", "state", "message", minute.cast("string"))))
        .otherwise(_key(("prober_id", "boot_id", "seq")))
    )
    # The order of `unavailability.longest_runs`: the longest, the closed one among equals, the last one written.
    length = f.when(record == Probes.record, f.col("last_sequence")).otherwise(f.col("ended_at_us"))
    longest_first = (length.desc(), f.coalesce(f.col("is_open"), f.lit(False)).asc(), f.col("seq").desc())
    order = Window.partitionBy("record", "_key").orderBy(*longest_first)
    return rows.withColumn("_key", key).withColumn("is_superfluous", f.row_number().over(order) > 1).drop("_key")


def _key(names: tuple[str, ...]) -> Column:
    return f.struct(f.concat_ws("\x1f", *(f.coalesce(f.col(name).cast("string"), f.lit("")) for name in names)))


def _day(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / SECOND_US, tz=UTC).date().isoformat()
