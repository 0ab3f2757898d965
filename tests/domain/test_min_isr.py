"""Spans in which a partition refuses acks=all since too few replicas are in sync: from the control plane and its leader's metrics."""

from typing import Any

from pipelines.domain.observations import PartitionMetrics
from pipelines.domain.windows import UNDER_MIN_ISR, PartitionWindow
from tests.scenes import Scene, ms, us


def looked(scene: Scene, at_ms: float, until_ms: float, in_sync: int = 1, **fields: Any) -> Scene:
    """A run of looks at the leader that say that it is under min ISR."""
    flags = {"is_under_min_isr": True, "in_sync_replicas": in_sync}
    span = {"started_at_us": us(at_ms), "ended_at_us": us(until_ms)}
    return scene.add(PartitionMetrics, "metrics", broker="1", resource="u", shard="0", **span, **flags, **fields)


def shrunk(scene: Scene | None = None) -> Scene:
    return (
        (scene or Scene()).changed("u/0", 2000, ("1", "1"), ("123", "12"), term=1).changed("u/0", 4000, ("1", "1"), ("12", "1"), term=1)
    )


def windows(scene: Scene) -> list[PartitionWindow]:
    return [one for one, _ in scene.derived().windows if one.window == UNDER_MIN_ISR]


def test_from_the_change_that_left_too_few_to_the_one_that_brought_back_more() -> None:
    scene = shrunk().changed("u/0", 31_000, ("1", "1"), ("1", "12"), term=1)
    scene.stream("u/0", "leader", ("G" * 32, "1"), period_ms=1000, isr=("1",))
    scene.stream("u/0", "leader", ("G" * 10, "1"), period_ms=1000, begin_ms=32_000, isr=("1", "2"), prober="watch-2")
    (one,) = windows(looked(scene, 4310, 30_310, count=27))

    assert (ms(one.start), ms(one.end)) == ((4000, 6310), (31_000, 33_002))
    assert (one.evidence, one.leader_before) == ("inferred", "1")


def test_it_says_why() -> None:
    derived = looked(shrunk(), 4310, 9310).derived()

    assert [recovery.cause for window, recovery in derived.windows if window.window == UNDER_MIN_ISR] == ["under_min_isr"]


def test_it_is_open_while_nothing_has_changed() -> None:
    (one,) = windows(looked(shrunk(), 4310, 9310))

    assert (ms(one.start), ms(one.end)) == ((4000, 6310), (9310, None))


def test_where_no_leader_was_looked_at_nothing_is_claimed() -> None:
    assert windows(shrunk()) == []


def test_one_whose_leader_is_gone_is_unavailable_and_not_under_its_min_isr() -> None:
    scene = shrunk().changed("u/0", 12_000, ("1", None), ("1", "1"), term=2)
    (one,) = windows(looked(scene, 4310, 11_310))

    assert ms(one.end) == (12_000, 12_000.999)


def test_enough_in_sync_replicas_are_none_of_its_business() -> None:
    scene = Scene().changed("u/0", 2000, ("1", "1"), ("123", "12"), term=1)

    assert windows(looked(scene, 4310, 9310)) == []
