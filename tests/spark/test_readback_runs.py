"""What a read-back finds in a canary topic becomes runs that lose nothing and believe nothing that is not proven."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.collect.canary.identity import Stamp
from pipelines.readback import FOUND, runs

pytestmark = pytest.mark.spark

TOPIC = "lastack-canary-write"


def value(sequence: int, boot: str = "b1", partition: int = 0, kind: str = "write", lane: str = "raw") -> str:
    return Stamp(boot, kind, lane, str(partition)).value(sequence).decode()


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """The runs of many logs, each a topic of its own in one read: a query costs more than its rows."""
    logs: dict[str, list[tuple[int, int, str | None]]] = {
        "contiguous": [(0, offset, value(offset + 40)) for offset in range(10, 15)],
        "hole in the offsets": [(0, offset, value(sequence)) for sequence, offset in enumerate((0, 1, 4, 5))],
        "hole in the sequences": [(0, offset, value(sequence)) for offset, sequence in enumerate((0, 1, 5, 6))],
        "two boots": [(0, 0, value(7)), (0, 1, value(8)), (0, 2, value(9, "b2")), (0, 3, value(0, "b2"))],
        "the same record twice": [(0, 0, value(7)), (0, 1, value(7)), (0, 2, value(8))],
        "two partitions": [(1, 0, value(0, partition=1)), (2, 0, value(0, partition=2)), (1, 1, value(1, partition=1))],
        "another partition's": [(0, 0, value(0)), (0, 1, value(1, partition=3)), (0, 2, value(2))],
        "another lane's": [(0, 0, value(0)), (0, 1, value(1, kind="durable_write")), (0, 2, value(2))],
        "damaged": [(0, 0, value(0)), (0, 1, value(1)[:-1] + "z"), (0, 2, value(2).replace("|2|", "|3|"))],
        "foreign": [
            (0, offset, text)
            for offset, text in enumerate(
                (None, "", "hello", "a|b|c|d|e|f|g", "lastack1|b1|write|raw|0|one|0", "|" * 6, value(1) + "|x", "\N{SNOWMAN}|" * 9)
            )
        ],
        "a sequence beyond 64 bits": [(0, 0, value(2**70))],
        "leading zeros of the hash": [(0, offset, value(sequence)) for offset, sequence in enumerate(short_hashes())],
    }
    rows = [(topic, str(partition), offset, text) for topic, log in logs.items() for partition, offset, text in log]
    frame = spark.createDataFrame(rows, "resource STRING, shard STRING, position LONG, value STRING")
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(runs(frame).collect(), key=lambda one: (one["shard"], one["first_position"])):
        by_topic.setdefault(row["resource"], []).append(row.asDict())
    return by_topic


def short_hashes() -> list[int]:
    """Sequences whose CRC has fewer than eight digits: they are written without leading zeros."""
    return [sequence for sequence in range(2000) if len(value(sequence).rpartition("|")[2]) < 8][:5]


def shown(rows: list[dict[str, Any]], *more: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*more, *FOUND, "is_intact")) for row in rows]


def test_a_contiguous_log_is_one_run(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["contiguous"], "kind", "lane", "records") == [("write", "raw", 5, "b1", 50, 54, 10, 14, True)]


def test_a_hole_in_positions_or_in_sequences_ends_a_run(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["hole in the offsets"]) == [("b1", 0, 1, 0, 1, True), ("b1", 2, 3, 4, 5, True)]
    assert shown(found["hole in the sequences"]) == [("b1", 0, 1, 0, 1, True), ("b1", 5, 6, 2, 3, True)]


def test_two_boots_are_two_runs_although_their_sequences_meet(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["two boots"]) == [("b1", 7, 8, 0, 1, True), ("b2", 9, 9, 2, 2, True), ("b2", 0, 0, 3, 3, True)]


def test_a_record_that_is_there_twice_is_found_twice(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["the same record twice"]) == [("b1", 7, 7, 0, 0, True), ("b1", 7, 8, 1, 2, True)]


def test_partitions_do_not_mix(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["two partitions"], "shard") == [("1", "b1", 0, 1, 0, 1, True), ("2", "b1", 0, 0, 0, 0, True)]


def test_a_record_of_another_partition_proves_nothing_here(found: dict[str, list[dict[str, Any]]]) -> None:
    assert shown(found["another partition's"]) == [
        ("b1", 0, 0, 0, 0, True),
        (None, None, None, 1, 1, False),
        ("b1", 2, 2, 2, 2, True),
    ]


def test_a_record_of_another_lane_is_a_run_of_its_own(found: dict[str, list[dict[str, Any]]]) -> None:
    assert [row["kind"] for row in found["another lane's"]] == ["write", "durable_write", "write"]


def test_a_damaged_record_is_counted_and_not_believed(found: dict[str, list[dict[str, Any]]]) -> None:
    intact, *damaged = found["damaged"]
    assert shown([intact]) == [("b1", 0, 0, 0, 0, True)]
    assert [(row["records"], row["boot_id"], row["first_sequence"]) for row in damaged] == [(1, None, None)] * 2


def test_foreign_records_are_counted_and_stop_nothing(found: dict[str, list[dict[str, Any]]]) -> None:
    assert {row["is_intact"] for row in found["foreign"]} == {False}
    assert sum(row["records"] for row in found["foreign"]) == 8
    assert [row["is_intact"] for row in found["a sequence beyond 64 bits"]] == [False]


def test_a_hash_with_leading_zeros_is_intact(found: dict[str, list[dict[str, Any]]]) -> None:
    assert [row["is_intact"] for row in found["leading zeros of the hash"]] == [True] * 5
