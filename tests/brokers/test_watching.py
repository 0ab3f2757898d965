"""What a leader's answer, or refusal, to the watch's question says of a partition."""

import asyncio
import time
from collections.abc import Callable

from pipelines.brokers.base import Position, Shard
from pipelines.brokers.kafka.watching import KafkaWatch
from pipelines.domain.observations import Outcome
from tests.brokers.fake_kafka import FakeCluster, fake_cluster

SECONDS = 5.0
PLACE = Shard("t", "0")


def asked(told: Callable[[FakeCluster], None], term: int, broker: str = "1") -> tuple[Position, list[str]]:
    """The answer to one question in an epoch, and the requests that it took."""

    async def story() -> tuple[Position, list[str]]:
        async with fake_cluster() as cluster:
            cluster.elect(0, 1)
            told(cluster)
            watch = KafkaWatch(cluster.connection)
            try:
                await watch.view(time.monotonic() + SECONDS)
                reply = await watch.positions(broker, {PLACE: term}, time.monotonic() + SECONDS)
                assert reply.sent_ns < reply.received_ns
                requests = cluster.brokers[int(broker)].requests
                return reply.body[PLACE], [one for one in requests if one == "ListOffsetsRequest"]
            finally:
                await watch.close()

    return asyncio.run(story())


def as_it_is(_cluster: FakeCluster) -> None:
    """Nothing has happened."""


def has_risen(cluster: FakeCluster) -> None:
    cluster.elect(0, 1)


def has_moved(cluster: FakeCluster) -> None:
    cluster.elect(0, 2)


def has_no_watermark(cluster: FakeCluster) -> None:
    cluster.partitions[0].has_watermark = False


def test_a_leader_s_answer_is_its_high_watermark_in_its_epoch() -> None:
    assert asked(as_it_is, 1) == (Position(Outcome.ACKED, 0, 1), ["ListOffsetsRequest"])


def test_a_question_in_an_old_epoch_is_asked_again_and_says_nothing_by_itself() -> None:
    assert asked(has_risen, 1) == (Position(Outcome.ACKED, 0, 2), ["ListOffsetsRequest"] * 2)


def test_a_broker_that_leads_no_more_refuses_the_question_that_is_asked_again() -> None:
    position, requests = asked(has_moved, 1)
    assert (position.outcome, position.code, len(requests)) == (Outcome.REJECTED, "NOT_LEADER_OR_FOLLOWER", 2)


def test_a_leader_that_does_not_know_yet_what_is_committed_leads_all_the_same() -> None:
    assert asked(has_no_watermark, 1)[0] == Position(Outcome.ACKED, None, 1, "OFFSET_NOT_AVAILABLE")


def test_a_broker_that_was_not_told_of_the_epoch_does_not_serve_yet() -> None:
    position, requests = asked(as_it_is, 7)
    assert (position.outcome, position.code, len(requests)) == (Outcome.REJECTED, "UNKNOWN_LEADER_EPOCH", 1)
