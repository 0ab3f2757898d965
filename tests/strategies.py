"""Hypothesis strategies: timelines of probes, ranges, seeds of histories, and anything at all that is a line."""

import dataclasses
import typing
from typing import Any

from hypothesis import strategies as st

from pipelines.domain.landing import VOCABULARY, WHOLE
from pipelines.domain.observations import RECORDS, Control, ControlEvent, FoundRun, LateAcks, Observation, Probes, ReadBack
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


# --- anything that is a line ------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["1", "2", "3", "t", "-7", "x", "", "9" * 30, "0"])
SMALL = st.integers(-3, 40)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    int: st.one_of(SMALL, SMALL, SMALL, st.integers(WHOLE.start, WHOLE.stop - 1)),
    bool: st.booleans(),
    tuple[str, ...]: st.lists(WORDS, max_size=3).map(tuple),
    dict[str, float]: st.dictionaries(WORDS, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
}
NAMES = ("resource", "shard", "prober_id", "boot_id", "clock_id", "system")
BY_NAME = {"event": st.sampled_from(list(ControlEvent)), **dict.fromkeys(NAMES, st.sampled_from("112"))}
OFTEN = (Probes, Probes, Probes, Probes, Control, Control, Control, LateAcks, ReadBack)


@st.composite
def any_observations(draw: st.DrawFn) -> Observation:
    """Any record that the landing's format allows, sense or nonsense; few names and instants, so that records meet each other."""
    kind = draw(st.sampled_from([*RECORDS.values(), *OFTEN]))
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for one in dataclasses.fields(kind):
        arms = [arm for arm in typing.get_args(hints[one.name]) if arm is not type(None)]
        is_optional = type(None) in typing.get_args(hints[one.name])
        hint = arms[0] if is_optional else hints[one.name]
        strategy = BY_NAME[one.name] if one.name in BY_NAME else VALUES.get(hint, FOUND_RUNS)
        if one.name in VOCABULARY:
            strategy = st.sampled_from(sorted(VOCABULARY[one.name]))
        values[one.name] = draw(st.none() | strategy if is_optional else strategy)
    started, ended = sorted((values["started_at_us"], values["ended_at_us"]))
    values |= {"started_at_us": started, "ended_at_us": ended, "cluster_id": "c"}
    if "count" in values:
        values["count"] = draw(st.integers(1, 9))
    if "first_sequence" in values:
        values["last_sequence"] = values["first_sequence"] + values["count"] - 1
    return kind(**values)


FOUND_RUNS = st.lists(
    st.builds(FoundRun, boot_id=WORDS, first_sequence=SMALL, last_sequence=SMALL, first_position=SMALL, last_position=SMALL), max_size=2
).map(tuple)
