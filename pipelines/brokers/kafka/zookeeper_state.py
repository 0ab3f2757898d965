"""What did the controller of a ZooKeeper-mode cluster decide between two looks at its znodes? No I/O.

The rule: each kind of znode is compared with what it was at the last look, and the difference is what was decided:

- *a change* is as exact as its znode: mtime, the ZooKeeper server's clock, [ms * 1000, ms * 1000 + 999]; mzxid is its position, which
  orders all changes of all znodes.
- *a version that rose by more than one* hides what was in between: MISSED_CHANGES, and the change that is told then begins as early
  as the last known version can have ended: at its mtime, or when it was last seen to be still there, by the server's clock
  (`Look.ahead_us`, which holds while neither clock is stepped).
- *what is gone* has no mtime: [last seen there, seen gone] by our clock; its position is its parent's pzxid, which is its own or later.
  Where it is its own for sure (nothing else came or went), what was written before it bounds it, too.
- *leader epoch*: it is in the znode. Each write of the controller raises it by one, also one that only drops a follower; a leader's own
  AlterPartition leaves it.
- *unclean*: the new leader was not in the ISR of the version before. The znode says so, too (leader_recovery_state 1), and goes on
  saying it until the leader has recovered, so it alone would call the next, clean election unclean; where versions were missed it is
  all there is.

Brokers and the controller are in `zookeeper_members`.

Example: orders/0 is led by 2 in epoch 4, version 7, ISR (2, 3, 1). Version 8 says {leader: 3, leader_epoch: 5, isr: [3, 1]}, mtime
1,795,000,000,123 ms: PARTITION_CHANGED at [..123000, ..123999], term 5, is_unclean False.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pipelines.brokers.base import Decision
from pipelines.brokers.kafka.metadata_state import NO_LEADER, text, texts
from pipelines.brokers.kafka.znodes import Znode
from pipelines.domain.observations import ControlEvent
from pipelines.errors import RetryableError

FORMAT = 1
RECOVERING = 1
SERVER = "zookeeper"
"""Whose clock stamps the znodes: the ZooKeeper leader's, which is no broker's."""


class BadZnode(RetryableError):
    """A znode does not hold what Kafka writes there."""


@dataclass(frozen=True, slots=True)
class Look:
    """When znodes were read. Until `since_us` all of them were seen to be as they were known, by our clock; `seen_us` is now.

    `ahead_us`: the server's clock is at least so much ahead of ours, None while nothing is known of it.
    """

    since_us: int
    seen_us: int
    ahead_us: int | None = None
    zxid: int = 0
    """The newest change that ZooKeeper had."""

    def gone(self, position: int, event: ControlEvent, **fields: Any) -> Decision:
        """Something is not there any more."""
        return made(event, position, self.since_us, max(self.since_us, self.seen_us), stamped_by=None, **fields)

    def after(self, mtime_ms: int, until_ms: int) -> int:
        """The earliest instant, by the server's clock, at which what was known (of `mtime_ms`) can have been changed."""
        seen_there = 0 if self.ahead_us is None else self.since_us + self.ahead_us
        return min(max(mtime_ms * 1000, seen_there), until_ms * 1000)


@dataclass(frozen=True, slots=True)
class PartitionZnode:
    """`/brokers/topics/T/partitions/P/state`: broker ids, -1 for no leader."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    is_recovering: bool
    czxid: int
    mzxid: int
    version: int
    ctime_ms: int
    mtime_ms: int

    @classmethod
    def of(cls, path: str, znode: Znode) -> Self:
        """Raises BadZnode."""
        body = body_of(path, znode)
        try:
            isr = tuple(int(one) for one in body["isr"])
            is_recovering = int(body.get("leader_recovery_state", 0)) == RECOVERING
            leader, epoch = int(body["leader"]), int(body["leader_epoch"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadZnode(f"{path}: {error!r} in {body}") from error
        return cls(leader, epoch, isr, is_recovering, znode.czxid, znode.mzxid, znode.version, znode.ctime_ms, znode.mtime_ms)


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """`/brokers/topics/T`: its id, None where it has none (before Kafka 2.8), and the replicas of each partition."""

    topic_id: str | None
    replicas: dict[int, tuple[int, ...]]
    mzxid: int
    mtime_ms: int
    version: int

    @classmethod
    def of(cls, path: str, znode: Znode) -> Self:
        """Raises BadZnode."""
        body = body_of(path, znode)
        try:
            replicas = {int(number): tuple(int(one) for one in nodes) for number, nodes in body["partitions"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadZnode(f"{path}: {error!r} in {body}") from error
        return cls(body.get("topic_id"), replicas, znode.mzxid, znode.mtime_ms, znode.version)


@dataclass(frozen=True, slots=True)
class Drops:
    """The first and the last write by which the controller took a broker out of an ISR, since it registered."""

    first_mzxid: int
    first_mtime_ms: int
    last_mzxid: int


@dataclass(slots=True)
class ZookeeperState:
    """The znodes at the last look. Each method takes what is there now, keeps it, and returns what was decided."""

    topics: dict[str, TopicZnode] = field(default_factory=dict)
    partitions: dict[str, dict[int, PartitionZnode]] = field(default_factory=dict)
    drops: dict[int, Drops] = field(default_factory=dict)
    """What the controller took each broker out of, by broker id."""

    def topics_are(self, names: Iterable[str], position: int, look: Look) -> Iterator[Decision]:
        """The children of /brokers/topics: those that are missing were deleted. `position` is its pzxid."""
        for name in self.topics.keys() - set(names):
            yield from self._removed(name, position, look)

    def topic_is(self, name: str, topic: TopicZnode, look: Look) -> Iterator[Decision]:
        """Replicas that changed are decisions; partitions that came are none before they have a leader."""
        before = self.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            yield from self._removed(name, topic.mzxid, look)
            before = None
        self.topics[name] = topic
        if before is None:
            return
        for number, one in self.partitions.get(name, {}).items():
            replicas = topic.replicas.get(number)
            if replicas is not None and replicas != before.replicas.get(number):
                began_us = topic.mtime_ms * 1000
                if topic.version - before.version > 1:
                    began_us = look.after(before.mtime_ms, topic.mtime_ms)
                ended_us = topic.mtime_ms * 1000 + 999
                yield self._changed(name, number, one, one, _At(topic.mzxid, began_us, ended_us), None)

    def partition_is(self, name: str, number: int, one: PartitionZnode, look: Look) -> Iterator[Decision]:
        """A partition's state: made, changed, or unchanged."""
        of_topic = self.partitions.setdefault(name, {})
        before, of_topic[number] = of_topic.get(number), one
        if before is not None and before.czxid != one.czxid:
            yield look.gone(one.czxid, ControlEvent.PARTITION_REMOVED, **self._named(name, number), **_gone(before))
            before = None
        if before is None:
            # Made at ctime; where it was written again before we came, this is what it is by now.
            at = _At(one.mzxid, one.ctime_ms * 1000, one.mtime_ms * 1000 + 999)
            yield self._changed(name, number, None, one, at, None)
        elif one.mzxid > before.mzxid:
            yield from self._successor(name, number, before, one, look)

    def _successor(self, name: str, number: int, before: PartitionZnode, one: PartitionZnode, look: Look) -> Iterator[Decision]:
        at = _At(one.mzxid, one.mtime_ms * 1000, one.mtime_ms * 1000 + 999)
        names_leader = one.epoch > before.epoch and one.leader != NO_LEADER
        if one.version - before.version == 1:
            self._note_drops(name, number, before, one)
            yield self._changed(name, number, before, one, at, one.leader not in before.isr if names_leader else None)
            return
        at = _At(at.position, look.after(before.mtime_ms, one.mtime_ms), at.ended_us)
        yield at.decision(ControlEvent.MISSED_CHANGES, **self._named(name, number), term=one.epoch)
        is_unclean = True if names_leader and one.is_recovering and not before.is_recovering else None
        yield self._changed(name, number, before, one, at, is_unclean)

    def _note_drops(self, name: str, number: int, before: PartitionZnode, one: PartitionZnode) -> None:
        """Who left the ISR by a write of the controller's own (the epoch rose), and stays a replica."""
        topic = self.topics.get(name)
        if topic is None or one.epoch == before.epoch:
            return
        for broker in before.isr:
            if broker not in one.isr and broker in topic.replicas.get(number, ()):
                first = self.drops.get(broker, Drops(one.mzxid, one.mtime_ms, one.mzxid))
                # A later write may be stamped a millisecond earlier (seen on a real cluster).
                self.drops[broker] = Drops(
                    min(first.first_mzxid, one.mzxid), min(first.first_mtime_ms, one.mtime_ms), max(first.last_mzxid, one.mzxid)
                )

    def has_in_sync_with_others(self, broker: int) -> bool:
        """Whether the broker is still in an ISR that others are in, too."""
        return any(broker in one.isr and len(one.isr) > 1 for of_topic in self.partitions.values() for one in of_topic.values())

    def written_before(self, zxid: int) -> int:
        """When the newest write of a partition's state before a zxid was made, by the server's clock in ms; 0 where there is none."""
        states = (one for of_topic in self.partitions.values() for one in of_topic.values())
        return max((one.mtime_ms for one in states if one.mzxid < zxid), default=0)

    def _changed(
        self, name: str, number: int, before: PartitionZnode | None, one: PartitionZnode, at: "_At", is_unclean: bool | None
    ) -> Decision:
        topic = self.topics.get(name)
        return at.decision(
            ControlEvent.PARTITION_CREATED if before is None else ControlEvent.PARTITION_CHANGED,
            **self._named(name, number),
            leader=text(one.leader),
            previous_leader=None if before is None else text(before.leader),
            term=one.epoch,
            isr=texts(one.isr),
            previous_isr=None if before is None else texts(before.isr),
            replicas=None if topic is None or number not in topic.replicas else texts(topic.replicas[number]),
            is_unclean=is_unclean,
        )

    def _removed(self, name: str, position: int, look: Look) -> Iterator[Decision]:
        for number, one in self.partitions.pop(name, {}).items():
            yield look.gone(position, ControlEvent.PARTITION_REMOVED, **self._named(name, number), **_gone(one))
        self.topics.pop(name, None)

    def _named(self, name: str, number: int) -> dict[str, Any]:
        topic = self.topics.get(name)
        return {"resource": name, "shard": str(number), "topic_id": None if topic is None else topic.topic_id}

    def to_json(self) -> dict[str, Any]:
        """The state as plain data; about 90 bytes a partition."""
        return {
            "format": FORMAT,
            "topics": {name: [one.topic_id, one.replicas, one.mzxid, one.mtime_ms, one.version] for name, one in self.topics.items()},
            "partitions": {
                name: {number: [getattr(one, slot) for slot in PartitionZnode.__slots__] for number, one in of_topic.items()}
                for name, of_topic in self.partitions.items()
            },
            "drops": {broker: [one.first_mzxid, one.first_mtime_ms, one.last_mzxid] for broker, one in self.drops.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`, also after JSON made texts of numbers. Raises ValueError for another format."""
        if data.get("format") != FORMAT:
            raise ValueError(f"state format {data.get('format')!r}, expected {FORMAT}")
        topics = {
            name: TopicZnode(topic_id, {int(number): tuple(nodes) for number, nodes in replicas.items()}, *rest)
            for name, (topic_id, replicas, *rest) in data["topics"].items()
        }
        partitions = {
            name: {
                int(number): PartitionZnode(leader, epoch, tuple(isr), *rest)
                for number, (leader, epoch, isr, *rest) in of_topic.items()
            }
            for name, of_topic in data["partitions"].items()
        }
        return cls(topics, partitions, {int(broker): Drops(*drops) for broker, drops in data["drops"].items()})


@dataclass(frozen=True, slots=True)
class _At:
    """Where and when something was written."""

    position: int
    started_us: int
    ended_us: int

    def decision(self, event: ControlEvent, **fields: Any) -> Decision:
        return made(event, self.position, self.started_us, self.ended_us, **fields)


def body_of(path: str, znode: Znode) -> dict[str, Any]:
    """The JSON object that Kafka keeps in a znode. Raises BadZnode."""
    try:
        body = json.loads(znode.data)
    except ValueError as error:
        raise BadZnode(f"{path} holds {znode.data[:80]!r}, expected a JSON object as Kafka writes it") from error
    if not isinstance(body, dict):
        raise BadZnode(f"{path} holds {znode.data[:80]!r}, expected a JSON object as Kafka writes it")
    return body


def written(event: ControlEvent, znode: Znode, **fields: Any) -> Decision:
    """A decision that is the making of a znode."""
    return made(event, znode.czxid, znode.ctime_ms * 1000, znode.ctime_ms * 1000 + 999, **fields)


def _gone(one: PartitionZnode) -> dict[str, Any]:
    return {"previous_leader": text(one.leader), "term": one.epoch, "previous_isr": texts(one.isr)}


def made(
    event: ControlEvent, position: int, started_us: int, ended_us: int, stamped_by: str | None = SERVER, **fields: Any
) -> Decision:
    """A decision at a zxid, within bounds by the server's clock (`stamped_by` None: by ours)."""
    return Decision(
        event=event.value, position=str(position), started_at_us=started_us, ended_at_us=ended_us, stamped_by=stamped_by, **fields
    )
