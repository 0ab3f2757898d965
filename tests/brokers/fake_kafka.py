"""Brokers that speak Kafka's protocol and do as they are told, for what a real one cannot be made to do on the dot.

They handle the requests of one connection one at a time, as Kafka does, so a request that hangs holds up those behind it.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record import MemoryRecords

from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.produce import one_record

VERSIONS = {
    ProduceRequest: (0, 7),
    FetchRequest: (0, 11),
    ListOffsetsRequest: (1, 4),
    MetadataRequest: (0, 7),
    ApiVersionsRequest: (0, 2),
}
NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH, NO_HIGH_WATERMARK = 6, 74, 75, 78


@dataclass
class FakePartition:
    """What all brokers agree on. `term` rises with every change of leader; `told` is what clients are told of it, where that is older.
    A leader that `has_watermark` not yet knows not how far records are committed."""

    leader: int | None = 1
    term: int = 0
    replicas: tuple[int, ...] = (1, 2)
    records: list[bytes] = field(default_factory=list)
    told: int | None = None
    has_watermark: bool = True


@dataclass
class FakeBroker:
    """One broker. `answer`: "serve", "hang" (until `released`), "drop" (the connection) or an error code for what is written
    or read; `throttle_ms` goes with each answer."""

    node: int
    cluster: "FakeCluster"
    answer: str | int = "serve"
    throttle_ms: int = 0
    versions: dict[Any, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    connections: int = 0
    requests: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.Server | None = None
    port: int = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Its port refuses connections from now on; those that are open end."""
        if self.server is not None:
            self.server.close()
            for writer in list(self.cluster.writers.get(self.node, [])):
                writer.close()
            await self.server.wait_closed()
            self.server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        mine = self.cluster.writers.setdefault(self.node, [])
        mine.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await self._handle(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            mine.remove(writer)
            writer.close()

    async def _handle(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        key, version, number, length = struct.unpack_from(">hhih", frame)
        body = frame[10 + max(0, length) :]
        request = next(kind for kind in self.versions if key == kind.API_KEY)
        self.requests.append(request.__name__)
        low, high = self.versions[request]
        if not low <= version <= high:
            reply = ApiVersionsResponse(error_code=35, api_keys=[]).encode(version=0)
        elif request is ApiVersionsRequest:
            reply = self._api_versions().encode(version=version)
        elif request is MetadataRequest:
            reply = self.cluster.metadata().encode(version=version)
        else:
            if self.answer == "drop":
                writer.close()
                return
            if self.answer == "hang":
                await self.released.wait()
            handle = {ProduceRequest: self._produce, FetchRequest: self._fetch, ListOffsetsRequest: self._offsets}[request]
            reply = handle(request.decode(body, version=version)).encode(version=version)
        payload = struct.pack(">i", number) + bytes(reply)
        writer.write(struct.pack(">i", len(payload)) + payload)
        await writer.drain()

    def _api_versions(self) -> Any:
        kind = ApiVersionsResponse.ApiVersion
        keys = [kind(api_key=one.API_KEY, min_version=low, max_version=high) for one, (low, high) in self.versions.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _error(self, partition: int) -> int:
        if isinstance(self.answer, int):
            return self.answer
        return 0 if self.cluster.partitions[partition].leader == self.node else NOT_LEADER

    def _produce(self, request: Any) -> Any:
        (topic,) = request.topic_data
        (one,) = topic.partition_data
        error, offset = self._error(one.index), -1
        if not error:
            records = self.cluster.partitions[one.index].records
            offset = len(records)
            records += [record.value for batch in MemoryRecords(bytes(one.records)) for record in batch]
        kind = ProduceResponse.TopicProduceResponse
        part = kind.PartitionProduceResponse(
            index=one.index, error_code=error, base_offset=offset, log_append_time_ms=1_000 + offset, log_start_offset=0
        )
        return ProduceResponse(responses=[kind(name=topic.name, partition_responses=[part])], throttle_time_ms=self.throttle_ms)

    def _offsets(self, request: Any) -> Any:
        (topic,) = request.topics
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        parts = []
        for one in topic.partitions:
            known = self.cluster.partitions[one.partition_index]
            asked = one.current_leader_epoch
            error = self._error(one.partition_index)
            if asked >= 0 and asked != known.term:
                error = FENCED_EPOCH if asked < known.term else UNKNOWN_EPOCH
            error = error or (0 if known.has_watermark else NO_HIGH_WATERMARK)
            parts.append(
                kind.ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=error,
                    timestamp=-1,
                    offset=-1 if error else len(known.records),
                    leader_epoch=-1 if error else known.term,
                )
            )
        return ListOffsetsResponse(throttle_time_ms=self.throttle_ms, topics=[kind(name=topic.name, partitions=parts)])

    def _fetch(self, request: Any) -> Any:
        (topic,) = request.topics
        kind = FetchResponse.FetchableTopicResponse
        parts = []
        for one in topic.partitions:
            known = self.cluster.partitions[one.partition].records
            records = b"".join(batch_at(offset, known[offset]) for offset in range(one.fetch_offset, len(known)))
            parts.append(
                kind.PartitionData(
                    partition_index=one.partition,
                    error_code=self._error(one.partition),
                    high_watermark=len(known),
                    last_stable_offset=len(known),
                    log_start_offset=0,
                    aborted_transactions=None,
                    preferred_read_replica=-1,
                    records=records,
                )
            )
        return FetchResponse(
            throttle_time_ms=self.throttle_ms, error_code=0, session_id=0, responses=[kind(topic=topic.topic, partitions=parts)]
        )


def batch_at(offset: int, value: bytes) -> bytes:
    """A stored batch with one record."""
    return struct.pack(">q", offset) + one_record(value, 5)[8:]


class FakeCluster:
    """Two brokers and one topic, `t`."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = {number: FakePartition() for number in range(partitions)}
        self.topic: str | None = "t"
        """The topic that clients are told of; None: of none."""
        self.writers: dict[int, list[asyncio.StreamWriter]] = {}
        self.brokers = {node: FakeBroker(node, self) for node in (1, 2)}

    @property
    def connection(self) -> Connection:
        return Connection.plain(",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values()))

    def elect(self, partition: int, leader: int | None) -> None:
        one = self.partitions[partition]
        one.leader, one.term = leader, one.term + 1

    def metadata(self) -> Any:
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port, rack=None)
            for node, broker in self.brokers.items()
        ]
        kind = MetadataResponse.MetadataResponseTopic
        parts = [
            kind.MetadataResponsePartition(
                error_code=0 if one.leader else 5,
                partition_index=number,
                leader_id=one.leader or -1,
                leader_epoch=one.term if one.told is None else one.told,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.replicas),
                offline_replicas=[],
            )
            for number, one in self.partitions.items()
        ]
        topics = [kind(error_code=0, name=self.topic, is_internal=False, partitions=parts)] if self.topic else []
        return MetadataResponse(throttle_time_ms=0, brokers=brokers, cluster_id="fake", controller_id=1, topics=topics)


@asynccontextmanager
async def fake_cluster(partitions: int = 1) -> AsyncIterator[FakeCluster]:
    """A running cluster."""
    cluster = FakeCluster(partitions)
    for broker in cluster.brokers.values():
        await broker.start()
    try:
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            broker.released.set()
            await broker.stop()
