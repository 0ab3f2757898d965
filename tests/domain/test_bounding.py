"""The probes that bound an outage are named so that their lines are found."""

from hypothesis import given

from pipelines.domain.bounding import bounding
from pipelines.domain.goods import is_good
from pipelines.domain.observations import Probes
from pipelines.domain.unavailability import outages
from tests.scenes import decided, runs_of
from tests.strategies import timelines


def numbers(runs: list[Probes]) -> list[tuple[int | None, ...]]:
    found = []
    for outage in outages(runs):
        of = bounding(runs, outage)
        names = (of.last_good, of.first_bad, of.last_bad, of.first_good)
        found.append(tuple(None if name is None else int(name.rpartition("/")[2]) for name in names))
    return found


def test_the_last_good_the_first_and_last_bad_and_the_first_good_are_named_by_run_and_sequence() -> None:
    runs = runs_of(decided("GGG" + "R" * 40 + "GG"))
    (outage,) = outages(runs)

    found = bounding(runs, outage)

    boot = runs[0].boot_id
    assert (found.last_good, found.first_bad) == (f"{boot}/2", f"{boot}/3")
    assert (found.last_bad, found.first_good) == (f"{boot}/42", f"{boot}/43")
    assert found.clock_id == runs[0].clock_id


def test_what_was_not_seen_has_no_name() -> None:
    assert numbers(runs_of(decided("R" * 40))) == [(None, 0, 39, None)]


def test_a_good_that_was_in_flight_at_the_first_bad_is_not_the_one_before() -> None:
    assert numbers(runs_of(decided("GL" + "R" * 40 + "GG"))) == [(0, 2, 41, 42)]


@given(timelines())
def test_every_named_probe_lies_in_a_run_of_its_own_kind(timeline: str) -> None:
    runs = runs_of(decided(timeline))
    for last_good, first_bad, last_bad, first_good in numbers(runs):
        for sequence, good in ((last_good, True), (first_bad, False), (last_bad, False), (first_good, True)):
            if sequence is not None:
                (run,) = [one for one in runs if one.first_sequence <= sequence <= one.last_sequence]
                assert is_good(run) == good
