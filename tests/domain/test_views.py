"""Several probers of one partition: what they say together of an outage, and when the service was down for all of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ClockSeen
from pipelines.domain.unavailability import outages
from pipelines.domain.views import Agreement, ServiceWindow, View, service_windows, views
from pipelines.silver.service_windows import rows
from tests.scenes import Scene, lasting_ms, ms, us

UP, DOWN = "G" * 40, "X" * 30
SEEN = UP + DOWN + UP
SERVED = "G" * 110
BLIND = "G" * 30 + "V" * 50 + "G" * 30


def scene(*timelines: tuple[str, str], clocks: dict[str, str] | None = None, begins: dict[str, float] | None = None) -> Scene:
    made = Scene()
    for prober, timeline in timelines:
        clock = (clocks or {}).get(prober, "clock")
        made.stream("t/0", "write", (timeline, "1"), prober=prober, clock_id=clock, begin_ms=(begins or {}).get(prober, 0))
    return made


def derived(made: Scene) -> tuple[dict[str, list[View]], list[ServiceWindow]]:
    facts = made.facts()
    by_stream = {stream: list(outages(runs)) for stream, runs in facts.probes.items()}
    found: dict[str, list[View]] = {}
    for (stream, _), view in sorted(views(facts, by_stream).items()):
        found.setdefault(stream.prober_id, []).append(view)
    return found, list(service_windows(facts, by_stream))


def agreement(*timelines: tuple[str, str]) -> dict[str, str]:
    return {prober: str(of[0].agreement) for prober, of in derived(scene(*timelines))[0].items()}


@pytest.mark.parametrize(
    ("timelines", "expected"),
    [
        pytest.param((("a", SEEN), ("b", SEEN)), {"a": "confirmed", "b": "confirmed"}, id="both saw it"),
        pytest.param((("a", SEEN), ("b", SERVED)), {"a": "alone"}, id="the other was served throughout"),
        pytest.param((("a", SEEN), ("b", BLIND)), {"a": "single"}, id="the other was blind"),
        pytest.param((("a", SEEN), ("b", SEEN), ("c", SERVED)), {"a": "disputed", "b": "disputed"}, id="from some places only"),
        pytest.param((("a", SEEN), ("b", SEEN), ("c", BLIND)), {"a": "confirmed", "b": "confirmed"}, id="who is blind says nothing"),
        pytest.param((("a", UP + "X" + UP + "G" * 29), ("b", SERVED)), {"a": "alone"}, id="one bad probe that nobody else met"),
    ],
)
def test_what_others_say_of_an_outage(timelines: tuple[tuple[str, str], ...], expected: dict[str, str]) -> None:
    assert agreement(*timelines) == expected


def test_who_asked_just_before_and_just_after_an_instant_has_looked() -> None:
    """A run that ends with a change of leader and the next one leave no probe in what was certainly a few ms."""
    made = scene(("a", UP + "XX" + UP)).stream("t/0", "write", ("G" * 41, "1"), ("G" * 41, "2"), prober="b", begin_ms=0.5)
    found, services = derived(made)

    assert [str(view.agreement) for view in found["a"]] == ["alone"]
    assert services == []


def test_of_a_prober_that_nobody_accompanies_nothing_is_said() -> None:
    assert derived(scene(("a", SEEN))) == ({}, [])


def test_it_says_who_saw_it_who_did_not_and_who_proves_the_contrary() -> None:
    found, _ = derived(scene(("a", SEEN), ("b", SEEN), ("c", SERVED), ("d", BLIND)))

    assert found["a"] == [View(Agreement.DISPUTED, ("b",), ("c",), ("c",))]


class TestServiceWindows:
    def test_the_service_was_down_while_it_was_down_for_all(self) -> None:
        _, (window,) = derived(scene(("a", SEEN), ("b", "G" * 42 + "X" * 26 + "G" * 42)))

        # a: bad from 4000 to 6900, b: from 4200 to 6700.
        assert ms(window.start) == (4100, 4201)
        assert ms(window.end) == (6700, 6802)
        assert lasting_ms(window.rto) == (6700 - 4201, 6802 - 4100)
        assert window.probers == ("a", "b")
        assert [one.bad_probes for _, one in window.proof] == [30, 26]

    def test_it_was_not_down_where_one_of_them_was_served(self) -> None:
        assert derived(scene(("a", SEEN), ("b", SERVED)))[1] == []
        assert derived(scene(("a", SEEN), ("b", SEEN), ("c", SERVED)))[1] == []

    def test_who_did_not_look_decides_nothing(self) -> None:
        for order in (("a", "b"), ("b", "a")):
            _, (window,) = derived(scene((order[0], SEEN), (order[1], BLIND)))
            assert ms(window.start) == (3900, 4001)

    def test_one_long_and_two_short_are_two(self) -> None:
        two = UP[:30] + "X" * 30 + "G" * 30 + "X" * 30 + UP
        _, found = derived(scene(("a", UP[:28] + "X" * 100 + UP), ("b", two)))

        assert [ms(one.start) for one in found] == [(2900, 3001), (8900, 9001)]
        assert all((one.rto.high or 0) <= 3_200_000 for one in found)

    def test_it_is_open_while_all_of_them_are(self) -> None:
        _, (both,) = derived(scene(("a", UP + DOWN), ("b", UP + DOWN)))
        _, (one,) = derived(scene(("a", UP + DOWN), ("b", UP + "X" * 20 + "G" * 10)))

        assert both.is_open
        assert both.rto.high is None
        assert not one.is_open

    def test_bounds_hold_where_the_probers_clocks_are_hours_apart_and_brokers_prove_by_how_much(self) -> None:
        hours = 7_200_000.0
        made = scene(("a", SEEN), ("b", SEEN), clocks={"b": "other"}, begins={"b": hours})
        for clock, begin, offset in (("clock", 0.0, 0), ("other", hours, -7_200_000_000)):
            made.add(
                ClockSeen,
                "clocks",
                clock_id=clock,
                host="1",
                method="append_time",
                clock_offset_us_min=offset - 400,
                clock_offset_us_max=offset + 600,
                started_at_us=us(begin),
                ended_at_us=us(begin + 10),
            )
        found, (window,) = derived(made)

        assert {of[0].agreement for of in found.values()} == {Agreement.CONFIRMED}
        assert window.start.holds(us(4000))
        assert (window.start.high or 0) - (window.start.low or 0) < 105_000
        ((prober, clock_id, moved),) = window.apart
        assert (window.clock_id, prober, clock_id) == ("clock", "b", "other")
        assert moved.holds(-7_200_000_000)
        (row,) = rows(made.derived())
        (said,) = row["clocks_apart"]
        low, high = re.findall(r"-?\d+\.\d{3}", said)
        assert (float(low), float(high)) == ((moved.low or 0) / 1000, (moved.high or 0) / 1000)
        assert said.startswith("b: ")

    def test_where_nobody_knows_how_far_their_clocks_are_apart_they_do_not_speak_of_each_other(self) -> None:
        found, windows = derived(scene(("a", SEEN), ("b", SERVED), clocks={"b": "other"}))

        assert [str(one.agreement) for one in found["a"]] == ["single"]
        assert [one.probers for one in windows] == [("a",)]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(25, 60)), min_size=2, max_size=3))
def test_the_service_window_holds_the_intersection_of_what_each_was_not_served(spans: list[tuple[int, int]]) -> None:
    """Each prober is not served from one probe to another; all of them look all the time."""
    length = 200
    timelines = [
        (f"p{number}", "G" * 30 + "G" * at + "X" * long + "G" * (length - at - long)) for number, (at, long) in enumerate(spans)
    ]
    _, found = derived(scene(*timelines))
    begin = max(at for at, _ in spans)
    end = min(at + long for at, long in spans)
    if end - begin >= 2:
        (window,) = found
        # The truth: not served from just after the last good probe to the first good one, in the tightest of all.
        assert window.start.holds(us((30 + begin) * 100))
        assert window.end.holds(us((30 + end) * 100))
        assert window.rto == Bounds(window.rto.low, window.rto.high)
        assert (window.rto.low or 0) <= (end - begin) * 100_000 <= (window.rto.high or 0)
    else:
        assert all((one.rto.low or 0) == 0 for one in found)
