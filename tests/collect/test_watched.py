"""Probes are written down in the order of their issue, whatever the order of their answers."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.brokers.base import Shard
from pipelines.collect.stall import Stall, StallDetector
from pipelines.collect.watched import Watched
from pipelines.domain.observations import Outcome
from pipelines.domain.spans import Decided

PERIOD = 1000


def watched() -> Watched:
    return Watched(Shard("orders", "0"), None, PERIOD, PERIOD)


def probe(sequence: int, outcome: Outcome = Outcome.ACKED) -> Decided:
    return Decided(sequence, sequence * PERIOD, sequence * PERIOD + 7, outcome)


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_any_order_of_answers_gives_the_same_lines(order: list[int], bad: set[int]) -> None:
    def lines_of(sequences: list[int]) -> list[dict[str, object]]:
        one, lines = watched(), []
        for sequence in range(12):
            one.issue(sequence)
        for sequence in sequences:
            lines += one.decide(probe(sequence, Outcome.REJECTED if sequence in bad else Outcome.ACKED))
        return lines + one.close()

    assert lines_of(list(order)) == lines_of(list(range(12)))


def test_the_second_outcome_of_a_probe_is_ignored() -> None:
    one = watched()
    one.issue(0)
    one.issue(1)

    assert one.decide(probe(1, Outcome.UNKNOWN)) == []
    assert one.decide(probe(1)) == []
    assert [line["outcome"] for line in one.decide(probe(0))] == ["ACKED", "ACKED", "UNKNOWN"]
    assert one.decide(probe(0)) == []


def test_what_was_under_way_when_it_ended_is_forgotten() -> None:
    one = watched()
    one.issue(0)
    one.decide(probe(0))
    one.issue(1)

    assert [line["count"] for line in one.close()] == [1]


def test_a_late_beat_is_a_stall_from_beat_to_beat() -> None:
    detector = StallDetector(every_us=50, allowed_us=100)

    assert [detector.beat(now) for now in (0, 50, 200, 351, 400)] == [None, None, None, Stall(200, 351), None]
    assert detector.was_stalled(100, 200)
    assert detector.was_stalled(351, 500)
    assert not detector.was_stalled(352, 500)
    assert not detector.was_stalled(0, 199)
