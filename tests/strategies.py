"""Hypothesis strategies: timelines of probes, histories as lines, runs, ranges."""

from hypothesis import strategies as st

from tests.scenes import OUTCOMES

STRETCHES = st.tuples(st.sampled_from("GGGGLRRXHHHV."), st.integers(1, 25))


def timelines(*, min_stretches: int = 1, max_stretches: int = 10) -> st.SearchStrategy[str]:
    """Timelines of one stream (see `tests.scenes`): stretches of equal outcomes, some longer than 2g, some a single probe."""
    stretches = st.lists(STRETCHES, min_size=min_stretches, max_size=max_stretches)
    return stretches.map(lambda parts: "".join(letter * length for letter, length in parts))


def single_probes() -> st.SearchStrategy[str]:
    """Timelines in which every probe may differ from the one before."""
    return st.text(alphabet="".join(OUTCOMES), min_size=1, max_size=60)


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    """Where to cut a list of a length into parts."""
    return st.lists(st.integers(0, length), max_size=6).map(sorted)


def ranges(limit: int = 60) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Ranges of whole numbers, overlapping and unsorted."""
    pairs = st.tuples(st.integers(0, limit), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    return st.lists(pairs, max_size=8)


SEEDS = st.integers(0, 2**32)
"""Seeds of simulated histories."""
