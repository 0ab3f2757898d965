"""S and T are found in a run of goods, never later or earlier than a bound allows."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.goods import Good, GoodRun, is_good
from tests.scenes import decided, runs_of, us


@st.composite
def runs(draw: st.DrawFn) -> tuple[GoodRun, list[tuple[int, int]]]:
    """A run that keeps only its ends exactly, and (issue, resolution) of each of its probes."""
    latencies = draw(st.lists(st.integers(0, 250), min_size=1, max_size=12))
    probes = [(100 * n, 100 * n + latency) for n, latency in enumerate(latencies)]
    run = GoodRun(0, probes[-1][0], 100, probes[0][1], probes[-1][1], max(latencies), None, None)
    return run, probes


def test_the_worked_example() -> None:
    run = GoodRun(0, 900, 100, 5, 950, 60, "1", 3)

    assert run.last_resolved_before(910) == Good(800, 860, "1", 3)
    assert run.first_issued_from(250) == Good(300, 360, "1", 3)


@given(runs(), st.integers(-50, 1500))
def test_a_probe_found_before_an_instant_was_answered_before_it(of: tuple[GoodRun, list[tuple[int, int]]], instant: int) -> None:
    run, probes = of
    found = run.last_resolved_before(instant)

    answered = [issued for issued, resolved in probes if resolved < instant]
    assert found is None or (found.issued_us in answered and dict(probes)[found.issued_us] <= found.resolved_us < instant)
    if probes[-1][1] < instant:
        assert found is not None
        assert found.issued_us == probes[-1][0]
    if probes[0][1] < instant:
        assert found is not None


@given(runs(), st.integers(-50, 1500))
def test_the_probe_found_from_an_instant_on_is_the_first_one(of: tuple[GoodRun, list[tuple[int, int]]], instant: int) -> None:
    run, probes = of
    found = run.first_issued_from(instant)

    later = [issued for issued, _ in probes if issued >= instant]
    assert (found and found.issued_us) == min(later, default=None)
    assert found is None or found.resolved_us >= dict(probes)[found.issued_us]


def test_an_acknowledgement_after_lambda_is_not_good() -> None:
    (run,) = runs_of(decided("G"))
    late = replace(run, latency_us_max=1_000_001)

    assert is_good(run)
    assert not is_good(late)


def test_instants_that_contradict_themselves_do_not_turn_back_time() -> None:
    (run,) = runs_of(decided("GG"))
    odd = replace(run, first_decided_at_us=us(-50))

    assert GoodRun.of(odd).first_decided_us == us(0)
