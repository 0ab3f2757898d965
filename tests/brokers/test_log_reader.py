"""What Spark's Kafka source is asked for when records are read back: partitions are text outside, numbers in what Kafka is told."""

import json
from typing import Any

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.log_reader import KafkaLogReader


class Asked:
    """A reader of Spark that remembers how it was asked."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.columns: tuple[str, ...] = ()
        self.read = self

    def format(self, name: str) -> "Asked":
        assert name == "kafka"
        return self

    def options(self, **given: str) -> "Asked":
        self.given |= given
        return self

    def option(self, name: str, value: str) -> "Asked":
        self.given[name] = value
        return self

    def load(self) -> "Asked":
        return self

    def selectExpr(self, *columns: str) -> "Asked":  # noqa: N802 - as Spark names it
        self.columns = columns
        return self


def ask(starts: dict[Shard, int], ends: dict[Shard, int]) -> Asked:
    spark: Any = Asked()
    KafkaLogReader(Connection.plain("127.0.0.1:9092")).records(spark, starts, ends)
    return spark


def test_every_partition_is_read_from_its_start_to_its_end() -> None:
    shards = [Shard("t", "10"), Shard("t", "9"), Shard("u", "0")]
    asked = ask(dict(zip(shards, (5, 6, 7), strict=True)), dict(zip(shards, (50, 60, 70), strict=True)))

    assert json.loads(asked.given["assign"]) == {"t": [9, 10], "u": [0]}
    assert json.loads(asked.given["startingOffsets"]) == {"t": {"10": 5, "9": 6}, "u": {"0": 7}}
    assert json.loads(asked.given["endingOffsets"]) == {"t": {"10": 50, "9": 60}, "u": {"0": 70}}
    assert asked.given["kafka.bootstrap.servers"] == "127.0.0.1:9092"


def test_what_is_gone_before_it_is_read_fails_the_read_and_is_never_left_out() -> None:
    assert ask({Shard("t", "0"): 0}, {Shard("t", "0"): 1}).given["failOnDataLoss"] == "true"


def test_the_columns_are_those_of_the_protocol() -> None:
    named = [column.rpartition(" AS ")[2].strip("`") for column in ask({}, {}).columns]
    assert named == ["resource", "shard", "position", "value"]
