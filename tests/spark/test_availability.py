"""What was served, not served and not measured, where several probers ask for the same partitions: three values, never two.

Every timeline has 110 probes, 100 ms apart, so that each prober observes for 11 s. SEEN is not served from 4000 to 6900 ms: the last
good probe before it was issued at 3900, and the first one after it, issued at 7000, was answered at 7002.
"""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines import gold
from pipelines.domain.landing import encode
from pipelines.lakehouse import Lakehouse
from pipelines.rebuild import rebuild
from pipelines.serving import Row, Serving
from tests.scenes import Scene, us
from tests.spark.conftest import fresh_lakehouse
from tests.spark.histories import land
from tests.spark.streams import run_stream

pytestmark = pytest.mark.spark

SERVED = "G" * 110
SEEN = "G" * 40 + "X" * 30 + "G" * 40
NEVER = "X" * 110
BLIND = "G" * 30 + "V" * 50 + "G" * 30
AGAIN = "G" * 40 + "X" * 10 + "G" * 1 + "X" * 19 + "G" * 40
OBSERVED_MS = 11_000.0
ALONE_MS = 7002.0 - 3900.0

STORIES: dict[str, tuple[str, ...]] = {
    "two": (SEEN, SERVED),
    "three": (SERVED, SEEN, SERVED),
    "all": (SEEN, SEEN, SEEN),
    "disputed": (SEEN, SEEN, SERVED),
    "unheard": (SEEN, BLIND),
    "never": (NEVER, SERVED, SERVED),
    "open": (SERVED[:40] + NEVER[:70], SERVED),
    "again": (AGAIN, SERVED),
}
"""By topic, what each prober of it was served."""


@pytest.fixture(scope="module")
def measured(spark: SparkSession, empty_tables: Any, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("availability") / "home")
    scene = Scene()
    for topic, timelines in STORIES.items():
        for prober, timeline in zip("abc", timelines, strict=False):
            scene.stream(f"{topic}/0", "write", (timeline, "1"), prober=prober)
    for prober, timeline in (("a", SEEN), ("b", SERVED), ("c", SERVED)):
        scene.stream("watched/0", "leader", (timeline, "1"), prober=prober)
    land([encode(one) for one in scene.observations], lakehouse.home.landing, "all")
    run_stream(lakehouse)
    return lakehouse


@pytest.fixture(scope="module")
def rows(measured: Lakehouse) -> dict[tuple[str, str], Row]:
    return {(row["resource"], row["prober_id"]): row for row in measured.at_hand(gold.AVAILABILITY)}


def split(row: Row) -> tuple[float, float, float, float, int]:
    """Measured, unmeasured, of it alone, not served at most, outages."""
    return row["measured_ms"], row["unmeasured_ms"], row["alone_ms"], row["down_ms_max"], row["outages"]


@pytest.mark.parametrize(("topic", "prober", "others"), [("two", "a", "b"), ("three", "b", "ac"), ("watched", "a", "bc")])
def test_what_one_prober_alone_was_not_served_is_unmeasured_for_it_and_up_for_the_others(
    rows: dict[tuple[str, str], Row], topic: str, prober: str, others: str
) -> None:
    row = rows[topic, prober]
    assert split(row) == (OBSERVED_MS - ALONE_MS, ALONE_MS, ALONE_MS, 0.0, 0)
    assert (row["availability_ratio_min"], row["coverage_ratio"]) == (1.0, pytest.approx(1 - ALONE_MS / OBSERVED_MS))
    for other in others:
        assert split(rows[topic, other]) == (OBSERVED_MS, 0.0, 0.0, 0.0, 0)


@pytest.mark.parametrize(("topic", "prober"), [("all", "a"), ("all", "c"), ("disputed", "a"), ("disputed", "b"), ("unheard", "a")])
def test_what_others_saw_too_or_nobody_looked_at_stays_down(rows: dict[tuple[str, str], Row], topic: str, prober: str) -> None:
    row = rows[topic, prober]
    assert split(row) == (OBSERVED_MS, 0.0, 0.0, ALONE_MS, 1)
    assert row["down_ms_min"] == 6900 - 4001
    assert row["availability_ratio_min"] == pytest.approx(1 - ALONE_MS / OBSERVED_MS)


def test_a_prober_that_was_alone_throughout_has_measured_nothing_and_has_no_ratio(rows: dict[tuple[str, str], Row]) -> None:
    row = rows["never", "a"]
    assert split(row) == (0.0, OBSERVED_MS, OBSERVED_MS, 0.0, 0)
    assert (row["availability_ratio_min"], row["availability_ratio_max"], row["coverage_ratio"]) == (None, None, 0.0)


def test_while_it_goes_on_it_is_unmeasured_up_to_now(rows: dict[tuple[str, str], Row]) -> None:
    assert split(rows["open", "a"]) == (3900.0, OBSERVED_MS - 3900, OBSERVED_MS - 3900, 0.0, 0)


def test_the_probe_between_two_of_them_is_taken_away_once(rows: dict[tuple[str, str], Row]) -> None:
    row = rows["again", "a"]
    assert row["measured_ms"] + row["unmeasured_ms"] == OBSERVED_MS
    assert row["alone_ms"] == pytest.approx(ALONE_MS, abs=100)


def test_the_figure_that_is_read_is_that_of_the_service(measured: Lakehouse) -> None:
    with Serving(measured.home, lambda: us(60_000)).snapshot() as snapshot:
        day = datetime.fromtimestamp(us(0) / 1e6, tz=UTC).date()
        assert day == date.fromisoformat("2026-09-21")
        (watched,) = [row for row in snapshot.rows("availability", day=day) if row["kind"] == "leader"]
        (write,) = [row for row in snapshot.rows("availability", day=day) if row["kind"] == "write"]
    assert (watched["availability_ratio_min"], watched["availability_ratio_max"]) == (1.0, 1.0)
    assert (watched["probers"], watched["probers_alone"], watched["alone_ms"]) == (3, 1, ALONE_MS)
    assert watched["coverage_ratio"] == pytest.approx(1 - ALONE_MS / (3 * OBSERVED_MS))
    assert write["worst_resource"] == "all"
    assert write["worst_ratio_min"] == pytest.approx(1 - ALONE_MS / OBSERVED_MS)


def test_a_leaders_silence_towards_one_watcher_alone_is_no_window_of_the_partition(measured: Lakehouse) -> None:
    assert [row for row in measured.at_hand("silver.partition_windows") if row["resource"] == "watched"] == []
    (row,) = [row for row in measured.at_hand("silver.outage_windows") if row["resource"] == "watched"]
    assert (row["cause"], row["prober_id"]) == ("prober_alone", "a")


def test_it_follows_from_bronze_again(spark: SparkSession, measured: Lakehouse) -> None:
    found = rebuild(spark, measured, is_check=True, say=lambda _line: None)
    assert [one.told() for one in found if one.differences] == []


def test_a_day_that_is_cut_at_midnight_loses_nothing(spark: SparkSession, empty_tables: Any, tmp_path: Any) -> None:
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path / "home")
    midnight = datetime.combine(datetime.fromtimestamp(us(0) / 1e6, tz=UTC).date(), time(), UTC).timestamp() * 1000 + 86_400_000
    begin = midnight - us(0) / 1000 - 5000
    scene = Scene().stream("t/0", "write", (SEEN, "1"), prober="a", begin_ms=begin)
    scene.stream("t/0", "write", (SERVED, "1"), prober="b", begin_ms=begin)
    land([encode(one) for one in scene.observations], lakehouse.home.landing, "all")
    run_stream(lakehouse)
    of_a = sorted((row for row in lakehouse.at_hand(gold.AVAILABILITY) if row["prober_id"] == "a"), key=lambda row: row["day"])
    assert [split(row)[:3] for row in of_a] == [(3900.0, 1100.0, 1100.0), (3998.0, 2002.0, 2002.0)]
