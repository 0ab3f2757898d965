"""Does everything that was derived follow from what was observed? Silver and gold, made again from bronze, and every difference told.

The rule: bronze is what was observed, and nothing else is needed. The lines that windows, losses and findings are made of lie in
*stretches* with quiet time between them, longer than any window, incident or look-back reaches; each stretch is derived by itself, in
the order of time, exactly as the stream derives an unsettled region, and gold follows from all of silver. Availability is made again
from the runs that compaction kept. Lag, exposure and clock bounds are left as they are: those of compacted hours could not be made.

A row that is there and would not be made again, one that would be made and is not there, and one that comes out differently are
differences, with the columns that differ; the version of the rule that made each is among them. `--check` writes nothing.

Example: after an update that mends a rule, `lastack rebuild --from bronze` says "silver.outage_windows: 214 rows, 3 changed: rto_ms_max
(outage-4 -> outage-5)".
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines import bronze, gold
from pipelines.ddl import arrow_schema, table_names
from pipelines.derive import MARGIN_US, region
from pipelines.domain.clock import instant
from pipelines.domain.observations import ReadBack
from pipelines.exclusive import only_writer
from pipelines.lakehouse import Lakehouse, session
from pipelines.settings import Home
from pipelines.silver import TABLES, isr_windows
from pipelines.silver.base import Row
from pipelines.unsettled import QUIET_US, REACH_US, READBACK_REACH_US, is_worth_deriving, utc

if TYPE_CHECKING:
    from pipelines.domain.replication import OutOfSync

APART_US = QUIET_US + REACH_US + MARGIN_US
"""Stretches of eventful lines that are so far apart have nothing to do with each other."""
LOCK_WAIT_SECONDS = 5
SHOWN_MAX = 20

KEYS: dict[str, tuple[str, ...]] = {
    "silver.outage_windows": ("outage_id",),
    "silver.partition_windows": ("window_id",),
    "silver.controller_windows": ("window_id",),
    "silver.service_windows": ("window_id",),
    "silver.isr_windows": ("window_id",),
    "silver.losses": ("loss_id",),
    "silver.findings": ("finding_id",),
    "silver.events": ("event_id",),
    "gold.outages": ("outage_id",),
    "gold.losses": ("loss_id",),
    "gold.incidents": ("incident_id",),
    "gold.availability": ("cluster_id", "prober_id", "resource", "shard", "kind", "lane", "day"),
}
"""What names a row of each table that is made again."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of one cluster's eventful lines. Microseconds since the epoch, UTC."""

    cluster_id: str
    begin_us: int
    end_us: int
    margin_us: int


@dataclass(slots=True)
class Difference:
    """One row that is not what it was: *missing* (it was not there), *surplus* (it would not be made) or *changed*."""

    kind: str
    key: tuple[Any, ...]
    columns: tuple[str, ...] = ()
    rule_versions: tuple[str | None, str | None] = (None, None)


@dataclass(slots=True)
class Rebuilt:
    """What came of one table."""

    table: str
    rows: int
    differences: list[Difference] = field(default_factory=list)

    def told(self) -> str:
        """In one line, for people."""
        if not self.differences:
            return f"{self.table}: {self.rows} rows, all as they were"
        kinds = Counter(one.kind for one in self.differences)
        names = Counter(name for one in self.differences for name in one.columns)
        versions = sorted(
            {f"{old} -> {new}" for one in self.differences for old, new in [one.rule_versions] if old != new and old and new}
        )
        told = f"{self.table}: {self.rows} rows, " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        told += f": {', '.join(name for name, _ in names.most_common())}" if names else ""
        return told + (f" ({'; '.join(versions)})" if versions else "")


def run(home: Home, *, is_check: bool, say: Say, memory: str = "1g") -> list[Rebuilt]:
    """Makes silver and gold of an installation again. Raises TimedOut while its stream runs."""
    home.create()
    with (
        only_writer(home.stream / "lock", LOCK_WAIT_SECONDS) as lock,
        session(home, memory=memory, pass_fds=(lock.fileno(),)) as spark,
    ):
        return rebuild(spark, Lakehouse(spark, home), is_check=is_check, say=say)


def rebuild(spark: SparkSession, lakehouse: Lakehouse, *, is_check: bool, say: Say) -> list[Rebuilt]:
    """The same in a session that is there."""
    derived = [name for name in table_names() if not name.startswith("bronze.")]
    lakehouse.create(name for name in table_names() if name.startswith("bronze."))
    if not is_check:
        for table in lakehouse.remove_others(derived):
            say(f"{table} had other columns: it is made anew")
        lakehouse.create(derived)
    rows = _derived(spark, lakehouse, say)
    found = []
    for table, of_table in rows.items():
        known = lakehouse.at_hand(table) if lakehouse.is_there(table) else []
        found.append(compared(table, known, of_table))
        say(found[-1].told())
        if found[-1].differences and not is_check:
            lakehouse.replace(table, pa.Table.from_pylist(of_table, arrow_schema(table)), "true")
    return found


def compared(table: str, known: Iterable[Row], made: Iterable[Row]) -> Rebuilt:
    """How the rows of a table that are there differ from those that are made."""
    key = KEYS[table]
    before = {tuple(row[name] for name in key): row for row in known}
    after = {tuple(row[name] for name in key): row for row in made}
    found = Rebuilt(table, len(after))
    for name in sorted(before.keys() | after.keys(), key=str):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.differences.append(Difference("missing", name))
        elif new is None:
            found.differences.append(Difference("surplus", name))
        else:
            columns = tuple(column for column in new if old.get(column) != new[column])
            if columns:
                found.differences.append(Difference("changed", name, columns, (old.get("rule_version"), new.get("rule_version"))))
    return found


# --- made again -------------------------------------------------------------------------------------------------------


def _derived(spark: SparkSession, lakehouse: Lakehouse, say: Say) -> dict[str, list[Row]]:
    observations = lakehouse.read(bronze.OBSERVATIONS)
    rows: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    reopened: dict[str, list[OutOfSync]] = {}
    found = stretches(observations)
    for number, stretch in enumerate(found, start=1):
        say(f"deriving {number} of {len(found)}: {stretch.cluster_id} from {instant(stretch.begin_us):%Y-%m-%d %H:%M:%S} UTC on")
        seeds = {stretch.cluster_id: reopened.get(stretch.cluster_id, [])}
        until_us = stretch.end_us + QUIET_US
        made = region(observations, stretch.begin_us, [stretch.cluster_id], seeds, stretch.margin_us, until_us)
        carried = {one.window_id for one in seeds[stretch.cluster_id]}
        for table, of_table in made.rows.items():
            if table == isr_windows.TABLE:
                # What had been open before has an end now, or goes on.
                rows[table] = [row for row in rows[table] if row["window_id"] not in carried]
            rows[table] += of_table
        reopened[stretch.cluster_id] = [
            isr_windows.seed(row) for row in rows[isr_windows.TABLE] if row["is_open"] and row["cluster_id"] == stretch.cluster_id
        ]
    for name, of_table in rows.items():
        lakehouse.rows(name, of_table).createOrReplaceTempView(gold.view_name(name))
    for name, _ in gold.REGIONAL:
        frame = gold.selected(spark.sql(gold.query(name)), lakehouse.schema(name))
        rows[name] = [utc(row.asDict(recursive=True)) for row in frame.collect()]
        lakehouse.rows(name, rows[name]).createOrReplaceTempView(gold.view_name(name))
    rows[gold.AVAILABILITY] = _availability(spark, lakehouse, observations)
    return rows


def _availability(spark: SparkSession, lakehouse: Lakehouse, observations: DataFrame) -> list[Row]:
    observations.where(f.col("record") == "probes").createOrReplaceTempView("bronze_probes")
    frame = gold.selected(spark.sql(gold.query(gold.AVAILABILITY)), lakehouse.schema(gold.AVAILABILITY))
    return [utc(row.asDict(recursive=True)) for row in frame.collect()]


def stretches(observations: DataFrame) -> list[Stretch]:
    """The stretches of eventful lines, cluster by cluster, in order of time."""
    eventful = observations.where(is_worth_deriving()).select(
        "cluster_id",
        f.expr(bronze.SEEN_FROM_US).alias("begin_us"),
        f.expr(bronze.SEEN_TO_US).alias("end_us"),
        f.when(f.col("record") == ReadBack.record, f.col("started_at_us")).alias("readback_us"),
    )
    in_time = Window.partitionBy("cluster_id").orderBy("begin_us", "end_us")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    numbered = (
        eventful.withColumn("reached_us", f.max("end_us").over(before))
        .withColumn("read_before_us", f.max("readback_us").over(before))
        .withColumn("is_first", f.coalesce(f.col("begin_us") > f.col("reached_us") + APART_US, f.lit(True)).cast("int"))
        .withColumn("stretch", f.sum("is_first").over(in_time))
    )
    # A read-back judges what was acknowledged since the one before it: the facts of a stretch that begins with one reach back to that.
    rows = (
        numbered.groupBy("cluster_id", "stretch")
        .agg(
            f.min("begin_us").alias("begin_us"),
            f.max("end_us").alias("end_us"),
            f.min("readback_us").alias("readback_us"),
            f.min_by("read_before_us", "begin_us").alias("read_before_us"),
        )
        .orderBy("begin_us", "cluster_id")
        .collect()
    )
    return [
        Stretch(row["cluster_id"], row["begin_us"], row["end_us"], _margin(row["readback_us"], row["read_before_us"])) for row in rows
    ]


def _margin(readback_us: int | None, read_before_us: int | None) -> int:
    if readback_us is None or read_before_us is None:
        return MARGIN_US
    return max(MARGIN_US, min(readback_us - read_before_us, READBACK_REACH_US))
