"""Positions as numbers, and sets of whole numbers as sorted, disjoint, closed ranges: the arithmetic of ledgers.

Example: `minus([(0, 9)], [(3, 4), (8, 20)]) == [(0, 2), (5, 7)]`.
"""

from collections.abc import Iterable

Range = tuple[int, int]


def number(position: str | None) -> int | None:
    """A position as a whole number; None where it is none: positions are words, and some systems have no numbers."""
    try:
        return None if position is None else int(position)
    except ValueError:
        return None


def union(ranges: Iterable[Range]) -> list[Range]:
    """The numbers that are in any of the ranges, as few ranges as can be."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def minus(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The numbers of `ranges` that are in none of `taken`."""
    left: list[Range] = []
    holes = union(taken)
    for first, last in union(ranges):
        at = first
        for hole_first, hole_last in holes:
            if hole_last < at or hole_first > last:
                continue
            if hole_first > at:
                left.append((at, hole_first - 1))
            at = hole_last + 1
        if at <= last:
            left.append((at, last))
    return left


def common(ranges: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    """The numbers that are in both."""
    ranges = union(ranges)
    return minus(ranges, minus(ranges, others))


def size(ranges: Iterable[Range]) -> int:
    """How many numbers there are in disjoint ranges."""
    return sum(last - first + 1 for first, last in ranges)
