"""Where control plane, metrics, clients and clocks disagree: each finding with what everybody said, and none where they agree."""

import pytest

from pipelines.domain.findings import Finding
from pipelines.domain.observations import BrokerMetrics, ClockSeen
from tests.scenes import Scene, partition_of, us

HOUR_US = 3_600_000_000
SHRINKS = "IsrShrinksPerSec.Count"


def findings(scene: Scene) -> list[Finding]:
    return scene.derived().findings


def named(scene: Scene) -> list[str]:
    return [one.finding for one in findings(scene)]


def polled(scene: Scene, broker: str, *counts: tuple[float, float]) -> Scene:
    for at_ms, count in counts:
        span = {"started_at_us": us(at_ms - 5), "ended_at_us": us(at_ms)}
        scene.add(BrokerMetrics, "metrics", broker=broker, outcome="ACKED", values={SHRINKS: count}, **span)
    return scene


def clock(scene: Scene, host: str, at_ms: float, offset_us: int) -> Scene:
    return scene.add(
        ClockSeen,
        "canary",
        host=host,
        method="append_time",
        clock_offset_us_min=offset_us - 400,
        clock_offset_us_max=offset_us + 600,
        started_at_us=us(at_ms),
        ended_at_us=us(at_ms),
    )


class TestClocks:
    @pytest.mark.parametrize(("by", "way"), [(2 * HOUR_US, "forward"), (-2 * HOUR_US, "back")])
    def test_a_step_is_told_with_its_size(self, by: int, way: str) -> None:
        found = findings(clock(clock(Scene(), "2", 0, 0), "2", 10_000, by))

        step = next(one for one in found if one.finding == "clock_stepped")
        assert (step.subject, step.started_us, step.ended_us) == ("2", us(0), us(10_000))
        assert f"set {way} by" in step.said

    def test_a_clock_that_is_off_is_told_once(self) -> None:
        assert named(clock(clock(Scene(), "2", 0, 2 * HOUR_US), "2", 10_000, 2 * HOUR_US)) == ["clock_skewed"]

    def test_a_good_clock_is_not_told(self) -> None:
        assert named(clock(clock(Scene(), "2", 0, 300), "2", 10_000, 300)) == []

    def test_events_of_a_clock_that_nothing_bounds_are_named(self) -> None:
        scene = Scene().control("broker_fenced", 8000, broker="1", stamped_by="9", unseen_at_us=us(7990))
        (one,) = findings(scene)

        assert (one.finding, one.subject, len(one.evidence)) == ("clock_unbounded", "9", 1)
        assert findings(clock(scene, "9", 8000, 0)) == []


class TestProbers:
    def test_a_prober_that_is_alone_in_its_view_is_named(self) -> None:
        scene = Scene().stream("t/0", "write", ("G" * 40 + "X" * 30 + "G" * 40, "1"), prober="a")
        scene.stream("t/0", "write", ("G" * 110, "1"), prober="b")
        derived = scene.derived()

        (one,) = derived.findings
        assert (one.finding, one.subject, one.partition) == ("prober_alone", "a", partition_of("t/0"))
        assert one.said == "a was not served (write, raw); served meanwhile: b"
        assert [explained.recovery.cause for explained in derived.outages] == ["prober_alone"]
        assert derived.service_windows == []


class TestShrinks:
    """Two replicas leave: 2 is fenced by the controller, 3 is dropped by its leader for lagging."""

    @staticmethod
    def scene(*counts: tuple[float, float]) -> Scene:
        scene = Scene().changed("t/0", 20_000, ("1", "1"), ("123", "13")).fenced("2", 20_000)
        return polled(scene.changed("t/0", 60_000, ("1", "1"), ("13", "1")), "1", *counts)

    def test_what_the_controller_shrank_is_in_no_counter(self) -> None:
        (one,) = findings(self.scene((1000, 0), (30_000, 0), (62_000, 1), (100_000, 1)))

        assert one.finding == "isr_shrinks_uncounted"
        assert one.control_plane == "1 replicas left their ISR: 1 fenced"
        assert one.metrics == "IsrShrinksPerSec rose by 1 on 1 brokers"

    @pytest.mark.parametrize("counted", [0, 2])
    def test_a_counter_that_differs_from_what_the_leader_proposed_is_named(self, counted: float) -> None:
        found = findings(self.scene((1000, 0), (100_000, counted)))

        one = next(one for one in found if one.finding == "isr_shrinks_disagree")
        assert one.said == f"broker 1 counts {counted} ISR shrinks of its own, the control plane shows 1"
        assert len(one.evidence) == 1

    def test_at_the_edge_of_what_was_polled_it_may_fall_on_either_side(self) -> None:
        for counted in (0, 1):
            assert "isr_shrinks_disagree" not in named(self.scene((1000, 0), (62_000, counted)))

    def test_a_counter_that_began_anew_says_nothing(self) -> None:
        assert "isr_shrinks_disagree" not in named(self.scene((1000, 7), (100_000, 0)))


class TestLeaders:
    @staticmethod
    def scene(*later: tuple[str, str]) -> Scene:
        scene = Scene().stream("t/0", "write", ("G" * 100, "2"), *later, term=1)
        return scene.changed("t/0", 5000, ("2", "3"), ("123", "13"))

    def test_a_leader_that_acknowledges_after_it_was_replaced_is_named(self) -> None:
        (one,) = findings(self.scene())

        assert (one.finding, one.subject) == ("old_leader_served", "2")
        assert one.control_plane == "leader 2 -> 3, epoch 2"

    def test_one_that_got_its_partition_back_is_not(self) -> None:
        scene = Scene().stream("t/0", "write", ("G" * 50, "2"), ("X" * 20, "3"), ("G" * 30, "2"), term=1)
        scene.changed("t/0", 5100, ("2", "3"), ("123", "13")).changed("t/0", 6900, ("3", "2"), ("13", "123"), term=3)

        assert "old_leader_served" not in named(scene)


def test_a_broker_that_serves_nobody_and_is_not_given_up_is_named() -> None:
    scene = Scene().stream("t/0", "write", ("G" * 50 + "H" * 400 + "G" * 50, "2"), term=1)
    scene.changed("u/0", 100, ("1", "1"), ("123", "12"))

    (one,) = findings(scene)
    assert (one.finding, one.subject) == ("not_served_though_alive", "2")
