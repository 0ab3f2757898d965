"""What is derived from landings that somebody wrote by the document alone, held against what is known to have happened.

A service is served, refuses or hangs at instants that a test chooses (`tests.strangers`); probes are written down as they come, as runs
that are cut at changes only, or with open lines that grow. Instants are seconds.
"""

import random
from collections.abc import Sequence

import pytest

from pipelines.domain.derivation import Derivation
from pipelines.domain.intervals import Bounds
from pipelines.domain.unavailability import Outage
from tests.strangers import BEGIN_US, HUNG, REFUSED, Landing, Service, Span, asks, us

PERIOD, LAMBDA = 0.1, 1.0
STYLES = ("single", "naive", "growing")
FOREVER = 1e6


def found(derivation: Derivation) -> list[Outage]:
    return [one.outage for one in derivation.outages]


def seconds(bounds: Bounds) -> tuple[float | None, float | None]:
    low, high = (None if one is None else (one - BEGIN_US) / 1e6 for one in (bounds.low, bounds.high))
    return low, high


def holds(outage: Outage, truth: tuple[float, float]) -> bool:
    begin, end = truth
    is_open = end >= FOREVER
    is_end = outage.is_open if is_open else outage.end.holds(us(end)) and outage.rto.holds(us(end) - us(begin)) and not outage.is_open
    return outage.start.holds(us(begin)) and is_end


def width(outage: Outage) -> float:
    assert outage.rto.low is not None
    assert outage.rto.high is not None
    return (outage.rto.high - outage.rto.low) / 1e6


REFUSALS = ((10.03, 20.07, REFUSED, ""),)
HANG = ((10.03, 20.07, HUNG, ""),)

HISTORIES = [
    pytest.param(REFUSALS, [(10.03, 20.07)], 0.22, id="a killed leader"),
    pytest.param(HANG, [(10.03, 20.07)], 2.22, id="a hang: probes time out at lambda"),
    pytest.param(
        ((10.03, 14.0, HUNG, ""), (14.0, 20.07, REFUSED, "NOT_LEADER_OR_FOLLOWER")), [(10.03, 20.07)], 2.22, id="a hang, then refusals"
    ),
    pytest.param(
        (*REFUSALS, (31.5, 39.96, HUNG, ""), (55.0, 58.0, REFUSED, "")),
        [(10.03, 20.07), (31.5, 39.96), (55.0, 58.0)],
        2.22,
        id="three in a row",
    ),
    pytest.param(((10.03, 10.33, REFUSED, ""),), [(10.03, 10.33)], 0.22, id="three probes long"),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("down", "truth", "widest"), HISTORIES)
def test_every_outage_is_found_once_within_its_bounds_and_nothing_else(
    down: tuple[tuple[float, float, str, str], ...], truth: list[Span], widest: float, style: str
) -> None:
    landing = Landing()
    landing.probe("t", "0", "write", Service(down), 70, style=style)
    lines = landing.texts()
    random.Random(7).shuffle(lines)

    outages = found(landing.derived([*lines, *lines[:9]]))

    assert [holds(outage, span) for outage, span in zip(outages, truth, strict=True)] == [True] * len(truth)
    assert max(map(width, outages)) <= widest


@pytest.mark.parametrize("how", [REFUSED, HUNG])
@pytest.mark.parametrize(
    ("truth", "start", "end"),
    [
        pytest.param((-50.0, 20.07), None, 20.11, id="there before the first line"),
        pytest.param((10.03, FOREVER), 10.0, None, id="still there at the last line"),
        pytest.param((-50.0, FOREVER), None, None, id="all the time"),
    ],
)
def test_what_was_not_seen_to_begin_or_to_end_has_no_maximum(how: str, truth: Span, start: float | None, end: float | None) -> None:
    landing = Landing()
    landing.probe("t", "0", "write", Service(((*truth, how, ""),)), 40)

    (one,) = found(landing.derived())

    assert holds(one, truth)
    assert one.rto.high is None
    assert seconds(one.start)[0] == start
    assert (one.end.high is None) == (end is None)


@pytest.mark.parametrize("down", [REFUSALS, HANG])
@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("pause", [(9.5, 12.0), (14.0, 16.5), (19.5, 22.0), (20.02, 20.6), (5.0, 9.99), (10.01, 30.0)])
def test_a_prober_that_stood_still_at_the_edge_of_an_outage_widens_it_and_invents_nothing(
    down: tuple[tuple[float, float, str, str], ...], pause: Span, *, is_written: bool
) -> None:
    """It stood still and says so (VOID), or what it saw never came (a spool that dropped lines)."""
    blind: dict[str, Sequence[Span]] = {"pauses" if is_written else "lost": (pause,)}
    landing = Landing()
    landing.probe("t", "0", "write", Service(down), 45, **blind)

    outages = found(landing.derived())

    if pause == (10.01, 30.0):
        assert outages == [], "nobody saw it"
    else:
        (one,) = outages
        assert holds(one, (10.03, 20.07))


def test_a_pause_while_all_is_well_is_no_outage() -> None:
    landing = Landing()
    landing.probe("t", "0", "write", Service(), 45, pauses=((10, 10.3), (20, 31)))

    assert found(landing.derived()) == []


# --- clocks -----------------------------------------------------------------------------------------------------------


def moved(landing: Landing, begin: int, hours: float) -> None:
    """The lines from a number on, as a clock shows them that was set by so much."""
    for line in landing.lines[begin:]:
        for name in line:
            if name.endswith("_at_us"):
                line[name] += round(hours * 3.6e9)


@pytest.mark.parametrize("hours", [2, -2])
@pytest.mark.parametrize("boot", ["b1", "b2"])
def test_an_outage_in_which_the_probers_wall_clock_was_set_is_cut_and_does_not_stay_open(hours: float, boot: str) -> None:
    """By sequences where one boot read both clocks, else by what the brokers stamped."""
    probes = asks(Service(REFUSALS), 45, leader="1", term=1)
    landing = Landing().asked("t", "0", "write", [one for one in probes if one.issued < 15])
    begin = len(landing.lines)
    landing.asked("t", "0", "write", [one for one in probes if one.issued >= 15], boot=boot, clock="k2")
    moved(landing, begin, hours)
    for line in landing.lines if boot == "b2" else ():
        if line["outcome"] == "ACKED":
            away = 0 if line["clock_id"] == "k1" else -round(hours * 3.6e9)
            line |= {"clock_offset_us_min": away - 2_000, "clock_offset_us_max": away + 2_000}

    first, second = found(landing.derived())

    assert (first.is_cut, first.is_open, first.start.holds(us(10.03))) == (True, False, True)
    assert (second.before, second.is_open) == (None, False)
    assert second.end.holds(us(20.07) + round(hours * 3.6e9))


def test_an_event_that_was_stamped_ahead_of_the_instant_at_which_it_was_seen_was_not_decided_then() -> None:
    """Nothing bounds the controller's clock, and nobody said when the log was read before."""
    landing = Landing()
    landing.probe("t", "0", "write", Service(REFUSALS), 40, leader="1", term=4)
    for at, event in ((5, "broker_registered"), (18, "broker_fenced")):
        landing.control(event, at + 7200, seen_at=at + 0.4, broker="1", position=str(at), stamped_by="9")

    _, fenced = landing.derived().facts.controls

    assert fenced.started_at_us <= us(18) <= fenced.ended_at_us


# --- the control plane ------------------------------------------------------------------------------------------------


def killed(*, left_out: Sequence[str] = (), fenced_at: str | None = "106", served_at: float = 18.07) -> Landing:
    """Broker 1 is killed at 10.03, fenced at 18.05: it led a canary and orders/0, whose new leader serves at 18.07, and followed 2.

    `served_at`: since when clients have found the canary's new leader.
    """
    landing = Landing()
    down = Service(((10.03, served_at, REFUSED, ""),))
    now = {"leader": lambda at: "1" if at < served_at else "3", "term": lambda at: 4 if at < served_at else 5}
    landing.probe("canary", "0", "write", down, 60, **now)
    landing.probe("durable", "1", "durable_write", Service(((10.03, 18.07, HUNG, ""),)), 60, leader="2", term=7)
    state = {"isr": ["1", "2", "3"], "replicas": ["1", "2", "3"]}
    led = (("canary", "0", "1"), ("orders", "0", "1"), ("durable", "1", "2"), ("orders", "1", "2"))
    for number, (resource, shard, leader) in enumerate(led):
        landing.control("partition_created", -9, resource=resource, shard=shard, leader=leader, term=4, position=str(number), **state)
    landing.control("broker_fenced", 18.05, broker="1", position=fenced_at)
    for number, (resource, shard, leader) in enumerate(led):
        place = {"resource": resource, "shard": shard, "position": str(110 + number)}
        after = {"leader": "3" if leader == "1" else leader, "isr": ["2", "3"], "term": 5 if leader == "1" else 4}
        before = {"previous_leader": leader, "previous_isr": ["1", "2", "3"]}
        told = place | after | {name: value for name, value in before.items() if name not in left_out}
        landing.control("partition_changed", 18.05, **told)
    return landing


@pytest.mark.parametrize("left_out", [(), ("previous_leader",), ("previous_isr",), ("previous_leader", "previous_isr")])
def test_a_change_that_leaves_out_what_was_before_says_the_same_as_one_that_does_not(left_out: Sequence[str]) -> None:
    said = killed(left_out=left_out).derived()

    windows = {(one.window, one.partition.resource, one.partition.shard): one for one, _ in said.windows}
    assert set(windows) == {
        ("leader_unavailable", "canary", "0"),
        ("leader_unavailable", "orders", "0"),
        ("acks_all_stalled", "durable", "1"),
        ("acks_all_stalled", "orders", "1"),
    }
    for one in windows.values():
        assert one.start.holds(us(10.03))
        assert one.end.holds(us(18.07))
        assert one.leader_after == ("2" if one.partition.shard == "1" else "3")
    assert {one.cause for one in said.out_of_sync} == {"fenced"}
    assert len(said.out_of_sync) == 4


def test_a_fencing_without_a_position_counts_beside_changes_that_have_one() -> None:
    said = killed(fenced_at=None).derived()

    assert {one.cause for one in said.out_of_sync} == {"fenced"}
    assert all(one.recovery.fenced is not None for one in said.outages)


def test_where_the_line_is_lost_that_dropped_a_dead_replica_its_fencing_may_have_ended_the_stall() -> None:
    landing = killed(served_at=18.37)
    landing.lines = [one for one in landing.lines if one.get("position") != "113"]
    landing.control("broker_unfenced", 40, broker="1", position="200")

    (stalled,) = (
        one for one, _ in landing.derived().windows if one.window == "acks_all_stalled" and one.partition.resource == "orders"
    )

    assert (stalled.start.holds(us(10.03)), stalled.end.holds(us(18.07))) == (True, True)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"leader": "3", "previous_leader": "2"}, id="both are named"),
        pytest.param({"leader": "3"}, id="the one before is known from the line before"),
        pytest.param({"broker": "3"}, id="named as the broker that the event is about"),
    ],
)
def test_a_controller_that_was_replaced_was_gone_for_some_time(changed: dict[str, str]) -> None:
    landing = Landing()
    landing.control("controller_changed", 1, leader="2", term=3, position="10")
    landing.control("controller_silent", 10.0, ended_at=10.5, broker="2", term=3, position="50")
    landing.control("controller_changed", 12.0, term=4, position="50", **changed)

    (one,) = landing.derived().controllers

    assert (one.controller_before, one.controller_after, one.cause) == ("2", "3", "controller_failed")
    assert seconds(one.start) == (10.0, 10.5)
    assert one.end.holds(us(12))


def test_a_leader_that_is_an_empty_text_is_none() -> None:
    landing = Landing().control("partition_changed", 1, resource="orders", shard="0", leader="", previous_leader="1", position="1")

    (event,) = landing.derived().facts.controls

    assert event.leader is None


def test_a_controller_that_is_named_again_was_not_replaced() -> None:
    landing = Landing()
    for at in (1, 30):
        landing.control("controller_changed", at, leader="2", term=3, position=str(at))

    assert landing.derived().controllers == []


def test_a_leader_that_was_taken_off_and_went_on_serving_is_a_finding_and_no_outage() -> None:
    """The control plane has no leader for ten seconds; whoever asked was served throughout."""
    landing = Landing()
    landing.probe("orders", "0", "write", Service(), 40, leader="1")
    place = {"resource": "orders", "shard": "0", "replicas": ["1"], "isr": ["1"], "previous_isr": ["1"]}
    landing.control("partition_changed", 10, previous_leader="1", term=5, position="9", **place)
    landing.control("partition_changed", 20, leader="1", term=6, position="19", **place)

    said = landing.derived()

    assert (said.outages, said.windows) == ([], [])
    assert [(one.finding, one.subject) for one in said.findings] == [("old_leader_served", "1")]


def test_acks_all_that_are_refused_below_min_isr_end_with_the_first_that_is_acknowledged() -> None:
    landing = Landing()
    landing.probe("durable", "0", "write", Service(), 60, leader="1", term=4)
    landing.probe("durable", "0", "durable_write", Service(((10.03, 30.07, REFUSED, "NOT_ENOUGH_REPLICAS"),)), 60, leader="1", term=4)
    place = {"resource": "durable", "shard": "0", "leader": "1", "replicas": ["1", "2", "3"], "term": 4}
    landing.control("partition_created", -9, isr=["1", "2", "3"], position="1", **place)
    landing.control("partition_changed", 10.03, isr=["1"], position="7", **place)
    landing.control("partition_changed", 30.05, isr=["1", "2"], position="17", **place)
    metrics = {"resource": "durable", "shard": "0", "broker": "1", "is_under_min_isr": True, "in_sync_replicas": 1}
    landing.line("partition_metrics", prober="m", started_at=10.5, ended_at=30, count=20, **metrics)

    said = landing.derived()

    ((window, _),) = said.windows
    assert (window.window, window.is_open, window.end.holds(us(30.07))) == ("under_min_isr", False, True)
    assert [(one.stream.kind, one.recovery.cause) for one in said.outages] == [("durable_write", "under_min_isr")]


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic_ids", [("A", "B", "B"), ("A", "B", None)])
def test_what_was_in_a_topic_that_was_made_anew_is_not_lost_where_only_probes_say_which_topic_it_was(
    topic_ids: tuple[str, str, str | None],
) -> None:
    before, after, read_back = topic_ids
    landing = Landing()
    gone = Service(((10.03, 12.53, REFUSED, "UNKNOWN_TOPIC_OR_PARTITION"),))
    landing.asked("durable", "0", "durable_write", asks(gone, 12.5), topic_id=before)
    anew = asks(Service(), 30, begin=12.6, first_sequence=126)
    landing.asked("durable", "0", "durable_write", anew, topic_id=after)
    held = {
        "boot_id": "b1",
        "first_sequence": 126,
        "last_sequence": 125 + len(anew),
        "first_position": 0,
        "last_position": len(anew) - 1,
    }
    place = {"resource": "durable", "shard": "0", "kind": "durable_write", "lane": "raw", "topic_id": read_back}
    read = {"from_position": "0", "to_position": str(len(anew)), "log_start_position": "0", "damaged_records": 0, "runs": [held]}
    landing.line("readback", prober="readback", **place, **read, started_at=31.0, ended_at=31.5)

    (one,) = landing.derived().losses

    assert (one.verdict, one.acked_records, one.records.high) == ("DELETED_BY_POLICY", 101, 0)


def epoch_end(landing: Landing, prober: str, at: float, watermark: int, end: int, new_term: int = 5) -> Landing:
    place = {"resource": "orders", "shard": "0", "term": 4, "new_term": new_term, "leader": "2"}
    said = {"high_watermark_max": str(watermark), "end_position": str(end), "lost_records": watermark - end}
    span = {"lost_started_at": 8.0, "lost_ended_at": 9.0, "started_at": at, "ended_at": at + 0.01}
    return landing.line("epoch_end", prober=prober, **place, **said, **span)


def test_committed_records_whose_loss_several_watchers_prove_are_lost_once() -> None:
    landing = epoch_end(Landing(), "watch-a", 14.2, 140, 50)
    epoch_end(landing, "watch-b", 14.3, 150, 50)
    epoch_end(landing, "watch-b", 30.0, 150, 50, new_term=6)

    (one,) = landing.derived().losses

    assert (one.verdict, one.records, one.checked_at_us) == ("LOST", Bounds(100, None), us(14.31))


def test_records_of_two_topics_of_one_name_are_two_losses() -> None:
    landing = epoch_end(Landing(), "watch", 14.2, 150, 50)
    landing.control("partition_removed", 20, resource="orders", shard="0", position="5")
    epoch_end(landing, "watch", 30.0, 150, 50)

    assert [one.records.low for one in landing.derived().losses] == [100, 100]


def test_a_line_with_absurd_numbers_is_judged_as_fast_as_any_other() -> None:
    """A million million records, acknowledged and gone: no list is made of them."""
    many = 10**12
    at = {"started_at": 0.0, "last_issued_at": 9.9, "first_decided_at": 0.002, "last_decided_at": 9.902}
    place = {"resource": "durable", "shard": "0", "kind": "durable_write", "lane": "raw"}
    run = {"count": many, "first_sequence": 0, "last_sequence": many - 1, "first_position": "0", "last_position": str(many - 1)}
    how = {"outcome": "ACKED", "period_us": 100_000, "lambda_us": 1_000_000, "latency_us_max": 2_000, "leader": "1", "term": 4}
    landing = Landing().line("probes", **place, **run, **how, **at, earliest_decided_at=0.002, ended_at=9.902)
    held = {"boot_id": "b1", "first_sequence": 0, "last_sequence": many - 2, "first_position": 1, "last_position": many - 1}
    read = {"from_position": "0", "to_position": str(many), "log_start_position": "0", "damaged_records": 0, "runs": [held]}
    landing.line("readback", prober="readback", **place, **read, started_at=30.0, ended_at=30.5)

    landing.derived()
