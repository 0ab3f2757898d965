"""Who leads each probed partition, by what clients are told now?

The rule: the cluster's metadata of a few topics is asked for every second, and at once (but at most every HURRY_SECONDS) when
a probe meets a refusal, a lost connection or a silence. What is known of a partition never goes back to an older leader
epoch. A probe of a partition without a leader waits for an answer that was asked for after its issue: if that names no leader
either, a broker has said so, and the probe is rejected; if it does, the probe is sent.

Example: metadata asked at 10 ms names no leader for p; a probe issued at 12 ms waits; metadata asked at 60 ms says leader 2,
epoch 6: the probe is sent to 2 at 61 ms, and `on_change` hears "1 to 2, between 10 ms and 61 ms".
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.metadata import Metadata, PartitionInfo, not_older
from pipelines.brokers.kafka.wire import WireError
from pipelines.brokers.probing import Flight, LeaderChange, Reply
from pipelines.domain.observations import Outcome

CALM_SECONDS = 1.0
HURRY_SECONDS = 0.05
ASK_SECONDS = 2.0
NO_LEADER = "LEADER_NOT_AVAILABLE"

log = structlog.get_logger("leaders")


class Leader(NamedTuple):
    """The leader that clients are told of. `replicas` are all replicas, in the order of the assignment."""

    broker: str
    term: int
    address: Address
    replicas: tuple[int, ...]
    topic_id: str | None = None


class Leaders:
    """Follows the leaders of the partitions of some topics."""

    def __init__(self, cluster: Cluster, topics: Sequence[str], on_change: Callable[[LeaderChange], None]) -> None:
        self._cluster = cluster
        self._topics = tuple(topics)
        self._on_change = on_change
        self._metadata = Metadata(None, {}, {})
        self._leaders: dict[Shard, Leader] = {}
        self._waiting: list[tuple[Flight, Callable[[Flight], None]]] = []
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, deadline: float) -> None:
        """Asks for the first time, and goes on asking. Raises WireError when nobody answers by the deadline."""
        if self._task is None:
            self._take(await self._cluster.refresh(deadline, self._topics))
            self._task = asyncio.create_task(self._run(), name="leaders")

    def of(self, shard: Shard) -> Leader | None:
        """The leader, None when there is none or it cannot be reached by what is known."""
        return self._leaders.get(shard)

    def shards(self, topic: str) -> list[Shard]:
        """The partitions of a topic that clients are told of, in order."""
        known = self._metadata.topics.get(topic)
        return [Shard(topic, str(number)) for number in sorted(known.partitions)] if known else []

    def suspect(self) -> None:
        """Something went wrong that a change of leader would explain."""
        self._hurry.set()

    def wait(self, flight: Flight, issue: Callable[[Flight], None]) -> None:
        """Holds a flight until an answer that is asked for from now on; then rejects it, or gives it to `issue`."""
        self._waiting.append((flight, issue))
        self._hurry.set()

    async def close(self) -> None:
        """Stops asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            begun = time.monotonic()
            try:
                # Not wait_for: in Python 3.11 it forgets a cancellation that comes together with the event.
                async with asyncio.timeout(CALM_SECONDS):
                    await self._hurry.wait()
            except TimeoutError:
                pass  # calm: ask anyway
            else:
                await asyncio.sleep(max(0.0, begun + HURRY_SECONDS - time.monotonic()))
            self._hurry.clear()
            try:
                self._take(await self._cluster.refresh(time.monotonic() + ASK_SECONDS, self._topics))
            except WireError as error:
                log.info("no_metadata", error=str(error))
            if self._waiting:
                self._hurry.set()

    def _take(self, answer: Metadata) -> None:
        before, fresh = self._metadata, not_older(self._metadata, answer)
        self._metadata = fresh
        for shard in [one for one in self._leaders if one.resource not in fresh.topics]:
            del self._leaders[shard]  # deleted: what is made under its name again is another topic
        for place, info in fresh.partitions().items():
            shard = Shard(place.topic, str(place.partition))
            self._note(shard, info, fresh)
            known = before.get(place)
            if known is not None and (known.leader, known.leader_epoch) != (info.leader, info.leader_epoch):
                change = LeaderChange(
                    shard, _word(info.leader), _word(known.leader), info.leader_epoch, before.sent_ns, fresh.received_ns
                )
                self._on_change(change)
        waiting, self._waiting = self._waiting, []
        for flight, issue in waiting:
            self._settle(flight, issue, fresh)

    def _note(self, shard: Shard, info: PartitionInfo, metadata: Metadata) -> None:
        broker = None if info.leader is None else metadata.brokers.get(info.leader)
        if info.leader is None or broker is None:
            self._leaders.pop(shard, None)
        else:
            topic_id = metadata.topics[shard.resource].topic_id
            self._leaders[shard] = Leader(str(info.leader), info.leader_epoch, broker.address, info.replicas, topic_id)

    def _settle(self, flight: Flight, issue: Callable[[Flight], None], fresh: Metadata) -> None:
        if flight.is_over:
            return
        if flight.shard in self._leaders:
            issue(flight)
        elif flight.issued_ns <= fresh.sent_ns:
            flight.land(Reply(Outcome.REJECTED, fresh.received_ns, NO_LEADER, is_answered=True))
        else:
            self._waiting.append((flight, issue))


def _word(leader: int | None) -> str | None:
    return None if leader is None else str(leader)
