"""A follower that cannot keep up holds up acks=all writes of every partition that it follows, until it is dropped."""

from pipelines.domain.windows import ACKS_ALL_STALLED, PartitionWindow
from tests.scenes import Scene, ms, partition_of

GOOD, LATER = "G" * 10, "G" * 20
U0, U1 = partition_of("u/0"), partition_of("u/1")


def straggling(*, other: str = "H" * 88 + "G" * 22) -> Scene:
    """3 lags from 1000 on; 1 drops it from c/0 at 9000 and from u/0 at 9500, 2 from c/1 at 9800; u/1 keeps it."""
    scene = Scene()
    scene.stream("c/0", "durable_write", (GOOD + "H" * 80 + LATER + "G" * 10, "1"), isr=("1", "2", "3"))
    scene.stream("c/1", "durable_write", (GOOD + other, "2"), isr=("2", "1", "3"))
    for name, leader, at, isr in (("c/0", "1", 9_000, "123"), ("u/0", "1", 9_500, "123"), ("c/1", "2", 9_800, "213")):
        scene.changed(name, at, (leader, leader), (isr, isr.replace("3", "")), term=1)
    for name, isr in (("u/0", "123"), ("u/1", "123")):
        scene.stream(name, "leader", ("G" * 10, "1"), period_ms=1000, term=1, isr=tuple(isr), prober="watch")
        scene.stream(name, "leader", ("G" * 3, "1"), period_ms=1000, begin_ms=10_000, term=1, isr=("1", "2"), prober="watch-2")
    return scene


def stalled(scene: Scene) -> dict[object, PartitionWindow]:
    return {one.partition: one for one, _ in scene.derived().windows if one.window == ACKS_ALL_STALLED and one.broker == "3"}


def test_acks_all_writes_of_every_partition_that_dropped_it_waited_for_it() -> None:
    found = stalled(straggling())

    assert ms(found[U0].start) == (900, 2000)
    low, high = ms(found[U0].end) or (None, None)
    assert low == 9_500
    assert high is not None
    assert high >= 9_500
    assert found[U0].evidence == "inferred"
    assert {one.partition("@")[0] for one in found[U0].proof[:2]} == {"c/0/durable_write/raw", "c/1/durable_write/raw"}


def test_where_it_was_never_dropped_it_may_have_kept_up() -> None:
    assert U1 not in stalled(straggling())


def test_the_cause_is_the_slow_member_for_probed_and_for_inferred_windows() -> None:
    derivation = straggling().derived()

    causes = {(one.stream.resource, one.recovery.cause, one.recovery.broker) for one in derivation.outages}
    assert causes == {("c", "isr_member_slow", "3")}
    assert {why.cause for one, why in derivation.windows if one.window == ACKS_ALL_STALLED} == {"isr_member_slow"}


def test_where_acks_all_writes_that_need_it_went_on_nothing_is_claimed() -> None:
    assert stalled(straggling(other="G" * 110)) == {}


def test_a_member_that_was_fenced_was_dead_and_not_slow() -> None:
    scene = straggling().fenced("3", 9_000)

    causes = {one.recovery.cause for one in scene.derived().outages}
    assert "isr_member_slow" not in causes
