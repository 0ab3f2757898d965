"""What does a Kafka cluster say of itself, and how is each of its brokers asked without waiting for another?

The rule: a request names the broker that it is for and goes over that broker's own `Link`; nothing that happens to another
broker touches it. What the cluster says of itself (`Metadata`) is asked of one broker, and of the next one too when the first
does not answer at once; what is known of a partition never goes back to an older leader epoch.

Example::

    cluster = Cluster(Connection.plain("127.0.0.1:9092"))
    metadata = await cluster.refresh(time.monotonic() + 5)
    for node, partitions in metadata.by_leader([TopicPartition("orders", 0)]).items(): ...
    answer = await cluster.list_offsets(node, {TopicPartition("orders", 0): 3}, deadline)
    answer.body[TopicPartition("orders", 0)].offset     # the high watermark
"""

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.link import Link
from pipelines.brokers.kafka.metadata import BrokerInfo, Metadata, TopicPartition, error_or_none, is_older, read_metadata
from pipelines.brokers.kafka.wire import Answer, NoAnswer, NotReached, WireError

LATEST = -1
"""ListOffsets: the high watermark, for a reader of uncommitted transactions."""
EARLIEST = -2
"""ListOffsets: the log start offset."""

HEDGE_SECONDS = 0.25
"""How long the broker that is asked for metadata may be silent before another one is asked as well."""
OLDER_ANSWERS_MAX = 100
"""After so many answers in a row that are older than what is known, the cluster itself has gone back (it was restored)."""
CLIENT_REPLICA = -1


@dataclass(frozen=True, slots=True)
class Offset:
    """A partition's answer to ListOffsets. `error` is Kafka's name of the refusal, None when it was answered."""

    error: str | None
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    """A partition's answer to OffsetForLeaderEpoch: the largest epoch up to the one asked for, where it ends (-1: unknown)."""

    error: str | None
    leader_epoch: int
    end_offset: int


@dataclass(slots=True)
class _Known:
    """What the links are and what is known; kept together so that nothing is half changed."""

    metadata: Metadata = field(default_factory=lambda: Metadata(None, {}, {}))
    links: dict[int, Link] = field(default_factory=dict)


class Cluster:
    """A cluster as its clients see it. No I/O before the first request; `close` at the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bootstrap = {address: Link(address, connection) for address in connection.bootstrap}
        self._known = _Known()
        self._preferred: Link | None = None
        self._older_answers = 0

    @property
    def metadata(self) -> Metadata:
        """The newest that `refresh` was told; empty before the first."""
        return self._known.metadata

    @property
    def answered_by(self) -> Address | None:
        """Who answered last of those that could be asked: the newest metadata is its view. None before the first answer."""
        return None if self._preferred is None else self._preferred.address

    @property
    def cluster_id(self) -> str:
        """The cluster's own identifier; empty before the first `refresh`."""
        return self._known.metadata.cluster_id or ""

    async def refresh(self, deadline: float, topics: Iterable[str] | None = None) -> Metadata:
        """Asks what clients are told of the brokers and of the topics (None: all of them), and keeps it.

        The broker that answered last is asked first; after HEDGE_SECONDS of silence, or a failure, another one is too. An answer
        about all topics that shows any partition in an older leader epoch than is known is older as a whole (a broker takes the
        controller's decisions in their order): what is known stays, and another broker is asked next time.
        Raises the last WireError when none answered by the deadline.
        """
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        link, answer = await self._first_answer(request, deadline)
        self._preferred = link
        fresh = read_metadata(answer)
        await self._relink(fresh.brokers)
        if topics is not None:
            return fresh
        if is_older(fresh, self._known.metadata) and self._older_answers < OLDER_ANSWERS_MAX:
            self._older_answers += 1
            self._preferred = next((one for one in self._known.links.values() if one is not link), link)
        else:
            self._older_answers = 0
            self._known.metadata = fresh
        return self._known.metadata

    async def list_offsets(self, node: int, which: Mapping[TopicPartition, int], deadline: float, timestamp: int = LATEST) -> Answer:
        """Asks a leader for an offset of each partition, in one request.

        Args:
            node: the broker to ask.
            which: partition to the leader epoch that the asker knows (-1: any).
            deadline: on `time.monotonic()`, in seconds.
            timestamp: LATEST (the high watermark), EARLIEST (the log start) or milliseconds since the epoch.

        Returns:
            An Answer whose body is a dict of TopicPartition to Offset.

        Raises:
            WireError: no answer.
        """
        partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
        topics = [
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    partition(partition_index=one.partition, current_leader_epoch=epoch, timestamp=timestamp) for one, epoch in items
                ],
            )
            for topic, items in _grouped(which)
        ]
        request = ListOffsetsRequest(replica_id=CLIENT_REPLICA, isolation_level=0, topics=topics)
        answer = await self.ask(node, request, deadline)
        return replace(
            answer,
            body={
                TopicPartition(topic.name, one.partition_index): Offset(error_or_none(one.error_code), one.offset, one.leader_epoch)
                for topic in answer.body.topics
                for one in topic.partitions
            },
        )

    async def epoch_ends(self, node: int, which: Mapping[TopicPartition, tuple[int, int]], deadline: float) -> Answer:
        """Asks a leader where leader epochs end in its log (OffsetForLeaderEpoch), in one request.

        Args:
            node: the broker to ask.
            which: partition to (the leader epoch that the asker knows or -1, the epoch whose end is asked for).
            deadline: on `time.monotonic()`, in seconds.

        Returns:
            An Answer whose body is a dict of TopicPartition to EpochEndOffset.

        Raises:
            WireError: no answer.
        """
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        topics = [
            kind(
                topic=topic,
                partitions=[
                    kind.OffsetForLeaderPartition(partition=one.partition, current_leader_epoch=current, leader_epoch=epoch)
                    for one, (current, epoch) in items
                ],
            )
            for topic, items in _grouped(which)
        ]
        answer = await self.ask(node, OffsetForLeaderEpochRequest(replica_id=CLIENT_REPLICA, topics=topics), deadline)
        return replace(
            answer,
            body={
                TopicPartition(topic.topic, one.partition): EpochEndOffset(
                    error_or_none(one.error_code), one.leader_epoch, one.end_offset
                )
                for topic in answer.body.topics
                for one in topic.partitions
            },
        )

    async def ask(self, node: int, message: Any, deadline: float, at_most: int | None = None) -> Answer:
        """Any request of kafka-python's to one broker. Raises WireError; NotReached when clients are not told of the broker."""
        link = self._known.links.get(node)
        if link is None:
            raise NotReached(Address(f"node {node}", 0), "clients are not told of this broker", "BROKER_UNKNOWN")
        return await link.request(message, deadline, at_most)

    async def ask_any(self, message: Any, deadline: float) -> Answer:
        """Any request of kafka-python's to whichever broker answers. Raises the last WireError."""
        return (await self._first_answer(message, deadline))[1]

    async def close(self) -> None:
        """Ends all connections."""
        links = [*self._bootstrap.values(), *self._known.links.values()]
        await asyncio.gather(*(link.close() for link in links))

    def _address(self, node: int) -> Address:
        return self._known.links[node].address

    async def _first_answer(self, request: Any, deadline: float) -> tuple[Link, Answer]:
        links = [*self._known.links.values(), *self._bootstrap.values()]
        if self._preferred is not None:
            links = [self._preferred, *(link for link in links if link is not self._preferred)]
        waiting: dict[asyncio.Task[Answer], Link] = {}
        turns = iter(links)
        last: WireError | None = None
        try:
            while True:
                link = next(turns, None)
                if link is not None:
                    waiting[asyncio.create_task(link.request(request, deadline))] = link
                if not waiting:
                    raise last or NoAnswer(links[0].address, "no broker answered")
                done, _ = await asyncio.wait(
                    waiting, timeout=None if link is None else HEDGE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    asked = waiting.pop(task)
                    error = task.exception()
                    if error is None:
                        return asked, task.result()
                    if not isinstance(error, WireError):
                        raise error
                    last = error
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _relink(self, brokers: dict[int, BrokerInfo]) -> None:
        """New brokers get a link, moved ones another. One that clients are not told of any more keeps its link: it may hang, and
        its partitions be asked for, until a new leader is known."""
        for node, broker in brokers.items():
            known = self._known.links.get(node)
            if known is None or known.address != broker.address:
                self._known.links[node] = Link(broker.address, self._connection)
                if known is not None:
                    await known.close()


def _grouped(which: Mapping[TopicPartition, Any]) -> list[tuple[str, list[tuple[TopicPartition, Any]]]]:
    ordered = sorted(which.items())
    return [(topic, list(items)) for topic, items in itertools.groupby(ordered, key=lambda item: item[0].topic)]
