"""The simulated cluster does what it says: one seed one history, and probes that respect the assumptions of the theory."""

import pytest
from hypothesis import given, settings

from pipelines.brokers.simulated import Fault, Scenario, simulate
from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judge_lanes import spans_of
from pipelines.brokers.simulated.steps import Steps
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.landing import decode, encode
from pipelines.domain.observations import Outcome, Probes
from pipelines.domain.spans import Line
from tests.strategies import SEEDS

SECOND = 1_000_000


def history(*faults: Fault, seed: int = 3, **changed: object) -> History:
    return simulate(seed, Scenario(faults=faults, end_us=60 * SECOND, **changed))  # type: ignore[arg-type]


def outcomes(of: History, stream: Stream) -> list[tuple[str, str | None]]:
    """The outcomes of a stream in order, with the leader, each stretch once."""
    found: list[tuple[str, str | None]] = []
    for run in Facts.of(of.observations).probes[stream]:
        one = (str(run.outcome), run.leader)
        if not found or found[-1] != one:
            found.append(one)
    return found


def led_by(of: History, broker: str, topic: str = "canary-write") -> str:
    """The shard of a topic that a broker leads first."""
    return next(one.shard for one, replicas in of.truth.trace.replicas.items() if one.resource == topic and replicas[0] == broker)


@given(SEEDS)
@settings(max_examples=5)
def test_a_seed_is_a_history(seed: int) -> None:
    one, other = simulate(seed, incidents=2), simulate(seed, incidents=2)

    assert one.observations == other.observations
    assert one.truth.lanes == other.truth.lanes
    assert one.scenario == other.scenario


@given(SEEDS)
@settings(max_examples=5)
def test_every_observation_is_a_line_of_the_landing(seed: int) -> None:
    for one in simulate(seed, incidents=1).observations:
        assert decode(encode(one)) == one


@given(SEEDS)
@settings(max_examples=10)
def test_a_good_answer_proves_an_instant_that_was_served_and_a_bad_one_an_instant_that_was_not(seed: int) -> None:
    """Assumption (A), probe by probe: of ACKED runs the ends are known, of others the issues."""
    simulated = simulate(seed, incidents=2)
    for one in simulated.observations:
        if not isinstance(one, Probes) or one.outcome == Outcome.VOID:
            continue
        stream = Stream(one.resource, one.shard, one.kind, one.lane, one.prober_id)
        downs = [(down.begin_us, down.end_us if down.end_us is not None else 2**62) for down in spans_of(simulated, stream)]
        if one.outcome == Outcome.ACKED:
            spans = [(one.started_at_us, one.first_decided_at_us), (one.last_issued_at_us, one.last_decided_at_us)]
            assert not any(begin <= issued and resolved < end for issued, resolved in spans for begin, end in downs)
        else:
            issues = range(one.started_at_us, one.last_issued_at_us + 1, one.period_us)
            assert all(any(begin < issued + one.lambda_us and issued <= end for begin, end in downs) for issued in issues)


@given(SEEDS)
@settings(max_examples=10)
def test_served_and_unserved_runs_last_2g_unless_it_is_broken_on_purpose(seed: int) -> None:
    long, short = simulate(seed, incidents=2), simulate(seed, incidents=2, is_short=True)

    downs = [down for of_stream in long.truth.lanes.values() for down in of_stream]
    # Two incidents may both be unclean elections or cuts of a prober, which take faults in a row with little between them.
    assert sum(down.is_long for down in downs) >= 0.2 * len(downs)
    assert not any(down.is_long for of_stream in short.truth.lanes.values() for down in of_stream)


class TestFaults:
    def test_a_killed_leader_is_replaced_after_its_session(self) -> None:
        one = history(Fault("kill", "2", 10 * SECOND, 25 * SECOND))
        shard = led_by(one, "2")

        (down,) = one.truth.lanes[Stream("canary-write", shard, "write", "raw", "canary")]
        assert down.begin_us == 10 * SECOND
        assert 8 * SECOND <= (down.end_us or 0) - down.begin_us <= 10 * SECOND

    def test_a_hung_leader_that_comes_back_in_time_answers_late(self) -> None:
        one = history(Fault("hang", "2", 10 * SECOND, 5 * SECOND))
        shard = led_by(one, "2")

        assert outcomes(one, Stream("canary-write", shard, "write", "raw", "canary")) == [
            (Outcome.ACKED, "2"),
            (Outcome.UNKNOWN, "2"),
            (Outcome.ACKED, "2"),
        ]
        assert any(ack.shard == shard for ack in of_record(one, "late_acks"))

    def test_a_hung_leader_that_comes_back_too_late_takes_writes_that_are_thrown_away(self) -> None:
        one = history(Fault("hang", "2", 10 * SECOND, 15 * SECOND))
        stream = Stream("canary-write", led_by(one, "2"), "write", "raw", "canary")

        assert one.truth.gone[stream.partition]
        assert len({version.leader for version in next(v for p, v in one.truth.trace.versions.items() if p == stream.partition)}) == 2

    def test_a_dead_follower_stops_acks_all_everywhere_and_acks_1_nowhere_else(self) -> None:
        one = history(Fault("kill", "2", 10 * SECOND, 25 * SECOND))

        durable = [s for s, downs in one.truth.lanes.items() if s.kind == "durable_write" and downs]
        written = [s for s, downs in one.truth.lanes.items() if s.kind == "write" and downs]
        assert (len(durable), len(written)) == (3, 1)

    def test_an_unclean_election_loses_what_only_the_dead_leader_had(self) -> None:
        faults = [Fault("hang", broker, 5 * SECOND, 32 * SECOND) for broker in ("1", "3")]
        one = history(*faults, Fault("kill", "2", 20 * SECOND, 25 * SECOND), is_unclean_allowed=True, min_isr=1)
        stream = Stream("canary-durable", led_by(one, "2", "canary-durable"), "durable_write", "raw", "canary")

        assert any(version.is_unclean for version in one.truth.trace.versions[stream.partition])
        assert len(one.truth.gone[stream.partition]) > 50

    def test_a_terminated_broker_hands_its_partitions_over_first(self) -> None:
        one = history(Fault("terminate", "2", 10 * SECOND, 20 * SECOND))
        events = [control["event"] for control in one.truth.trace.controls]

        assert events.index("broker_shutting_down") < events.index("partition_changed") < events.index("broker_fenced")
        assert all(not one.truth.leaderless[partition] for partition in one.truth.leaderless)

    def test_a_broker_that_the_prober_is_cut_off_from_serves_everybody_else(self) -> None:
        one = history(Fault("cut", "2", 10 * SECOND, 6 * SECOND))

        assert one.truth.lanes[Stream("canary-write", led_by(one, "2"), "write", "raw", "canary")]
        assert not any(one.truth.leaderless.values())

    def test_what_a_stalled_prober_asked_is_void(self) -> None:
        one = history(Fault("stall", "prober", 10 * SECOND, 3 * SECOND))

        assert {outcome for outcome, _ in outcomes(one, Stream("canary-write", "0", "write", "raw", "canary"))} == {"ACKED", "VOID"}

    def test_a_prober_that_is_killed_takes_what_it_had_not_written_with_it(self) -> None:
        crashed = history(Fault("crash", "prober", 30 * SECOND, 5 * SECOND))
        restarted = history(Fault("restart", "prober", 30 * SECOND, 5 * SECOND))

        assert last_of_first_boot(crashed) < last_of_first_boot(restarted)
        assert len(boots(crashed)) == 2


def of_record(one: History, record: str) -> list[Line]:
    return [each for each in one.observations if each.record == record]  # type: ignore[misc]


def boots(one: History) -> set[str]:
    return {each.boot_id for each in one.observations if each.prober_id == "canary"}


def last_of_first_boot(one: History) -> int:
    runs = [each for each in one.observations if isinstance(each, Probes) and each.boot_id == "canary-b0"]
    return max(run.last_issued_at_us for run in runs if run.kind == "write")


def test_steps_go_forward_only() -> None:
    steps = Steps("up")
    steps.set(5, "dead")

    assert (steps.at(4), steps.at(5), steps.next_after(3), steps.next_after(5)) == ("up", "dead", 5, None)
    with pytest.raises(ValueError, match="a step at 4 comes after one at 5"):
        steps.set(4, "up")
