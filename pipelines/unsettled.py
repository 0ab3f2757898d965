"""Which stretch of time is not settled yet, and what follows from it now?

The rule: a *region* is everything from some instant on, of some clusters. It begins with the first line that is worth a derivation,
moved back so that no window of silver crosses its begin, and ends when nothing in it is open, nothing more is awaited, and a quiet
minute of event time has passed. What is derived for it replaces whatever silver and gold held for it, where that has changed.

A line that only says that something known goes on is not worth a derivation by itself: an outage of an hour is derived again every
few seconds, and the more it costs the less often.

A read-back of a settled time (the hourly one) judges records that were acknowledged since the one before: facts are read from there.

Example: a kill at 12:00:00, served again at 12:00:09, replica back at 12:00:36: the region begins at 12:00:00, is derived with every
batch that brings something new, and is forgotten at 12:01:36 if all canary topics have been read back by then.
"""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from pipelines import bronze, gold
from pipelines.ddl import arrow_schema
from pipelines.derive import MARGIN_US, Region, is_under_min_isr, region
from pipelines.domain.clock import microseconds
from pipelines.domain.observations import BrokerMetrics, ClockSeen, Outcome, Probes, ReadBack
from pipelines.domain.replication import OutOfSync
from pipelines.lakehouse import Lakehouse, instant_literal
from pipelines.readback import Log, ReadBacks
from pipelines.silver import TABLES, controller_windows, events, isr_windows, outage_windows, partition_windows
from pipelines.silver.base import Row
from pipelines.sums import touched

MICROSECONDS = 1_000_000
QUIET_US = 60 * MICROSECONDS
"""A region is settled when so much event time has passed since the last thing in it."""
REACH_US = QUIET_US + 10 * MICROSECONDS
"""Windows so close before a region may belong to the same incident: they are part of it."""
LOOK_BACK_US = 10 * QUIET_US
READBACK_REACH_US = 120 * QUIET_US
FUTURE_US = 3_600 * MICROSECONDS
"""A line from further ahead than this comes from a clock that is wrong; it is kept, but it is not the present."""

EVENTFUL = ("late_acks", "control", "leader_seen", "epoch_end", "readback", "fault", "blind")
"""Records that are worth a derivation by themselves."""

REGIONAL = (*((table.name, table.column) for table in TABLES), *gold.REGIONAL)
"""Every table of which a region is replaced, with its column of event time."""

WINDOWS = (outage_windows.TABLE, partition_windows.TABLE, controller_windows.TABLE)
PAUSE_SECONDS = 10.0
SHARE = 5
"""A derivation that nothing new asks for comes at most this many times its own length after the last one."""


def is_worth_deriving() -> Column:
    """Whether a good line is one that windows, losses or findings are made of, and not only a sign that all is well."""
    is_step = (f.col("record") == ClockSeen.record) & f.col("has_stepped")
    return f.coalesce(_is_bad_run() | _is_silent() | is_step | is_under_min_isr() | f.col("record").isin(*EVENTFUL), f.lit(False))


def _is_bad_run() -> Column:
    is_late = f.col("latency_us_max") > f.col("lambda_us")
    return (f.col("record") == Probes.record) & (~f.col("outcome").isin(Outcome.ACKED, Outcome.VOID) | is_late)


def _is_silent() -> Column:
    return (f.col("record") == BrokerMetrics.record) & (f.col("outcome") != Outcome.ACKED)


def summary(rows: DataFrame, known_us: int) -> list[SparkRow]:
    """Per cluster: lines taken and refused, the newest instant, what is worth a derivation, and which sums are touched.

    Columns of `rows`: those of bronze, `reason` and `landed_at`. What began before `known_us` and is still open has been derived.
    """
    is_good = f.col("reason").isNull()
    is_eventful = is_good & is_worth_deriving()
    goes_on = (_is_silent() | ((_is_bad_run() | is_under_min_isr()) & f.col("is_open"))) & (f.col("started_at_us") <= known_us)
    return (
        rows.groupBy("cluster_id")
        .agg(
            f.sum(is_good.cast("long")).alias("good"),
            f.sum((~is_good).cast("long")).alias("bad"),
            f.max(f.when(is_good, f.expr(bronze.SEEN_TO_US))).alias("newest_us"),
            f.min(f.when(is_eventful, f.expr(bronze.SEEN_FROM_US))).alias("eventful_from_us"),
            f.max(f.when(is_eventful, f.expr(bronze.SEEN_TO_US))).alias("eventful_to_us"),
            f.coalesce(f.bool_or(is_eventful & ~goes_on), f.lit(False)).alias("is_new"),
            f.min(f.when(is_good & (f.col("record") == ReadBack.record), f.col("started_at_us"))).alias("readback_us"),
            f.max("landed_at").alias("landed_at"),
            *touched(),
        )
        .collect()
    )


class Unsettled:
    """The unsettled region of one installation. All of its state can be found again in the tables (`remember`)."""

    def __init__(self, lakehouse: Lakehouse, readbacks: ReadBacks | None, await_tables: Callable[[], None]) -> None:
        self.lakehouse = lakehouse
        self.readbacks = readbacks
        self.newest_us = 0
        self.is_behind = False
        self._await_tables = await_tables
        self._from_us: int | None = None
        self._clusters: set[str] = set()
        self._margin_us = MARGIN_US
        self._last_us = 0
        self._readback_us = 0
        self._known_us = 0
        self._derived_at = 0.0
        self._derived_seconds = 0.0
        self._written: dict[str, list[Row]] = {}
        self._written_from_us: int | None = None

    @property
    def is_empty(self) -> bool:
        """Everything is settled."""
        return self._from_us is None

    # --- what comes in ------------------------------------------------------------------------------------------------

    def take(self, taken: Iterable[SparkRow]) -> bool:
        """Takes the summary of new lines; returns whether they are worth a derivation at once."""
        is_new = False
        for one in taken:
            self.newest_us = max(self.newest_us, min(one["newest_us"] or 0, _latest_us()))
            if one["readback_us"] is not None:
                self._widen(one["readback_us"])
            if one["eventful_from_us"] is not None:
                begin = one["eventful_from_us"]
                self._from_us = begin if self._from_us is None else min(self._from_us, begin)
                self._last_us = max(self._last_us, min(one["eventful_to_us"], _latest_us()))
                self._clusters.add(one["cluster_id"])
            is_new = is_new or one["is_new"]
            self.is_behind = self.is_behind or bool(one["good"])
        self.is_behind = self.is_behind and not self.is_empty
        return is_new

    def remember(self) -> None:
        """Finds the region again after a restart: from the earliest window that is open or ended lately, or what came in lately."""
        seen = self.lakehouse.read(bronze.OBSERVATIONS).withColumn("seen_to_us", f.expr(bronze.SEEN_TO_US))
        seen = seen.where(f.col("seen_to_us") <= _latest_us())
        newest = seen.agg(f.max("seen_to_us")).collect()[0][0]
        if newest is None:
            return
        self._remember_readbacks(seen)
        # The batch before the crash may have reached bronze and not silver: what came in lately is looked at again.
        recent = seen.where(f.col("seen_to_us") >= newest - LOOK_BACK_US)
        recent = recent.withColumn("reason", f.lit(None).cast("string")).withColumn("landed_at", f.col("ingested_at"))
        self.take(summary(recent, known_us=0))
        begins = self._begins(newest - QUIET_US)
        if begins:
            self._from_us = min(begins) if self._from_us is None else min(self._from_us, *begins)
        if self._from_us is not None:
            since = seen.where(f.col("seen_to_us") >= self._from_us).select("cluster_id").distinct().collect()
            self._clusters = {one["cluster_id"] for one in since}
            self.is_behind = True

    def _remember_readbacks(self, seen: DataFrame) -> None:
        last = (
            seen.where(f.col("record") == ReadBack.record)
            .groupBy("cluster_id", "resource", "shard", "topic_id")
            .agg(f.max("started_at_us").alias("at_us"), f.max_by("to_position", "ended_at_us").alias("position"))
            .collect()
        )
        self._readback_us = max((one["at_us"] for one in last), default=0)
        if self.readbacks:
            ours, topics = self.readbacks.cluster_id, self.readbacks.topics
            of_ours = (one for one in last if one["cluster_id"] == ours and one["resource"] in topics)
            verified: dict[Log, int] = {
                ((one["resource"], int(one["shard"])), one["topic_id"]): int(one["position"]) for one in of_ours
            }
            self.readbacks.resume(verified)

    def _widen(self, readback_us: int) -> None:
        if self.is_empty and self._readback_us:
            since = min(readback_us - self._readback_us, READBACK_REACH_US)
            self._margin_us = max(self._margin_us, since)
        self._readback_us = max(self._readback_us, readback_us)

    # --- what follows from it -----------------------------------------------------------------------------------------

    def derive(self, *, is_forced: bool) -> None:
        """Derives the region again and replaces what has changed; not forced: only if something came in, and not too often."""
        if self._from_us is None or not (is_forced or self._is_due()):
            return
        began = time.monotonic()
        self._await_tables()
        from_us = self._whole_windows(self._from_us)
        clusters = sorted(self._clusters)
        observations = self.lakehouse.read(bronze.OBSERVATIONS)
        derived = region(observations, from_us, clusters, self._seeds(from_us, clusters), self._margin_us)
        outages = self._write(derived, from_us, clusters)
        self._known_us, self.is_behind = self.newest_us, False
        if self.readbacks:
            self.readbacks.wanted(outages, derived.rows[events.TABLE], derived.positions)
        self._settle(derived, from_us)
        self._derived_at = time.monotonic()
        self._derived_seconds = self._derived_at - began

    @property
    def known_us(self) -> int:
        """Up to which event time the region has been derived."""
        return self._known_us

    def _is_due(self) -> bool:
        length = (self.newest_us - (self._from_us or 0)) / MICROSECONDS
        pause = max(min(PAUSE_SECONDS, length / 20), SHARE * self._derived_seconds)
        return self.is_behind and time.monotonic() - self._derived_at >= pause

    def _whole_windows(self, from_us: int) -> int:
        """The begin of the region, moved back so that no window, and no incident, of silver crosses it."""
        if self._written_from_us is not None and self._written_from_us <= from_us:
            return self._written_from_us
        while True:
            crossing = [begin for begin in self._begins(from_us - REACH_US) if begin < from_us]
            if not crossing:
                return from_us
            from_us = min(crossing)

    def _begins(self, since_us: int) -> list[int]:
        """When the windows of silver began that are open, or ended at or after an instant."""
        ended_at = pc.coalesce(pc.field("ended_at_max"), pc.field("ended_at_min"))
        where = pc.field("is_open") | (ended_at >= _scalar(since_us))
        rows = [row for table in WINDOWS for row in self.lakehouse.at_hand(table, where, ["started_at_min", "started_at_max"])]
        return [microseconds(row["started_at_min"] or row["started_at_max"]) for row in rows]

    def _seeds(self, from_us: int, clusters: list[str]) -> dict[str, list[OutOfSync]]:
        goes_on = pc.field("is_open") | (pc.field("ended_at_max") >= _scalar(from_us))
        where = (pc.field("started_at_max") < _scalar(from_us)) & goes_on & pc.field("cluster_id").isin(clusters)
        seeds: dict[str, list[OutOfSync]] = {}
        for row in self.lakehouse.at_hand(isr_windows.TABLE, where):
            seeds.setdefault(row["cluster_id"], []).append(isr_windows.seed(row))
        return seeds

    # --- what is written ----------------------------------------------------------------------------------------------

    def _write(self, derived: Region, from_us: int, clusters: list[str]) -> list[Row]:
        """Replaces the region in silver and gold, where its rows have changed; returns gold's outages."""
        if self._written_from_us != from_us:
            self._written = {}
        self._written_from_us = from_us
        names = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in clusters)
        region_of = {name: f"cluster_id IN ({names}) AND {column} >= {instant_literal(from_us)}" for name, column in REGIONAL}
        carried = [row["window_id"] for row in derived.rows[isr_windows.TABLE] if microseconds(row[isr_windows.COLUMN]) < from_us]
        region_of[isr_windows.TABLE] += "".join(f" OR window_id = '{window_id}'" for window_id in carried)
        if self._has_changed(derived):
            rows = derived.rows | self._gold(derived)
        else:
            rows = self._written | {events.TABLE: derived.rows[events.TABLE]}
        self._commit(rows, region_of)
        return rows[gold.OUTAGES]

    def _has_changed(self, derived: Region) -> bool:
        """Whether gold can have changed: any silver row but an event that gold does not read."""
        written = self._written
        if gold.OUTAGES not in written:
            return True
        told = [[row for row in rows if row["event"] == "epoch_end"] for rows in (written[events.TABLE], derived.rows[events.TABLE])]
        return told[0] != told[1] or any(
            written.get(table.name) != derived.rows[table.name] for table in TABLES if table.name != events.TABLE
        )

    def _gold(self, derived: Region) -> dict[str, list[Row]]:
        """Gold's rows of the region, from silver's rows at hand."""
        for table in TABLES:
            self.lakehouse.rows(table.name, derived.rows[table.name]).createOrReplaceTempView(gold.view_name(table.name))
        rows = {}
        for name, _ in gold.REGIONAL:
            frame = gold.selected(self.lakehouse.spark.sql(gold.query(name)), self.lakehouse.schema(name))
            rows[name] = [utc(row.asDict(recursive=True)) for row in frame.collect()]
            self.lakehouse.rows(name, rows[name]).createOrReplaceTempView(gold.view_name(name))
        return rows

    def _commit(self, rows: dict[str, list[Row]], region_of: dict[str, str]) -> None:
        """Each is a transaction of its own, and all of them are made again if one of them fails."""
        for name, of_table in rows.items():
            if self._written.get(name) != of_table:
                self.lakehouse.replace(name, pa.Table.from_pylist(of_table, arrow_schema(name)), region_of[name])
        self._written = rows

    def _settle(self, derived: Region, from_us: int) -> None:
        """Forgets the region once nothing in it is open or awaited and a quiet minute of event time has passed."""
        windows = [row for table in WINDOWS for row in derived.rows[table]]
        ends = [microseconds(row["ended_at_max"]) for row in windows if row["ended_at_max"] is not None]
        is_open = any(row["is_open"] for row in windows)
        last = max([*ends, from_us, self._last_us])
        if is_open or self._is_awaited() or self.newest_us < last + QUIET_US:
            self._from_us = from_us
            return
        self._from_us = self._written_from_us = None
        self._clusters, self._written, self._margin_us = set(), {}, MARGIN_US
        if self.readbacks:
            self.readbacks.wanted([], [], [])

    def _is_awaited(self) -> bool:
        """A read-back is under way or wanted, or what the last one found has not come in yet."""
        return self.readbacks is not None and (self.readbacks.is_busy or self.readbacks.written_at_us > self._readback_us)


def _scalar(at_us: int) -> pa.Scalar:
    return pa.scalar(at_us, pa.timestamp("us", tz="UTC"))


def _latest_us() -> int:
    return time.time_ns() // 1000 + FUTURE_US


def utc(row: dict[str, Any]) -> Row:
    """Spark hands out naive timestamps in the process' own zone; ours are aware and UTC."""
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}
