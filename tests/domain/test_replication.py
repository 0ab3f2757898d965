"""Which replicas were out of sync, since when and why; and the state of a partition at an instant."""

import pytest

from pipelines.domain.intervals import Bounds
from pipelines.domain.replication import OutOfSync, PartitionState, out_of_sync, partitions, state_at
from tests.scenes import Scene, ms, partition_of, us


def spans(scene: Scene, *seeds: OutOfSync) -> list[OutOfSync]:
    return out_of_sync(scene.facts(), seeds)


def dropped(scene: Scene, at: float = 8050, **fields: object) -> Scene:
    return scene.changed("t/0", at, ("1", "1"), ("123", "13"), term=1, **fields)


def back(scene: Scene, at: float = 31_000) -> Scene:
    return scene.changed("t/0", at, ("1", "1"), ("13", "123"), term=1)


def test_a_replica_is_out_from_the_change_that_removed_it_to_the_one_that_brought_it_back() -> None:
    (one,) = spans(back(dropped(Scene().fenced("2", 8050))))

    assert (one.replica, one.cause) == ("2", "fenced")
    assert (ms(one.start), ms(one.end)) == ((8050, 8050.999), (31_000, 31_000.999))
    assert (one.isr_before, one.isr_after) == (("1", "2", "3"), ("1", "3"))


def test_it_is_open_until_it_comes_back() -> None:
    (one,) = spans(dropped(Scene()))

    assert one.is_open


@pytest.mark.parametrize(
    ("scene", "cause"),
    [
        pytest.param(dropped(Scene().fenced("2", 8050)), "fenced", id="fenced in the same batch"),
        pytest.param(dropped(Scene().fenced("2", 1000)), "lagging", id="a fencing long before explains nothing"),
        pytest.param(dropped(Scene().control("broker_shutting_down", 8000, broker="2")), "controlled_shutdown", id="it had said so"),
        pytest.param(
            dropped(Scene().control("broker_shutting_down", 0, broker="2").control("broker_unfenced", 5000, broker="2")),
            "lagging",
            id="it had said so, and came back",
        ),
        pytest.param(dropped(Scene(), replicas=("1", "3", "4")), "reassignment", id="no replica any more"),
        pytest.param(dropped(Scene(), is_unclean=True), "unclean_election", id="an unclean election threw it out"),
        pytest.param(dropped(Scene()), "lagging", id="nothing else, read from the log"),
        pytest.param(dropped(Scene(), position=None, source="admin_poll"), "unknown", id="nothing else, polled"),
    ],
)
def test_the_cause_is_what_the_controller_did_with_it(scene: Scene, cause: str) -> None:
    assert [one.cause for one in spans(scene)] == [cause]


def test_a_span_that_was_open_before_gets_its_end() -> None:
    seed = OutOfSync(
        "w", partition_of("t/0"), "2", "fenced", Bounds(us(-9000), us(-9000)), Bounds(us(-9000), None), ("1", "2", "3"), ("1", "3")
    )
    (one,) = spans(back(Scene()), seed)

    assert (one.start, one.cause, one.is_open) == (seed.start, "fenced", False)


def test_a_replica_that_comes_back_from_nowhere_makes_no_span() -> None:
    assert spans(back(Scene())) == []


def test_two_replicas_that_leave_at_once_are_two_spans() -> None:
    assert [one.replica for one in spans(Scene().changed("t/0", 10, ("1", "1"), ("123", "1")))] == ["2", "3"]


def test_a_change_of_leader_alone_is_no_span() -> None:
    assert spans(Scene().changed("t/0", 10, ("1", "2"), ("123", "123"))) == []


def test_a_removed_partition_ends_its_spans() -> None:
    (one,) = spans(dropped(Scene()).control("partition_removed", 9000, resource="t", shard="0"))

    assert ms(one.end) == (9000, 9000.999)


def test_the_end_is_not_before_the_start_where_coarse_bounds_overlap() -> None:
    seed = OutOfSync("w", partition_of("t/0"), "2", "unknown", Bounds(us(0), us(5000)), Bounds(us(0), None), ("1", "2"), ("1",))
    (one,) = spans(Scene().changed("t/0", -1000, ("1", "1"), ("1", "12"), term=1), seed)

    assert one.end.low is not None
    assert one.start.low is not None
    assert one.end.low >= one.start.low


class TestStateAt:
    def test_it_is_what_the_last_change_left(self) -> None:
        facts = dropped(Scene()).changed("t/0", 9000, ("1", "3"), ("13", "3"), term=2).facts()

        assert state_at(facts, partition_of("t/0"), us(8500)) == PartitionState("1", 1, ("1", "3"))
        assert state_at(facts, partition_of("t/0"), us(9500)) == PartitionState("3", 2, ("3",))

    def test_before_the_first_change_it_is_what_that_change_says_of_before(self) -> None:
        facts = Scene().changed("t/0", 9000, ("1", "3"), ("123", "13"), term=7).facts()

        assert state_at(facts, partition_of("t/0"), us(0)) == PartitionState("1", 6, ("1", "2", "3"))

    def test_a_change_that_kept_the_leader_kept_the_epoch(self) -> None:
        assert state_at(dropped(Scene()).facts(), partition_of("t/0"), us(0)) == PartitionState("1", 1, ("1", "2", "3"))

    def test_without_changes_it_is_what_the_watch_saw(self) -> None:
        facts = Scene().stream("t/0", "leader", ("GGG", "2"), isr=("2", "3"), term=4).facts()

        assert state_at(facts, partition_of("t/0"), us(150)) == PartitionState("2", 4, ("2", "3"))
        assert state_at(facts, partition_of("t/0"), us(-1)) is None

    def test_of_a_partition_that_nobody_knows_nothing_is_known(self) -> None:
        assert state_at(Scene().facts(), partition_of("t/0"), us(0)) is None

    def test_every_partition_that_anybody_speaks_of_is_known(self) -> None:
        facts = dropped(Scene()).stream("u/1", "leader", ("G", "1")).facts()

        assert partitions(facts) == [partition_of("t/0"), partition_of("u/1")]
