"""How far followers are behind, in records and in time, and what would be lost if the leader died now: minute by minute.

One stream takes in a topic for each case. Its leader is broker 1, which appends 10 records a second from position 1000 on and is looked
at every 20 s; BEGIN is the instant of second 0.
"""

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from pipelines import gold
from pipelines.domain.observations import PartitionMetrics
from pipelines.lakehouse import Lakehouse
from tests.spark.conftest import fresh_lakehouse
from tests.spark.histories import BEGIN, History, land
from tests.spark.streams import run_stream

pytestmark = pytest.mark.spark

SECOND = 1_000_000
MINUTE = 60 * SECOND
GOES_ON = [(30, 5, 5, 30), (60 + 30, 0, 5, 90), (120 + 30, 40, 70, 150), (180 + 30, 0, 70, 210)]
"""Looks at a follower in one run of four minutes: second, lag, highest lag so far, polls so far."""


def look(history: History, topic: str, broker: str, begin: int, end: int, **fields: Any) -> None:
    history.add(
        PartitionMetrics, "metrics", broker=broker, resource=topic, shard="0",
        started_at_us=BEGIN + begin * SECOND, ended_at_us=BEGIN + end * SECOND, **fields,
    )  # fmt: skip


def leader(history: History, topic: str, *, until: int = 240) -> None:
    for second in range(0, until, 20):
        look(history, topic, "1", second, second + 19, in_sync_replicas=3, count=20, log_end_position=str(1000 + (second + 19) * 10))


def follower(history: History, topic: str, second: int, lag: int, broker: str = "2", position: int | None = None) -> None:
    end = 1000 + second * 10 - lag if position is None else position
    look(history, topic, broker, second - 1, second, lag_records_last=lag, lag_records_max=lag, log_end_position=str(end))


def watch(history: History, topic: str, *isr: str) -> None:
    place = {"resource": topic, "shard": "0", "kind": "leader", "lane": "watch"}
    history.probes(place, "ACKED", 0, 240, BEGIN, leader="1", isr=isr, replicas=("1", "2", "3"), period_us=SECOND)


def history_of_all() -> History:
    history = History()
    for topic in ("behind", "before", "beyond", "in-sync", "out-of-sync", "alone"):
        leader(history, topic)
    follower(history, "behind", 50, 0)
    follower(history, "behind", 110, 300)
    follower(history, "behind", 170, 55, broker="3")
    follower(history, "before", 121, 210, position=10)
    follower(history, "beyond", 121, 210, position=99_999)
    leader(history, "changed", until=100)
    look(history, "changed", "3", 119, 120, in_sync_replicas=2, log_end_position="2500")
    follower(history, "changed", 121, 210)
    follower(history, "unseen", 121, 210)
    for second, last, most, polls in GOES_ON:
        look(history, "goes-on", "2", 0, second, lag_records_last=last, lag_records_max=most, count=polls, is_open=True)
    for topic, isr in (("in-sync", ("1", "2", "3")), ("out-of-sync", ("1", "3")), ("alone", ("1",))):
        follower(history, topic, 110, 300)
        follower(history, topic, 110, 55, broker="3")
        watch(history, topic, *isr)
    return history


@pytest.fixture(scope="module")
def measured(spark: SparkSession, empty_tables: Any, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("exposure") / "home")
    land(history_of_all().lines(), lakehouse.home.landing, "metrics")
    run_stream(lakehouse)
    return lakehouse


def rows(lakehouse: Lakehouse, table: str, topic: str) -> list[Row]:
    return list(lakehouse.read(table).where(f"resource = '{topic}'").orderBy("minute_at").collect())


def test_a_lag_in_time_is_since_when_the_leader_had_reached_where_the_follower_is(measured: Lakehouse) -> None:
    found = {(row["replica"], row["lag_records_max"]): row["lag_ms_max"] for row in rows(measured, gold.LAG, "behind")}

    assert found == {("2", 0): 0.0, ("2", 300): pytest.approx(30_000, abs=1), ("3", 55): pytest.approx(5_500, abs=1)}


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("before", "before_leader_samples"),
        ("beyond", "beyond_leader_samples"),
        ("changed", "leader_changed"),
        ("unseen", "no_leader_samples"),
    ],
)
def test_where_it_cannot_be_said_it_says_why(measured: Lakehouse, topic: str, reason: str) -> None:
    (row,) = rows(measured, gold.LAG, topic)

    assert (row["lag_records_max"], row["lag_ms_max"], row["lag_ms_reason"]) == (210, None, reason)


def test_lag_is_told_minute_by_minute_although_a_run_goes_on_for_longer(measured: Lakehouse) -> None:
    found = rows(measured, gold.LAG, "goes-on")

    begins_at = BEGIN % MINUTE // SECOND
    assert [round(row["minute_at"].timestamp()) // 60 - BEGIN // MINUTE for row in found] == [
        (begins_at + one[0]) // 60 for one in GOES_ON
    ]
    assert [row["lag_records_max"] for row in found] == [5, 0, 70, 0]
    assert [row["samples"] for row in found] == [30, 60, 60, 60]


def test_the_best_and_the_worst_in_sync_follower_bound_what_would_be_lost(measured: Lakehouse) -> None:
    (row,) = rows(measured, gold.EXPOSURE, "in-sync")

    assert (row["leader"], row["has_successor"]) == ("1", True)
    assert (row["exposed_records_min"], row["exposed_records_max"]) == (55, 300)
    assert row["exposed_ms_max"] == pytest.approx(30_000, abs=1)
    assert (row["unseen_records_max"], row["lag_records_max"], row["exposed_reason"]) == (300, 300, None)


def test_a_follower_that_is_not_in_sync_is_behind_and_exposes_nothing(measured: Lakehouse) -> None:
    (row,) = rows(measured, gold.EXPOSURE, "out-of-sync")

    assert (row["exposed_records_max"], row["unseen_records_max"], row["lag_records_max"]) == (55, 55, 300)


def test_with_no_other_in_sync_replica_nothing_can_be_said_but_that(measured: Lakehouse) -> None:
    (row,) = rows(measured, gold.EXPOSURE, "alone")

    assert (row["has_successor"], row["exposed_records_max"], row["exposed_reason"]) == (False, None, "no_other_in_sync_replica")
