"""Compaction of bronze: what is superseded goes, what is derived stays."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines import bronze
from pipelines.compaction import DAY_US, HOUR_US, LATE_US, Compaction, closed_hour, compact
from pipelines.derive import region
from pipelines.domain.landing import encode
from pipelines.domain.observations import PartitionMetrics, Probes, Status
from pipelines.lakehouse import Lakehouse
from pipelines.settings import Home
from tests.spark.conftest import fresh_lakehouse
from tests.spark.histories import BEGIN, CLUSTER, END, PERIOD, History, kill_of_broker_2, land
from tests.spark.test_stream import contents, run_stream

pytestmark = pytest.mark.spark

UNTIL = closed_hour(END + 2 * HOUR_US)
FROM = BEGIN - BEGIN % DAY_US


def shortened(run: Probes, count: int) -> Probes:
    """An earlier form of a run of acknowledged probes."""
    cut = (run.count - count) * run.period_us
    return dataclasses.replace(
        run,
        count=count,
        last_sequence=run.first_sequence + count - 1,
        last_issued_at_us=run.last_issued_at_us - cut,
        last_decided_at_us=run.last_decided_at_us - cut,
        ended_at_us=run.ended_at_us - cut,
        last_position=None,
        is_open=True,
        seq=run.seq + 100_000 + count,
    )


def with_progress(history: History) -> list[str]:
    """The history's lines, and every run in the shorter forms that came before it."""
    lines = history.lines()
    for one in history.observations:
        if isinstance(one, Probes):
            lines += [encode(shortened(one, count)) for count in range(1, one.count, max(1, one.count // 5))]
    return lines


def metrics(history: History) -> None:
    """Two replicas' minutes, one of them written three times."""
    for at in range(BEGIN, END - 60_000_000 + 1, 60_000_000):
        for broker in ("1", "2"):
            for polls in (20, 40, 60):
                history.add(
                    PartitionMetrics, "metrics", broker=broker, resource="orders", shard="0", is_under_replicated=broker == "1" or None,
                    in_sync_replicas=3 if broker == "1" else None, lag_records_last=0, lag_records_max=polls, count=polls,
                    log_end_position=str(polls), started_at_us=at, ended_at_us=at + polls * 990_000, is_open=polls < 60,
                )  # fmt: skip


def derived(lakehouse: Lakehouse) -> dict[str, list[dict[str, Any]]]:
    return region(lakehouse.read(bronze.OBSERVATIONS), BEGIN, [CLUSTER], {}).rows


def files(lakehouse: Lakehouse) -> int:
    return lakehouse.read(bronze.OBSERVATIONS).select("_metadata.file_path").distinct().count()


@pytest.fixture(scope="module")
def derived_once(spark: SparkSession, empty_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a history whose runs were written again and again, in three files."""
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("progressed") / "home")
    history = kill_of_broker_2()
    metrics(history)
    lines = with_progress(history)
    for number in range(3):
        land(lines[number::3], lakehouse.home.landing, f"part-{number}")
    run_stream(lakehouse, files_per_batch=1)
    return lakehouse.home.path


@pytest.fixture
def progressed(spark: SparkSession, derived_once: Path, tmp_path: Path) -> Lakehouse:
    """A copy of them, with a query that has not begun: a checkpoint knows the landing by its path."""
    home = Home(tmp_path / "home")
    shutil.copytree(derived_once, home.path, ignore=shutil.ignore_patterns(home.stream.name, home.landing.name))
    home.create()
    return Lakehouse(spark, home)


def test_compaction_changes_no_derived_row_and_keeps_one_form_of_each_run(progressed: Lakehouse) -> None:
    lakehouse = progressed
    before, tables = derived(lakehouse), contents(lakehouse)
    done = compact(lakehouse, FROM, UNTIL)
    assert done.rows_after < done.rows_before
    assert derived(lakehouse) == before
    run_stream(lakehouse)
    assert contents(lakehouse) == tables
    rows = lakehouse.read(bronze.OBSERVATIONS).where("record = 'probes'").collect()
    keys = [(row["prober_id"], row["resource"], row["shard"], row["lane"], row["kind"], row["first_sequence"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert not any(row["is_open"] for row in rows)
    replicas = lakehouse.read(bronze.OBSERVATIONS).where("record = 'partition_metrics'").collect()
    assert {(row["count"], row["is_open"]) for row in replicas} == {(60, False)}


def test_doing_it_twice_changes_nothing_and_a_day_is_one_file(progressed: Lakehouse) -> None:
    lakehouse = progressed
    assert files(lakehouse) == 3
    once = compact(lakehouse, FROM, UNTIL)
    version = lakehouse.spark.sql(f"DESCRIBE HISTORY delta.`{lakehouse.path(bronze.OBSERVATIONS)}`").count()
    twice = compact(lakehouse, FROM, UNTIL)
    assert (twice.rows_before, twice.rows_after) == (once.rows_after, once.rows_after)
    assert lakehouse.spark.sql(f"DESCRIBE HISTORY delta.`{lakehouse.path(bronze.OBSERVATIONS)}`").count() == version
    assert files(lakehouse) == 1


def test_the_hour_that_is_not_over_is_left_alone(progressed: Lakehouse) -> None:
    lakehouse = progressed
    rows = lakehouse.read(bronze.OBSERVATIONS).count()
    compaction = Compaction(lakehouse)
    inside = BEGIN - BEGIN % HOUR_US + LATE_US
    assert compaction.is_due(inside)
    compaction.run(inside)
    assert lakehouse.read(bronze.OBSERVATIONS).count() == rows
    assert not compaction.is_due(inside)
    assert compaction.is_due(inside + HOUR_US)


def test_status_lines_are_thinned_to_one_a_minute_when_they_are_a_day_old(lakehouse: Lakehouse) -> None:
    history = History()
    begin = BEGIN - BEGIN % HOUR_US
    for second in range(0, 120, 2):
        history.add(Status, "canary", state="running", started_at_us=begin, ended_at_us=begin + second * 1_000_000)
    history.probes({"resource": "t", "shard": "0", "kind": "write", "lane": "raw"}, "ACKED", 0, 10, begin, period_us=PERIOD)
    land(history.lines(), lakehouse.home.landing, "all")
    run_stream(lakehouse)
    compact(lakehouse, FROM, UNTIL)
    assert lakehouse.read(bronze.OBSERVATIONS).where("record = 'status'").count() == 60
    compact(lakehouse, FROM, FROM + 2 * DAY_US + HOUR_US)
    rows = lakehouse.read(bronze.OBSERVATIONS).where("record = 'status'").collect()
    assert sorted(row["ended_at_us"] for row in rows) == [begin + 58_000_000, begin + 118_000_000]
