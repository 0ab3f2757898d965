"""When does a packet leave that goes through slow pipes? On a clock of the test's own."""

import pytest

from pipelines.lab.relay import QUEUE_PACKETS, Flow, Pipe


def test_a_delay_keeps_each_packet_as_long():
    flow = Flow([Pipe(delay_ms=20)])
    assert [flow.release_at(1000, now) for now in (5.0, 5.001, 7.0)] == pytest.approx([5.02, 5.021, 7.02])


def test_packets_follow_each_other_as_their_bits_fit_through():
    flow = Flow([Pipe(delay_ms=20, rate_kbit=100)])
    assert [flow.release_at(1250, 1.0) for _ in range(3)] == pytest.approx([1.12, 1.22, 1.32])
    # Once the link was idle, nothing of that is left.
    assert flow.release_at(1250, 9.0) == pytest.approx(9.12)


def test_flows_that_share_a_pipe_share_its_rate():
    link = Pipe(rate_kbit=100)
    one, other = Flow([link]), Flow([link])
    assert [one.release_at(1250, 0.0), other.release_at(1250, 0.0)] == pytest.approx([0.1, 0.2])


def test_pipes_add_up():
    assert Flow([Pipe(delay_ms=5), Pipe(delay_ms=2), Pipe(rate_kbit=800)]).release_at(100, 0.0) == pytest.approx(0.008)


def test_with_jitter_no_packet_overtakes_another_and_each_stays_within_it():
    flow = Flow([Pipe(delay_ms=10, jitter_ms=8)])
    released = [flow.release_at(100, number * 0.001) for number in range(500)]
    assert released == sorted(released)
    assert len(set(released)) > 100
    assert all(0.002 - 1e-9 <= at - number * 0.001 <= 0.018 + 1e-9 for number, at in enumerate(released))


def test_a_full_queue_drops_and_takes_again_when_there_is_room():
    flow = Flow([Pipe(rate_kbit=80)])
    released = [flow.release_at(100, 0.0) for _ in range(QUEUE_PACKETS + 5)]
    assert released[QUEUE_PACKETS:] == [None] * 5
    assert flow.release_at(100, 0.015) == pytest.approx(released[QUEUE_PACKETS - 1] + 0.01)
