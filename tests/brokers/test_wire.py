"""A connection says what is wrong with the other side, keeps its deadlines, and never makes one request wait for another broker."""

import asyncio
import contextlib
import dataclasses
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from pipelines.brokers.kafka.check import check
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.connection import Address, Connection, Security
from pipelines.brokers.kafka.link import Link
from pipelines.brokers.kafka.metadata import Metadata, PartitionInfo, TopicInfo, is_older, not_older
from pipelines.brokers.kafka.wire import NoAnswer, NotKafka, NotReached, Wire, WireError, error_name
from pipelines.errors import ConnectionFailed, LastackError

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
API_VERSIONS, METADATA = 18, 3


@contextlib.asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[Address]:
    """Something that listens on loopback and behaves as `peer` does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await peer(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield Address(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


def saying(answer: bytes) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()

    return peer


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1024):
        pass


class SlowBroker:
    """Speaks enough of Kafka to be asked for metadata, and answers that after `delay` seconds."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            api_key, version, number = struct.unpack_from(">hhi", frame)
            if api_key == API_VERSIONS:
                keys = [
                    {"api_key": API_VERSIONS, "min_version": 0, "max_version": 3},
                    {"api_key": METADATA, "min_version": 0, "max_version": 8},
                ]
                kind = ApiVersionsResponse.ApiVersion
                body = ApiVersionsResponse(error_code=0, api_keys=[kind(**one) for one in keys], throttle_time_ms=0).encode(
                    version=version
                )
            else:
                await asyncio.sleep(self.delay)
                body = MetadataResponse(brokers=[], topics=[], cluster_id="c", controller_id=0, throttle_time_ms=0).encode(
                    version=version
                )
            writer.write(struct.pack(">ii", 4 + len(body), number) + bytes(body))


def opened(peer: Peer, security: Security = Security.PLAINTEXT, seconds: float = 1.0) -> WireError:
    """The error that opening a connection to such a peer ends with."""

    async def story() -> WireError:
        async with listening(peer) as address:
            with pytest.raises(WireError) as caught:
                await Wire.open(address, Connection((address,), security), time.monotonic() + seconds)
            return caught.value

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS; set security.protocol"),
        (b"220 mail.example ESMTP\r\n", "32 32 30"),
        (b"", "hung up on before the first answer"),
    ],
)
def test_whoever_answers_instead_of_kafka_is_named(answer: bytes, said: str) -> None:
    error = opened(saying(answer))

    assert isinstance(error, NotKafka)
    assert said in str(error)


def test_a_listener_without_tls_is_told_from_one_that_is_not_there() -> None:
    error = opened(saying(b""), Security.SSL)

    assert (type(error), error.code) == (NotKafka, "TLS_FAILED")
    assert "is security.protocol right" in str(error)


@pytest.mark.parametrize("security", [Security.PLAINTEXT, Security.SSL])
def test_silence_ends_at_the_deadline(security: Security) -> None:
    started = time.monotonic()
    error = opened(silent, security, seconds=0.3)

    assert isinstance(error, NoAnswer)
    assert 0.3 <= time.monotonic() - started < 1.3


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_nobody_there_is_said_at_once_with_the_address() -> None:
    port = free_port()
    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: connection refused: nobody listens.*check --bootstrap") as caught:
        check(Connection.plain(f"127.0.0.1:{port}"))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_name_that_nobody_knows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionFailed, match=r"no-such-host\.invalid:9092: the host name cannot be resolved"):
        check(Connection.plain("no-such-host.invalid:9092"))


def test_what_a_broker_advertises_and_is_no_name_is_said_like_one_that_nobody_knows() -> None:
    advertised = dataclasses.replace(Connection.plain("a:1"), bootstrap=(Address("x" * 64, 9092),))
    with pytest.raises(ConnectionFailed, match="the host name cannot be resolved"):
        check(advertised)


def test_every_bootstrap_address_that_failed_is_named() -> None:
    ports = (free_port(), free_port())
    with pytest.raises(LastackError) as caught:
        check(Connection.plain(",".join(f"127.0.0.1:{port}" for port in ports)))
    assert all(str(port) in str(caught.value) for port in ports)


def test_a_cluster_without_serving_brokers_is_no_cluster_to_measure() -> None:
    async def story() -> Address:
        async with listening(SlowBroker(0.0)) as address:
            with pytest.raises(ConnectionFailed, match="names no broker that serves"):
                await asyncio.to_thread(check, Connection((address,)))
            return address

    asyncio.run(story())


def test_a_request_that_hangs_is_put_aside_and_the_next_one_gets_a_connection_of_its_own() -> None:
    async def story() -> None:
        broker = SlowBroker(delay=0.6)
        async with listening(broker) as address:
            link = Link(address, Connection((address,)))
            with pytest.raises(NoAnswer):
                await link.request(MetadataRequest(topics=[]), time.monotonic() + 0.2)
            broker.delay = 0.0
            started = time.monotonic()
            answer = await link.request(MetadataRequest(topics=[]), time.monotonic() + 5)
            # The first connection is still busy for 0.4 s with the request that hangs.
            assert time.monotonic() - started < 0.3
            assert answer.body.cluster_id == "c"
            assert broker.connections == 2
            await link.close()

    asyncio.run(story())


def test_a_late_answer_is_not_taken_for_another_request_s() -> None:
    async def story() -> None:
        broker = SlowBroker(delay=0.3)
        async with listening(broker) as address:
            wire = await Wire.open(address, Connection((address,)), time.monotonic() + 1)
            with pytest.raises(NoAnswer):
                await wire.request(MetadataRequest(topics=[]), time.monotonic() + 0.1)
            assert wire.is_suspect
            answer = await wire.request(MetadataRequest(topics=[]), time.monotonic() + 2)
            assert answer.received_ns - answer.sent_ns > 300_000_000
            assert not wire.is_suspect
            wire.close()

    asyncio.run(story())


def test_the_metadata_is_asked_of_another_broker_when_the_first_is_silent() -> None:
    async def story() -> None:
        async with listening(SlowBroker(5.0)) as slow, listening(SlowBroker(0.0)) as quick:
            cluster = Cluster(Connection((slow, quick)))
            started = time.monotonic()
            assert (await cluster.refresh(time.monotonic() + 3)).cluster_id == "c"
            assert time.monotonic() - started < 1.0
            started = time.monotonic()
            await cluster.refresh(time.monotonic() + 3)
            # The one that answered is asked first from now on.
            assert time.monotonic() - started < 0.2
            await cluster.close()

    asyncio.run(story())


def test_a_broker_that_is_gone_is_refused_at_once_and_found_again_when_it_is_back() -> None:
    async def story() -> None:
        port = free_port()
        address = Address("127.0.0.1", port)
        link = Link(address, Connection((address,)))
        with pytest.raises(NotReached):
            await link.request(MetadataRequest(topics=[]), time.monotonic() + 1)
        server = await asyncio.start_server(SlowBroker(0.0), "127.0.0.1", port)
        started = time.monotonic()
        assert (await link.request(MetadataRequest(topics=[]), time.monotonic() + 2)).body.cluster_id == "c"
        assert time.monotonic() - started < 0.5
        await link.close()
        server.close()

    asyncio.run(story())


def view(epoch: int, leader: int, topic_id: str = "t") -> Metadata:
    info = PartitionInfo(leader, epoch, (leader,), (1, 2))
    return Metadata("c", {}, {"orders": TopicInfo(topic_id, False, None, {0: info})})


def test_an_answer_is_older_as_a_whole_when_any_partition_s_epoch_is() -> None:
    assert is_older(view(4, 1), view(5, 2))
    assert not is_older(view(5, 2), view(5, 2))
    assert not is_older(view(6, 2), view(5, 2))
    assert not is_older(view(0, 1, "made anew"), view(5, 2))


def test_what_is_known_of_a_partition_never_goes_back_to_an_older_epoch() -> None:
    assert not_older(view(5, 2), view(4, 1)) == view(5, 2)
    assert not_older(view(5, 2), view(6, 1)) == view(6, 1)
    assert not_older(view(5, 2), view(0, 1, "made anew")) == view(0, 1, "made anew")


@pytest.mark.parametrize(
    ("code", "name"), [(0, "NO_ERROR"), (6, "NOT_LEADER_OR_FOLLOWER"), (-1, "UNKNOWN_SERVER_ERROR"), (9999, "ERROR_9999")]
)
def test_errors_have_kafka_s_own_names(code: int, name: str) -> None:
    assert error_name(code) == name
