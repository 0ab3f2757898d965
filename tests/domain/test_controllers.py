"""Spans without a controller that could decide: since when, until when, why, and what waited for it."""

from typing import Any

import pytest

from pipelines.domain.controllers import ControllerWindow
from tests.scenes import Scene, lasting_ms, ms, partition_of, us


def windows(scene: Scene) -> list[ControllerWindow]:
    return scene.derived().controllers


def silent(scene: Scene, at_ms: float, *, pause: float = 500, broker: str = "2", term: int = 4) -> Scene:
    """It wrote last at an instant, and usually pauses for so long."""
    return scene.control("controller_silent", at_ms, broker=broker, term=term, ended_at_us=us(at_ms + pause) + 999)


def changed(scene: Scene, at_ms: float, leaders: tuple[str | None, str | None] = ("2", "3"), term: int = 5) -> Scene:
    return scene.control("controller_changed", at_ms, broker=leaders[1], previous_leader=leaders[0], leader=leaders[1], term=term)


def killed() -> Scene:
    """Broker 2 leads t/0 and is the controller; it is killed at 8000, replaced as the controller at 10100, fenced at 17000."""
    scene = Scene().stream("t/0", "write", ("G" * 80 + "X" * 95, "2"), ("G" * 40, "3"), term=1)
    scene = changed(silent(scene, 7900), 10_100)
    return scene.changed("t/0", 17_000, ("2", "3"), ("123", "13")).fenced("2", 17_000)


def test_it_begins_where_the_old_one_fell_silent_and_ends_with_the_first_decision_of_the_new_one() -> None:
    (one,) = windows(changed(silent(Scene(), 7900), 10_100))

    assert (ms(one.start), ms(one.end)) == ((7900, 8400.999), (10_100, 10_100.999))
    assert lasting_ms(one.length) == (1699.001, 2200.999)
    assert (one.controller_before, one.controller_after, one.term_before, one.term_after) == ("2", "3", 4, 5)
    assert one.cause == "controller_failed"


def test_where_it_stopped_as_a_broker_too_it_began_with_that() -> None:
    (one,) = windows(killed())

    assert ms(one.start) == (7900, 8001)
    assert one.cause == "controller_failed"
    assert "controller_silent at metadata log offset" in one.proof[0]


def test_partitions_that_were_served_again_only_after_it_waited() -> None:
    (one,) = windows(killed())

    assert [waited.partition for waited in one.waited] == [partition_of("t/0")]


def test_one_that_writes_again_by_itself_was_only_silent() -> None:
    scene = silent(Scene(), 7900).control("controller_resumed", 10_100, broker="2", term=4)
    (one,) = windows(scene)

    assert (one.cause, one.controller_before, one.controller_after) == ("controller_silent", "2", "2")
    assert ms(one.end) == (10_100, 10_100.999)


def test_one_that_had_said_that_it_leaves_was_moved() -> None:
    scene = Scene().control("broker_shutting_down", 7000, broker="2")
    (one,) = windows(changed(silent(scene, 7900), 8000))

    assert one.cause == "controller_moved"
    assert lasting_ms(one.length) == (0, 100.999)


def test_without_a_successor_it_is_open() -> None:
    (one,) = windows(silent(Scene(), 7900))

    assert one.is_open
    assert one.length.high is None


@pytest.mark.parametrize("previous", [None, "2"])
def test_a_change_without_a_silence_lasted_at_most_since_the_last_decision(previous: str | None) -> None:
    scene = changed(Scene().fenced("1", 4000), 10_100, (previous, "3"))

    found = windows(scene)
    assert len(found) == (1 if previous else 0), "the first controller that is seen follows nobody"
    assert all(ms(one.start) == (4000, 10_100.999) for one in found)


def test_a_controller_outage_is_an_incident_of_its_own() -> None:
    derived = changed(silent(Scene(), 7900), 10_100).derived()

    assert len(derived.incidents) == 1
    assert derived.outages == []


class TestClocksThatAreOff:
    """Found by the simulator: what a controller's own clock says of its silence."""

    OFF_MS = 7_200_000

    def written(self, scene: Scene, event: str, at_ms: float, *, by: str, off_ms: float = 0, **fields: Any) -> Scene:
        """An event that was stamped by a clock that is off, read at once; nothing bounds the clock."""
        return scene.control(event, at_ms + off_ms, stamped_by=by, seen_at_us=us(at_ms + 20), unseen_at_us=us(at_ms - 30), **fields)

    def test_a_silence_that_is_told_with_its_end_is_before_it_whatever_the_two_clocks_show(self) -> None:
        """Both have the position of the write that ended it, and the new controller's clock is two hours behind."""
        scene = self.written(Scene(), "broker_unfenced", 1_000, by="2", broker="1", offset=10)
        told = {"stamped_by": "2", "seen_at_us": us(10_120), "unseen_at_us": us(10_070)}
        scene.control("controller_silent", 7_900, broker="2", offset=20, **told)
        changed = {"broker": "3", "leader": "3", "previous_leader": "2"}
        self.written(scene, "controller_changed", 10_100, by="3", off_ms=-self.OFF_MS, offset=20, **changed)

        (one,) = windows(scene)
        assert not one.is_open
        assert one.start.holds(us(7_900)), "it fell silent after the last event, which was not seen before 970 ms"
        assert one.end.holds(us(10_100))

    def test_a_clock_that_is_set_forward_between_two_writes_makes_no_silence(self) -> None:
        scene = self.written(Scene(), "broker_unfenced", 1_000, by="2", broker="1", offset=10)
        told = {"broker": "2", "offset": 20, "stamped_by": "2", "seen_at_us": us(1_520), "unseen_at_us": us(1_470)}
        scene.control("controller_silent", 1_000, **told)
        scene.control("controller_resumed", 1_500 + self.OFF_MS, **told)

        assert windows(scene) == []
