"""The one streaming query: landing -> bronze -> silver -> gold.

Each micro-batch takes the new files of the landing, appends the good lines to bronze and the bad ones to the quarantine, and, when
something happened, derives the unsettled region again and replaces it in silver and gold. A healthy batch costs one commit.

Exactly once: the append carries the batch's number, and everything behind it is a function of bronze, so a batch that is replayed
after a crash changes nothing. One writer: a lock file is held by this process *and by its JVM*, so that a restarted stream waits
until the JVM of a killed one is gone.
"""

import fcntl
import json
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import structlog
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pipelines import bronze, gold
from pipelines.ddl import table_names
from pipelines.derive import Region, region
from pipelines.domain.observations import Outcome
from pipelines.domain.replication import OutOfSync
from pipelines.errors import LakehouseError, TimedOut
from pipelines.lakehouse import Lakehouse, instant_sql, session
from pipelines.readback import ReadBacks
from pipelines.settings import Home
from pipelines.silver import TABLES, events, isr_windows
from pipelines.silver.base import microseconds

log = structlog.get_logger()

QUIET_US = 60_000_000
"""A region is settled when nothing in it is open and so much event time has passed since the last end."""

EVENTFUL = ("late_acks", "control", "leader_seen", "epoch_end", "readback", "fault", "blind")
"""Records that are worth a derivation by themselves."""

REGIONAL = (*((table.name, table.column) for table in TABLES), *gold.REGIONAL)
"""Every table of which a region is replaced, with its column of event time."""

LOCK_WAIT_SECONDS = 60
MICROSECONDS = 1_000_000
MINUTE_US = 60 * MICROSECONDS
DAY_US = 86_400 * MICROSECONDS
LAG_US = 10 * MINUTE_US
UNSETTLED_PATIENCE = 10
"""So many times longer what is summed up waits while a region is unsettled: an incident's gold must not wait for it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What governs the stream. Seconds, unless the name says otherwise."""

    trigger_seconds: float = 1.0
    files_per_batch: int = 500
    aggregate_seconds: float = 30.0
    readback_seconds: float = 3600.0
    master: str = "local[2]"
    memory: str = "1g"


@dataclass(slots=True)
class _State:
    """What the stream remembers between batches; all of it can be found again in the tables."""

    from_us: int | None = None
    clusters: set[str] = field(default_factory=set)
    newest_us: int = 0
    derived_at: float = 0.0
    written: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    written_from_us: int | None = None
    aggregated_at: float = 0.0


class Stream:
    """Owns the session, the query and the tables of one installation."""

    def __init__(self, spark: SparkSession, home: Home, options: Options, readbacks: ReadBacks | None) -> None:
        self.spark = spark
        self.home = home
        self.options = options
        self.readbacks = readbacks
        self.lakehouse = Lakehouse(spark, home)
        self.state = _State()
        self.progress = Progress(home.stream / "progress.json")
        self._between_batches = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="commit")
        self._tables: list[Future[None]] = []

    def run(self, stopping: threading.Event) -> None:
        """Runs until `stopping` is set, then takes in what is left in the landing and stops between two batches."""
        self.progress.write(state="running")
        self._prepare()
        query = self._start()
        self.progress.write(state="running")
        while not stopping.wait(0.2):
            if query.exception() is not None:
                self.progress.write(state="failed", error=str(query.exception()).splitlines()[0])
                raise LakehouseError(f"the streaming query failed: {query.exception()}")
            if self.readbacks:
                self.readbacks.start_if_due(self.spark)
        self._drain(query)
        if self.readbacks and self.readbacks.finish(self.spark):
            self._drain(query)
        with self._between_batches:
            query.stop()
            self._aggregate()
        self.progress.write(state="stopped")
        self._pool.shutdown()

    def _prepare(self) -> None:
        """Bronze first: it can take lines in while the other tables, which the first incident needs, are still being made."""
        is_new = not self.home.table(bronze.OBSERVATIONS).is_dir()
        names = table_names()
        self.lakehouse.create(name for name in names if name.startswith("bronze"))
        self._tables = [self._pool.submit(self.lakehouse.create, [name]) for name in names if not name.startswith("bronze")]
        if not is_new:
            self._await_tables()
            self._remember()

    def _await_tables(self) -> None:
        for table in self._tables:
            table.result()
        self._tables = []

    def _start(self) -> Any:
        lines = (
            self.spark.readStream.format("text")
            .option("maxFilesPerTrigger", self.options.files_per_batch)
            .option("pathGlobFilter", "*.jsonl")
            .load(str(self.home.landing))
            .select("value", f.col("_metadata.file_name").alias("file"))
        )
        return (
            lines.writeStream.queryName("lastack")
            .option("checkpointLocation", str(self.home.stream / "checkpoint"))
            .trigger(processingTime=f"{self.options.trigger_seconds} seconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _drain(self, query: Any) -> None:
        self.progress.write(state="running")
        query.processAllAvailable()
        if self.state.from_us is not None:
            with self._between_batches:
                self._derive(is_forced=True)

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _batch(self, lines: DataFrame, batch_id: int) -> None:
        with self._between_batches:
            began = time.monotonic()
            rows = bronze.parsed(lines, self.lakehouse.schema(bronze.OBSERVATIONS)).persist()
            try:
                taken = self._summary(rows)
                application = self._application(lines)
                self._append(rows, taken, application, batch_id)
            finally:
                rows.unpersist()
            is_eventful = self._extend_region(taken)
            if self.state.from_us is not None:
                self._derive(is_forced=is_eventful)
            if self._is_time_to_aggregate():
                self._aggregate()
            log.info("batch", batch_id=batch_id, ms=round((time.monotonic() - began) * 1000), is_eventful=is_eventful)
            self.progress.write(
                state="running",
                batch_id=batch_id,
                rows=sum(one["good"] for one in taken),
                quarantined=sum(one["bad"] for one in taken),
                batch_ms=round((time.monotonic() - began) * 1000),
                newest_event_at_us=self.state.newest_us or None,
            )

    def _summary(self, rows: DataFrame) -> list[Row]:
        """Per cluster: lines taken and refused, the newest instant, and where something begins that is worth a derivation."""
        is_good = f.col("reason").isNull()
        is_bad_run = (f.col("record") == "probes") & (
            ~f.col("outcome").isin(Outcome.ACKED, Outcome.VOID) | (f.col("latency_us_max") > f.col("lambda_us"))
        )
        is_silent = (f.col("record") == "broker_metrics") & (f.col("outcome") != Outcome.ACKED)
        is_eventful = is_good & (is_bad_run | is_silent | f.col("record").isin(*EVENTFUL))
        return (
            rows.groupBy("cluster_id")
            .agg(
                f.sum(is_good.cast("long")).alias("good"),
                f.sum((~is_good).cast("long")).alias("bad"),
                f.max(f.when(is_good, f.col("ended_at_us"))).alias("newest_us"),
                f.min(f.when(is_eventful, f.col("started_at_us"))).alias("eventful_from_us"),
            )
            .collect()
        )

    def _append(self, rows: DataFrame, taken: list[Row], application: str, batch_id: int) -> None:
        if any(one["good"] for one in taken):
            good = bronze.good(rows, self.lakehouse.schema(bronze.OBSERVATIONS))
            self.lakehouse.append(bronze.OBSERVATIONS, good, application=application, version=batch_id)
        if any(one["bad"] for one in taken):
            bad = bronze.bad(rows, self.lakehouse.schema(bronze.QUARANTINE)).limit(bronze.QUARANTINE_ROWS_MAX)
            self.lakehouse.append(bronze.QUARANTINE, bad, application=application, version=batch_id)
            bronze.bound_quarantine(self.lakehouse)

    def _application(self, lines: DataFrame) -> str:
        """The name under which appends are numbered: the query's own id, so that a fresh checkpoint is never taken for a replay."""
        query_id = lines.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            raise LakehouseError("the streaming query has no id; appends cannot be told from replays")
        return str(query_id)

    # --- the unsettled region -----------------------------------------------------------------------------------------

    def _remember(self) -> None:
        """Finds the unsettled region again after a restart: from the earliest window that is open or ended lately."""
        newest = self.lakehouse.read(bronze.OBSERVATIONS).agg(f.max("ended_at_us")).collect()[0][0]
        if newest is None:
            return
        self.state.newest_us = newest
        windows = self.lakehouse.read("silver.outage_windows").where(
            f.col("is_open") | (f.unix_micros("ended_at_max") >= newest - QUIET_US)
        )
        begins = f.min(f.unix_micros(f.coalesce("started_at_min", "started_at_max")))
        found = windows.agg(begins, f.collect_set("cluster_id")).collect()[0]
        # The batch before the crash may have reached bronze and not silver: what came in lately is looked at again.
        recent = self._recent_event(newest)
        starts = [at for at in (found[0], recent) if at is not None]
        if starts:
            self.state.from_us = min(starts)
            self.state.clusters = {
                one[0]
                for one in self.lakehouse.read(bronze.OBSERVATIONS)
                .where(f.col("ended_at_us") >= min(starts))
                .select("cluster_id")
                .distinct()
                .collect()
            }

    def _recent_event(self, newest: int) -> int | None:
        recent = self.lakehouse.read(bronze.OBSERVATIONS).where(f.col("ended_at_us") >= newest - 10 * QUIET_US)
        taken = self._summary(recent.withColumn("reason", f.lit(None).cast("string")))
        return min((one["eventful_from_us"] for one in taken if one["eventful_from_us"] is not None), default=None)

    def _extend_region(self, taken: list[Row]) -> bool:
        """Moves the region's begin back to what the batch brought; returns whether the batch brought anything eventful."""
        self.state.newest_us = max([self.state.newest_us, *(one["newest_us"] or 0 for one in taken)])
        eventful = [one for one in taken if one["eventful_from_us"] is not None]
        for one in eventful:
            begin = one["eventful_from_us"]
            self.state.from_us = begin if self.state.from_us is None else min(self.state.from_us, begin)
            self.state.clusters.add(one["cluster_id"])
        return bool(eventful)

    def _derive(self, *, is_forced: bool) -> None:
        state = self.state
        if state.from_us is None:
            return
        length = (state.newest_us - state.from_us) / MICROSECONDS
        if not is_forced and time.monotonic() - state.derived_at < min(10.0, length / 20):
            return  # an open outage that only goes on need not be derived again with every batch
        self._await_tables()
        from_us = self._whole_windows(state.from_us)
        clusters = sorted(state.clusters)
        derived = region(self.lakehouse.read(bronze.OBSERVATIONS), from_us, clusters, self._seeds(from_us, clusters))
        outages = self._write(derived, from_us, clusters)
        state.derived_at = time.monotonic()
        if self.readbacks:
            self.readbacks.wanted(outages, derived.positions)
        self._settle(derived, from_us)

    def _whole_windows(self, from_us: int) -> int:
        """The begin of the region, moved back so that no window of silver crosses it."""
        if self.state.written_from_us is not None and self.state.written_from_us <= from_us:
            return self.state.written_from_us
        crossing = self.lakehouse.read("silver.outage_windows").where(
            f.col("is_open") | (f.unix_micros("ended_at_max") >= from_us - QUIET_US)
        )
        found = crossing.agg(f.min(f.unix_micros(f.coalesce("started_at_min", "started_at_max")))).collect()[0][0]
        return from_us if found is None else min(from_us, int(found))

    def _seeds(self, from_us: int, clusters: list[str]) -> dict[str, list[OutOfSync]]:
        begun = f.unix_micros("started_at_max") < from_us
        ends_later = f.col("is_open") | (f.unix_micros("ended_at_max") >= from_us)
        rows = self.lakehouse.read(isr_windows.TABLE).where(begun & ends_later & f.col("cluster_id").isin(*clusters)).collect()
        seeds: dict[str, list[OutOfSync]] = {}
        for row in rows:
            seeds.setdefault(row["cluster_id"], []).append(isr_windows.seed(_utc(row.asDict())))
        return seeds

    def _write(self, derived: Region, from_us: int, clusters: list[str]) -> list[dict[str, Any]]:
        """Replaces the region in silver and gold, where its rows have changed; returns gold's outages."""
        if self.state.written_from_us != from_us:
            self.state.written = {}
        self.state.written_from_us = from_us
        names = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in clusters)
        region_of = {name: f"cluster_id IN ({names}) AND {column} >= {instant_sql(from_us)}" for name, column in REGIONAL}
        carried = [row["window_id"] for row in derived.rows[isr_windows.TABLE] if microseconds(row[isr_windows.COLUMN]) < from_us]
        region_of[isr_windows.TABLE] += "".join(f" OR window_id = '{window_id}'" for window_id in carried)
        if self._has_changed(derived):
            rows = derived.rows | self._gold(derived)
        else:
            rows = {name: self.state.written.get(name, of_table) for name, of_table in derived.rows.items()}
            rows |= {name: self.state.written[name] for name, _ in gold.REGIONAL} | {events.TABLE: derived.rows[events.TABLE]}
        self._commit(rows, region_of)
        return rows[gold.OUTAGES]

    def _has_changed(self, derived: Region) -> bool:
        """Whether gold can have changed: any silver row but an event that gold does not read."""
        written = self.state.written
        if gold.OUTAGES not in written:
            return True
        told = [[row for row in rows if row["event"] == "epoch_end"] for rows in (written[events.TABLE], derived.rows[events.TABLE])]
        return told[0] != told[1] or any(
            written.get(table.name) != derived.rows[table.name] for table in TABLES if table.name != events.TABLE
        )

    def _gold(self, derived: Region) -> dict[str, list[dict[str, Any]]]:
        """Gold's rows of the region, from silver's rows at hand."""
        for table in TABLES:
            self.lakehouse.rows(table.name, derived.rows[table.name]).createOrReplaceTempView(gold.view_name(table.name))
        rows = {}
        for name, _ in gold.REGIONAL:
            frame = gold.selected(self.spark.sql(gold.query(name)), self.lakehouse.schema(name))
            rows[name] = [_utc(row.asDict(recursive=True)) for row in frame.collect()]
            self.lakehouse.rows(name, rows[name]).createOrReplaceTempView(gold.view_name(name))
        return rows

    def _commit(self, rows: dict[str, list[dict[str, Any]]], region_of: dict[str, str]) -> None:
        """Commits side by side; each is a transaction of its own, and all of them are made again if one of them fails."""
        writes = [
            self._pool.submit(self._replace, name, of_table, region_of[name])
            for name, of_table in rows.items()
            if self.state.written.get(name) != of_table
        ]
        for write in writes:
            write.result()
        self.state.written = rows

    def _replace(self, name: str, rows: list[dict[str, Any]], where: str) -> None:
        # A region that holds nothing, and held nothing, need not be replaced: looking is cheaper than a commit.
        if rows or self.lakehouse.read(name).where(where).limit(1).count():
            self.lakehouse.replace(name, self.lakehouse.rows(name, rows), where)

    def _settle(self, derived: Region, from_us: int) -> None:
        """Forgets the region once nothing in it is open and a quiet minute of event time has passed."""
        windows = derived.rows["silver.outage_windows"]
        ends = [microseconds(row["ended_at_max"]) for row in windows if row["ended_at_max"] is not None]
        is_open = any(row["is_open"] for row in windows)
        last = max([*ends, from_us])
        is_awaited = self.readbacks is not None and self.readbacks.is_busy
        if not is_open and not is_awaited and self.state.newest_us >= last + QUIET_US:
            self.state.from_us = None
            self.state.clusters = set()
            self.state.written = {}
            self.state.written_from_us = None
        else:
            self.state.from_us = from_us

    # --- what is summed up -------------------------------------------------------------------------------------------------

    def _is_time_to_aggregate(self) -> bool:
        """Sums can wait: not while something is unsettled, unless they have waited for very long."""
        since = time.monotonic() - self.state.aggregated_at
        patience = 1 if self.state.from_us is None else UNSETTLED_PATIENCE
        return since >= self.options.aggregate_seconds * patience

    def _aggregate(self) -> None:
        """Replaces what is summed up over time, at a pace of its own: availability of the last two days, lag of the last minutes."""
        self.state.aggregated_at = time.monotonic()
        newest_us = self.state.newest_us
        if not newest_us:
            return
        self._await_tables()
        yesterday = newest_us - DAY_US
        self._replace_recent(
            gold.AVAILABILITY, "probes", f"day >= date_sub(to_date({instant_sql(newest_us)}), 1)", yesterday - yesterday % DAY_US
        )
        minute = newest_us - LAG_US - (newest_us - LAG_US) % MINUTE_US
        self._replace_recent(gold.LAG, "partition_metrics", f"minute_at >= {instant_sql(minute)}", minute)

    def _replace_recent(self, table: str, record: str, where: str, from_us: int) -> None:
        """Derives a table's recent rows from one record of bronze, and replaces them."""
        observations = self.lakehouse.read(bronze.OBSERVATIONS).where(
            (f.col("record") == record)
            & (f.col("day") >= f.to_date(f.timestamp_micros(f.lit(from_us))))
            & (f.col("ended_at_us") >= from_us)
        )
        observations.createOrReplaceTempView(f"bronze_{record}")
        self.lakehouse.read(gold.OUTAGES).createOrReplaceTempView(gold.view_name(gold.OUTAGES))
        frame = gold.selected(self.spark.sql(gold.query(table)), self.lakehouse.schema(table)).where(where)
        self.lakehouse.replace(table, frame, where)


class Progress:
    """HOME/stream/progress.json: what the stream does, replaced whole by atomic rename."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = {"format": 1, "batch_id": None, "error": None, "started_at_us": time.time_ns() // 1000}

    def write(self, **values: Any) -> None:
        """Replaces the file; values that are not given stay as they were."""
        self.values |= values | {"written_at_us": time.time_ns() // 1000}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.values))
        part.rename(self.path)


def run(home: Home, options: Options, stopping: threading.Event, readbacks: ReadBacks | None = None) -> None:
    """Runs the stream of an installation in this process until `stopping` is set."""
    home.create()
    with (
        _only_writer(home.stream / "lock") as lock,
        session(home, master=options.master, memory=options.memory, pass_fds=(lock.fileno(),)) as spark,
    ):
        Stream(spark, home, options, readbacks).run(stopping)


class _only_writer:  # noqa: N801 - reads as what it is: with _only_writer(...)
    """Holds an exclusive lock; waits for the JVM of a stream that was killed a moment ago."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[str] | None = None

    def __enter__(self) -> IO[str]:
        self.file = self.path.open("a")
        limit = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise TimedOut(
                        f"another stream holds {self.path} for {LOCK_WAIT_SECONDS} s; one stream writes a lakehouse: stop it first"
                    ) from None
                time.sleep(0.2)
            else:
                os.set_inheritable(self.file.fileno(), True)
                return self.file

    def __exit__(self, *_: object) -> None:
        if self.file:
            self.file.close()


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    """Spark hands out naive timestamps in the process' own zone; ours are aware and UTC."""
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}
