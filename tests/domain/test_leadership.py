"""When partitions that nobody writes to for us had no serving leader, and when their acks=all writes waited for a dead replica.

Broker 2 leads the probed partition w/0 and stops at 250 ms; u/... are users' partitions, watched every second.
"""

import pytest

from pipelines.domain.windows import ACKS_ALL_STALLED, LEADER_UNAVAILABLE, PartitionWindow
from tests.scenes import Scene, decided, lasting_ms, ms, partition_of

DOWN, UP = "H" * 90, "G" * 300
SECOND = 1000


def killed(*, after: str = "3") -> Scene:
    """w/0 is written to; after nine seconds it is led by another broker, or by the same."""
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN, "2"), (UP, after))
    return scene.stream("w/1", "write", ("G" * 400, "1")).stream("d/1", "durable_write", ("GGG" + DOWN + UP, "1"))


def failed_over(scene: Scene) -> Scene:
    """One batch of the metadata log at 9050 ms."""
    scene.changed("d/1", 9050, ("1", "1"), ("123", "13"), term=1)
    return scene.changed("w/0", 9050, ("2", "3"), ("123", "13")).fenced("2", 9050)


def windows(scene: Scene, name: str, window: str = LEADER_UNAVAILABLE) -> list[PartitionWindow]:
    return [one for one, _ in scene.derived().windows if one.partition == partition_of(name) and one.window == window]


def watched(scene: Scene, name: str, *parts: tuple[str, str, int], begin_ms: int = 0) -> Scene:
    """Leader answers every second: parts of (timeline, leader, epoch)."""
    at = 0
    probes = []
    for timeline, leader, term in parts:
        told = {"leader": leader, "term": term, "isr": ("1", "2", "3") if term == 1 else ("1", "3")}
        part = decided(timeline, period_ms=SECOND, begin_ms=begin_ms + at * SECOND, **told)
        probes += [probe._replace(sequence=probe.sequence + at) for probe in part]
        at += len(timeline)
    return scene.add_probes(name, "leader", probes, period_ms=SECOND, prober="watch")


class TestLeaderUnavailable:
    def test_a_clean_failover_ends_between_the_change_and_the_first_answer_in_the_new_epoch(self) -> None:
        scene = watched(failed_over(killed()), "u/0", ("G" + "H" * 9, "2", 1), ("G" * 20, "3", 2), begin_ms=100)
        (one,) = windows(scene.changed("u/0", 9050, ("2", "3"), ("123", "13")), "u/0")

        assert (ms(one.start), ms(one.end)) == ((200, 1300), (9050, 10102)), "the probed partition's begin is the sharper one"
        assert (one.evidence, one.broker, one.leader_after, one.term_before, one.term_after) == ("read_probed", "2", "3", 1, 2)
        assert "w/0/write/raw" in one.proof[0]
        assert one.proof[-1].startswith("metadata log offset")

    def test_a_partition_that_was_never_asked_in_time_is_inferred(self) -> None:
        scene = watched(failed_over(killed()), "u/0", ("G", "2", 1), (".........", "2", 1), ("G" * 20, "3", 2), begin_ms=100)
        (one,) = windows(scene.changed("u/0", 9050, ("2", "3"), ("123", "13")), "u/0")

        assert one.evidence == "inferred"
        assert lasting_ms(one.length) == (7750, 9902)

    def test_a_leaderless_record_is_a_proof_without_any_absence(self) -> None:
        scene = watched(Scene(), "u/0", ("GG" + "R" * 7, "2", 1), ("G" * 20, "2", 3))
        scene.changed("u/0", 1500, ("2", None), ("2", "2"), term=2).changed("u/0", 8500, (None, "2"), ("2", "2"), term=3)
        (one,) = windows(scene, "u/0")

        assert (ms(one.start), ms(one.end)) == ((1000, 2001), (8500, 9002))

    def test_a_leaderless_record_that_no_answer_missed_begins_after_the_last_answer(self) -> None:
        scene = watched(Scene(), "u/0", ("GG", "2", 1), ("G" * 20, "2", 3))
        scene.changed("u/0", 1300, ("2", None), ("2", "2"), term=2).changed("u/0", 1700, (None, "2"), ("2", "2"), term=3)
        (one,) = windows(scene, "u/0")

        assert (ms(one.start), ms(one.end)) == ((1000, 1300.999), (1700, 2002))

    def test_changes_between_which_nobody_answered_are_one_window(self) -> None:
        """Two brokers die together: the controller notices one after the other."""
        scene = watched(failed_over(killed()), "u/0", ("G" + "H" * 10, "2", 1), ("G" * 20, "1", 3), begin_ms=100)
        scene.changed("u/0", 9050, ("2", "3"), ("123", "13")).changed("u/0", 9800, ("3", "1"), ("13", "1"), term=3)
        (one,) = windows(scene, "u/0")

        assert (ms(one.start), ms(one.end)) == ((200, 1300), (9800, 11102))
        assert (one.leader_before, one.leader_after, one.term_after) == ("2", "1", 3)

    def test_a_hung_leader_without_an_election_is_one_too(self) -> None:
        scene = watched(killed(after="2"), "u/0", ("G" + "." * 9 + "G" * 20, "2", 1), begin_ms=100)
        (one,) = windows(scene, "u/0")

        assert (ms(one.start), ms(one.end)) == ((200, 1300), (9200, 9302))
        assert (one.evidence, one.leader_after, one.term_after) == ("inferred", "2", 1)

    def test_a_partition_whose_leader_answered_meanwhile_has_none(self) -> None:
        """The watch asks another way round: what the canary cannot reach need not be away from everybody."""
        scene = watched(failed_over(killed()), "u/0", ("G" * 30, "2", 1), begin_ms=100)

        assert windows(scene, "u/0") == []

    def test_a_planned_move_that_nobody_felt_is_no_window(self) -> None:
        scene = watched(Scene(), "u/0", ("GGG", "2", 1), ("G" * 20, "3", 2)).changed("u/0", 2500, ("2", "3"), ("123", "13"))

        assert windows(scene, "u/0") == []

    def test_a_planned_move_that_was_felt_has_the_bounds_of_the_answers(self) -> None:
        scene = watched(Scene(), "u/0", ("GGGRR", "2", 1), ("G" * 20, "3", 2)).changed("u/0", 2500, ("2", "3"), ("123", "13"))
        (one,) = windows(scene, "u/0")

        assert (ms(one.start), ms(one.end), one.evidence) == ((2000, 3001), (4000, 5002), "read_probed")

    def test_a_later_move_away_from_a_broker_that_came_back_is_another_matter(self) -> None:
        """It is killed, returns, leads again and hands over in order half a minute later: that is no outage of half a minute."""
        scene = watched(failed_over(killed()), "u/0", ("G" + "H" * 9, "2", 1), ("G" * 20, "3", 2), ("G" * 9, "2", 3), ("G" * 9, "3", 4))
        scene.changed("u/0", 9050, ("2", "3"), ("123", "13")).control("broker_unfenced", 20_000, broker="2")
        scene.changed("u/0", 30_010, ("3", "2"), ("123", "123"), term=3).changed("u/0", 38_990, ("2", "3"), ("123", "13"), term=4)

        assert [ms(one.end) for one in windows(scene, "u/0")] == [(9050, 10_002)]

    def test_what_only_the_leaders_answers_show_is_a_window_of_its_own(self) -> None:
        (one,) = windows(watched(Scene(), "u/0", ("GGG" + "R" * 6 + "GGG", "2", 1)), "u/0")

        assert (ms(one.start), ms(one.end), one.broker, one.proof) == ((2000, 3001), (8000, 9002), "2", ())

    def test_without_any_answer_it_stays_open(self) -> None:
        scene = failed_over(killed()).changed("u/0", 9050, ("2", "3"), ("123", "13"))
        (one,) = windows(scene, "u/0")

        assert one.is_open
        assert one.length.high is None


class TestAcksAllStalled:
    def test_a_followers_partition_waits_until_its_leader_has_dropped_the_dead_replica(self) -> None:
        scene = failed_over(killed()).changed("u/1", 9050, ("1", "1"), ("123", "13"), term=1)
        (one,) = windows(scene, "u/1", ACKS_ALL_STALLED)

        assert (ms(one.start), ms(one.end)) == ((200, 1300), (9050, 9302)), "the probed partition of the same leader tells by when"
        assert (one.evidence, one.broker, one.leader_before) == ("inferred", "2", "1")

    def test_a_probed_partition_of_the_follower_has_its_own_evidence(self) -> None:
        (one,) = windows(failed_over(killed()), "d/1", ACKS_ALL_STALLED)

        assert one.evidence == "probed"
        assert one.seen is not None

    def test_an_answer_in_an_epoch_that_began_in_the_same_batch_tells_by_when_too(self) -> None:
        """Leader 3 follows the change of u/3 with the batch that made it leader of u/0."""
        scene = watched(failed_over(killed()), "u/0", ("G" + "H" * 9, "2", 1), ("G" * 20, "3", 2), begin_ms=100)
        scene.changed("u/0", 9050, ("2", "3"), ("123", "13")).changed("u/3", 9050, ("3", "3"), ("123", "13"), term=1)
        (one,) = windows(scene, "u/3", ACKS_ALL_STALLED)

        assert ms(one.end) == (9050, 10_102)

    def test_a_change_at_an_earlier_offset_tells_nothing_of_a_later_one(self) -> None:
        scene = watched(failed_over(killed()), "u/1", ("G" * 11, "1", 1), ("G" * 20, "1", 2), begin_ms=400)
        scene.changed("u/1", 9700, ("1", "1"), ("123", "13"), term=1, offset=5000)
        (one,) = windows(scene, "u/1", ACKS_ALL_STALLED)

        assert ms(one.end) == (9700, 12_402), "only the metadata beside its leader's answers does, and one more period"

    def test_without_a_change_it_lasts_until_the_broker_serves_again(self) -> None:
        scene = killed(after="2").changed("u/1", -5000, ("1", "1"), ("13", "123"), term=1)
        (one,) = windows(scene, "u/1", ACKS_ALL_STALLED)

        assert ms(one.end) == (9200, 9302)

    def test_it_ends_when_the_absent_broker_is_named_leader(self) -> None:
        """The leader died first; the controller, which has not noticed the other death yet, elects a dead broker."""
        scene = killed().changed("u/1", 9000, ("1", "2"), ("123", "23")).changed("w/0", 9050, ("2", "3"), ("123", "13"))
        (one,) = windows(scene.changed("d/1", 9050, ("1", "1"), ("123", "13"), term=1).fenced("2", 9050), "u/1", ACKS_ALL_STALLED)

        assert ms(one.end) == (9000, 9000.999)

    @pytest.mark.parametrize(
        ("leader", "isr"), [("2", "123"), (None, "2"), ("1", "13")], ids=["it leads", "leaderless", "not in the ISR"]
    )
    def test_nothing_waits_for_a_replica_that(self, leader: str | None, isr: str) -> None:
        scene = failed_over(killed()).changed("u/1", -5000, ("1", leader), ("123", isr), term=1)

        assert windows(scene, "u/1", ACKS_ALL_STALLED) == []

    def test_a_stall_of_two_dead_replicas_is_not_ended_by_the_end_of_the_longer_one(self) -> None:
        """d/1 goes on being refused for want of replicas: the stall itself was over when the second one was dropped."""
        scene = Scene().stream("w/0", "write", ("GGG" + DOWN, "2"), (UP, "3"))
        scene.stream("d/1", "durable_write", ("GGG" + DOWN + "N" * 60 + UP, "1"))
        (one,) = windows(failed_over(scene), "d/1", ACKS_ALL_STALLED)

        assert ms(one.end) == (9050, 15_302)


def test_one_watcher_alone_that_a_leader_does_not_answer_makes_no_window() -> None:
    """The others are answered by the same leader meanwhile; with nobody else to ask, its word counts."""
    alone = Scene().stream("u/0", "leader", ("G" * 20 + "H" * 20 + "G" * 20, "2"), prober="watch-1")
    (one,) = windows(alone, "u/0")
    assert one.evidence == "read_probed"

    for other in ("watch-2", "watch-3"):
        alone.stream("u/0", "leader", ("G" * 60, "2"), prober=other)
        assert windows(alone, "u/0") == []
