"""How is Kafka watched without writing to it?

The rule: `Watchable` (see `base`) on Kafka's own requests: Metadata for what clients are told, ListOffsets (latest) for the
high watermark and the leader's epoch, OffsetForLeaderEpoch for where an old epoch ends. They need DESCRIBE on the topics, and
nothing else. A topic that we may not describe is not in the metadata; one for which the right is taken away answers
TOPIC_AUTHORIZATION_FAILED.

Example: `positions("2", {Shard("orders", "0"): 5}, deadline)` is one ListOffsets request to broker 2 with current_leader_epoch 5. A
broker that is in epoch 6 answers FENCED_LEADER_EPOCH: our question was old, and says nothing of the partition, so it is asked again
without an epoch. (In ZooKeeper mode the epoch rises with each change of the ISR that the controller makes.) A leader that does not
know yet how far records are committed answers OFFSET_NOT_AVAILABLE, in the epoch that was asked for: it leads, and takes writes; ACKED,
without a position.
"""

import functools
from collections.abc import Mapping

from pipelines.brokers.base import AskFailed, Capabilities, Position, Shard, ShardView, TermEnd, Timed, View
from pipelines.brokers.kafka.cluster import Cluster, EpochEndOffset, Offset
from pipelines.brokers.kafka.codes import of_no_connection, of_read
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.metadata import PartitionInfo, TopicPartition
from pipelines.brokers.kafka.wire import ConnectionLost, NoAnswer, WireError
from pipelines.domain.observations import Outcome

ANY_EPOCH = -1
OLD_QUESTION = "FENCED_LEADER_EPOCH"
LEADS_ALREADY = "OFFSET_NOT_AVAILABLE"
NOT_KNOWN_THERE = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"})


class KafkaWatch:
    """A Kafka cluster as a `Watchable`."""

    capabilities = Capabilities(has_term_ends=True)

    def __init__(self, connection: Connection) -> None:
        self._cluster = Cluster(connection)

    async def view(self, deadline: float) -> View:
        """See `Watchable.view`."""
        try:
            metadata = await self._cluster.refresh(deadline)
        except WireError as error:
            raise _failed(error) from error
        shards = {
            Shard(name, _text(number)): _view(info, topic.topic_id)
            for name, topic in metadata.topics.items()
            for number, info in topic.partitions.items()
        }
        return View(metadata.cluster_id or "", shards, metadata.sent_ns, metadata.received_ns)

    async def positions(self, broker: str, shards: Mapping[Shard, int | None], deadline: float) -> Timed[dict[Shard, Position]]:
        """See `Watchable.positions`."""
        which = {_partition(shard): ANY_EPOCH if term is None else term for shard, term in shards.items()}
        try:
            answer = await self._cluster.list_offsets(int(broker), which, deadline)
            offsets, received_ns = dict(answer.body), answer.received_ns
            old = [one for one, offset in offsets.items() if offset.error == OLD_QUESTION and which[one] != ANY_EPOCH]
            if old:
                which |= dict.fromkeys(old, ANY_EPOCH)
                answer_to_old = await self._cluster.list_offsets(int(broker), dict.fromkeys(old, ANY_EPOCH), deadline)
                offsets, received_ns = offsets | answer_to_old.body, answer_to_old.received_ns
        except WireError as error:
            raise _failed(error) from error
        body = {shard: _position(offsets.get(one), which[one]) for shard in shards for one in [_partition(shard)]}
        return Timed(body, answer.sent_ns, received_ns)

    async def term_ends(self, broker: str, shards: Mapping[Shard, tuple[int, int]], deadline: float) -> Timed[dict[Shard, TermEnd]]:
        """See `Watchable.term_ends`."""
        try:
            answer = await self._cluster.epoch_ends(int(broker), {_partition(one): asked for one, asked in shards.items()}, deadline)
        except WireError as error:
            raise _failed(error) from error
        body = {shard: _term_end(answer.body.get(_partition(shard))) for shard in shards}
        return Timed(body, answer.sent_ns, answer.received_ns)

    async def close(self) -> None:
        """See `Watchable.close`."""
        await self._cluster.close()


def _failed(error: WireError) -> AskFailed:
    outcome = Outcome.UNKNOWN if isinstance(error, NoAnswer | ConnectionLost) else of_no_connection(error)
    return AskFailed(str(error), error.code, outcome)


def _partition(shard: Shard) -> TopicPartition:
    return TopicPartition(shard.resource, int(shard.shard))


@functools.lru_cache(maxsize=65_536)
def _text(number: int) -> str:
    return str(number)


@functools.lru_cache(maxsize=65_536)
def _texts(nodes: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, nodes))


def _view(info: PartitionInfo, topic_id: str | None) -> ShardView:
    leader = None if info.leader is None else _text(info.leader)
    return ShardView(leader, info.leader_epoch, _texts(info.isr), _texts(info.replicas), topic_id)


def _position(offset: Offset | None, asked_epoch: int) -> Position:
    if offset is None:
        return Position(Outcome.REJECTED, code="NOT_IN_ANSWER")
    if offset.error == LEADS_ALREADY:
        return Position(Outcome.ACKED, None, None if asked_epoch == ANY_EPOCH else asked_epoch, offset.error)
    if offset.error is not None:
        return Position(of_read(offset.error), code=offset.error, is_unknown=offset.error in NOT_KNOWN_THERE)
    return Position(Outcome.ACKED, offset.offset, offset.leader_epoch)


def _term_end(end: EpochEndOffset | None) -> TermEnd:
    if end is None or end.error is not None:
        return TermEnd(None, None, "NOT_IN_ANSWER" if end is None else end.error)
    return TermEnd(end.end_offset if end.end_offset >= 0 else None, end.leader_epoch)
