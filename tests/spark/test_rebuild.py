"""Silver and gold made again from bronze: nothing differs where nothing should, and every difference is told."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.ddl import arrow_schema
from pipelines.lakehouse import Lakehouse
from pipelines.rebuild import KEYS, Rebuilt, compared, rebuild, stretches
from pipelines.silver import TABLES
from tests.spark.histories import kill_of_broker_2, land
from tests.spark.streams import contents, run_stream

pytestmark = pytest.mark.spark


def differing(found: list[Rebuilt]) -> dict[str, list[str]]:
    return {one.table: [each.kind for each in one.differences] for one in found if one.differences}


@pytest.fixture
def derived(lakehouse: Lakehouse) -> Lakehouse:
    land(kill_of_broker_2().lines(), lakehouse.home.landing, "all")
    run_stream(lakehouse)
    return lakehouse


def test_what_the_stream_derived_follows_from_bronze_again_and_what_does_not_is_told_and_mended(
    spark: SparkSession, derived: Lakehouse
) -> None:
    before = contents(derived)
    said: list[str] = []
    found = rebuild(spark, derived, is_check=True, say=said.append)
    assert differing(found) == {}
    assert {one.table for one in found} == set(KEYS)
    assert any(line.startswith("gold.outages: ") and line.endswith("all as they were") for line in said)

    # Another version made one row otherwise, one row was lost, one invented.
    rows = derived.at_hand("gold.outages")
    tampered = [row | {"rto_ms_max": 1.0, "rule_version": "outage-0"} if number == 0 else row for number, row in enumerate(rows)]
    tampered = [*tampered[:-1], tampered[-1] | {"outage_id": "invented"}]
    derived.replace("gold.outages", pa.Table.from_pylist(tampered, arrow_schema("gold.outages")), "true")
    said.clear()
    found = rebuild(spark, derived, is_check=True, say=said.append)
    assert sorted(differing(found)["gold.outages"]) == ["changed", "missing", "surplus"]
    (told,) = [line for line in said if line.startswith("gold.outages: ")]
    assert "1 changed, 1 missing, 1 surplus: rto_ms_max, rule_version (outage-0 -> " in told
    assert contents(derived) != before, "a check writes nothing"

    rebuild(spark, derived, is_check=False, say=said.append)
    assert contents(derived) == before


def test_quiet_time_parts_stretches(spark: SparkSession, derived: Lakehouse) -> None:
    (only,) = stretches(derived.read("bronze.observations"))

    assert only.cluster_id == "history"
    assert only.begin_us < only.end_us


def test_every_table_that_is_derived_has_a_key() -> None:
    assert {table.name for table in TABLES} | {"gold.outages", "gold.losses", "gold.incidents", "gold.availability"} == set(KEYS)


def test_rows_are_the_same_whatever_their_order() -> None:
    rows = [{"window_id": "a", "rule_version": "1"}, {"window_id": "b", "rule_version": "1"}]

    assert compared("silver.isr_windows", rows, rows[::-1]).differences == []
