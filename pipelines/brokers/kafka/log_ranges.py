"""From where to where does the log of each partition go now? Log start and high watermark, asked of the leaders, batched.

The rule: a partition whose leader does not answer, or refuses, makes the whole question fail: a read-back that silently left
out a partition would call its records neither present nor lost.

Example: `log_ranges(connection, ["lastack-canary-durable"])[Shard("lastack-canary-durable", "0")] == LogRange(0, 1042)`.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.cluster import EARLIEST, LATEST, Cluster
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.metadata import TopicPartition
from pipelines.brokers.readback import LogRange
from pipelines.errors import RetryableError

ASK_SECONDS = 10.0


def log_ranges(connection: Connection, topics: Iterable[str]) -> dict[Shard, LogRange]:
    """The range of every partition of some topics. Raises RetryableError when one of them cannot be told now."""
    return asyncio.run(_ranges(connection, list(topics)))


async def _ranges(connection: Connection, topics: list[str]) -> dict[Shard, LogRange]:
    cluster = Cluster(connection)
    deadline = time.monotonic() + ASK_SECONDS
    try:
        metadata = await cluster.refresh(deadline)
        wanted = [one for one in metadata.partitions() if one.topic in topics]
        by_leader = metadata.by_leader(wanted)
        leaderless = by_leader.pop(None, [])
        if leaderless:
            raise RetryableError(f"{_named(leaderless)} has no leader; it can be read back when it has one")
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for node, of_node in by_leader.items():
            if node is not None:
                starts |= await _offsets(cluster, node, of_node, deadline, EARLIEST)
                ends |= await _offsets(cluster, node, of_node, deadline, LATEST)
        ids = {name: topic.topic_id for name, topic in metadata.topics.items()}
        return {Shard(one.topic, str(one.partition)): LogRange(starts[one], ends[one], ids[one.topic]) for one in wanted}
    finally:
        await cluster.close()


async def _offsets(
    cluster: Cluster, node: int, which: Iterable[TopicPartition], deadline: float, timestamp: int
) -> Mapping[TopicPartition, int]:
    answer = await cluster.list_offsets(node, dict.fromkeys(which, -1), deadline, timestamp)
    refused = {one: offset.error for one, offset in answer.body.items() if offset.error is not None}
    if refused:
        one, error = next(iter(refused.items()))
        raise RetryableError(f"broker {node} does not tell the offsets of {one.topic}/{one.partition}: {error}")
    return {one: offset.offset for one, offset in answer.body.items()}


def _named(which: Iterable[TopicPartition]) -> str:
    one = next(iter(which))
    return f"{one.topic}/{one.partition}"
