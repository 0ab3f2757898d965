"""What follows from decisions that were read from znodes, where KRaft's rules would say something wrong.

Broker 2 leads the probed partition w/0, hangs from 250 ms on, and its session ends at 9050 ms.
"""

import pytest

from pipelines.domain.brokers import absences
from pipelines.domain.observations import Control
from pipelines.domain.replication import PartitionState, out_of_sync, state_at
from pipelines.domain.unavailability import outages
from pipelines.domain.windows import ACKS_ALL_STALLED, LEADER_UNAVAILABLE, PartitionWindow
from tests.scenes import Scene, decided, ms, partition_of, us

ZNODES = {"source": "zookeeper"}
DOWN, UP = "H" * 90, "G" * 300


def killed() -> Scene:
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN, "2"), (UP, "3"))
    return scene.stream("w/1", "write", ("G" * 400, "1")).stream("d/1", "durable_write", ("GGG" + DOWN + UP, "1"))


def wide(scene: Scene, name: str, from_ms: float, to_ms: float, leaders: tuple[str | None, str | None], isrs: tuple[str, str]) -> Scene:
    """A change of a znode of which versions were missed."""
    partition = partition_of(name)
    return scene.add(
        Control,
        "control",
        event="partition_changed",
        source="zookeeper",
        position="900000",
        resource=partition.resource,
        shard=partition.shard,
        previous_leader=leaders[0],
        leader=leaders[1],
        previous_isr=tuple(isrs[0]),
        isr=tuple(isrs[1]),
        replicas=("1", "2", "3"),
        term=7,
        started_at_us=us(from_ms),
        ended_at_us=us(to_ms),
        seen_at_us=us(to_ms + 5),
    )


def windows(scene: Scene, name: str, window: str) -> list[PartitionWindow]:
    return [one for one, _ in scene.derived().windows if one.partition == partition_of(name) and one.window == window]


@pytest.mark.parametrize(("source", "end_ms"), [("metadata_fetch", (9050, 9302)), ("zookeeper", (9050, None))])
def test_what_one_partition_s_leader_has_heard_of_says_nothing_of_another_in_zookeeper_mode(
    source: str, end_ms: tuple[float, float | None]
) -> None:
    """d/1's acks=all writes go on at 9302 ms; u/1 has the same leader and is changed in the same ms."""
    scene = killed().control("broker_fenced", 9050, broker="2", source=source)
    for name in ("d/1", "u/1"):
        scene.changed(name, 9050, ("1", "1"), ("123", "13"), term=2, source=source)
    (one,) = windows(scene.changed("w/0", 9050, ("2", "3"), ("123", "13"), source=source), "u/1", ACKS_ALL_STALLED)

    low, high = end_ms
    assert one.end.low == us(low)
    assert one.end.high == (None if high is None else us(high))


def test_what_a_partition_s_own_leader_was_seen_to_have_heard_of_still_counts() -> None:
    scene = killed().control("broker_fenced", 9050, broker="2", **ZNODES)
    scene.changed("d/1", 9050, ("1", "1"), ("123", "13"), term=2, **ZNODES)
    (one,) = windows(scene.changed("w/0", 9050, ("2", "3"), ("123", "13"), **ZNODES), "d/1", ACKS_ALL_STALLED)

    assert ms(one.end) == (9050, 9302)


def test_a_new_controller_may_take_its_time_to_drop_a_broker_that_is_gone() -> None:
    """The session ends at 8050 ms; the controller died with the broker, and its successor drops it 5 s later."""
    scene = Scene().control("broker_fenced", 8050, broker="2", **ZNODES)
    (one,) = out_of_sync(scene.changed("t/0", 13_050, ("1", "1"), ("123", "13"), **ZNODES).facts())

    assert one.cause == "fenced"


def test_a_broker_that_came_back_in_between_was_dropped_for_another_reason() -> None:
    scene = Scene().control("broker_fenced", 8050, broker="2", **ZNODES).control("broker_registered", 9000, broker="2", **ZNODES)
    (one,) = out_of_sync(scene.changed("t/0", 13_050, ("1", "1"), ("123", "13"), **ZNODES).facts())

    assert one.cause == "lagging"


def test_a_broker_whose_session_ended_early_was_not_moved_away_from_in_order() -> None:
    """Its session is short: it is gone at 350 ms and its partition is given to another at 3000 ms, before a probe was decided."""
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN, "2"), (UP, "3"), begin_ms=2500).stream("w/1", "write", ("G" * 400, "1"))
    scene.control("broker_fenced", 1000, broker="2", **ZNODES)
    facts = scene.changed("w/0", 3000, ("2", "3"), ("123", "13"), **ZNODES).facts()
    found = absences(facts, {stream: list(outages(runs)) for stream, runs in facts.probes.items()})

    assert [one.broker for one in found] == ["2"]


class TestStateAt:
    def test_a_change_that_may_hide_others_counts_from_its_end_on(self) -> None:
        scene = Scene().changed("t/0", 100, ("1", "2"), ("123", "23"), term=5, **ZNODES)
        facts = wide(scene, "t/0", 100, 9000, ("2", "3"), ("23", "3")).facts()

        assert state_at(facts, partition_of("t/0"), us(5000)) == PartitionState("2", 5, ("2", "3"))
        assert state_at(facts, partition_of("t/0"), us(9000)) == PartitionState("3", 7, ("3",))

    def test_the_epoch_before_a_change_that_may_hide_others_is_not_known(self) -> None:
        facts = wide(Scene(), "t/0", 100, 9000, ("2", "3"), ("23", "3")).facts()

        assert state_at(facts, partition_of("t/0"), us(0)) == PartitionState("2", None, ("2", "3"))

    def test_the_epoch_before_a_follower_was_dropped_is_not_known_in_zookeeper_mode(self) -> None:
        """The controller raises it when it drops one, the leader does not."""
        facts = Scene().changed("t/0", 9000, ("1", "1"), ("123", "13"), term=7, **ZNODES).facts()

        assert state_at(facts, partition_of("t/0"), us(0)) == PartitionState("1", None, ("1", "2", "3"))

    def test_the_epoch_before_an_election_is_one_less(self) -> None:
        facts = Scene().changed("t/0", 9000, ("1", "3"), ("123", "3"), term=7, **ZNODES).facts()

        assert state_at(facts, partition_of("t/0"), us(0)) == PartitionState("1", 6, ("1", "2", "3"))


def test_a_leader_killed_with_the_controller_is_one_window_over_the_leaderless_znode() -> None:
    """As a real kill has it: a new controller takes the dead leader out first (epoch 2) and elects then (epoch 3)."""
    scene = killed().control("broker_fenced", 9050, broker="2", **ZNODES)
    scene.changed("w/0", 9150, ("2", None), ("123", "13"), term=2, **ZNODES)
    scene.changed("w/0", 9180, (None, "3"), ("13", "13"), term=3, is_unclean=False, **ZNODES)
    watch = [
        *decided("G" + "H" * 9, period_ms=1000, begin_ms=100, leader="2", term=1, isr=("1", "2", "3")),
        *(
            one._replace(sequence=one.sequence + 10)
            for one in decided("G" * 20, period_ms=1000, begin_ms=10_100, leader="3", term=3, isr=("1", "3"))
        ),
    ]
    (one,) = windows(scene.add_probes("w/0", "leader", watch, period_ms=1000, prober="watch"), "w/0", LEADER_UNAVAILABLE)

    assert (one.leader_before, one.leader_after, one.term_before, one.term_after) == ("2", "3", 1, 3)
    assert one.proof[-1].startswith("zxid ")
    assert one.end.low is not None
    assert one.end.low >= us(9180)


def test_the_epoch_before_is_that_of_the_change_before_it_where_versions_were_missed() -> None:
    scene = (
        killed()
        .changed("w/0", -5000, ("1", "2"), ("123", "123"), term=4, **ZNODES)
        .control("broker_fenced", 9050, broker="2", **ZNODES)
    )
    wide(scene, "w/0", 9000, 9150, ("2", "3"), ("123", "13"))
    (one,) = windows(scene, "w/0", LEADER_UNAVAILABLE)

    assert (one.term_before, one.term_after) == (4, 7)


def test_changes_that_nobody_saw_change_nothing_by_themselves() -> None:
    scene = killed().changed("w/0", 9050, ("2", "3"), ("123", "13"), **ZNODES).control("broker_fenced", 9050, broker="2", **ZNODES)
    told = [(one.partition, one.start, one.end) for one, _ in scene.derived().windows]
    scene.control("missed_changes", 9050, resource="w", shard="0", term=3, **ZNODES)

    assert [(one.partition, one.start, one.end) for one, _ in scene.derived().windows] == told
