"""The one streaming query: landing -> bronze -> silver -> gold.

Each micro-batch takes the new files of the landing, appends the good lines to bronze and the bad ones to the quarantine, and, when
something happened, derives the unsettled region again and replaces it in silver and gold. A healthy batch costs one commit.

Exactly once: the append carries the batch's number, and everything behind it is a function of bronze, so a batch that is replayed
after a crash changes nothing. One writer: a lock file is held by this process *and by its JVM*, so that a restarted stream waits
until the JVM of a killed one is gone.
"""

import re
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pipelines import bronze
from pipelines.compaction import Compaction
from pipelines.ddl import table_names
from pipelines.errors import LakehouseError
from pipelines.exclusive import only_writer
from pipelines.lakehouse import LINE_BYTES_MAX, Lakehouse, session
from pipelines.long_lines import keep, quarantined, unreadable
from pipelines.progress import Progress
from pipelines.readback import ReadBacks
from pipelines.settings import Home
from pipelines.sums import Sums
from pipelines.unsettled import Unsettled, summary

log = structlog.get_logger()

LOCK_WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Options:
    """What governs the stream. Seconds, unless the name says otherwise."""

    trigger_seconds: float = 1.0
    files_per_batch: int = 500
    aggregate_seconds: float = 30.0
    readback_seconds: float = 3600.0
    master: str = "local[2]"
    memory: str = "1g"


class Stream:
    """Owns the session, the query and the tables of one installation."""

    def __init__(self, spark: SparkSession, home: Home, options: Options, readbacks: ReadBacks | None) -> None:
        self.spark = spark
        self.home = home
        self.options = options
        self.readbacks = readbacks
        self.lakehouse = Lakehouse(spark, home)
        self.progress = Progress(home.stream / "progress.json")
        self._between_batches = threading.Lock()
        self._is_ending = False
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="create")
        self._tables: list[Future[None]] = []
        self._unsettled = Unsettled(self.lakehouse, readbacks, self._await_tables)
        self._sums = Sums(self.lakehouse, options.aggregate_seconds)
        self._compaction = Compaction(self.lakehouse)

    def run(self, stopping: threading.Event) -> None:
        """Runs until `stopping` is set, then takes in what is left in the landing and stops between two batches.

        Raises LakehouseError when a batch cannot be done; the next run does it again.
        """
        self.progress.write(state="running")
        try:
            self._run(stopping)
        except Exception as error:
            self.progress.write(state="failed", error=said_by(error))
            if isinstance(error, PySparkException):
                raise LakehouseError(f"the streaming query failed: {said_by(error)}") from error
            raise
        finally:
            self._pool.shutdown()
        self.progress.write(state="stopped")

    def _run(self, stopping: threading.Event) -> None:
        self._prepare()
        query = self._start()
        try:
            self.progress.write(state="running")
            while not stopping.wait(0.2):
                self._check(query)
                if self.readbacks:
                    self.readbacks.start_if_due(self.spark)
                self._catch_up()
            self._drain(query)
            if self.readbacks:
                self.readbacks.finish(self.spark)
                # Also when nothing more was read: with its spool closed, what the last read-back wrote has landed.
                self._drain(query)
            with self._between_batches:
                self._sum_up()
        finally:
            # A batch that begins now waits for the lock; whoever held the lock and waited for the query to end would wait for good.
            with self._between_batches:
                self._is_ending = True
            query.stop()

    def _prepare(self) -> None:
        """Bronze first: it can take lines in while the other tables, which the first incident needs, are still being made."""
        is_new = not self.home.table(bronze.OBSERVATIONS).is_dir()
        names = table_names()
        self.lakehouse.create(name for name in names if name.startswith("bronze"))
        self._tables = [self._pool.submit(self.lakehouse.create, [name]) for name in names if not name.startswith("bronze")]
        if not is_new:
            self._await_tables()
            self._unsettled.remember()
            self._sums.remember()

    def _await_tables(self) -> None:
        for table in self._tables:
            table.result()
        self._tables = []

    def _start(self) -> Any:
        lines = (
            self.spark.readStream.format("text")
            .option("maxFilesPerTrigger", self.options.files_per_batch)
            .option("pathGlobFilter", "*.jsonl")
            # What is in bronze need not stay in the landing: a folder of a million files could not even be listed every second.
            .option("cleanSource", "delete")
            .load(str(self.home.landing))
            .select("value", f.col("_metadata.file_name").alias("file"), f.col("_metadata.file_modification_time").alias("landed_at"))
        )
        return (
            lines.writeStream.queryName("lastack")
            .option("checkpointLocation", str(self.home.stream / "checkpoint"))
            .trigger(processingTime=f"{self.options.trigger_seconds} seconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _check(self, query: Any) -> None:
        failure = query.exception()
        if failure is not None:
            raise failure

    def _catch_up(self) -> None:
        """Derives what the last batch put off, when no batch comes to do it."""
        if self._unsettled.is_behind and self._between_batches.acquire(blocking=False):
            try:
                self._unsettled.derive(is_forced=False)
            finally:
                self._between_batches.release()

    def _drain(self, query: Any) -> None:
        self.progress.write(state="running")
        query.processAllAvailable()
        with self._between_batches:
            self._unsettled.derive(is_forced=self._unsettled.is_behind)

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _batch(self, lines: DataFrame, batch_id: int) -> None:
        with self._between_batches:
            if self._is_ending:
                # Not taken in and not committed: the next run does it.
                raise LakehouseError(f"batch {batch_id} came when the stream had stopped")
            began = time.monotonic()
            rows = bronze.parsed(lines, self.lakehouse.schema(bronze.OBSERVATIONS)).persist()
            try:
                taken = summary(rows, self._unsettled.known_us)
                application = self._application(lines)
                self._append(rows, taken, application, batch_id)
            finally:
                rows.unpersist()
            is_new = self._unsettled.take(taken)
            self._sums.take(taken)
            self._unsettled.derive(is_forced=is_new)
            if self._sums.is_due(is_settled=self._unsettled.is_empty):
                self._sum_up()
            self._compact_if_due()
            duration_ms = round((time.monotonic() - began) * 1000)
            self._refuse_long_lines(application, batch_id)
            log.info("batch", batch_id=batch_id, ms=duration_ms, is_new=is_new)
            self.progress.write(
                state="running",
                batch_id=batch_id,
                rows=sum(one["good"] for one in taken),
                quarantined=sum(one["bad"] for one in taken),
                batch_ms=duration_ms,
                newest_event_at_us=self._unsettled.newest_us or None,
                landing_files_waiting=self._waiting(max((one["landed_at"] for one in taken), default=None)),
            )

    def _waiting(self, landed_at: datetime | None) -> int:
        """Files of the landing that are younger than the youngest one that was taken: they are taken in that order."""
        taken_ms = 0 if landed_at is None else round(landed_at.timestamp() * 1000)
        return sum(1 for path in self.home.landing.glob("[!.]*.jsonl") if age_mark(path) > taken_ms)

    def _refuse_long_lines(self, application: str, batch_id: int) -> None:
        files = unreadable(self.home, LINE_BYTES_MAX)
        if files:
            frame = self.lakehouse.rows(bronze.QUARANTINE, [quarantined(path, LINE_BYTES_MAX) for path in files])
            self.lakehouse.append(bronze.QUARANTINE, frame, application=f"{application}-files", version=batch_id)
            bronze.bound_quarantine(self.lakehouse)
        # Only then: after a crash in between the batch is done again, and finds them again.
        for path in files:
            keep(self.home, path)
            log.error("file_refused", file=path.name, why="it has a line that is too long")

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

    def _sum_up(self) -> None:
        """Brings what is summed up over time up to date."""
        if self._unsettled.newest_us:
            self._await_tables()
            self._sums.make()

    def _compact_if_due(self) -> None:
        """Drops from bronze, once an hour, what longer rows say again; it can wait until nothing is unsettled."""
        newest_us = self._unsettled.newest_us
        if self._unsettled.is_empty and self._compaction.is_due(newest_us):
            # What is summed up by the minute needs all forms of a run.
            self._sum_up()
            self._compaction.run(newest_us)
            self._sums.compacted(newest_us)


def run(home: Home, options: Options, stopping: threading.Event, readbacks: ReadBacks | None = None) -> None:
    """Runs the stream of an installation in this process until `stopping` is set, once whoever else does is gone."""
    home.create()
    with only_writer(home.stream / "lock", LOCK_WAIT_SECONDS) as lock:
        # What a killed JVM left behind; nobody else uses it, since nobody else holds the lock.
        shutil.rmtree(home.stream / "tmp", ignore_errors=True)
        forget_unborn(home.stream / "checkpoint")
        with session(home, master=options.master, memory=options.memory, pass_fds=(lock.fileno(),)) as spark:
            Stream(spark, home, options, readbacks).run(stopping)


def forget_unborn(checkpoint: Path) -> None:
    """Removes a checkpoint in which no batch was ever planned.

    A stream that is killed while it writes down its first batch leaves an unfinished file, and Spark takes no checkpoint that holds one
    for its first batch. Nothing was taken in by then, so nothing is forgotten with it.
    """
    if checkpoint.is_dir() and not any(one.name.isdigit() for one in (checkpoint / "offsets").glob("*")):
        shutil.rmtree(checkpoint)


def age_mark(path: Path) -> int:
    """When a file was last changed, in the milliseconds that Spark orders files by; 0 for what is cleaned away or is no file."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def said_by(error: Exception) -> str:
    """An error in one line. What went wrong in a batch comes back from the JVM behind a stack trace: its cause is said."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if "Traceback" not in lines[0]:
        return lines[0]
    return next((line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed|Out)\b: ", line)), lines[0])
