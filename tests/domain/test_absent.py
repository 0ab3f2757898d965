"""What is absent and yet not lost: nobody can read it now, somebody deleted it, or nothing can be said; and where a loss has limits.

As in test_data_loss: an acknowledged record every 100 ms at positions from 0, an outage from the probe at 2000 to that at 5900.
"""

from typing import Any

import pytest

from pipelines.domain.data_loss import DELETED_BY_POLICY, LOST, PRESENT, STRANDED, UNCHECKABLE, Loss
from tests.scenes import Scene, decided, lasting_ms, us

Pair = tuple[Any, Any]


def written(*, new_leader: str = "3", terms: Pair = (None, None), ids: Pair = (None, None)) -> Scene:
    """20 goods by leader 2, forty bad ones, 100 goods by the new leader, whose positions follow (in another topic: begin anew)."""
    first = decided("G" * 20 + "X" * 40, leader="2", term=terms[0], topic_id=ids[0])
    later = decided("G" * 100, begin_ms=6000, leader=new_leader, term=terms[1], topic_id=ids[1])
    base = 20 if ids[0] == ids[1] else 0
    probes = [one._replace(position=one.sequence if one.outcome == "ACKED" else None) for one in first]
    probes += [one._replace(sequence=60 + one.sequence, position=base + one.sequence) for one in later]
    return Scene().add_probes("w/0", "write", probes)


def found(scene: Scene) -> list[Loss]:
    return scene.derived().losses


def verdicts(scene: Scene) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(one.verdict, one.reason, one.first_sequence, one.last_sequence) for one in found(scene)]


def read(scene: Scene, *runs: tuple[int, int, int], at_ms: float = 20_000, end: int = 120, **more: Any) -> Scene:
    return scene.read_back("w/0", "write", at_ms, end, *runs, **more)


class TestDeleted:
    def test_what_was_in_a_topic_that_was_deleted_is_not_lost_with_it(self) -> None:
        scene = read(written(ids=("old", "new")), (60, 159, 0), end=100, topic_id="new")

        assert verdicts(scene) == [(DELETED_BY_POLICY, "topic_deleted", 0, 19)]
        (one,) = found(scene)
        assert (one.records.low, one.records.high, one.acked_records) == (0, 0, 20)

    def test_what_had_been_read_back_before_the_deletion_was_there(self) -> None:
        scene = read(written(ids=("old", "new")), (0, 19, 0), at_ms=2500, end=20, topic_id="old")

        assert verdicts(read(scene, (60, 159, 0), end=100, topic_id="new")) == []

    def test_a_deletion_that_only_the_control_plane_tells_of_is_one_too(self) -> None:
        scene = written().control("partition_removed", 3000, resource="w", shard="0")

        assert verdicts(read(scene, (60, 159, 0), end=100)) == [(DELETED_BY_POLICY, "topic_deleted", 0, 19)]

    def test_records_below_the_logs_start_were_deleted_where_one_leader_went_on_in_one_term(self) -> None:
        scene = read(written(new_leader="2", terms=(4, 4)), (8, 19, 8), (60, 159, 20), at_ms=15_000, log_start=8)

        assert (DELETED_BY_POLICY, "below_log_start", 0, 7) in verdicts(scene)

    def test_after_an_election_nobody_knows(self) -> None:
        scene = read(written(terms=(4, 5)), (8, 19, 8), (60, 159, 20), at_ms=15_000, log_start=8)

        (one,) = [one for one in found(scene) if one.reason == "below_log_start"]
        assert (one.verdict, one.records.low, one.records.high) == (UNCHECKABLE, 0, 8)


class TestStranded:
    def test_what_nobody_can_read_since_there_is_no_leader_may_come_back(self) -> None:
        scene = Scene().stream("w/0", "write", ("G" * 20 + "X" * 40, "2"), term=1)
        scene.changed("w/0", 3000, ("2", None), ("2", "2"), term=2)

        (one,) = found(scene)
        assert (one.verdict, one.reason, one.records.low, one.records.high) == (STRANDED, "no_leader", 0, 20)
        assert one.outage is not None
        assert one.outage.is_open

    def test_what_the_new_leader_does_not_have_may_be_with_a_replica_that_may_still_be_elected(self) -> None:
        """Broker 2 had it, is fenced, and still eligible."""
        scene = written().changed("w/0", 1, ("2", "2"), ("123", "123"), term=1)
        scene.changed("w/0", 5000, ("2", "3"), ("123", "3"), eligible_replicas=("2",)).fenced("2", 5000)

        assert verdicts(read(scene, (0, 9, 0), (60, 159, 20))) == [(STRANDED, "electable_replica_away", 10, 19)]

    @pytest.mark.parametrize("eligible", [(), ("1",)])
    def test_a_replica_that_can_not_be_elected_brings_nothing_back(self, eligible: tuple[str, ...]) -> None:
        scene = written().changed("w/0", 1, ("2", "2"), ("123", "23"), term=1)
        scene.changed("w/0", 5000, ("2", "3"), ("23", "3"), eligible_replicas=eligible).fenced("2", 5000).fenced("1", 400)

        assert [one[0] for one in verdicts(read(scene, (0, 9, 0), (60, 159, 20)))] == [LOST]

    def test_once_it_is_back_and_the_record_is_still_missing_it_is_lost(self) -> None:
        scene = written().changed("w/0", 1, ("2", "2"), ("123", "123"), term=1)
        scene.changed("w/0", 5000, ("2", "3"), ("123", "3"), eligible_replicas=("2",)).fenced("2", 5000)
        scene.control("broker_unfenced", 9000, broker="2")

        assert [one[0] for one in verdicts(read(scene, (0, 9, 0), (60, 159, 20)))] == [LOST]


def test_a_leader_does_not_cut_its_own_log() -> None:
    (one,) = found(read(written(new_leader="2", terms=(4, 4)), (0, 19, 0), (60, 159, 20)))

    assert (one.verdict, lasting_ms(one.span)) == (PRESENT, (0, 0))


class TestCommitted:
    """A user's partition: watched once a second, answered within 2 ms; broker 2 led it until it was killed at 30 s."""

    @staticmethod
    def scene(timeline: str = "G" * 30 + "X" * 10 + "G" * 20) -> Scene:
        scene = Scene().stream("u/0", "leader", (timeline[:30], "2"), period_ms=1000, term=1)
        scene.stream("u/0", "leader", (timeline[30:], "3"), period_ms=1000, begin_ms=30_000, term=2, prober="watch-2")
        scene.changed("u/0", 39_000, ("2", "3"), ("123", "13")).fenced("2", 39_000)
        return scene.epoch_end("u/0", 41_000, 150, 50)

    def test_records_below_the_highest_watermark_that_are_gone_were_committed(self) -> None:
        (one,) = found(self.scene())

        assert (one.verdict, one.evidence, one.records.low, one.records.high) == (LOST, "epoch_end", 100, None)
        assert (one.acked_from_us, one.acked_to_us) == (us(36_000), us(37_000))

    def test_the_span_is_bounded_by_the_samples_where_they_were_answered(self) -> None:
        scene = Scene().stream("u/0", "leader", ("G" * 60, "2"), period_ms=1000, term=1, prober="watch")
        scene.epoch_end("u/0", 41_000, 150, 50)
        (one,) = found(scene)

        # The samples are a period and an answer apart, at most: 1000 ms between them prove nothing more.
        assert lasting_ms(one.span) == (0, None)
