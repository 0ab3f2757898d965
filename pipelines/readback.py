"""What is really in the canary topics? The bounded read that decides what was lost.

The rule: when an outage of a lane that writes is over, or a leader changed, and at least hourly, every canary partition is read from
the first record that the unsettled region acknowledged, or from where the last read-back ended, whichever is earlier, to the high
watermark. The log's start is read before and after. Every intact identity found becomes part of a run; the runs of a partition are
one `ReadBack` observation, which goes through the landing like any other. The verdict is the domain's (`data_loss`), not ours. How
records are read is the broker system's (`pipelines.brokers.readback`).

A read-back runs beside the stream in a thread of its own: a cluster that does not answer delays no batch and is asked again, with
growing pauses. While a lane that writes is out, a mere change of leader waits: its read-back comes with the end of the outage.

Example: partitions 0 to 5 of a topic, the region's first acknowledged record of partition 3 at position 812, the last read-back up to
700, the high watermark at 1000: positions 700 to 999 are read, and one run (boot, sequences 700 to 999, positions 700 to 999) is found.
"""

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines.brokers.base import Shard
from pipelines.brokers.readback import LogRange, LogReader
from pipelines.collect.canary.identity import MAGIC
from pipelines.collect.spool import Spool
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import FoundRun, Lane, ReadBack
from pipelines.errors import LastackError

log = structlog.get_logger()

AGAIN_SECONDS = 5.0
AGAIN_SECONDS_MAX = 600.0
AWAITED_SECONDS = 80.0
"""What is still undecided after pauses of so many seconds is not waited for any more (nothing may have been acknowledged)."""

FOUND = tuple(one.name for one in dataclasses.fields(FoundRun))
UNDECIDED = frozenset({"UNCHECKED", "STRANDED"})
WRITTEN_LANES = frozenset({Lane.RAW, Lane.CLIENT})
LEADER_CHANGES = frozenset({"leader_seen", "partition_changed"})


Log = tuple[Shard, str | None]
"""A partition, and the identity of its topic where it is known."""

Row = dict[str, Any]


@dataclass(slots=True)
class Agenda:
    """When is the next read-back due, and from where? Told what a derivation left undecided, asked with a monotonic time in seconds."""

    cluster_id: str
    topics: frozenset[str]
    every_seconds: float
    ended_at: float
    pause: float = AGAIN_SECONDS
    undecided: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    positions: dict[Log, int] = field(default_factory=dict)
    verified: dict[Log, int] = field(default_factory=dict)
    _is_written_to: bool = True
    _seen_changes: frozenset[str] = frozenset()
    _read_changes: frozenset[str] = frozenset()

    def note(self, outages: Iterable[Row], events: Iterable[Row], positions: Iterable[Row]) -> None:
        """Takes the whole unsettled region: gold's outages, silver's events, and where its acknowledged records begin."""
        written = [row for row in outages if row["lane"] in WRITTEN_LANES and row["cluster_id"] == self.cluster_id]
        undecided = frozenset(row["outage_id"] for row in written if not row["is_open"] and _is_undecided(row))
        if undecided - self.undecided:
            self.pause = AGAIN_SECONDS
        self.undecided = undecided
        self._is_written_to = not any(row["is_open"] for row in written)
        self.changes = frozenset(row["event_id"] for row in events if self._is_leader_change(row))
        of_ours = (row for row in positions if row["cluster_id"] == self.cluster_id and row["resource"] in self.topics)
        self.positions = {(Shard(row["resource"], row["shard"]), row["topic_id"]): row["position"] for row in of_ours}

    def is_wanted(self) -> bool:
        """Something is undecided that a read-back can decide."""
        return bool(self.undecided or (self.changes - self._read_changes and self._is_written_to))

    def is_due(self, now: float) -> bool:
        """Whether a read-back should begin now."""
        since = now - self.ended_at
        return (self.is_wanted() and since >= self.pause) or since >= self.every_seconds

    def is_awaited(self) -> bool:
        """Something is wanted, and it can still be hoped that the next read-back decides it."""
        return self.is_wanted() and self.pause <= AWAITED_SECONDS

    def begin(self) -> None:
        """A read-back begins: it covers what is known by now."""
        self._seen_changes = self.changes

    def end(self, now: float, verified: Mapping[Log, int] | None) -> None:
        """It ended: up to where it read, or None when it failed. The next one for the same reason comes after twice the pause."""
        self.ended_at = now
        self.pause = min(2 * self.pause, AGAIN_SECONDS_MAX)
        if verified is not None:
            self.verified |= verified
            self._read_changes = self._seen_changes

    def start_of(self, one: Shard, range_: LogRange) -> int:
        """The position from which a partition is read; what is known of another topic of that name says nothing."""
        ids = {None, range_.topic_id}
        known = [
            at
            for places in (self.positions, self.verified)
            for (where, topic_id), at in places.items()
            if where == one and topic_id in ids
        ]
        return max(range_.log_start, min([range_.high_watermark, *known]) if known else range_.log_start)

    def _is_leader_change(self, row: Row) -> bool:
        return (
            row["event"] in LEADER_CHANGES
            and row["cluster_id"] == self.cluster_id
            and row["resource"] in self.topics
            and row["previous_leader"] is not None
            and row["leader"] != row["previous_leader"]
        )


class ReadBacks:
    """Reads canary topics back when it is due, one read at a time.

    `cluster_id` is the cluster's, whose topics these are: a lakehouse may hold others. `topics` says which kind and lane writes to each
    topic; `reader` reads the cluster's logs.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        topics: Mapping[str, tuple[str, str]],
        reader: LogReader,
        spool: Spool,
        clock: Anchor,
        every_seconds: float = 3600.0,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = topics
        self.reader = reader
        self.spool = spool
        self.clock = clock
        self.written_at_us = 0  # started_at_us of the last read-back that was written down
        self._agenda = Agenda(cluster_id, frozenset(topics), every_seconds, time.monotonic())
        self._lock = threading.Lock()
        self._reading: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """A read-back is under way, or wanted."""
        return self._agenda.is_awaited() or (self._reading is not None and self._reading.is_alive())

    def resume(self, verified: Mapping[Log, int]) -> None:
        """Goes on where the read-backs of an earlier run ended."""
        with self._lock:
            self._agenda.verified |= verified

    def wanted(self, outages: Iterable[Row], events: Iterable[Row], positions: Iterable[Row]) -> None:
        """Takes note of what a derivation left undecided; of nothing at all when the region is settled."""
        with self._lock:
            self._agenda.note(outages, events, positions)

    def start_if_due(self, spark: SparkSession) -> None:
        """Starts a read-back in its own thread when it is due, and none is under way."""
        self.spool.flush_if_due()
        if self._reading is not None and self._reading.is_alive():
            return
        if self._agenda.is_due(time.monotonic()):
            self._reading = threading.Thread(target=self._try, args=(spark,), name="readback", daemon=True)
            self._reading.start()

    def finish(self, spark: SparkSession) -> bool:
        """A last read-back, when one is still wanted, and the end of the spool; returns whether anything was read."""
        if self._reading is not None:
            self._reading.join(timeout=60)
        is_read = self._agenda.is_wanted() and self._try(spark)
        self.spool.close()
        return is_read

    def _try(self, spark: SparkSession) -> bool:
        with self._lock:
            self._agenda.begin()
        verified = None
        try:
            verified = self._read(spark)
        except (LastackError, PySparkException, Py4JError) as error:
            # The cluster may be down, or a partition without a leader: the question stays open and is asked again.
            log.warning("readback_failed", error=(str(error).splitlines() or [type(error).__name__])[0])
        finally:
            with self._lock:
                self._agenda.end(time.monotonic(), verified)
        return verified is not None

    def _read(self, spark: SparkSession) -> dict[Log, int]:
        """Reads all partitions back and writes down what was found. Returns up to where each was read."""
        before = self.reader.ranges(self.topics.keys())
        started_at_us = self.clock.now_us()
        with self._lock:
            starts = {one: self._agenda.start_of(one, range_) for one, range_ in before.items()}
        ends = {one: range_.high_watermark for one, range_ in before.items()}
        found = runs(self.reader.records(spark, starts, ends)).collect() if starts else []
        ended_at_us = self.clock.now_us()
        after = self.reader.ranges(self.topics.keys())
        for one, start in starts.items():
            if one not in after or after[one].topic_id != before[one].topic_id:
                continue  # deleted meanwhile: what was read may be of either topic
            rows = [row for row in found if (row["resource"], row["shard"]) == one]
            log_start = max(before[one].log_start, after[one].log_start)
            self._write(one, (start, ends[one], log_start), rows, (started_at_us, ended_at_us), before[one].topic_id)
        self.written_at_us = started_at_us if starts else self.written_at_us
        log.info("readback", partitions=len(starts), records=sum(row["records"] for row in found))
        return {(one, before[one].topic_id): end for one, end in ends.items()}

    def _write(self, one: Shard, read: tuple[int, int, int], rows: list[Any], span: tuple[int, int], topic_id: str | None) -> None:
        kind, lane = self.topics[one.resource]
        ours = [row for row in rows if row["is_intact"] and (row["kind"], row["lane"]) == (kind, lane)]
        self.spool.write(
            ReadBack,
            resource=one.resource,
            shard=one.shard,
            kind=kind,
            lane=lane,
            from_position=str(read[0]),
            to_position=str(read[1]),
            log_start_position=str(read[2]),
            topic_id=topic_id,
            damaged_records=sum(row["records"] for row in rows) - sum(row["records"] for row in ours),
            runs=tuple(FoundRun(**{name: row[name] for name in FOUND}) for row in ours),
            started_at_us=span[0],
            ended_at_us=span[1],
        )


def _is_undecided(row: Row) -> bool:
    """Nothing was said of its data yet, or not of all of it: some lies where no read-back has come."""
    is_part = row["loss_verdict"] == "LOST" and row["lost_records_min"] != row["lost_records_max"]
    return row["loss_verdict"] in UNDECIDED or is_part


def runs(records: DataFrame) -> DataFrame:
    """Records as runs: one row per stretch in which identity is intact and sequence and position rise by one.

    Columns: resource, shard, is_intact, boot_id, kind, lane, first_sequence, last_sequence, first_position, last_position, records.
    A record that is not one of ours, whose hash does not fit, or that was written to another partition is not intact: what it says
    of itself is not believed, and never makes the read fail.
    """
    parts = f.split("value", r"\|")
    is_intact = f.coalesce(_is_whole(parts) & (f.get(parts, f.lit(4)) == f.col("shard")), f.lit(False))
    named = records.select(
        "resource",
        "shard",
        "position",
        is_intact.alias("is_intact"),
        *(f.when(is_intact, f.get(parts, f.lit(at))).alias(name) for at, name in ((1, "boot_id"), (2, "kind"), (3, "lane"))),
        f.when(is_intact, f.get(parts, f.lit(5)).try_cast("long")).alias("sequence"),
    )
    order = Window.partitionBy("resource", "shard").orderBy("position")
    same = [f.col(name) == f.lag(name).over(order) for name in ("is_intact", "boot_id", "kind", "lane")]
    risen = [f.col(name) == f.lag(name).over(order) + 1 for name in ("sequence", "position")]
    goes_on = f.coalesce(_all([*same, *risen]), f.lit(False))
    numbered = named.withColumn("begins", f.when(goes_on, 0).otherwise(1))
    numbered = numbered.withColumn("run", f.sum("begins").over(order))
    return numbered.groupBy("resource", "shard", "run", "is_intact", "boot_id", "kind", "lane").agg(
        f.min("sequence").alias("first_sequence"),
        f.max("sequence").alias("last_sequence"),
        f.min("position").alias("first_position"),
        f.max("position").alias("last_position"),
        f.count("*").alias("records"),
    )


def _is_whole(parts: Column) -> Column:
    """Whether a value has the form of an identity and its hash fits (see `collect.canary.identity`); NULL for no value."""
    head = f.expr("substring_index(value, '|', 6)").cast("binary")
    crc = f.lower(f.hex(f.crc32(head)))
    sequence = f.get(parts, f.lit(5))
    return _all(
        [
            f.size(parts) == 7,
            f.get(parts, f.lit(0)) == MAGIC,
            f.get(parts, f.lit(6)) == crc,
            sequence.try_cast("long").isNotNull(),
        ]
    )


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(lambda left, right: left & right, conditions)
