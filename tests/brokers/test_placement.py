"""The canary's partitions cover every broker, and every leader-follower set where that is possible."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.brokers.kafka.placement import placement, uncovered


def racks(count: int, *, on: int = 0) -> dict[int, str | None]:
    return {node: f"az{node % on}" if on else None for node in range(1, count + 1)}


def sets(assignments: list[list[int]]) -> set[tuple[int, frozenset[int]]]:
    return {(one[0], frozenset(one[1:])) for one in assignments}


@pytest.mark.parametrize(
    ("brokers", "most", "expected"),
    [
        (racks(1), 64, 1),
        (racks(2), 64, 2),
        (racks(3), 64, 3),
        (racks(3, on=3), 64, 3),
        (racks(4), 64, 12),
        (racks(5), 64, 30),
        (racks(6), 64, 60),
        (racks(6, on=3), 64, 24),
        (racks(6, on=2), 64, 60),  # fewer racks than replicas: they cannot all differ
        (racks(7), 64, 63),  # 105 sets are too many: nine for each leader
        (racks(100), 64, 100),
        (racks(3), 1, 3),
    ],
)
def test_as_many_partitions_as_there_are_sets_within_the_limit(brokers: dict[int, str | None], most: int, expected: int) -> None:
    assert len(placement(brokers, 3, most)) == expected


@given(st.integers(1, 12), st.integers(0, 4), st.integers(1, 4), st.integers(1, 200))
def test_every_broker_leads_the_sets_are_distinct_and_racks_differ_where_they_can(
    count: int, on: int, replicas: int, most: int
) -> None:
    brokers = racks(count, on=on)

    found = placement(brokers, replicas, most)

    assert {one[0] for one in found} == set(brokers)
    assert len(sets(found)) == len(found)
    assert len(found) <= max(most, count)
    assert {len(one) for one in found} == {len(set(one)) for one in found} == {min(replicas, count)}
    if on and len(set(brokers.values())) >= min(replicas, count):
        assert all(len({brokers[node] for node in one}) == len(one) for one in found)


@given(st.integers(2, 7), st.integers(0, 4))
def test_with_room_enough_no_set_that_kafka_could_make_is_left_out(count: int, on: int) -> None:
    brokers = racks(count, on=on)
    replicas = min(3, count)
    has_racks = bool(on) and len(set(brokers.values())) >= replicas
    possible = {
        (leader, frozenset(others))
        for leader in brokers
        for others in itertools.combinations([node for node in brokers if node != leader], replicas - 1)
        if not has_racks or len({brokers[node] for node in (leader, *others)}) == replicas
    }

    assert sets(placement(brokers, 3, 10_000)) == possible


def test_the_leaders_take_turns() -> None:
    assert [one[0] for one in placement(racks(4), 3, 64)][:8] == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_broker_that_leads_nothing_gets_a_partition() -> None:
    assert uncovered([[1, 2, 3], [2, 3, 1]], racks(3), 3) == [[3, 1, 2]]
    assert uncovered(placement(racks(3), 3, 64), racks(3), 3) == []
