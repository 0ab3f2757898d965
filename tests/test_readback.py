"""When a read-back is due, and from where it reads: the agenda, without Spark and without a cluster."""

from typing import Any

from pipelines.brokers.base import Shard
from pipelines.brokers.readback import LogRange
from pipelines.readback import AGAIN_SECONDS, AGAIN_SECONDS_MAX, AWAITED_SECONDS, Agenda

CLUSTER = "ours"
TOPIC = "lastack-canary-durable"


def agenda() -> Agenda:
    return Agenda(CLUSTER, frozenset({TOPIC}), every_seconds=3600.0, ended_at=0.0)


def outage(name: str = "o1", *, lane: str = "raw", is_open: bool = False, verdict: str = "UNCHECKED") -> dict[str, Any]:
    return {
        "cluster_id": CLUSTER,
        "outage_id": name,
        "lane": lane,
        "is_open": is_open,
        "loss_verdict": verdict,
        "lost_records_min": 0,
        "lost_records_max": 0,
    }


def change(
    name: str = "e1", resource: str = TOPIC, event: str = "leader_seen", before: str | None = "1", now: str = "2"
) -> dict[str, Any]:
    return {"cluster_id": CLUSTER, "event_id": name, "event": event, "resource": resource, "previous_leader": before, "leader": now}


def position(shard: int, at: int) -> dict[str, Any]:
    return {"cluster_id": CLUSTER, "resource": TOPIC, "shard": str(shard), "topic_id": None, "position": at}


def test_a_closed_outage_of_a_lane_that_writes_is_read_back_soon() -> None:
    one = agenda()
    assert not one.is_due(100.0)
    one.note([outage()], [], [])
    assert one.is_due(100.0)
    assert one.is_awaited()


def test_an_open_outage_a_read_lane_and_what_is_decided_are_not_read_back() -> None:
    one = agenda()
    one.note([outage(is_open=True), outage("o2", lane="read"), outage("o3", lane="watch"), outage("o4", verdict="PRESENT")], [], [])
    assert not one.is_due(100.0)
    assert not one.is_awaited()


def test_every_hour_a_read_back_is_due_although_nothing_happened() -> None:
    one = agenda()
    assert not one.is_due(3599.0)
    assert one.is_due(3600.0)
    one.begin()
    one.end(3605.0, {})
    assert not one.is_due(7204.0)
    assert one.is_due(7205.0)


def test_a_change_of_leader_is_read_back_once() -> None:
    one = agenda()
    one.note([], [change()], [])
    assert one.is_due(10.0)
    one.begin()
    one.end(12.0, {})
    one.note([], [change()], [])
    assert not one.is_due(3000.0)
    one.note([], [change(), change("e2")], [])
    assert one.is_due(3000.0)


def test_a_change_that_comes_while_it_is_read_is_read_back_again() -> None:
    one = agenda()
    one.note([], [change()], [])
    one.begin()
    one.note([], [change(), change("e2")], [])
    one.end(12.0, {})
    assert one.is_wanted()


def test_what_is_no_change_of_a_canary_partitions_leader_is_not_read_back() -> None:
    one = agenda()
    others = [
        change(resource="orders"),
        change(before=None),
        change(now="1"),
        change(event="epoch_end"),
        change(event="partition_created", before=None),
    ]
    one.note([], others, [])
    assert not one.is_due(100.0)


def test_while_a_lane_that_writes_is_out_a_change_of_leader_waits() -> None:
    one = agenda()
    one.note([outage(is_open=True)], [change()], [])
    assert not one.is_due(100.0)
    one.note([outage()], [change()], [])
    assert one.is_due(100.0)


def test_a_read_that_failed_is_made_again_and_covers_nothing() -> None:
    one = agenda()
    one.note([], [change()], [position(0, 5)])
    one.begin()
    one.end(100.0, None)
    assert one.is_wanted()
    assert not one.is_due(100.0 + AGAIN_SECONDS)
    assert one.is_due(100.0 + 2 * AGAIN_SECONDS)
    assert one.verified == {}


def test_what_no_read_back_can_decide_is_asked_ever_more_seldom_and_not_waited_for() -> None:
    one, now, reads = agenda(), 0.0, 0
    one.note([outage()], [], [])
    while now < 3_500.0:
        now += 1.0
        if one.is_due(now):
            one.begin()
            one.end(now, {})
            one.note([outage()], [], [])
            reads += 1
    assert reads <= 12
    assert one.pause == AGAIN_SECONDS_MAX > AWAITED_SECONDS
    assert not one.is_awaited()
    one.note([outage(), outage("o2")], [], [])
    assert one.is_awaited()


def test_a_settled_region_wants_nothing() -> None:
    one = agenda()
    one.note([outage()], [change()], [position(0, 5)])
    one.note([], [], [])
    assert not one.is_wanted()
    assert one.positions == {}


def test_it_reads_from_the_regions_first_record_or_from_where_it_ended_whichever_is_earlier() -> None:
    one = agenda()
    log = LogRange(100, 1000)
    assert one.start_of(Shard(TOPIC, "0"), log) == 100
    one.verified = {(Shard(TOPIC, "0"), None): 700}
    assert one.start_of(Shard(TOPIC, "0"), log) == 700
    one.note([], [], [position(0, 812), position(1, 300), {"cluster_id": CLUSTER, "resource": "orders", "shard": "0", "position": 1}])
    assert one.start_of(Shard(TOPIC, "0"), log) == 700
    assert one.start_of(Shard(TOPIC, "1"), log) == 300
    assert all(where != ("orders", "0") for where, _ in one.positions)


def test_what_is_known_of_a_deleted_topic_says_nothing_of_the_one_that_was_made_under_its_name() -> None:
    one = agenda()
    one.verified = {(Shard(TOPIC, "0"), "old"): 700}
    one.note([], [], [position(0, 812) | {"topic_id": "old"}, position(0, 20) | {"topic_id": "new"}])
    assert one.start_of(Shard(TOPIC, "0"), LogRange(0, 50, "new")) == 20
    assert one.start_of(Shard(TOPIC, "0"), LogRange(0, 900, "old")) == 700


def test_it_never_reads_below_the_logs_start_or_beyond_its_end() -> None:
    one = agenda()
    one.verified = {(Shard(TOPIC, "0"), None): 50, (Shard(TOPIC, "1"), None): 2000}
    assert one.start_of(Shard(TOPIC, "0"), LogRange(100, 1000)) == 100
    assert one.start_of(Shard(TOPIC, "1"), LogRange(100, 1000)) == 1000


def test_another_cluster_of_the_lakehouse_is_none_of_its_concern() -> None:
    one = agenda()
    theirs = {"cluster_id": "theirs"}
    one.note([outage() | theirs], [change() | theirs], [position(0, 5) | theirs | {"shard": "broker-a-0"}])
    assert not one.is_due(100.0)
    assert one.positions == {}
