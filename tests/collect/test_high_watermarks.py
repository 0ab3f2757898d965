"""A loss that is told happened, is counted right, and lies in the span that is told."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.collect.high_watermarks import SAMPLES_MAX, HighWatermarks, Question, Verdict

SECOND = 1_000_000


def test_the_example_of_the_module() -> None:
    marks = HighWatermarks()
    for at, value in ((1, 40), (2, 50), (3, 90), (4, 150), (5, 150)):
        assert marks.answered(0, value, at * SECOND, at * SECOND + 10_000) is None
    question = marks.elected(1)

    assert question == Question(0, 150)
    assert marks.ended(question, 50) == Verdict(100, 2 * SECOND, 4 * SECOND + 10_000)


def test_a_clean_election_loses_nothing_and_has_no_span() -> None:
    marks = HighWatermarks()
    marks.answered(0, 150, 1, 2)
    question = marks.answered(1, 160, 3, 4)

    assert question == Question(0, 150)
    assert marks.ended(question, 155) == Verdict(0, None, None)
    assert marks.highest == 160


def test_a_term_raises_one_question_however_it_becomes_known() -> None:
    marks = HighWatermarks()
    marks.answered(3, 10, 1, 2)

    assert marks.elected(5) == Question(3, 10)
    assert marks.elected(5) is None
    assert marks.answered(5, 11, 3, 4) is None
    assert marks.elected(4) is None


def test_without_an_older_sample_there_is_nothing_to_ask() -> None:
    marks = HighWatermarks()

    assert marks.elected(7) is None
    assert marks.answered(7, 5, 1, 2) is None


def test_a_late_answer_of_a_leader_that_is_none_any_more_counts_for_nothing() -> None:
    marks = HighWatermarks()
    marks.answered(1, 100, 1, 2)
    question = marks.elected(2)
    assert question is not None
    marks.answered(1, 900, 3, 4)

    assert marks.highest == 100


def test_after_a_loss_the_watermarks_begin_anew_from_the_end() -> None:
    marks = HighWatermarks()
    for at, value in enumerate((10, 20, 30), start=1):
        marks.answered(0, value, at, at)
    question = marks.elected(1)
    assert question is not None
    marks.ended(question, 20)
    marks.answered(1, 25, 10, 11)
    question = marks.elected(2)

    assert question == Question(1, 25)
    assert marks.ended(question, 20) == Verdict(5, 2, 11)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=400),
    st.floats(0, 1),
)
def test_the_lost_records_were_committed_within_the_span(samples: list[tuple[int, int, int]], kept: float) -> None:
    """A writer commits `records` at once, then time goes on, then the watch asks: the truth is known to the microsecond."""
    marks = HighWatermarks()
    committed_at: list[int] = []
    now = 0
    for records, pause, latency in samples:
        now += pause
        committed_at += [now] * records
        marks.answered(0, len(committed_at), now, now + latency)
        now += latency
    end = int(kept * len(committed_at))
    question = marks.elected(1)
    assert question is not None
    verdict = marks.ended(question, end)

    assert verdict.lost_records == len(committed_at) - end
    if verdict.lost_records:
        first_lost, last_lost = committed_at[end], committed_at[-1]
        assert verdict.lost_started_at_us is None or verdict.lost_started_at_us <= first_lost
        assert verdict.lost_ended_at_us is not None
        assert verdict.lost_ended_at_us >= last_lost
    assert len(marks._samples) <= SAMPLES_MAX
