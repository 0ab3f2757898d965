"""Facts are the same however their lines were read: in any order, twice, in shorter forms."""

import random

import pytest
from hypothesis import given, settings

from pipelines.brokers.simulated import simulate
from pipelines.brokers.simulated.history import shuffled
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts
from pipelines.domain.observations import Control, Probes
from tests.scenes import Scene, partition_of, stream
from tests.strategies import SEEDS


@given(SEEDS)
@settings(max_examples=8)
def test_order_and_repetition_change_nothing(seed: int) -> None:
    history = simulate(seed, incidents=2)
    facts = Facts.of(history.observations)
    again = Facts.of(shuffled(history.observations, random.Random(seed)))

    assert again == facts
    assert derive(again, []) == derive(facts, [])


@given(SEEDS)
@settings(max_examples=8)
def test_shorter_forms_of_runs_that_were_extended_change_nothing(seed: int) -> None:
    observations = simulate(seed, incidents=2).observations
    longest = {
        (one.prober_id, one.boot_id, one.resource, one.shard, one.kind, one.first_sequence): one
        for one in observations
        if isinstance(one, Probes)
    }
    without = [one for one in observations if not isinstance(one, Probes)] + list(longest.values())

    assert len(without) < len(observations)
    assert derive(Facts.of(without), []) == derive(Facts.of(observations), [])


def test_a_closed_run_is_the_last_word_on_an_open_one_of_the_same_length() -> None:
    scene = Scene().stream("t/0", "write", ("GGG", "1"))
    (closed,) = (one for one in scene.observations if isinstance(one, Probes) and one.count == 3)

    (kept,) = Facts.of(reversed(scene.observations)).probes[stream("t/0", "write")]
    assert kept == closed
    assert not kept.is_open


def test_one_decision_that_two_collectors_read_is_one() -> None:
    scene = Scene()
    for prober in ("one", "two"):
        at = {"position": "7", "started_at_us": 5_000, "ended_at_us": 5_999, "seen_at_us": 6_000}

        scene.add(Control, prober, event="broker_fenced", source="metadata_fetch", broker="2", **at)

    assert len(scene.facts().controls) == 1


@pytest.mark.parametrize(("polled_us", "is_kept"), [(1_000, True), (9_000, False)], ids=["before the log was read", "beside the log"])
def test_polled_decisions_count_only_from_before_the_log_was_read(polled_us: int, is_kept: bool) -> None:

    scene = Scene()
    log = {"position": "7", "started_at_us": 5_000, "ended_at_us": 5_999, "seen_at_us": 6_000}
    scene.add(Control, "log", event="broker_fenced", source="metadata_fetch", broker="2", **log)
    poll = {"started_at_us": polled_us, "ended_at_us": polled_us + 500, "seen_at_us": polled_us + 500}
    scene.add(Control, "poll", event="broker_fenced", source="admin_poll", broker="3", **poll)

    assert any(one.broker == "3" for one in scene.facts().controls) == is_kept


def test_what_is_looked_up_by_partition_is_there_once_and_in_order_of_time() -> None:
    scene = Scene().stream("t/0", "write", ("GG", "1")).stream("t/0", "leader", ("GG", "1"))
    scene.changed("t/0", 500, ("1", "2"), ("123", "23")).changed("t/0", 900, ("2", "1"), ("23", "123"), term=3)
    scene.fenced("1", 500).told("t/0", 510, 600, ("1", "2"))
    facts = scene.facts()
    partition = partition_of("t/0")

    assert [one.term for one in facts.partition_events[partition]] == [2, 3]
    assert [one.event for one in facts.broker_events["1"]] == ["broker_fenced"]
    assert len(facts.told[partition]) == 1
    assert len(facts.answers[partition]) == 2
