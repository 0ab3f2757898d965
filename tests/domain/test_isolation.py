"""A leader that its followers cannot reach serves its clients, and acknowledges nothing by all: of every partition that it led."""

import pytest

from pipelines.domain.windows import ACKS_ALL_STALLED, PartitionWindow
from tests.scenes import Scene, ms, partition_of

GOOD, LATER = "G" * 10, "G" * 30
U0, U1, U2 = partition_of("u/0"), partition_of("u/1"), partition_of("u/2")


def cut_off(*, waits: str = "H" * 90, serves: str = "G" * 90, watched: str | None = None) -> Scene:
    """1 is cut off at 1000 and fenced at 10000; 2 is elected for c/0 and u/0, which had the ISR 123, and for u/1, which had 12."""
    scene = Scene()
    scene.stream("c/0", "write", (GOOD + serves, "1"), (LATER, "2"), term=1)
    scene.stream("c/0", "durable_write", (GOOD + waits, "1"), (LATER, "2"), isr=("1", "2", "3"))
    scene.fenced("1", 10_000)
    for name, isr in (("c/0", "123"), ("u/0", "123"), ("u/1", "12"), ("u/2", "123")):
        led = "3" if name == "u/2" else "1"
        scene.changed(name, 10_000, (led, "3" if led == "3" else "2"), (isr, isr.replace("1", "")), term=2)
        answered = "G" * 10 if led == "3" else "G" + (watched or serves[:9])
        answers = [(answered, led), ("G" * 5, "3" if led == "3" else "2")]
        for (timeline, leader), begin, term in zip(answers, (0, 10_400), (1, 2), strict=True):
            scene.stream(name, "leader", (timeline, leader), period_ms=1000, begin_ms=begin, prober=f"watch-{begin}", term=term)
    return scene


def stalled(scene: Scene) -> dict[object, PartitionWindow]:
    return {one.partition: one for one, _ in scene.derived().windows if one.window == ACKS_ALL_STALLED and one.broker == "1"}


def test_acks_all_writes_of_every_partition_that_it_led_waited_until_another_led() -> None:
    found = stalled(cut_off())

    # The last good write was issued at 900; the first that hung, at 1000, was given up 1000 later.
    assert ms(found[U0].start) == (900, 2000)
    assert ms(found[U0].end) == (10_000, 10_402)
    assert (found[U0].leader_before, found[U0].leader_after, found[U0].evidence) == ("1", "2", "inferred")
    assert found[U0].proof[0].startswith("c/0/durable_write/raw@")
    assert found[partition_of("c/0")].evidence == "probed"


def test_a_leader_that_is_missed_as_a_follower_too_is_isolated_all_the_same() -> None:
    scene = cut_off()
    scene.stream("c/2", "durable_write", (GOOD + "H" * 90 + LATER, "3"), isr=("1", "2", "3"))
    scene.changed("c/2", 10_000, ("3", "3"), ("123", "23"), term=1)

    found = stalled(scene)
    assert {U0, partition_of("c/2")} <= found.keys()
    assert found[U0].leader_before == "1"


def test_what_a_smaller_isr_waited_for_is_not_known() -> None:
    """u/1 needed 2 only; that c/0 waited may have been for 3."""
    assert U1 not in stalled(cut_off())


def test_a_partition_that_another_led_did_not_wait_for_an_isolated_leader() -> None:
    assert U2 not in stalled(cut_off())


def test_where_the_leader_reached_its_followers_for_a_probed_partition_nothing_is_claimed() -> None:
    scene = cut_off()
    scene.stream("c/1", "durable_write", (GOOD + "G" * 90, "1"), isr=("1", "2", "3"))
    scene.changed("c/1", 500, ("1", "1"), ("123", "123"), term=1)

    assert stalled(scene) == {}


def test_a_leader_that_hung_after_its_acks_all_writes_had_stopped_was_not_isolated() -> None:
    """Its writes waited for a follower that led nothing and came back in time; then it hung itself, and was fenced for that."""
    scene = cut_off(serves="G" * 30 + "H" * 60, watched="GGG" + "H" * 6)

    assert {one.window for one, _ in scene.derived().windows if one.partition == U0} == {"leader_unavailable"}


@pytest.mark.parametrize("serves", ["H" * 90, "X" * 90])
def test_a_broker_that_did_not_answer_was_absent_and_not_isolated(serves: str) -> None:
    windows = [one for one, _ in cut_off(serves=serves).derived().windows if one.partition == U0 and one.broker == "1"]

    assert ACKS_ALL_STALLED not in {one.window for one in windows}
    assert windows, "it had no serving leader"


def test_the_cause_is_the_broker_that_was_fenced() -> None:
    derivation = cut_off().derived()
    ((_, recovery),) = [(one, why) for one, why in derivation.windows if one.partition == U0 and one.window == ACKS_ALL_STALLED]

    assert (recovery.cause, recovery.broker) == ("leader_failed", "1")
    assert ms(recovery.fenced) == (10_000, 10_000.999)
