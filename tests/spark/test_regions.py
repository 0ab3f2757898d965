"""The unsettled region reaches as far as what is open, and what follows does not depend on how it was cut."""

import os
from typing import Any

import pytest

from pipelines.domain.landing import encode
from pipelines.domain.observations import Control, Observation
from pipelines.lakehouse import Lakehouse
from tests.spark.histories import BEGIN, History, land
from tests.spark.streams import run_stream

pytestmark = pytest.mark.spark

SECOND = 1_000_000
PLACE = {"resource": "canary-write", "shard": "0", "kind": "write", "lane": "raw"}
USERS = {"resource": "orders", "shard": "9"}


def change(history: History, at_us: int, leader: str | None, previous: str | None, term: int) -> None:
    history.add(
        Control, "control_plane", event="partition_changed", source="metadata_fetch", position=str(900 + term), **USERS,
        leader=leader, previous_leader=previous, term=term, isr=("2",), previous_isr=("2",), replicas=("2", "3"), is_unclean=False,
        started_at_us=at_us, ended_at_us=at_us + 999, seen_at_us=at_us + 9_000,
    )  # fmt: skip


def land_in_order(lakehouse: Lakehouse, files: list[list[Observation]]) -> None:
    """Files that the stream takes in this order, one a batch."""
    for number, observations in enumerate(files):
        land([encode(one) for one in observations], lakehouse.home.landing, f"file-{number}")
        os.utime(lakehouse.home.landing / f"file-{number}.jsonl", (1_700_000_000 + number, 1_700_000_000 + number))


def outages(lakehouse: Lakehouse, resource: str) -> list[dict[str, Any]]:
    return [
        row.asDict() for row in lakehouse.read("gold.outages").where(f"resource = '{resource}'").orderBy("started_at_max").collect()
    ]


def test_a_users_partition_that_alone_is_leaderless_is_closed_when_it_has_a_leader_again(lakehouse: Lakehouse) -> None:
    history, told = History(), {"leader": "1", "term": 1}
    history.probes(PLACE, "ACKED", 0, 600, BEGIN, first_position="0", last_position="599", **told)
    change(history, BEGIN + 20 * SECOND, None, "2", 2)
    history.probes(PLACE, "ACKED", 600, 2000, BEGIN + 60 * SECOND, first_position="600", last_position="2599", **told)
    change(history, BEGIN + 270 * SECOND, "3", None, 3)
    history.probes(PLACE, "ACKED", 2600, 600, BEGIN + 260 * SECOND, first_position="2600", last_position="3199", **told)
    watch = USERS | {"kind": "leader", "lane": "watch"}
    history.probes(watch, "ACKED", 0, 20, BEGIN + 271 * SECOND, leader="3", term=3, isr=("2",), period_us=SECOND)
    first, second = history.observations[:2], history.observations[2:3]
    land_in_order(lakehouse, [first, second, history.observations[3:]])
    run_stream(lakehouse, files_per_batch=1)
    (row,) = outages(lakehouse, "orders")
    assert (row["kind"], row["is_open"]) == ("leader", False)
    assert row["started_at_max"].timestamp() == pytest.approx(BEGIN / 1e6 + 20, abs=0.01)
    assert row["ended_at_min"].timestamp() == pytest.approx(BEGIN / 1e6 + 270, abs=0.01)


def test_outages_less_than_a_minute_apart_are_one_incident_whenever_they_come_in(lakehouse: Lakehouse) -> None:
    history, told = History(), {"leader": "1", "term": 1}
    files, sequence = [], 0
    for number in range(3):
        begin = BEGIN + number * 50 * SECOND
        history.probes(PLACE, "ACKED", sequence, 450, begin, first_position=str(sequence), last_position=str(sequence + 449), **told)
        history.probes(PLACE, "UNKNOWN", sequence + 450, 50, begin + 45 * SECOND, code="_TRANSPORT", **told)
        sequence += 500
        files.append(history.observations[2 * number :])
    end = BEGIN + 150 * SECOND
    history.probes(PLACE, "ACKED", sequence, 100, end, first_position=str(sequence), last_position=str(sequence + 99), **told)
    # The middle one comes last, as from a collector that was cut off.
    middle = files[1]
    land_in_order(lakehouse, [files[0], [*files[2], history.observations[-1]], middle])
    run_stream(lakehouse, files_per_batch=1)
    assert len(outages(lakehouse, "canary-write")) == 3
    incidents = lakehouse.read("gold.incidents").collect()
    assert [row["outages"] for row in incidents] == [3]
    assert {row["incident_id"] for row in outages(lakehouse, "canary-write")} == {incidents[0]["incident_id"]}
