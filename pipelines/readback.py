"""What is really in the canary topics? The bounded read by Spark's Kafka source that decides what was lost.

The rule: when an outage of a written lane is over, or a leader changed, and at least hourly, every canary partition is read from the
first record that the unsettled region acknowledged (or from where an old epoch ended) to the high watermark. The log's start is read
before and after. Every intact identity found becomes part of a run; the runs of a partition are one `ReadBack` observation, which goes
through the landing like any other. The verdict is the domain's (`data_loss`), not ours.

A read-back runs beside the stream in a thread of its own: a cluster that does not answer delays no batch and is asked again.
"""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines.collect.spool import Spool
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import FoundRun, Lane, ReadBack
from pipelines.errors import LastackError

log = structlog.get_logger()

MAGIC = "lastack1"
AGAIN_SECONDS = 5.0
FOUND = tuple(one.name for one in dataclasses.fields(FoundRun))
WRITTEN_LANES = frozenset({Lane.RAW, Lane.CLIENT})


class LogRange(Protocol):
    """First position in a partition's log, and the high watermark."""

    @property
    def log_start(self) -> int:
        """The first position."""

    @property
    def high_watermark(self) -> int:
        """The position after the last committed record."""


Partition = tuple[str, int]
LogRanges = Callable[[Iterable[str]], Mapping[Partition, LogRange]]
"""Asks a cluster for the range of every partition of some topics; raises LastackError when it does not answer."""


@dataclass(slots=True)
class _Wanted:
    positions: dict[Partition, int] = field(default_factory=dict)
    is_due: bool = False


class ReadBacks:
    """Reads canary topics back when it is due, one read at a time.

    `topics` says which kind and lane writes to each topic; `kafka` are the Java client's settings; positions are offsets.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, tuple[str, str]],
        kafka: dict[str, str],
        ranges: LogRanges,
        spool: Spool,
        clock: Anchor,
        every_seconds: float = 3600.0,
    ) -> None:
        self.topics = topics
        self.kafka = kafka
        self.ranges = ranges
        self.spool = spool
        self.clock = clock
        self.every_seconds = every_seconds
        self._lock = threading.Lock()
        self._wanted = _Wanted()
        self._reading: threading.Thread | None = None
        self._ended_at = time.monotonic()
        self._verified: dict[Partition, int] = {}

    @property
    def is_busy(self) -> bool:
        """A read-back is under way, or wanted."""
        return self._wanted.is_due or (self._reading is not None and self._reading.is_alive())

    def wanted(self, outages: list[dict[str, Any]], positions: list[dict[str, Any]]) -> None:
        """Takes note of what a derivation left undecided: gold's outages, and where the region's acknowledged records begin."""
        is_undecided = any(
            row["lane"] in WRITTEN_LANES and not row["is_open"] and row["loss_verdict"] == "UNCHECKED" for row in outages
        )
        with self._lock:
            self._wanted.is_due = self._wanted.is_due or is_undecided
            for row in positions:
                if row["resource"] in self.topics:
                    key = (row["resource"], int(row["shard"]))
                    self._wanted.positions[key] = min(row["position"], self._wanted.positions.get(key, row["position"]))

    def start_if_due(self, spark: SparkSession) -> None:
        """Starts a read-back in its own thread when one is wanted or an hour has passed, and none is under way."""
        self.spool.flush_if_due()
        if self._reading is not None and self._reading.is_alive():
            return
        since = time.monotonic() - self._ended_at
        if (self._wanted.is_due and since >= AGAIN_SECONDS) or since >= self.every_seconds:
            self._reading = threading.Thread(target=self._try, args=(spark,), name="readback", daemon=True)
            self._reading.start()

    def finish(self, spark: SparkSession) -> bool:
        """A last read-back, when one is still wanted, and the end of the spool; returns whether anything was read."""
        if self._reading is not None:
            self._reading.join(timeout=60)
        is_read = self._wanted.is_due and self._try(spark)
        self.spool.close()
        return is_read

    def _try(self, spark: SparkSession) -> bool:
        with self._lock:
            wanted, self._wanted = self._wanted, _Wanted()
        try:
            self._read(spark, wanted.positions)
        except (LastackError, PySparkException, Py4JError) as error:
            # The cluster may be down, or a partition without a leader: the question stays open and is asked again.
            log.warning("readback_failed", error=str(error).splitlines()[0], again_in_seconds=AGAIN_SECONDS)
            with self._lock:
                self._wanted.is_due = True
                self._wanted.positions = wanted.positions | self._wanted.positions
            return False
        finally:
            self._ended_at = time.monotonic()
        return True

    def _read(self, spark: SparkSession, positions: dict[Partition, int]) -> None:
        started_at_us = self.clock.now_us()
        before = self.ranges(self.topics)
        starts = {
            one: max(log.log_start, min(log.high_watermark, positions.get(one, self._verified.get(one, log.log_start))))
            for one, log in before.items()
        }
        ends = {one: log.high_watermark for one, log in before.items()}
        found = runs(_records(spark, self.kafka, starts, ends)).collect() if starts else []
        ended_at_us = self.clock.now_us()
        after = self.ranges(self.topics)
        for one, start in starts.items():
            rows = [row for row in found if (row["topic"], row["partition"]) == one]
            log_start = max(before[one].log_start, after[one].log_start if one in after else 0)
            self._write(one, (start, ends[one], log_start), rows, (started_at_us, ended_at_us))
        self._verified = ends
        log.info("readback", partitions=len(starts), records=sum(row["records"] for row in found))

    def _write(self, one: Partition, read: tuple[int, int, int], rows: list[Any], span: tuple[int, int]) -> None:
        kind, lane = self.topics[one[0]]
        self.spool.write(
            ReadBack,
            resource=one[0],
            shard=str(one[1]),
            kind=kind,
            lane=lane,
            from_position=str(read[0]),
            to_position=str(read[1]),
            log_start_position=str(read[2]),
            damaged_records=sum(row["records"] for row in rows if not row["is_intact"]),
            runs=tuple(FoundRun(**{name: row[name] for name in FOUND}) for row in rows if row["is_intact"]),
            started_at_us=span[0],
            ended_at_us=span[1],
        )


def _records(spark: SparkSession, kafka: dict[str, str], starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> DataFrame:
    """Every record between two positions of each partition: topic, partition, offset, value (text)."""
    return (
        spark.read.format("kafka")
        .options(**kafka)
        .option("assign", _by_topic({one: one[1] for one in starts}, as_list=True))
        .option("startingOffsets", _by_topic(starts))
        .option("endingOffsets", _by_topic(ends))
        .option("failOnDataLoss", "true")
        .option("fetchOffset.numRetries", "1")
        .option("kafkaConsumer.pollTimeoutMs", "10000")
        .load()
        .select("topic", "partition", "offset", f.col("value").cast("string").alias("value"))
    )


def _by_topic(values: Mapping[Partition, int], *, as_list: bool = False) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return json.dumps({topic: sorted(of_topic.values()) for topic, of_topic in topics.items()} if as_list else topics)


def runs(records: DataFrame) -> DataFrame:
    """Records as runs: one row per stretch in which identity is intact and sequence and position rise by one.

    Columns: topic, partition, is_intact, boot_id, kind, lane, first_sequence, last_sequence, first_position, last_position, records.
    """
    parts = f.split("value", r"\|")
    whole = f.expr("substring_index(value, '|', 6)")
    named = records.select(
        "topic",
        "partition",
        "offset",
        f.coalesce((f.size(parts) == 7) & (parts[0] == MAGIC) & (parts[6] == f.lower(f.hex(f.crc32(whole)))), f.lit(False)).alias(
            "is_intact"
        ),
        parts[1].alias("boot_id"),
        parts[2].alias("kind"),
        parts[3].alias("lane"),
        parts[5].cast("long").alias("sequence"),
    )
    order = Window.partitionBy("topic", "partition").orderBy("offset")
    goes_on = (
        (f.col("is_intact") == f.lag("is_intact").over(order))
        & f.col("is_intact")
        & (f.col("boot_id") == f.lag("boot_id").over(order))
        & (f.col("sequence") == f.lag("sequence").over(order) + 1)
        & (f.col("offset") == f.lag("offset").over(order) + 1)
    )
    numbered = named.withColumn("begins", f.when(f.coalesce(goes_on, f.lit(False)), 0).otherwise(1))
    numbered = numbered.withColumn("run", f.sum("begins").over(order))
    return numbered.groupBy("topic", "partition", "run", "is_intact", "boot_id", "kind", "lane").agg(
        f.min("sequence").alias("first_sequence"),
        f.max("sequence").alias("last_sequence"),
        f.min("offset").alias("first_position"),
        f.max("offset").alias("last_position"),
        f.count("*").alias("records"),
    )
