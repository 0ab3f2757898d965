"""What did the controller decide, asked of the controllers from afar?

The rule: the active controller answers Fetch for `__cluster_metadata` as it answers a broker that observes the quorum. Long
polling makes it a live stream. It also hands out records that no majority has yet, with the high watermark beside them: those
are held back until they are below it, so that nothing that is given out can be undone.

Who is active moves. Every answer names the leader and its epoch: a node that is not it answers NOT_LEADER_OR_FOLLOWER (6), a
wrong epoch FENCED_LEADER_EPOCH (74, ours is old) or UNKNOWN_LEADER_EPOCH (75, theirs is). Then the named leader's address is
asked, if it is given, and the other addresses in turn. Once the log was cut below our offset (or at offset 0, always) the
answer names a snapshot, and FetchSnapshot brings it: how it differs from our state is what was decided in between. One
address is enough: the log itself says where the other controllers listen.

The listener needs to let us in: with an authorizer, CLUSTER_ACTION on the cluster.

Example: `ControllerFetch(Connection.plain("127.0.0.1:9093"), definitions)` and `async for decided in
source.follow(None)`.
"""

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest

from pipelines.brokers.base import Decided, Decision
from pipelines.brokers.kafka.batches import Batch, DamagedLog, read
from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.definitions import Definitions, Fields
from pipelines.brokers.kafka.link import Link
from pipelines.brokers.kafka.replay import Replay
from pipelines.brokers.kafka.turns import Turns
from pipelines.brokers.kafka.wire import NotKafka, NotLetIn, NotSupported, WireError, error_name
from pipelines.errors import ConnectionFailed, Unauthorised

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = uuid.UUID(int=1)
FETCH_VERSION_MAX = 17
OBSERVER = -1
OK, FENCED = 0, 74
UNAUTHORISED = (29, 31)
INCONSISTENT_CLUSTER = 104

LONG_POLL_MS = 500
"""How long the controller may wait for something to answer with: as long as it waits itself before it writes a NoOpRecord."""
SHORT_POLL_SECONDS = 0.02
"""The pause before asking again whether the records at hand are committed by now."""
ANSWER_SECONDS = 1.0
"""How long an answer may take beyond the long poll, before another controller is asked."""
ALIVE_SECONDS = 1.0
NEXT_SECONDS = 0.05
"""The pause before another controller is asked, once all have been."""
SILENT_SECONDS = 2.0
"""How long no controller may answer before it is said; an election takes about as long."""
GIVE_UP_SECONDS = 10.0
"""When nobody ever answered within this, the addresses are wrong."""
FETCH_BYTES = 1024 * 1024
SNAPSHOT_BYTES = 1024 * 1024


class _Elsewhere(Exception):
    """The node that was asked does not answer as the active controller; ask another one."""


class ControllerFetch:
    """A `ControlSource` over the controllers' listener.

    Args:
        connection: the controllers' addresses and their security.
        definitions: of the pinned Kafka JARs.
        cluster_id: what the cluster must be; None: not checked.
    """

    name = "metadata_fetch"

    def __init__(self, connection: Connection, definitions: Definitions, cluster_id: str | None = None) -> None:
        self._connection = connection
        self._definitions = definitions
        # What lies below the high watermark of the first answer is state; of a quorum made anew, what is not newer than what was seen.
        self._news_offset: int | None = None
        self._news_after_ms = -1
        self._read_ns: int | None = None
        self._asked_epoch: int | None = None
        self._cluster_id = cluster_id
        self._replay = Replay(definitions)
        self._is_caught_up = False
        self._links = {address: Link(address, connection) for address in connection.bootstrap}
        self._turns = Turns(connection.bootstrap)
        self._named: Address | None = None
        self._leader_epoch = 0
        self._held: deque[Batch] = deque()

    async def follow(self, saved: str | None) -> AsyncIterator[Decided]:
        """See `ControlSource.follow`. Raises Unauthorised when no controller lets us in, ConnectionFailed when nobody ever answered
        within some seconds or it is another cluster, and UnknownRecord when the cluster is newer than the JARs."""
        if saved is not None:
            self._replay.restore(saved)
            self._news_offset = 0
        has_answered = False
        first_asked = answered_at = alive_at = time.monotonic()
        trouble: str | None = None
        failures = 0
        while True:
            try:
                decided = await self._turn()
                has_answered, failures, answered_at = True, 0, time.monotonic()
                self._turns.answered()
            except (WireError, _Elsewhere, DamagedLog) as error:
                failures += 1
                trouble = f"the controller does not answer: {error}"
                decided = Decided()
                if not has_answered and failures >= len(self._turns):
                    self._raise_if_hopeless(error, first_asked)
                self._ask_another(is_unreached=isinstance(error, WireError))
                if failures % len(self._turns) == 0:
                    await asyncio.sleep(NEXT_SECONDS)
            if decided.decisions or decided.is_cut:
                yield decided
            if time.monotonic() >= alive_at:
                alive_at = time.monotonic() + ALIVE_SECONDS
                trouble_now = trouble if time.monotonic() - answered_at > SILENT_SECONDS else None
                yield Decided(trouble=trouble_now, read_ns=self._read_ns)

    def saved(self) -> str | None:
        """See `ControlSource.saved`."""
        return self._replay.saved() if self._is_caught_up else None

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _raise_if_hopeless(self, error: Exception, first_asked: float) -> None:
        if time.monotonic() - first_asked < GIVE_UP_SECONDS and not isinstance(error, NotLetIn | NotKafka | NotSupported):
            return
        where = ",".join(map(str, self._connection.bootstrap))
        if isinstance(error, NotLetIn):
            raise Unauthorised(f"--controller {where}: {error}") from error
        raise ConnectionFailed(
            f"--controller {where}: no active controller answered: {error}; expected the controllers' listener"
            " (controller.listener.names), not a broker's"
        ) from error

    async def _turn(self) -> Decided:
        """Asks once, and returns what can be given out by now."""
        decisions: list[Decision] = []
        if self._is_caught_up and self._replay.controller is None and self._asked_epoch != self._replay.epoch:
            await self._ask_who_leads()
        asked_ns = time.monotonic_ns()
        answer = await self._fetch()
        snapshot = answer.snapshot_id
        if snapshot is not None and snapshot.end_offset >= 0:
            return await self._load(snapshot.end_offset, snapshot.epoch)
        diverging = answer.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            return self._diverged(diverging.end_offset)
        if self._news_offset is None and answer.high_watermark >= 0:
            self._news_offset = answer.high_watermark
        batches, _ = read(bytes(answer.records or b""))
        self._held += batches
        while self._held and self._held[0].next_offset <= answer.high_watermark and self._news_offset is not None:
            batch = self._held.popleft()
            decided = self._replay.apply(batch)
            if batch.base_offset >= self._news_offset and batch.timestamp_ms > self._news_after_ms:
                decisions += decided
        if self._replay.next_offset >= answer.high_watermark >= 0:
            self._is_caught_up, self._read_ns = True, asked_ns
        for listeners in self._replay.state.controllers.values():
            self._learn(*(Address(host, port) for host, port in listeners))
        return Decided(tuple(decisions), read_ns=self._read_ns)

    async def _ask_who_leads(self) -> None:
        """Whose clock stamps the batches: a snapshot does not say who leads the quorum. Asked once an epoch."""
        kind = DescribeQuorumRequest.TopicData
        topic = kind(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])
        deadline = time.monotonic() + ANSWER_SECONDS
        body = (await self._links[self._turns.current].request(DescribeQuorumRequest(topics=[topic]), deadline)).body
        for part in (part for one in body.topics or () for part in one.partitions):
            if part.error_code == OK and part.leader_id >= 0 and part.leader_epoch == self._replay.epoch:
                self._replay.controller = part.leader_id
        self._asked_epoch = self._replay.epoch

    async def _fetch(self) -> Any:
        """The active controller's answer about the partition. Raises _Elsewhere, WireError, Unauthorised."""
        last = self._held[-1] if self._held else None
        offset, epoch = (last.next_offset, last.epoch) if last else (self._replay.next_offset, self._replay.epoch)
        if last is not None:
            await asyncio.sleep(SHORT_POLL_SECONDS)
        wait_ms = 0 if last is not None else LONG_POLL_MS
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=min(epoch, self._leader_epoch),
            log_start_offset=-1,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            cluster_id=self._cluster_id,
            replica_id=OBSERVER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
        )
        deadline = time.monotonic() + wait_ms / 1000 + ANSWER_SECONDS
        body = (await self._links[self._turns.current].request(request, deadline, FETCH_VERSION_MAX)).body
        self._check(body.error_code)
        if not body.responses:
            raise _Elsewhere(f"{self._turns.current} answers Fetch without the metadata log; is it a controller's listener?")
        answer = body.responses[0].partitions[0]
        self._check(answer.error_code)
        self._follow_leader(answer.error_code, answer.current_leader, body.node_endpoints)
        return answer

    def _check(self, code: int) -> None:
        if code in UNAUTHORISED:
            raise Unauthorised(
                f"controller {self._turns.current}: {error_name(code)}; reading the metadata log needs CLUSTER_ACTION on the cluster"
            )
        if code == INCONSISTENT_CLUSTER:
            raise ConnectionFailed(f"controller {self._turns.current} belongs to another cluster than {self._cluster_id}")

    def _follow_leader(self, code: int, leader: Any, endpoints: Any) -> None:
        """Takes the epoch and the address of the leader from an answer. Raises _Elsewhere when it was not the leader's."""
        is_newer = leader is not None and leader.leader_epoch > self._leader_epoch
        if is_newer:
            self._leader_epoch = leader.leader_epoch
            # What a leader of an older epoch had not committed may never be.
            self._held.clear()
        if code == OK:
            return
        named = [Address(one.host, one.port) for one in endpoints or () if leader is not None and one.node_id == leader.leader_id]
        # Below version 16 nobody is named; a node that only finds our epoch old may be the leader itself.
        self._named = named[0] if named else self._turns.current if code == FENCED and is_newer else None
        raise _Elsewhere(f"{self._turns.current} answers {error_name(code)}")

    def _ask_another(self, *, is_unreached: bool) -> None:
        """The leader that was named comes next, or else the next address."""
        named, self._named = self._named, None
        if named is not None:
            self._learn(named)
        self._turns.ask_another(named, is_unreached=is_unreached)

    def _learn(self, *addresses: Address) -> None:
        """More places where controllers listen, after those that the user gave."""
        for address in addresses:
            if self._turns.learn(address):
                self._links[address] = Link(address, self._connection)

    def _diverged(self, end_offset: int) -> Decided:
        """The leader has another record where our last one is: what is held goes; what was given out was committed, so it stays."""
        self._held.clear()
        if end_offset >= self._replay.next_offset:
            return Decided()
        # Committed records are gone: the quorum was made anew. Its state is taken as it is, from its snapshot or its beginning.
        self._news_offset, self._news_after_ms = 0, self._replay.timestamp_ms or -1
        self._replay, self._is_caught_up = Replay(self._definitions), False
        return Decided(is_cut=True)

    async def _load(self, end_offset: int, epoch: int) -> Decided:
        """Brings a snapshot, part by part. Raises as `_fetch` does."""
        self._held.clear()
        data = bytearray()
        size = 1
        while len(data) < size:
            part = await self._snapshot_part(end_offset, epoch, len(data))
            size = part["size"]
            data += part["unaligned_records"]
        batches, used = read(bytes(data))
        if used != size:
            raise DamagedLog(f"snapshot {end_offset}-{epoch} of {size} bytes can be read up to byte {used} only")
        is_behind = self._replay.timestamp_ms is not None
        decisions = self._replay.load(batches, end_offset, epoch)
        return Decided(tuple(decisions), is_cut=is_behind)

    async def _snapshot_part(self, end_offset: int, epoch: int, position: int) -> Fields:
        request = self._definitions.message("FetchSnapshotRequest")
        fields = {
            "cluster_id": self._cluster_id,
            "replica_id": OBSERVER,
            "max_bytes": SNAPSHOT_BYTES,
            "topics": [
                {
                    "name": METADATA_TOPIC,
                    "partitions": [
                        {
                            "partition": 0,
                            "current_leader_epoch": self._leader_epoch,
                            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
                            "position": position,
                        }
                    ],
                }
            ],
        }
        deadline = time.monotonic() + ANSWER_SECONDS + LONG_POLL_MS / 1000
        wire = await self._links[self._turns.current].wire(deadline)
        version = wire.version(request)
        frame, _ = await wire.exchange(request.api_key, version, True, request.encode(fields, version), deadline)
        answer = self._definitions.message("FetchSnapshotResponse").decode(frame, version)
        self._check(answer["error_code"])
        if answer["error_code"] or not answer["topics"]:
            raise _Elsewhere(f"{self._turns.current} answers FetchSnapshot with {error_name(answer['error_code'])}")
        part: Fields = answer["topics"][0]["partitions"][0]
        if part["error_code"]:
            raise _Elsewhere(f"{self._turns.current} answers FetchSnapshot with {error_name(part['error_code'])}")
        return part
