"""Polls of one replica become runs in which nothing is lost that a page or a lag needs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.replica_runs import MINUTE_US, Poll, ReplicaRuns

SECOND_US = 1_000_000
WHOLE = (False, False, False, 3)
SHRUNK = (True, False, True, 2)


def poll(second: int, flags: tuple[Any, ...] = WHOLE, lag: int | None = None) -> Poll:
    return Poll(second * SECOND_US, second * SECOND_US + 9, flags, lag, 0, second)


def written(polls: list[Poll], extend_every: int = 10) -> list[dict[str, Any]]:
    runs = ReplicaRuns("1", "t", "0")
    lines = []
    for index, one in enumerate(polls):
        lines += runs.add(one)
        if index % extend_every == extend_every - 1:
            lines += runs.extend()
    return lines + runs.close()


def test_a_healthy_replica_costs_one_line_a_minute() -> None:
    lines = written([poll(second) for second in range(300)])

    assert len(lines) == 1 + 5
    assert [line["count"] for line in lines] == [1, 60, 60, 60, 60, 60]
    assert [line["is_open"] for line in lines] == [True, False, False, False, False, False]


def test_a_change_is_written_at_once() -> None:
    runs = ReplicaRuns("1", "t", "0")
    runs.add(poll(0))
    runs.add(poll(1))

    closed, opened = runs.add(poll(2, SHRUNK))

    assert (closed["count"], closed["is_open"], closed["in_sync_replicas"]) == (2, False, 3)
    assert (opened["count"], opened["is_open"], opened["in_sync_replicas"]) == (1, True, 2)
    assert opened["is_under_replicated"] is True


def test_the_highest_lag_of_a_run_is_kept() -> None:
    (_, *_, last) = written([poll(second, (None, None, None, None), lag) for second, lag in enumerate([0, 0, 40, 0])])

    assert (last["lag_records_max"], last["lag_records_last"]) == (40, 0)


def test_a_lagging_replica_is_written_again_while_it_lags() -> None:
    lines = written([poll(second, (None, None, None, None), 5) for second in range(25)], extend_every=10)

    assert [(line["count"], line["is_open"]) for line in lines] == [(1, True), (10, True), (20, True), (25, False)]
    assert len({line["started_at_us"] for line in lines}) == 1


@given(
    st.lists(st.tuples(st.sampled_from((WHOLE, SHRUNK)), st.none() | st.integers(0, 9)), min_size=1, max_size=200),
    st.integers(1, 30),
)
def test_every_poll_is_in_exactly_one_run(history: list[tuple[Any, int | None]], every: int) -> None:
    polls = [poll(second, flags, lag) for second, (flags, lag) in enumerate(history)]

    longest = {line["started_at_us"]: line for line in written(polls, every)}

    covered = []
    for line in longest.values():
        inside = [one for one in polls if line["started_at_us"] <= one.started_at_us <= line["ended_at_us"]]
        lags = [one.lag_records for one in inside if one.lag_records is not None]
        assert line["count"] == len(inside)
        assert line["lag_records_max"] == max(lags, default=None)
        assert len({one.flags for one in inside}) == 1
        assert len({one.started_at_us // MINUTE_US for one in inside}) == 1
        covered += inside
    assert sorted(covered) == polls
    assert not any(line["is_open"] for line in longest.values())
