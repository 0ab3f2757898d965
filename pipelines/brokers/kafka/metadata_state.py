"""What does the controller hold true of the topics and brokers, and how do two such states differ?

The rule: the state is what decisions are told against (previous leader, previous ISR). It can be written down as text and
read again, so that a restart goes on where it was; and two states give the decisions that must have been made between them,
each with bounds as wide as the time between.

Example: before, orders/0 was led by 1 in epoch 4; now, by 2 in epoch 6: one PARTITION_CHANGED from 1 to 2, term 6.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pipelines.brokers.base import Decision
from pipelines.domain.observations import ControlEvent

NO_LEADER = -1
FORMAT = 1


@dataclass(frozen=True, slots=True)
class DecidedPartition:
    """A partition as the controller has it: broker ids, -1 for no leader."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    eligible: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker as the controller has it."""

    is_fenced: bool
    is_shutting_down: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """Where and when something was decided: the offset in the metadata log, and bounds by the clock of the controller that wrote it."""

    offset: int | None
    started_at_us: int
    ended_at_us: int
    stamped_by: str | None = None

    def decision(self, event: ControlEvent, **fields: Any) -> Decision:
        """A decision made here."""
        position = None if self.offset is None else str(self.offset)
        return Decision(
            event=event.value,
            position=position,
            started_at_us=self.started_at_us,
            ended_at_us=self.ended_at_us,
            stamped_by=self.stamped_by,
            **fields,
        )


@dataclass(slots=True)
class MetadataState:
    """Topics by id, their partitions by number, brokers by id."""

    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, DecidedPartition]] = field(default_factory=dict)
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    controllers: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Where each controller listens: (host, port)."""

    def set_partition(self, topic_id: str, number: int, state: DecidedPartition, at: At, is_unclean: bool | None = None) -> Decision:
        """Takes the new state of a partition and returns the decision that it is."""
        of_topic = self.partitions.setdefault(topic_id, {})
        before, of_topic[number] = of_topic.get(number), state
        return at.decision(
            ControlEvent.PARTITION_CREATED if before is None else ControlEvent.PARTITION_CHANGED,
            resource=self.topics.get(topic_id, ""),
            topic_id=topic_id,
            shard=str(number),
            leader=text(state.leader),
            previous_leader=None if before is None else text(before.leader),
            term=state.epoch,
            isr=texts(state.isr),
            previous_isr=None if before is None else texts(before.isr),
            replicas=texts(state.replicas),
            eligible_replicas=texts(state.eligible),
            is_unclean=is_unclean,
        )

    def remove_topic(self, topic_id: str, at: At) -> list[Decision]:
        """Forgets a topic and returns the decision for each of its partitions."""
        name = self.topics.pop(topic_id, "")
        return [
            at.decision(
                ControlEvent.PARTITION_REMOVED,
                resource=name,
                topic_id=topic_id,
                shard=str(number),
                previous_leader=text(state.leader),
                term=state.epoch,
                previous_isr=texts(state.isr),
            )
            for number, state in self.partitions.pop(topic_id, {}).items()
        ]

    def clear_eligible(self, topic: str) -> None:
        """No replica of the topic is eligible any more; of no topic, when it is not named (TopicsDelta.replay)."""
        for topic_id, name in self.topics.items():
            if topic in ("", name):
                of_topic = self.partitions[topic_id]
                self.partitions[topic_id] = {number: replace(state, eligible=()) for number, state in of_topic.items()}

    def to_json(self) -> dict[str, Any]:
        """The state as plain data; about 60 bytes a partition."""
        return {
            "format": FORMAT,
            "topics": self.topics,
            "partitions": {
                topic_id: {number: [one.leader, one.epoch, one.isr, one.replicas, one.eligible] for number, one in of_topic.items()}
                for topic_id, of_topic in self.partitions.items()
            },
            "brokers": {node: [one.is_fenced, one.is_shutting_down] for node, one in self.brokers.items()},
            "controllers": self.controllers,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`, also after JSON made texts of numbers. Raises ValueError for another format."""
        if data.get("format") != FORMAT:
            raise ValueError(f"state format {data.get('format')!r}, expected {FORMAT}")
        return cls(
            dict(data["topics"]),
            {
                topic_id: {
                    int(number): DecidedPartition(leader, epoch, tuple(isr), tuple(replicas), tuple(eligible))
                    for number, (leader, epoch, isr, replicas, eligible) in of_topic.items()
                }
                for topic_id, of_topic in data["partitions"].items()
            },
            {int(node): BrokerState(*flags) for node, flags in data["brokers"].items()},
            {int(node): tuple((host, int(port)) for host, port in at) for node, at in data["controllers"].items()},
        )

    def copy(self) -> Self:
        """A state of its own, with the same contents."""
        return type(self).from_json(json.loads(json.dumps(self.to_json())))


def differences(before: MetadataState, after: MetadataState, at: At) -> Iterator[Decision]:
    """The decisions that make `after` out of `before`, all of them made within `at`."""
    told = before.copy()
    for topic_id in before.topics.keys() - after.topics.keys():
        yield from told.remove_topic(topic_id, at)
    told.topics = dict(after.topics)
    for topic_id, of_topic in after.partitions.items():
        for number, state in of_topic.items():
            if told.partitions.get(topic_id, {}).get(number) != state:
                yield told.set_partition(topic_id, number, state, at)
    for node in before.brokers.keys() | after.brokers.keys():
        yield from _broker_differences(node, before.brokers.get(node), after.brokers.get(node), at)


def _broker_differences(node: int, before: BrokerState | None, after: BrokerState | None, at: At) -> Iterator[Decision]:
    if after is None:
        yield at.decision(ControlEvent.BROKER_UNREGISTERED, broker=str(node))
        return
    if before is None:
        yield at.decision(ControlEvent.BROKER_REGISTERED, broker=str(node))
    if after.is_fenced != (before is None or before.is_fenced):
        yield at.decision(ControlEvent.BROKER_FENCED if after.is_fenced else ControlEvent.BROKER_UNFENCED, broker=str(node))
    if after.is_shutting_down and not (before is not None and before.is_shutting_down):
        yield at.decision(ControlEvent.BROKER_SHUTTING_DOWN, broker=str(node))


def text(node: int | None) -> str | None:
    """A broker's id as it is written down; None for no broker."""
    return None if node is None or node < 0 else str(node)


def texts(nodes: tuple[int, ...]) -> tuple[str, ...]:
    """Brokers' ids as they are written down."""
    return tuple(map(str, nodes))
