"""How are records read back from Kafka? From where to where by ListOffsets, the records by Spark's Kafka source.

Example: `KafkaLogReader(connection).records(spark, {Shard("t", "0"): 700}, {Shard("t", "0"): 1000})` reads offsets 700 to 999.
"""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.log_ranges import log_ranges
from pipelines.brokers.readback import LogRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("topic AS resource", "CAST(`partition` AS STRING) AS shard", "`offset` AS `position`", "CAST(value AS STRING) AS value")


class KafkaLogReader:
    """The logs of one cluster's partitions. Positions are offsets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._java = connection.java("kafka.")

    def ranges(self, resources: Collection[str]) -> Mapping[Shard, LogRange]:
        """Log start and high watermark of every partition of some topics, asked of the leaders. Raises RetryableError."""
        return log_ranges(self._connection, resources)

    def records(self, spark: "SparkSession", starts: Mapping[Shard, int], ends: Mapping[Shard, int]) -> "DataFrame":
        """Every record between two offsets of each partition."""
        partitions = {topic: sorted(int(one) for one in of_topic) for topic, of_topic in _by_topic(starts).items()}
        return (
            spark.read.format("kafka")
            .options(**self._java)
            .option("assign", json.dumps(partitions))
            .option("startingOffsets", json.dumps(_by_topic(starts)))
            .option("endingOffsets", json.dumps(_by_topic(ends)))
            .option("failOnDataLoss", "true")
            .option("fetchOffset.numRetries", "1")
            .option("kafkaConsumer.pollTimeoutMs", "10000")
            .load()
            .selectExpr(*COLUMNS)
        )


def _by_topic(values: Mapping[Shard, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[partition] = value
    return topics
