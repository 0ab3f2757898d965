"""What are clients told of a cluster: its brokers, topics, leaders and epochs?

The rule: `Metadata` is one broker's answer, with the instants between which it was true for that broker. Brokers learn of a
change one after the other, so an answer may be older than the one before it: `not_older` keeps, partition by partition, the
higher leader epoch. A topic that was deleted and made again has another topic id and starts from epoch 0; its old epochs
count for nothing.

Example: the view knows orders/0 led by 2 in epoch 5; a broker that lags behind answers "led by 1 in epoch 4": the view keeps
2 and 5.
"""

import base64
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.wire import Answer, error_name


class TopicPartition(NamedTuple):
    """A partition, by name."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """What clients are told of a partition. `leader`: None where there is none; `error`: Kafka's name, None when all is well."""

    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    error: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader is not None and set(self.isr) == set(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as clients are told of it. `topic_id` is None below Kafka 2.8; a re-created topic has another one."""

    topic_id: str | None
    is_internal: bool
    error: str | None
    partitions: dict[int, PartitionInfo]


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that clients are told of: one that is registered and not fenced."""

    node: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What clients were told: asked at `sent_ns`, answered at `received_ns` (both `time.monotonic_ns()`)."""

    cluster_id: str | None
    brokers: dict[int, BrokerInfo]
    topics: dict[str, TopicInfo]
    sent_ns: int = 0
    received_ns: int = 0

    def partitions(self) -> dict[TopicPartition, PartitionInfo]:
        """Every partition of every topic."""
        return {TopicPartition(name, number): info for name, topic in self.topics.items() for number, info in topic.partitions.items()}

    def get(self, which: TopicPartition) -> PartitionInfo | None:
        """The partition, None when clients are not told of it."""
        topic = self.topics.get(which.topic)
        return None if topic is None else topic.partitions.get(which.partition)

    def by_leader(self, which: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """The partitions under the broker that leads them; under None those that have no leader or are not known."""
        grouped: dict[int | None, list[TopicPartition]] = {}
        for one in which:
            info = self.get(one)
            grouped.setdefault(None if info is None else info.leader, []).append(one)
        return grouped


def read_metadata(answer: Answer) -> Metadata:
    """The metadata of an answer to kafka-python's MetadataRequest."""
    body = answer.body
    brokers = {one.node_id: BrokerInfo(one.node_id, Address(one.host, one.port), one.rack or None) for one in body.brokers}
    topics = {one.name: _topic(one) for one in body.topics if one.name is not None}
    return Metadata(body.cluster_id, brokers, topics, answer.sent_ns, answer.received_ns)


def error_or_none(code: int) -> str | None:
    """Kafka's name of an error code; None for 0, which is none."""
    return None if code == 0 else error_name(code)


def _topic(one: Any) -> TopicInfo:
    partitions = {
        part.partition_index: PartitionInfo(
            part.leader_id if part.leader_id >= 0 else None,
            part.leader_epoch,
            tuple(part.isr_nodes),
            tuple(part.replica_nodes),
            error_or_none(part.error_code),
        )
        for part in one.partitions
    }
    topic_id = topic_id_text(one.topic_id)
    return TopicInfo(topic_id, bool(one.is_internal), error_or_none(one.error_code), partitions)


def is_older(one: Metadata, other: Metadata) -> bool:
    """Whether `one` shows any partition in an older leader epoch than `other` does."""
    for name, topic in one.topics.items():
        known = other.topics.get(name)
        if known is not None and known.topic_id == topic.topic_id:
            for number, info in topic.partitions.items():
                before = known.partitions.get(number)
                if before is not None and info.leader_epoch < before.leader_epoch:
                    return True
    return False


def not_older(old: Metadata, fresh: Metadata) -> Metadata:
    """The fresh metadata, but for partitions of which a broker that lags behind tells an older leader epoch than is known."""
    topics = {}
    for name, topic in fresh.topics.items():
        known = old.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            topics[name] = topic
            continue
        stale = {
            number: known.partitions[number]
            for number, info in topic.partitions.items()
            if number in known.partitions and info.leader_epoch < known.partitions[number].leader_epoch
        }
        topics[name] = replace(topic, partitions=topic.partitions | stale) if stale else topic
    return replace(fresh, topics=topics)


def topic_id_text(topic_id: uuid.UUID | None) -> str | None:
    """A topic id as Kafka's tools print it: 22 characters of base64 for URLs."""
    return None if topic_id is None or topic_id.int == 0 else base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
