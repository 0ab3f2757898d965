"""A source of decisions over znodes, run beside the story of a test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pipelines.brokers.base import Decision, Decisions
from pipelines.brokers.kafka.zookeeper import ZookeeperControl
from pipelines.domain.clock import Anchor

LIMIT_SECONDS = 20.0
CLOCK = Anchor.now()


class Following:
    """A source that is being read."""

    def __init__(self, source: ZookeeperControl) -> None:
        self.source = source
        self.decisions: list[Decision] = []
        self.troubles: list[str] = []
        self.signs = 0

    async def run(self, saved: str | None) -> None:
        async for decided in self.source.follow(saved):
            self._take(decided)

    def _take(self, decided: Decisions) -> None:
        self.decisions += decided.decisions
        self.troubles += [decided.trouble] if decided.trouble else []
        self.signs += not decided.decisions

    async def until(self, condition: Callable[[], bool], limit: float = LIMIT_SECONDS) -> None:
        async with asyncio.timeout(limit):
            while not condition():
                await asyncio.sleep(0.01)

    async def until_told(self, count: int) -> list[Decision]:
        await self.until(lambda: len(self.decisions) >= count)
        return self.decisions

    def of(self, event: str) -> list[Decision]:
        return [one for one in self.decisions if one.event == event]


@asynccontextmanager
async def following(connect: str, saved: str | None = None, cluster_id: str | None = None) -> AsyncIterator[Following]:
    """A source that has read everything once."""
    reading = Following(ZookeeperControl(connect, CLOCK, cluster_id))
    task = asyncio.create_task(reading.run(saved))
    try:
        await reading.until(lambda: task.done() or (reading.source._generation is not None))
        if task.done():
            task.result()
        yield reading
    finally:
        task.cancel()
        await asyncio.wait({task})
        await reading.source.close()


def story(connect: str, told: Callable[[Following], Awaitable[None]], saved: str | None = None) -> str | None:
    """Plays a story beside a source; returns what the source saved at its end."""

    async def play() -> str | None:
        async with following(connect, saved) as reading:
            await told(reading)
            return reading.source.saved()

    return asyncio.run(play())


def bounds(one: Decision) -> tuple[int, int]:
    return one.started_at_us, one.ended_at_us


def of_mtime(stat: Any) -> tuple[int, int]:
    return stat.mtime * 1000, stat.mtime * 1000 + 999


async def first_of(source: ZookeeperControl, saved: str | None = None) -> Decisions:
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            async for decided in source.follow(saved):
                return decided
        raise AssertionError("it ended by itself")
    finally:
        await source.close()
