"""The arithmetic of ledgers is the arithmetic of sets."""

from itertools import pairwise

from hypothesis import given

from pipelines.domain.sequences import Range, common, minus, size, union
from tests.strategies import ranges


def numbers(of: list[Range]) -> set[int]:
    return {number for first, last in of for number in range(first, last + 1)}


def is_canonical(of: list[Range]) -> bool:
    """Sorted, disjoint, and as few ranges as can be."""
    return all(first <= last for first, last in of) and all(a[1] + 1 < b[0] for a, b in pairwise(of))


def test_the_worked_example() -> None:
    assert minus([(0, 9)], [(3, 4), (8, 20)]) == [(0, 2), (5, 7)]


@given(ranges(), ranges())
def test_ranges_are_sets(one: list[Range], other: list[Range]) -> None:
    for found, expected in (
        (union(one), numbers(one)),
        (minus(one, other), numbers(one) - numbers(other)),
        (common(one, other), numbers(one) & numbers(other)),
    ):
        assert numbers(found) == expected
        assert is_canonical(found)
        assert size(found) == len(expected)
