"""What is summed up over time, when its lines come all at once, long after the fact, or after the stream has stood still.

Probes of one partition on three days, one hour each, served but for ten minutes of the second; looks at a leader and its follower every
minute of three hours.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines import gold
from pipelines.domain.clock import instant
from pipelines.domain.observations import ClockSeen, PartitionMetrics
from pipelines.lakehouse import Lakehouse
from pipelines.rebuild import rebuild
from tests.spark.conftest import fresh_lakehouse
from tests.spark.histories import BEGIN, History, land
from tests.spark.streams import run_stream

pytestmark = pytest.mark.spark

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
MINUTES = 180
PLACE = {"resource": "w", "shard": "0", "kind": "write", "lane": "raw"}
TABLES = (gold.AVAILABILITY, gold.LAG, gold.EXPOSURE, gold.CLOCKS)


def history() -> History:
    told = History()
    for day in range(3):
        begin, first = BEGIN + day * DAY, day * 10_000
        runs = [("ACKED", 3600)] if day != 1 else [("ACKED", 1200), ("REJECTED", 600), ("ACKED", 1800)]
        for outcome, count in runs:
            told.probes(PLACE, outcome, first, count, begin, leader="1", period_us=SECOND)
            begin, first = begin + count * SECOND, first + count
    for minute in range(MINUTES):
        at = {"started_at_us": BEGIN + minute * MINUTE, "ended_at_us": BEGIN + minute * MINUTE + 30 * SECOND, "count": 30}
        place = {"resource": "w", "shard": "0"}
        told.add(PartitionMetrics, "metrics", broker="1", in_sync_replicas=2, log_end_position=str(100 * minute), **place, **at)
        behind = {"lag_records_last": 7, "lag_records_max": 7, "log_end_position": str(max(0, 100 * minute - 7))}
        told.add(PartitionMetrics, "metrics", broker="2", **behind, **place, **at)
        told.add(ClockSeen, "metrics", host="1", method="poll", clock_offset_us_min=0, clock_offset_us_max=SECOND, **at)
    return told


@pytest.fixture(scope="module")
def at_once(spark: SparkSession, empty_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("once") / "home")
    land(history().lines(), lakehouse.home.landing, "all")
    run_stream(lakehouse)
    return lakehouse


def sums(lakehouse: Lakehouse) -> dict[str, list[str]]:
    return {table: sorted(str(row) for row in lakehouse.read(table).collect()) for table in TABLES}


def test_every_day_and_every_minute_of_what_comes_all_at_once_is_summed_up(at_once: Lakehouse) -> None:
    days = {row["day"]: row["down_ms_max"] for row in at_once.read(gold.AVAILABILITY).collect()}
    first = instant(BEGIN).date()
    assert sorted(days) == [first + timedelta(days=number) for number in range(3)]
    assert [down > 0 for _, down in sorted(days.items())] == [False, True, False]
    for table in (gold.LAG, gold.EXPOSURE, gold.CLOCKS):
        assert at_once.read(table).count() == MINUTES, table


def test_availability_of_every_day_follows_from_bronze_again(at_once: Lakehouse, spark: SparkSession) -> None:
    found = {one.table: one for one in rebuild(spark, at_once, is_check=True, say=lambda _line: None)}

    assert found[gold.AVAILABILITY].differences == []


def test_a_stream_that_stood_still_sums_up_what_came_in_meanwhile(at_once: Lakehouse, lakehouse: Lakehouse) -> None:
    """Lines of the second day come last, when the third one has been summed up; hours of looks come after a restart."""
    told = history()
    lines = told.lines()
    of_second_day = [line for line, one in zip(lines, told.observations, strict=True) if 0 <= one.started_at_us - BEGIN - DAY < HOUR]
    late = [line for line, one in zip(lines, told.observations, strict=True) if 20 * MINUTE < one.ended_at_us - BEGIN < DAY]
    soon = [line for line in lines if line not in of_second_day and line not in late]
    for name, part in (("soon", soon), ("late", late), ("last", of_second_day)):
        land(part, lakehouse.home.landing, name)
        run_stream(lakehouse)

    assert sums(lakehouse) == sums(at_once)
