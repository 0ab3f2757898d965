"""The truth of more than a thousand simulated outages lies within what is derived of them. `make truth` does ten thousand.

A wrong one is printed with its seed; `make truth ARGS="--seed N --histories 1"` reproduces it exactly.
"""

import pytest

from pipelines.brokers.simulated import Fault, Judgement, Scenario, judge, simulate
from pipelines.brokers.simulated.__main__ import judged, table
from pipelines.brokers.simulated.scenario import Clocks
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts
from pipelines.domain.observations import Kind
from pipelines.domain.windows import ACKS_ALL_STALLED, LEADER_UNAVAILABLE

HISTORIES = range(1000, 1032)


@pytest.fixture(scope="module")
def total() -> Judgement:
    """Everything that was found in the histories that respect (H)."""
    return judged(HISTORIES)


def test_more_than_a_thousand_outages_hold_their_truth(total: Judgement) -> None:
    """Start, end and RTO of every write, durable write, read and leader outage; every window of every partition; every loss."""
    assert total.violations == []
    assert total.outages > 1000
    assert {kind for kind, _ in total.widths} == set(Kind)


def test_no_loss_is_missed_and_none_invented(total: Judgement) -> None:
    assert total.lost_records > 500, "the histories lose records at all"
    assert not [text for text in total.violations if "lost" in text or "gone" in text]


@pytest.mark.parametrize("how", ["refused", "hung"])
@pytest.mark.parametrize("kind", list(Kind))
def test_the_median_width_is_two_periods_and_20_ms_and_for_hangs_two_lambdas_more(total: Judgement, kind: str, how: str) -> None:
    widths = sorted(width / allowed for width, allowed in total.widths[kind, how])

    assert widths[len(widths) // 2] <= 1


def test_histories_that_break_the_assumption_are_reported_as_flapping_and_never_as_a_wrong_window() -> None:
    short = judged(range(1000, 1006), is_short=True)

    assert short.violations == []
    assert short.flapping > 10


def test_windows_of_partitions_that_nobody_writes_to_hold_the_truth_however_many_there_are() -> None:
    faults = (Fault("kill", "2", 10_000_000, 25_000_000), Fault("hang", "1", 50_000_000, 5_000_000))
    history = simulate(1, Scenario(faults=faults, end_us=75_000_000, user_partitions=300))
    derivation = derive(Facts.of(history.observations), [])

    assert judge(history, derivation).violations == []
    of_users = [window for window, _ in derivation.windows if window.partition.resource == "orders"]
    assert sum(one.window == LEADER_UNAVAILABLE for one in of_users) == 200, "100 led by each of the two"
    assert sum(one.window == ACKS_ALL_STALLED for one in of_users) == 400, "and the others wait for them"


def test_writes_that_waited_for_somebody_else_before_do_not_date_the_wait_for_another() -> None:
    """Broker 3 leads nothing any more, dies, and is back before it is fenced: nobody knows. Broker 1 hangs meanwhile."""
    away = (Fault("kill", "3", 5_000_000, 20_000_000), Fault("kill", "3", 60_000_000, 7_000_000))
    history = simulate(4, Scenario(faults=(*away, Fault("hang", "1", 61_070_000, 5_000_000)), end_us=90_000_000))
    derivation = derive(Facts.of(history.observations), [])

    assert judge(history, derivation).violations == []
    waited_for = {(window.broker, (window.start.high or 0) > 50_000_000) for window, _ in derivation.windows}
    assert waited_for >= {("3", False), ("1", True)}
    assert ("3", True) not in waited_for


@pytest.mark.parametrize("has_topic_ids", [True, False])
@pytest.mark.parametrize("topic", ["canary-write", "canary-durable", "orders"])
def test_a_topic_that_is_deleted_and_made_anew_loses_nothing_and_begins_new_epochs(topic: str, has_topic_ids: bool) -> None:
    """Leaders change before and after it, in epochs of the same numbers."""
    faults = [Fault("kill", broker, at, 15_000_000) for broker, at in (("1", 5_000_000), ("2", 30_000_000), ("1", 90_000_000))]
    scenario = Scenario(
        faults=(*faults, Fault("recreate", topic, 60_000_000, 10_000_000)), end_us=120_000_000, has_topic_ids=has_topic_ids
    )
    history = simulate(6, scenario)
    derivation = derive(Facts.of(history.observations), [])
    found = judge(history, derivation)

    assert found.violations == []
    assert found.lost_records == sum(len(gone) for gone in history.truth.gone.values() if gone)
    if topic == "orders":
        assert found.deleted_records == 0
        return
    assert found.deleted_records > 500
    deleted = [one for one in derivation.losses if one.reason == "topic_deleted"]
    assert {one.stream.resource for one in deleted} == {topic}
    assert not any(one.verdict == "LOST" for one in deleted)


def test_decisions_that_one_look_brought_are_not_taken_for_one_batch_where_no_clock_is_bounded() -> None:
    """Two brokers are fenced within 100 ms: that the leader has followed the first decision says nothing of the second."""
    faults = (Fault("hang", "1", 20_000_000, 20_000_000), Fault("hang", "2", 20_100_000, 20_000_000))
    clocks = Clocks(hosts=(("0", ((0, 7_200_000_000),)),), has_append_times=False, read_every_us=2_000_000)
    fast = {"period_us": 20_000, "lambda_us": 200_000, "watch_period_us": 100_000, "watch_lambda_us": 200_000}
    history = simulate(6, Scenario(faults=faults, clocks=clocks, **fast))  # type: ignore[arg-type]
    derivation = derive(Facts.of(history.observations), [])

    assert judge(history, derivation).violations == []
    assert {window.broker for window, _ in derivation.windows if window.window == ACKS_ALL_STALLED} == {"1", "2"}


def test_without_a_control_plane_the_probes_alone_hold_the_truth() -> None:
    scenario = Scenario(faults=(Fault("kill", "2", 10_000_000, 25_000_000),), end_us=50_000_000, has_control_plane=False)
    history = simulate(2, scenario)
    derivation = derive(Facts.of(history.observations), [])
    found = judge(history, derivation)

    assert derivation.outages
    assert [text for text in found.violations if "acks_all_stalled" not in text] == [], (
        "who waits for whom, only the control plane knows"
    )


def test_a_judgement_sees_what_is_wrong() -> None:
    """The judge itself: an end that is moved by ten seconds is found out."""
    history = simulate(1000)
    history.truth.lanes = {
        stream: [type(down)(down.begin_us, down.end_us and down.end_us + 10_000_000, down.is_long) for down in downs]
        for stream, downs in history.truth.lanes.items()
    }
    found = judge(history, derive(Facts.of(history.observations), []))

    assert found.violations
    assert "WRONG seed 1000" in table(found, Judgement(), 1, 0.1)


def test_a_judgement_sees_what_is_too_wide_and_says_nothing_of_few() -> None:
    wide, few = Judgement(), Judgement()
    wide.widths["write", "hung"] = [(1_201, 1_200)] * 60 + [(100, 1_200)] * 40
    few.widths["write", "hung"] = [(1_201, 1_200)] * 60

    assert [text.partition(":")[0] for text in wide.too_wide()] == ["all kinds, hung", "write, hung"]
    assert few.too_wide() == []
