"""What is taken for a decision when brokers are asked again and again, and what is not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pipelines.brokers.base import Decision
from pipelines.brokers.kafka.polled import AdminPoll
from pipelines.domain.clock import Anchor
from tests.brokers.fake_kafka import FakeCluster, fake_cluster

LIMIT_SECONDS = 10.0
CLOCK = Anchor.now()


@dataclass
class Polling:
    """A cluster that is polled, and what was decided by what it tells."""

    cluster: FakeCluster
    decisions: list[Decision] = field(default_factory=list)
    polls: int = 0

    async def run(self, source: AdminPoll) -> None:
        async for decided in source.follow(None):
            assert decided.trouble is None
            self.decisions += decided.decisions
            self.polls += 1

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.005)

    async def poll(self, count: int = 3) -> None:
        """Lets it ask so many times more."""
        wanted = self.polls + count
        await self.until(lambda: self.polls >= wanted)

    @property
    def of_topic(self) -> list[str]:
        return [one.event for one in self.decisions if one.resource == "t"]


def polled(story: Callable[[Polling], Awaitable[None]], removed_after_seconds: float) -> Polling:
    async def play() -> Polling:
        async with fake_cluster() as cluster:
            polling = Polling(cluster)
            source = AdminPoll(cluster.connection, CLOCK, 0.01, removed_after_seconds)
            task = asyncio.create_task(polling.run(source))
            try:
                await polling.poll()
                await story(polling)
            finally:
                task.cancel()
                await asyncio.wait({task})
                await source.close()
            return polling

    return asyncio.run(play())


def test_a_change_of_leader_is_decided_between_two_polls() -> None:
    async def story(polling: Polling) -> None:
        polling.cluster.elect(0, 2)
        await polling.until(lambda: bool(polling.of_topic))

    (one,) = [one for one in polled(story, 30).decisions if one.resource == "t"]
    assert (one.event, one.previous_leader, one.leader, one.term) == ("partition_changed", "1", "2", 1)
    assert one.started_at_us < one.ended_at_us


def test_a_broker_that_just_started_and_tells_of_no_topic_has_deleted_none() -> None:
    async def story(polling: Polling) -> None:
        polling.cluster.topic = None
        await polling.poll(5)
        polling.cluster.topic = "t"
        polling.cluster.elect(0, 2)
        await polling.until(lambda: bool(polling.of_topic))

    assert polled(story, 30).of_topic == ["partition_changed"]


def test_what_nobody_has_told_of_for_long_was_deleted_when_it_was_first_missing() -> None:
    missing_us: list[int] = []

    async def story(polling: Polling) -> None:
        polling.cluster.topic = None
        missing_us.append(CLOCK.now_us())
        await polling.until(lambda: bool(polling.of_topic))

    (one,) = [one for one in polled(story, 0.5).decisions if one.resource == "t"]
    assert (one.event, one.previous_leader) == ("partition_removed", "1")
    assert one.started_at_us <= missing_us[0] + 250_000
    assert one.ended_at_us < CLOCK.now_us() - 250_000
