"""Observers with clocks of their own: what each of them lived through is derived on its own clock, by what all of them saw."""

import pytest

from pipelines.domain.derivation import Explained
from pipelines.domain.observations import ClockSeen
from pipelines.domain.phases import LEADER_FAILED
from pipelines.domain.timelines import timelines
from tests.scenes import Scene, decided, stream, us

HOURS_MS = 7_200_000.0
TIMELINE = "G" * 40 + "X" * 60 + "G" * 40
"""Not served from 4,000 to 10,000 ms; the election is at 9,900 ms."""


def scene(*, is_bounded: bool, other: str = "there-1") -> Scene:
    """A control plane and a prober on one host, and a prober on another whose clock is two hours ahead."""
    made = Scene()
    for prober, clock, begin in (("a", "here-1", 0.0), ("b", other, HOURS_MS)):
        made.stream(
            "t/0",
            "write",
            (TIMELINE[:40], "2"),
            (TIMELINE[40:100], "2"),
            (TIMELINE[100:], "3"),
            prober=prober,
            clock_id=clock,
            begin_ms=begin,
        )
        for host in ("1", "2") if is_bounded else ():
            made.add(
                ClockSeen,
                f"clocks-{prober}",
                clock_id=clock,
                host=host,
                method="append_time",
                clock_offset_us_min=round(-begin * 1000) - 400,
                clock_offset_us_max=round(-begin * 1000) + 600,
                started_at_us=us(begin),
                ended_at_us=us(begin + 10),
            )
    for position, event in ((1, "partition_changed"), (2, "broker_fenced")):
        told = {
            "resource": "t",
            "shard": "0",
            "previous_leader": "2",
            "leader": "3",
            "term": 2,
            "isr": ("1", "3"),
            "previous_isr": ("1", "2", "3"),
        }
        made.control(event, 9_900, clock_id="here-1", position=str(position), **(told if position == 1 else {"broker": "2"}))
    return made


def outage_of(made: Scene, prober: str) -> Explained:
    (found,) = [one for one in made.derived().outages if one.stream == stream("t/0", "write", prober)]
    return found


def test_an_election_explains_the_outage_of_a_prober_whose_clock_is_hours_off_and_stands_on_that_clock() -> None:
    found = outage_of(scene(is_bounded=True), "b").recovery

    assert (found.cause, found.broker) == (LEADER_FAILED, "2")
    assert found.elected is not None
    assert found.elected.holds(us(HOURS_MS + 9_900))
    assert (found.elected.high or 0) - (found.elected.low or 0) <= 4_000, "what the two clocks are apart by, at least and at most"


def test_outages_of_another_clock_say_nothing_of_when_a_broker_was_absent() -> None:
    """Found by the simulator: two hours later by its own clock, a prober's outages made a second absence and windows of partitions."""
    made = scene(is_bounded=False)

    assert [one.start.holds(us(4_000)) for one, _ in made.derived().windows] == [True]
    assert outage_of(made, "b").recovery.fenced is None, "the fencing is hours away, or not: nobody knows"
    assert outage_of(made, "a").recovery.fenced is not None


@pytest.mark.parametrize("is_bounded", [True, False])
def test_the_outages_of_all_probers_of_one_fault_are_one_incident_where_their_clocks_can_be_compared(is_bounded: bool) -> None:
    derivation = scene(is_bounded=is_bounded).derived()

    assert len(derivation.incidents) == (1 if is_bounded else 2)
    for one in derivation.outages:
        assert derivation.incident_of(one.stream.prober_id, one.outage.start, one.outage.end) is not None


def test_a_read_back_misses_only_what_was_acknowledged_before_it_by_the_clock_of_who_wrote() -> None:
    """A prober whose clock is two hours behind seems to have had everything acknowledged long before."""
    for is_bounded, verdicts in ((True, [("LOST", 20)]), (False, [])):
        made = Scene()
        made.stream("w/0", "write", ("G" * 60, "1"), clock_id="there-1", begin_ms=-HOURS_MS)
        for clock, offset in (("here-1", 0.0), ("there-1", HOURS_MS)) if is_bounded else ():
            made.add(
                ClockSeen,
                "clocks",
                boot_id=clock,
                clock_id=clock,
                host="1",
                method="append_time",
                clock_offset_us_min=round(offset * 1000),
                clock_offset_us_max=round(offset * 1000) + 1000,
                started_at_us=us(-offset),
                ended_at_us=us(-offset + 10),
            )
        # Begun at 4,950 ms: 50 of the 60 had been acknowledged by then; 0 to 29 are there, and the log ends at 50.
        made.read_back("w/0", "write", 4_950, 50, (0, 29, 0), boot="boot-0", clock_id="here-1")

        found = made.derived().losses
        assert [(one.verdict, one.records.low) for one in found] == verdicts


def test_clocks_that_one_observer_read_one_after_the_other_and_those_of_one_boot_of_a_host_are_one_timeline() -> None:
    restarted = Scene()
    for number in (1, 2):
        probes = decided("G" * 20, begin_ms=number * 60_000, leader="1")
        restarted.add_probes("t/0", "write", probes, clock_id=f"b007000{number}-0000000a", boot_id=f"run-{number}")
    restarted.stream("t/0", "read", ("G" * 20, "1"), clock_id="b0070002-0000000b", prober="reader")

    assert [sorted(one.clock_ids) for one in timelines(restarted.facts())] == [
        ["b0070001-0000000a", "b0070002-0000000a", "b0070002-0000000b"]
    ]
    assert [sorted(one.clock_ids) for one in timelines(scene(is_bounded=True).facts())] == [["here-1"], ["there-1"]]


def test_clocks_that_somebody_else_numbered_are_not_of_one_host() -> None:
    numbered = Scene().stream("t/0", "write", ("G" * 20, "1"), clock_id="clock-1")
    numbered.control("broker_fenced", 1000, broker="1", clock_id="clock-2")

    assert [sorted(one.clock_ids) for one in timelines(numbered.facts())] == [["clock-1"], ["clock-2"]]
