"""When a broker was absent: what proves it, what speaks against it, when it begins and ends.

Broker 2 leads w/0 (writes), reads of it, and u/0 (watched); broker 1 leads w/1. Probes every 100 ms, lambda 1 s.
"""

from typing import Any

from pipelines.domain.brokers import Absence, absences
from pipelines.domain.intervals import Bounds
from pipelines.domain.unavailability import outages
from tests.scenes import Scene, ms, us

DOWN = "H" * 90
"""Nine seconds of hangs: from 300 to 9200 ms."""

UP = "G" * 300


def found(scene: Scene) -> list[Absence]:
    facts = scene.facts()
    return absences(facts, {stream: list(outages(runs)) for stream, runs in facts.probes.items()})


def killed(*, after: str = "3", down: str = DOWN) -> Scene:
    """Broker 2 stops at 250 ms; w/0 goes to another, or stays."""
    scene = Scene().stream("w/0", "write", ("GGG" + down, "2"), (UP, after)).stream("w/1", "write", ("G" * 400, "1"))
    return scene.stream("w/0", "read", ("GGG" + down, "2"), (UP, after), begin_ms=-40)


def failed_over(scene: Scene, **fields: Any) -> Scene:
    return scene.changed("w/0", 9050, ("2", "3"), ("123", "13"), **fields).fenced("2", 9050)


def test_a_broker_is_absent_from_where_the_partitions_that_it_led_stopped() -> None:
    (one,) = found(failed_over(killed()))

    assert one.broker == "2"
    assert ms(one.start) == (160, 1300), "the hull of [200, 1300] and [160, 1260]"
    assert ms(one.fenced) == (9050, 9050.999)
    assert len(one.proof) == 2


def test_an_absence_ends_with_the_next_sign_of_life() -> None:
    scene = failed_over(killed()).control("broker_registered", 28_000, broker="2").control("broker_unfenced", 31_000, broker="2")

    (one,) = found(scene)
    assert ms(one.end) == (9200, 31_000.999), "not before its last unanswered probe, at the latest when it is unfenced"


def test_a_broker_that_leads_again_has_come_back() -> None:
    """It hung for nine seconds and was not fenced: its own partitions are answered again."""
    (one,) = found(killed(after="2"))

    assert one.fenced is None
    assert ms(one.end) == (9200, 9262)


def test_a_fencing_long_after_the_partitions_were_served_again_proves_nothing() -> None:
    """A single refused probe at 300 ms; the broker is fenced half a minute later."""
    scene = Scene().stream("w/0", "write", ("GGGX" + "G" * 300 + DOWN, "2"), (UP, "3")).stream("w/1", "write", ("G" * 700, "1"))
    scene.stream("w/0", "read", ("G" * 304 + DOWN, "2"), (UP, "3"))
    failed = scene.changed("w/0", 39_000, ("2", "3"), ("123", "13")).fenced("2", 39_000)

    assert [ms(one.start) for one in found(failed)] == [(30_300, 31_400)]


def test_a_broker_that_refused_the_first_bad_probe_itself_was_there() -> None:
    scene = failed_over(killed(down="R" * 90))

    assert found(scene) == []


def test_a_partition_that_was_moved_away_in_order_says_nothing_of_its_old_leader() -> None:
    scene = killed(down="X" * 30).changed("w/0", 280, ("2", "3"), ("123", "13"))

    assert found(scene) == []


def test_a_partition_that_left_with_a_broker_that_shuts_down_says_nothing_although_it_is_fenced_at_once() -> None:
    scene = killed(down="X" * 30).control("broker_shutting_down", 250, broker="2")
    scene.changed("w/0", 280, ("2", "3"), ("123", "13")).fenced("2", 900)

    assert found(scene) == []


def test_a_broker_that_answered_somebody_meanwhile_was_not_absent() -> None:
    scene = failed_over(killed()).stream("u/0", "leader", ("G" * 100, "2"))

    assert found(scene) == []


def test_one_partition_of_a_broker_that_stops_alone_is_the_partitions_trouble() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN + UP, "2")).stream("w/2", "write", ("G" * 400, "2"))

    assert found(scene) == []


def test_a_broker_that_only_the_prober_cannot_reach_is_not_absent_while_writes_that_need_it_go_on() -> None:
    cut_off = killed(after="2")
    in_isr = cut_off.stream("d/1", "durable_write", ("G" * 400, "1")).changed("d/1", -5000, ("1", "1"), ("13", "123"), term=1)

    assert found(in_isr) == []


def test_what_is_shorter_than_2g_proves_nothing_that_the_controller_did_not_see() -> None:
    assert found(killed(after="2", down="X" * 5)) == []


def test_a_sparse_probe_that_missed_a_short_hang_does_not_speak_against_it() -> None:
    """The watch asks every five seconds: once before and once after a hang of three seconds."""
    scene = killed(after="2", down="H" * 30).stream("u/0", "leader", ("G" * 8, "2"), period_ms=5000, begin_ms=-200)

    assert [one.broker for one in found(scene)] == ["2"]


def test_a_blind_prober_does_not_speak_against_an_absence() -> None:
    scene = killed(after="2").stream("w/3", "write", ("GGG" + "V" * 90 + UP, "2"))

    assert [one.broker for one in found(scene)] == ["2"]


def test_a_blind_prober_moves_the_begin_to_where_others_saw_it_or_it_was_fenced() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + "V" * 95 + "H" * 30, "2"), (UP, "3"))
    (one,) = found(scene.changed("w/0", 9050, ("2", "3"), ("123", "13")).fenced("2", 9050))

    assert ms(one.start) == (200, 9050.999)


def test_a_fenced_broker_that_led_nothing_stopped_when_the_writes_did_that_waited_for_it() -> None:
    scene = Scene().stream("d/0", "durable_write", ("GGG" + DOWN + UP, "1")).stream("w/0", "write", ("G" * 400, "1"))
    scene.changed("d/0", 9050, ("1", "1"), ("123", "13"), term=1).fenced("2", 9050)

    (one,) = found(scene)
    assert (one.broker, ms(one.start)) == ("2", (200, 1300))


def test_two_brokers_that_led_nothing_are_told_apart_by_their_fencing_only() -> None:
    scene = Scene().stream("d/0", "durable_write", ("GGG" + DOWN + UP, "1"))
    scene.changed("d/0", 9050, ("1", "1"), ("123", "13"), term=1).fenced("2", 9050)
    scene.changed("d/0", 9150, ("1", "1"), ("13", "1"), term=1).fenced("3", 9150)

    assert [(one.broker, ms(one.start)) for one in found(scene)] == [("2", (200, 9050.999)), ("3", (200, 9150.999))]


def test_the_leader_before_is_taken_from_the_control_plane_where_probes_do_not_know_it() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN + UP, None)).changed("w/0", 9050, ("2", "3"), ("123", "13")).fenced("2", 9050)

    assert [one.broker for one in found(scene)] == ["2"]


def test_an_absence_covers_what_may_lie_within_it() -> None:
    one = Absence("2", Bounds(us(100), us(200)), Bounds(us(900), None), (), (), None)

    assert not one.covers(Bounds(us(0), us(99)))
    assert one.covers(Bounds(us(50), us(150)))
    assert one.covers(Bounds(us(99_999), us(99_999)))
