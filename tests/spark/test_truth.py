"""Simulated outages through the whole pipeline: gold holds their truth, in whatever order lines come in (`make truth-spark`)."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.brokers.simulated import Fault, Scenario
from pipelines.domain.landing import encode
from pipelines.lakehouse import Lakehouse
from pipelines.truth import Sent, judged, through
from tests.spark.conftest import fresh_lakehouse
from tests.spark.histories import land
from tests.spark.streams import contents, run_stream

pytestmark = pytest.mark.spark

SECOND = 1_000_000
SLOW = {"end_us": 75 * SECOND, "period_us": 200_000, "user_partitions": 2}


@pytest.fixture(scope="module")
def sent() -> list[Sent]:
    """Three clusters: a kill seen by two probers, an unclean election after all of the ISR was gone, and a topic made anew."""
    killed = Scenario(faults=(Fault("kill", "2", 10 * SECOND, 25 * SECOND),), probers=2, is_cut_at_positions=False, **SLOW)  # type: ignore[arg-type]
    hung = [Fault("hang", broker, 5 * SECOND, 32 * SECOND) for broker in ("1", "3")]
    gone = (*hung, Fault("kill", "2", 20 * SECOND, 25 * SECOND))
    unclean = Scenario(faults=gone, is_unclean_allowed=True, min_isr=1, **SLOW)  # type: ignore[arg-type]
    anew = Scenario(faults=(Fault("recreate", "canary-durable", 20 * SECOND, 10 * SECOND),), **SLOW)  # type: ignore[arg-type]
    return [Sent.of(seed, scenario=scenario) for seed, scenario in enumerate((killed, unclean, anew), start=1)]


@pytest.fixture(scope="module")
def late(spark: SparkSession, empty_tables: Path, tmp_path_factory: pytest.TempPathFactory, sent: list[Sent]) -> Lakehouse:
    """The tables of lines that came late, twice and in any order, in two batches."""
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("late") / "home")
    through(lakehouse, sent, files=6, batches=2, rng=random.Random(1))
    return lakehouse


def test_gold_holds_the_truth_although_lines_come_late_and_twice(late: Lakehouse, sent: list[Sent]) -> None:
    found = judged(late, sent)

    assert found.violations == []
    assert found.gold_outages > 40
    assert found.long.lost_records > 50
    assert found.long.deleted_records > 50
    assert found.long.views["confirmed"] > 5


def test_the_order_in_which_lines_come_changes_no_row_of_gold(late: Lakehouse, lakehouse: Lakehouse, sent: list[Sent]) -> None:
    lines = sorted((line for one in sent for line in one.lines), key=lambda line: line.ended_at_us)
    land([encode(line) for line in lines], lakehouse.home.landing, "all")
    run_stream(lakehouse)

    assert contents(late) == contents(lakehouse)


def test_the_judge_finds_a_wrong_truth_and_a_row_that_does_not_follow(late: Lakehouse, sent: list[Sent]) -> None:
    wrong = Sent.of(1, scenario=sent[0].history.scenario)
    lanes = wrong.history.truth.lanes
    stream = next(stream for stream, downs in lanes.items() if downs)
    lanes[stream] = [replace(down, begin_us=down.begin_us + 10 * SECOND) for down in lanes[stream]]
    wrong.derivation.outages.pop()
    found = judged(late, [wrong])

    assert {text.partition(":")[0] for text in found.long.violations} == {"seed 1"}
    assert any(text.startswith("seed 1: silver.outage_windows") and text.endswith("is surplus") for text in found.differences)
