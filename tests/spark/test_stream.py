"""The stream, from files in the landing to gold, on a history whose every figure is known."""

import random
from typing import Any

import pytest

from pipelines import bronze
from pipelines.lakehouse import Lakehouse
from tests.spark.histories import BEGIN, CLUSTER, FENCED, KILL, LAMBDA, LATENCY, PERIOD, kill_of_broker_2, land
from tests.spark.streams import contents, run_stream

pytestmark = pytest.mark.spark


def outages(lakehouse: Lakehouse, **wanted: str) -> list[dict[str, Any]]:
    rows = lakehouse.read("gold.outages").collect()
    return [row.asDict() for row in rows if all(row[name] == value for name, value in wanted.items())]


def test_a_kill_becomes_outages_with_bounds_phases_and_verdicts(killed: Lakehouse) -> None:
    lakehouse = killed
    write = outages(lakehouse, resource="canary-write", lane="raw")
    assert sorted(row["shard"] for row in write) == ["1", "4"]
    durable = outages(lakehouse, resource="canary-durable", lane="raw")
    assert sorted(row["shard"] for row in durable) == ["0", "1", "2", "3", "4", "5"]
    one = next(row for row in write if row["shard"] == "1")
    last_good, first_bad, last_bad, first_good = KILL - 2 * PERIOD, KILL - PERIOD, KILL + 8_000_000, KILL + 8_100_000
    assert one["rto_ms_min"] == (last_bad - first_bad - LAMBDA) / 1000
    assert one["rto_ms_max"] == (first_good + LATENCY - last_good) / 1000
    assert (one["cause"], one["broker"], one["is_clean_election"]) == ("leader_failed", "2", True)
    assert one["detection_ms_min"] == (FENCED - first_bad - LAMBDA) / 1000
    assert one["detection_ms_max"] == (FENCED + 999 - last_good) / 1000
    assert (one["election_ms_min"], one["election_ms_max"]) == (0.0, 0.999)
    assert (one["loss_verdict"], one["lost_records_max"], one["rpo_ms_max"]) == ("PRESENT", 0, 0.0)


def test_a_followers_partition_says_that_a_dead_replica_held_it_and_has_no_election(killed: Lakehouse) -> None:
    lakehouse = killed
    row = outages(lakehouse, resource="canary-durable", lane="raw", shard="0")[0]
    assert (row["cause"], row["broker"]) == ("isr_member_dead", "2")
    phases = [row[f"{name}_ms_{end}"] for name in ("election", "propagation") for end in ("min", "max")]
    assert phases == [None, None, None, None]
    assert row["detection_ms_min"] is not None


def test_a_users_partition_is_inferred_from_the_broker_that_led_it(killed: Lakehouse) -> None:
    lakehouse = killed
    row = outages(lakehouse, resource="orders", shard="1", kind="leader")[0]
    assert row["evidence"] in ("inferred", "read_probed")
    start = (row["started_at_min"].timestamp() * 1e6, row["started_at_max"].timestamp() * 1e6)
    assert start[0] <= KILL <= start[1] <= KILL + LAMBDA
    end = (row["ended_at_min"].timestamp() * 1e6, row["ended_at_max"].timestamp() * 1e6)
    assert end == (pytest.approx(FENCED, abs=1), pytest.approx(KILL + 8_500_000 + LATENCY, abs=1))
    stalled = outages(lakehouse, resource="orders", shard="0", kind="durable_write")[0]
    assert (stalled["cause"], stalled["broker"], stalled["evidence"]) == ("isr_member_dead", "2", "inferred")


def test_files_in_any_order_in_any_cut_with_repetitions_give_the_same_tables(killed: Lakehouse, lakehouse: Lakehouse) -> None:
    expected = contents(killed)
    lines = kill_of_broker_2().lines()

    chosen = random.Random(7)
    shuffled = lines + chosen.sample(lines, 10)
    chosen.shuffle(shuffled)
    for number in range(3):
        land(shuffled[number::3], lakehouse.home.landing, f"part-{number}")
    run_stream(lakehouse, files_per_batch=1)
    assert contents(lakehouse) == expected


def test_a_bad_line_goes_to_the_quarantine_with_its_reason_and_stops_nothing(killed: Lakehouse) -> None:
    rows = {row["line"]: row for row in killed.read(bronze.QUARANTINE).collect()}
    assert set(rows) == {"garbage", '{"format":9}'}
    assert "format is 9" in rows['{"format":9}']["reason"]
    assert all(row["file"] == "all.jsonl" for row in rows.values())
    assert outages(killed, resource="canary-write")


def test_a_line_that_no_memory_holds_stops_no_other(lakehouse: Lakehouse) -> None:
    lines = kill_of_broker_2().lines()
    endless = [lines[0], "x" * 40_000_000, lines[1]]
    land(endless, lakehouse.home.landing, "endless")
    run_stream(lakehouse)
    assert lakehouse.read(bronze.OBSERVATIONS).count() == 2
    (row,) = lakehouse.read(bronze.QUARANTINE).collect()
    assert (row["file"], row["reason"].startswith("a line of more than 32 MiB is not read")) == ("endless.jsonl", True)
    assert (lakehouse.home.stream / "refused" / "endless.jsonl").read_text().splitlines() == endless
    run_stream(lakehouse)
    assert lakehouse.read(bronze.QUARANTINE).count() == 1, "it is told of once"


def test_an_outage_that_goes_on_is_open_and_is_closed_by_a_later_file(lakehouse: Lakehouse) -> None:
    history = kill_of_broker_2(is_read_back=False)
    lines = list(zip(history.observations, history.lines(), strict=True))
    land([line for one, line in lines if one.started_at_us <= KILL], lakehouse.home.landing, "first")
    run_stream(lakehouse)
    opened = outages(lakehouse, resource="canary-write", shard="1", lane="raw")
    assert [(row["is_open"], row["rto_ms_max"]) for row in opened] == [(True, None)]

    land([line for one, line in lines if one.started_at_us > KILL], lakehouse.home.landing, "second")
    run_stream(lakehouse)
    closed = outages(lakehouse, resource="canary-write", shard="1", lane="raw")
    assert [(row["outage_id"], row["is_open"], row["loss_verdict"]) for row in closed] == [(opened[0]["outage_id"], False, "UNCHECKED")]


def test_availability_counts_unmeasured_time_apart(killed: Lakehouse) -> None:
    lakehouse = killed
    rows = {
        (row["resource"], row["shard"]): row
        for row in lakehouse.read("gold.availability").where(f"cluster_id = '{CLUSTER}' AND lane = 'raw'").collect()
    }
    healthy = rows["canary-write", "0"]
    assert (healthy["measured_ms"], healthy["unmeasured_ms"], healthy["coverage_ratio"]) == (60_000.0, 0.0, 1.0)
    assert (healthy["availability_ratio_min"], healthy["down_ms_max"], healthy["outages"]) == (1.0, 0.0, 0)
    hit = rows["canary-write", "1"]
    assert hit["outages"] == 1
    assert 0 < hit["down_ms_min"] <= hit["down_ms_max"]
    assert hit["observed_from_at"].timestamp() * 1e6 == pytest.approx(BEGIN, abs=1)
