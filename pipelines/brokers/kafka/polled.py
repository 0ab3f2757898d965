"""What must the controller have decided, seen by asking brokers again and again?

The rule: where neither the controllers nor a node's folder can be read, what clients are told is compared with what they were
told a poll ago. A decision was made before the answer that shows it. It need not have been made after the asking of the one
that does not show it yet, for a broker learns of decisions a little later (some 50 ms, measured): so its bounds begin one
poll before that, which holds while brokers lag by less than a poll. The first answer of another broker than before is not
compared: it may be the older of the two. Two changes within one poll are seen as one. `DescribeQuorum`, where the cluster
lets us ask it, tells the active controller in the same way.

A topic that nobody tells of need not be deleted: a ZooKeeper-mode broker that just started knows of none. It was, when nobody has told
of it for REMOVED_AFTER_SECONDS; it was removed when it was first missing then.

It cannot tell eligible replicas, unclean elections, controlled shutdowns or a controller's silence: those stay absent.

Example: asked at 9.00 s and 10.00 s, orders/0 is led by 2 in epoch 4; asked at 11.00 s, answered at 11.01 s, by 3 in epoch 5:
one PARTITION_CHANGED in [9.00 s, 11.01 s].
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace

from kafka.protocol.admin import DescribeQuorumRequest

from pipelines.brokers.base import BadPosition, Decision, Decisions
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.controller import METADATA_TOPIC
from pipelines.brokers.kafka.metadata import Metadata
from pipelines.brokers.kafka.metadata_state import NO_LEADER, At, BrokerState, DecidedPartition, MetadataState, differences, text
from pipelines.brokers.kafka.wire import WireError
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import ControlEvent

POLL_SECONDS = 1.0
REMOVED_AFTER_SECONDS = 30.0
ANSWER_SECONDS = 2.0


class AdminPoll:
    """A `ControlSource` that asks brokers, as any client may (DESCRIBE on the topics; on the cluster for the controller)."""

    name = "admin_poll"

    def __init__(
        self,
        connection: Connection,
        clock: Anchor,
        poll_seconds: float = POLL_SECONDS,
        removed_after_seconds: float = REMOVED_AFTER_SECONDS,
    ) -> None:
        self._cluster = Cluster(connection)
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._removed_after_us = int(removed_after_seconds * 1e6)
        self._untold: dict[str, At] = {}
        """By the id of a topic, the poll in which it was first missing."""
        self._state: MetadataState | None = None
        self._controller: tuple[int, int] | None = None
        self._asked_us = 0
        self._answered_by: Address | None = None
        self._asked_before_us = 0
        """When the poll before the last one was asked."""

    async def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
        """See `ControlSource.follow`."""
        if saved is not None:
            self._restore(saved)
        due = time.monotonic()
        while True:
            try:
                asked_ns = time.monotonic_ns()
                yield Decisions(tuple(await self._poll()), read_ns=asked_ns)
            except WireError as error:
                yield Decisions(trouble=f"no broker answers: {error}")
            due = max(due + self._poll_seconds, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    def saved(self) -> str | None:
        """See `ControlSource.saved`."""
        if self._state is None:
            return None
        return json.dumps({"asked_us": self._asked_us, "controller": self._controller, "state": self._state.to_json()})

    async def close(self) -> None:
        """Ends all connections."""
        await self._cluster.close()

    def _restore(self, text_of_saved: str) -> None:
        try:
            saved = json.loads(text_of_saved)
            asked_us, state = int(saved["asked_us"]), MetadataState.from_json(saved["state"])
            controller = (int(saved["controller"][0]), int(saved["controller"][1])) if saved["controller"] else None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise BadPosition(f"the saved state of the last poll cannot be used ({error})") from error
        self._asked_before_us = self._asked_us = asked_us
        self._controller, self._state = controller, state

    async def _poll(self) -> list[Decision]:
        asked_us = self._clock.now_us()
        metadata = await self._cluster.refresh(time.monotonic() + ANSWER_SECONDS)
        is_of_another, self._answered_by = self._cluster.answered_by != self._answered_by, self._cluster.answered_by
        if is_of_another and self._state is not None:
            return []
        controller = await self._active_controller()
        at = At(None, self._asked_before_us, self._clock.now_us())
        before, after = self._state, _state(metadata, self._state)
        decisions: list[Decision] = []
        if before is not None:
            decisions += self._removals(before, after, at)
            decisions += [replace(one, eligible_replicas=None) for one in differences(before, after, at)]
        if controller is not None and self._controller is not None and controller[1] > self._controller[1]:
            node, previous = text(controller[0]), text(self._controller[0])
            event = ControlEvent.CONTROLLER_CHANGED
            decisions.append(at.decision(event, broker=node, leader=node, previous_leader=previous, term=controller[1]))
        self._state, self._controller = after, controller or self._controller
        self._asked_before_us, self._asked_us = self._asked_us or asked_us, asked_us
        return decisions

    def _removals(self, before: MetadataState, after: MetadataState, at: At) -> list[Decision]:
        """What was deleted, once that is believed; until then the topics stay in the state as they were."""
        missing = before.topics.keys() - after.topics.keys()
        self._untold = {topic_id: self._untold.get(topic_id, at) for topic_id in missing}
        decisions: list[Decision] = []
        for topic_id, first in self._untold.items():
            name = before.topics[topic_id]
            is_anew = name in after.topics.values()
            if is_anew or at.ended_at_us - first.ended_at_us >= self._removed_after_us:
                decisions += [replace(one, eligible_replicas=None) for one in before.remove_topic(topic_id, first)]
            else:
                after.topics[topic_id], after.partitions[topic_id] = name, before.partitions[topic_id]
        return decisions

    async def _active_controller(self) -> tuple[int, int] | None:
        """Its id and epoch; None where nobody says (ZooKeeper mode, not authorised, no leader at the moment)."""
        kind = DescribeQuorumRequest.TopicData
        topic = kind(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])
        try:
            answer = await self._cluster.ask_any(DescribeQuorumRequest(topics=[topic]), time.monotonic() + ANSWER_SECONDS)
        except WireError:
            return None
        partitions = [part for topic in answer.body.topics or () for part in topic.partitions if part.error_code == 0]
        if not partitions or partitions[0].leader_id < 0:
            return None
        return partitions[0].leader_id, partitions[0].leader_epoch


def _state(metadata: Metadata, before: MetadataState | None) -> MetadataState:
    """What clients are told, in the controller's terms. A broker that they are not told of any more is fenced or gone."""
    state = MetadataState()
    for name, topic in metadata.topics.items():
        topic_id = topic.topic_id or name
        state.topics[topic_id] = name
        state.partitions[topic_id] = {
            number: DecidedPartition(NO_LEADER if one.leader is None else one.leader, one.leader_epoch, one.isr, one.replicas)
            for number, one in topic.partitions.items()
        }
    known = before.brokers if before is not None else {}
    state.brokers = {node: BrokerState(is_fenced=True) for node in known} | {
        node: BrokerState(is_fenced=False) for node in metadata.brokers
    }
    return state
