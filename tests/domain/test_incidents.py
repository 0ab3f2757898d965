"""Which outages are one incident, and what an incident is called."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.incidents import QUIET_US, Incident, incident_of, incidents
from pipelines.domain.intervals import Bounds

SECOND = 1_000_000
DAY = 1_790_000_000 * SECOND


def span(begin: float, end: float | None, width: float = 0.1) -> tuple[Bounds, Bounds]:
    low, high = DAY + round(begin * SECOND), None if end is None else DAY + round(end * SECOND)
    start = Bounds(low, low + round(width * SECOND))
    return start, Bounds(low if high is None else high - round(width * SECOND), high)


def test_outages_less_than_a_minute_apart_are_one_incident() -> None:
    assert len(incidents("c", [span(0, 9), span(35, 36), span(120, 121)])) == 2


def test_an_open_outage_keeps_its_incident_open() -> None:
    (one,) = incidents("c", [span(0, None), span(5000, 5001)])

    assert one.high_us is None


def test_an_outage_that_began_before_we_looked_has_an_incident_too() -> None:
    (one,) = incidents("c", [(Bounds(None, DAY), Bounds(DAY, DAY + SECOND))])

    assert one.low_us == DAY


def test_an_incident_is_named_by_the_time_of_its_first_outage_and_its_cluster() -> None:
    (one,), (other,) = incidents("c", [span(0, 9)]), incidents("another", [span(0, 9)])

    assert one.incident_id.startswith("20260921-1413")
    assert one.incident_id != other.incident_id


def test_a_longer_end_and_later_outages_do_not_rename_it() -> None:
    (first,) = incidents("c", [span(0, None)])
    (later,) = incidents("c", [span(0, 9), span(20, 30)])

    assert first.incident_id == later.incident_id


def test_a_span_outside_of_every_incident_belongs_to_none() -> None:
    found = incidents("c", [span(0, 9)])

    assert incident_of(found, *span(5, 6)) == found[0].incident_id
    assert incident_of(found, *span(500, 501)) is None
    assert incident_of([], *span(5, 6)) is None


SPANS = st.tuples(st.integers(0, 2000), st.integers(1, 90)).map(lambda pair: span(pair[0], pair[0] + pair[1]))


@given(st.lists(SPANS, max_size=12), st.randoms(use_true_random=False))
def test_every_outage_is_in_exactly_one_incident_whatever_their_order(spans: list[tuple[Bounds, Bounds]], rng: random.Random) -> None:
    found = incidents("c", spans)
    rng.shuffle(spans)

    assert incidents("c", spans) == found
    for start, end in spans:
        holding = [one for one in found if _holds(one, start, end)]
        assert len(holding) == 1
        assert incident_of(found, start, end) == holding[0].incident_id
    for earlier, later in pairwise(found):
        assert earlier.high_us is not None
        assert later.low_us > earlier.high_us + QUIET_US


def _holds(one: Incident, start: Bounds, end: Bounds) -> bool:
    assert start.low is not None
    assert end.high is not None
    return one.low_us <= start.low and (one.high_us is None or end.high <= one.high_us)
