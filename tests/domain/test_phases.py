"""Why an outage was one, and the ordered boundaries of its recovery.

Broker 2 leads w/0 and is in the ISR of d/1, led by broker 1; it stops at 250 ms.
"""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.brokers.simulated import Fault, Scenario, simulate
from pipelines.brokers.simulated.reading import READABLE_US_MAX
from pipelines.domain.derivation import Explained, derive
from pipelines.domain.facts import Facts
from pipelines.domain.intervals import Bounds
from pipelines.domain.phases import Phases, Recovery, _ordered, phases
from pipelines.domain.windows import ACKS_ALL_STALLED
from pipelines.silver import events, outage_windows
from tests.scenes import Scene, lasting_ms, ms, stream
from tests.strategies import SEEDS

DOWN, UP = "H" * 90, "G" * 300
PARTITION = {"resource": "w", "shard": "0"}


def killed(*, after: str = "3", down: str = DOWN) -> Scene:
    scene = Scene().stream("w/0", "write", ("GGG" + down, "2"), (UP, after)).stream("w/1", "write", ("G" * 400, "1"))
    return scene.stream("d/1", "durable_write", ("GGG" + down + UP, "1"))


def failed_over(scene: Scene) -> Scene:
    scene.changed("w/0", 9050, ("2", "3"), ("123", "13"), is_unclean=False).fenced("2", 9050)
    return scene.changed("d/1", 9050, ("1", "1"), ("123", "13"), term=1)


def explained(scene: Scene, name: str = "w/0", kind: str = "write") -> Explained:
    (one,) = (each for each in scene.derived().outages if each.stream == stream(name, kind))
    return one


def test_a_leader_that_died_has_all_boundaries() -> None:
    one = explained(failed_over(killed()).told("w/0", 9070, 9140, ("2", "3")))
    why = one.recovery

    assert (why.cause, why.broker, why.is_clean_election) == ("leader_failed", "2", True)
    assert [ms(each) for each in (why.fenced, why.elected, why.known)] == [(9050, 9050.999), (9050, 9050.999), (9070, 9140)]


def test_every_boundary_names_the_event_that_says_so() -> None:
    scene = failed_over(killed()).told("w/0", 9070, 9140, ("2", "3"))
    derived = scene.derived()
    (row,) = (each for each in outage_windows.rows(derived) if (each["resource"], each["shard"]) == ("w", "0"))
    said = {each["event_id"]: each for each in events.rows(derived)}

    named = [said[row[f"{name}_by"]] for name in ("fenced", "elected", "known")]
    assert [each["event"] for each in named] == ["broker_fenced", "partition_changed", "leader_seen"]
    assert [each["happened_at_min"] for each in named] == [row[f"{name}_at_min"] for name in ("fenced", "elected", "known")]


def test_a_boundary_that_no_event_says_names_none() -> None:
    of_write = explained(failed_over(killed())).recovery
    assert (of_write.known is not None, of_write.known_by) == (True, None), "at the latest by the first served probe"

    follower = explained(failed_over(killed()), "d/1", "durable_write").recovery
    assert (follower.fenced_by is not None, follower.elected_by, follower.known_by) == (True, None, None)


def test_clients_were_told_at_the_latest_when_one_of_them_was_served() -> None:
    one = explained(failed_over(killed()))

    assert ms(one.recovery.known) == (9050, 9302)


def test_the_phases_of_the_worked_example() -> None:
    start, end = Bounds(90, 160), Bounds(8200, 8310)
    why = Recovery("leader_failed", "2", Bounds(8050, 8051), Bounds(8050, 8051), Bounds(8100, 8180))

    assert phases(start, why, end) == Phases(Bounds(7890, 7961), Bounds(0, 1), Bounds(49, 130), Bounds(20, 210))


def test_a_phase_that_does_not_apply_is_absent_and_not_nought() -> None:
    of = phases(Bounds(90, 160), Recovery("isr_member_dead", "2", fenced=Bounds(8050, 8051)), Bounds(8100, 8200))

    assert of == Phases(Bounds(7890, 7961), None, None, Bounds(49, 150))
    assert phases(Bounds(90, 160), Recovery("unknown", None), Bounds(8100, 8200)) == Phases(None, None, None, None)


def test_a_followers_partition_waits_for_a_dead_member_and_has_no_election() -> None:
    why = explained(failed_over(killed()), "d/1", "durable_write").recovery

    assert (why.cause, why.broker, ms(why.fenced)) == ("isr_member_dead", "2", (9050, 9050.999))
    assert (why.elected, why.known, why.is_clean_election) == (None, None, None)


def test_a_leader_that_hung_and_came_back_failed_without_an_election() -> None:
    why = explained(killed(after="2")).recovery

    assert why == Recovery("leader_failed", "2")


@pytest.mark.parametrize("decided_ms", [280, 150], ids=["while it was felt", "just before it was felt"])
def test_a_move_in_order_is_a_move_and_nothing_was_detected(decided_ms: int) -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + "R" * 30, "2"), (UP, "3")).changed("w/0", decided_ms, ("2", "3"), ("123", "123"))
    why = explained(scene).recovery

    assert (why.cause, why.broker, why.fenced) == ("leader_moved", "2", None)
    of_outage = explained(scene).outage
    expected = ms(of_outage.start) if decided_ms == 150 else (280, ms(of_outage.start)[1])
    assert ms(why.elected) == expected, "what was decided before the outage is there from its first instant on"


def test_a_broker_that_shuts_down_in_order_moved_its_partitions_although_it_is_fenced_in_the_end() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + "R" * 15, "2"), (UP, "3")).control("broker_shutting_down", 200, broker="2")
    why = explained(scene.changed("w/0", 260, ("2", "3"), ("123", "13")).fenced("2", 900)).recovery

    assert (why.cause, why.fenced) == ("leader_moved", None)


def test_a_leaderless_span_is_explained_by_the_leader_that_failed_and_ends_with_the_one_that_took_over() -> None:
    scene = killed().changed("w/0", 7050, ("2", None), ("2", "2")).fenced("2", 7050)
    why = explained(scene.changed("w/0", 9050, (None, "3"), ("2", "3"), term=3, is_unclean=True)).recovery

    assert (why.cause, why.broker, why.is_clean_election) == ("leader_failed", "2", False)
    assert [ms(each) for each in (why.fenced, why.elected)] == [(7050, 7050.999), (9050, 9050.999)]


def test_too_few_replicas_are_named_as_such() -> None:
    scene = Scene().stream("d/1", "durable_write", ("GGG" + "N" * 30 + UP, "1"))

    assert explained(scene, "d/1", "durable_write").recovery == Recovery("under_min_isr", None)


def test_what_nothing_explains_is_unknown() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + DOWN + UP, "2")).stream("w/2", "write", ("G" * 400, "2"))

    assert explained(scene).recovery == Recovery("unknown", None)


@pytest.mark.parametrize("removed_ms", [260, 180])
def test_what_begins_with_the_removal_of_its_topic_is_somebodys_decision(removed_ms: float) -> None:
    """Decided while it was felt, and 20 ms before the last write that was served."""
    scene = Scene().stream("w/0", "write", ("GGG" + "R" * 30 + UP, "2")).stream("w/2", "write", ("G" * 400, "2"))
    scene.control("partition_removed", removed_ms, **PARTITION)

    assert explained(scene).recovery == Recovery("topic_deleted", None)


def test_a_topic_that_was_made_anew_before_an_outage_began_was_not_deleted_by_it() -> None:
    scene = Scene().stream("w/0", "write", ("GGG" + "R" * 30 + UP, "2")).stream("w/2", "write", ("G" * 400, "2"))
    scene.control("partition_removed", 80, **PARTITION).control("partition_created", 120, **PARTITION)

    assert explained(scene).recovery == Recovery("unknown", None)


def test_a_partition_that_was_never_served_yet_has_just_been_made() -> None:
    scene = Scene().stream("w/0", "write", ("R" * 3 + UP, "2")).stream("w/2", "write", ("G" * 400, "2"))
    scene.control("partition_created", -1000, **PARTITION)

    assert explained(scene).recovery == Recovery("topic_created", None)


def test_a_leader_that_failed_explains_better_than_the_deletion_that_came_later() -> None:
    scene = killed().fenced("2", 9050).control("partition_removed", 9100, **PARTITION)

    assert explained(scene).recovery.cause != "topic_deleted"


def test_a_change_long_before_an_outage_does_not_explain_it() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 100 + "R" * 30 + UP, "3")).changed("w/0", 150, ("2", "3"), ("123", "123"))

    assert explained(scene).recovery.cause == "unknown"


def test_a_controller_whose_clock_is_off_is_not_believed() -> None:
    """Its fencing is stamped a minute too early: the boundary is dropped, the duration never negative."""
    scene = killed().changed("w/0", 9050, ("2", "3"), ("123", "13")).fenced("2", -51_000)

    assert explained(scene).recovery.fenced is None


def test_writes_that_wait_for_two_dead_members_have_a_window_for_each() -> None:
    faults = (Fault("kill", "2", 10_000_000, 30_000_000), Fault("kill", "3", 12_000_000, 30_000_000))
    derivation = derive(Facts.of(simulate(5, Scenario(faults=faults)).observations), [])
    stalls = [(window, why) for window, why in derivation.windows if window.window == ACKS_ALL_STALLED]

    assert {window.broker for window, _ in stalls} == {"2", "3"}
    assert all((why.cause, why.broker) == ("isr_member_dead", window.broker) for window, why in stalls)
    assert all(why.elected is None for _, why in stalls), "nobody is elected for want of a follower"


def test_a_window_is_explained_like_an_outage() -> None:
    derivation = failed_over(killed()).derived()
    causes = {(window.window, window.partition.resource): why.cause for window, why in derivation.windows}

    assert causes[("leader_unavailable", "w")] == "leader_failed"
    assert causes[("acks_all_stalled", "d")] == "isr_member_dead"


# --- what holds for every recovery ------------------------------------------------------------------------------------

INSTANTS = st.integers(0, 100)
BOUNDS = st.tuples(INSTANTS, INSTANTS).map(sorted).map(lambda pair: Bounds(*pair))


@given(BOUNDS, st.lists(st.one_of(st.none(), BOUNDS), max_size=4), BOUNDS, st.lists(INSTANTS, min_size=6, max_size=6).map(sorted))
def test_boundaries_are_ordered_and_lose_no_truth(start: Bounds, stated: list[Bounds | None], end: Bounds, true: list[int]) -> None:
    kept = _ordered(start, stated, end)

    known = [one for one in kept if one is not None]
    for earlier, later in pairwise(known):
        assert (earlier.low or 0) <= (later.low or 0)
        assert (earlier.high or 0) <= (later.high or 0)
    assert all((start.low or 0) <= (one.low or 0) and (one.high or 0) <= (end.high or 0) for one in known)
    instants = true[1 : 1 + len(stated)]
    is_true = start.holds(true[0]) and end.holds(true[-1])
    if is_true and all(one is None or one.holds(at) for one, at in zip(stated, instants, strict=True)):
        assert all((one is None) == (was is None) for one, was in zip(kept, stated, strict=True)), "what is true contradicts nothing"
        assert all(one is None or one.holds(at) for one, at in zip(kept, instants, strict=True))


@given(SEEDS)
@settings(max_examples=10)
def test_phases_of_simulated_outages_are_ordered_and_hold_the_truth(seed: int) -> None:
    history = simulate(seed, incidents=2)
    elections = {version.decided_us for versions in history.truth.trace.versions.values() for version in versions}

    for one in derive(Facts.of(history.observations), []).outages:
        why = one.recovery
        off = history.truth.clocks.of_prober(one.stream.prober_id)
        boundaries = [each for each in (one.outage.start, why.fenced, why.elected, why.known, one.outage.end) if each is not None]
        lows = [each.low for each in boundaries[:-1] if each.low is not None]
        highs = [each.high for each in boundaries[1:] if each.high is not None]
        assert lows == sorted(lows)
        assert highs == sorted(highs)
        begins = [down.begin_us for down in history.truth.lanes[one.stream]]
        instants = {max(at, begin) + off for at in elections for begin in begins}
        # A decision can be read a moment after it is written down, and where clocks say nothing readings bound it.
        assert why.elected is None or any(why.elected.holds(at) or why.elected.holds(at + READABLE_US_MAX) for at in instants)
        of = phases(one.outage.start, why, one.outage.end)
        durations = [each for each in (of.detection, of.election, of.propagation, of.first_write) if each is not None]
        assert all(each.low is not None and each.low >= 0 for each in durations)
        assert lasting_ms(one.outage.rto) is not None
