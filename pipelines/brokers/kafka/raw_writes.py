"""Can this partition take a write now? One attempt, no retries.

The rule: a raw write is one request with one record, sent once to the leader that clients are told of, over the partition's own
connection. It is acknowledged, refused (by the broker, with its code, or because the leader's listener cannot be connected to),
cut off with the request on its way (which may have been stored), or silent.

Not through librdkafka, which cannot do this: with `message.send.max.retries=0` it still sends again what a broker refused with
NOT_LEADER_OR_FOLLOWER and what waited for a connection (rdkafka_request.c, `incr_retry = 0`), so a refusal is never seen, and it
says of a refused connection only that the first attempt failed. DECISIONS.md has the measurements.

Example: the leader was killed at 0 ms; the probe issued at 10 ms is REJECTED (CONNECTION_REFUSED) at 11 ms; the one issued at
9010 ms, after the election, goes to the new leader and is acknowledged at 9013 ms.
"""

import asyncio
import struct
import time
from collections.abc import Sequence

from kafka.protocol.producer import ProduceRequest

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka import codes, produce
from pipelines.brokers.kafka.channel import Channel
from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.gate import Gates
from pipelines.brokers.kafka.leaders import Leader, Leaders
from pipelines.brokers.kafka.wire import Wire, WireError, error_name
from pipelines.brokers.probing import Flight, Pace, Reply
from pipelines.domain.observations import Outcome

NEEDS = ((ProduceRequest, produce.VERSION),)
POLL_SECONDS = 0.01
UNREADABLE = "UNREADABLE_ANSWER"


class RawWrites:
    """The target of one lane of raw writes to one topic.

    Up to `connections_max` partitions have a connection each; beyond that partitions with the same leader and the same replicas
    share, evenly.
    """

    gone: frozenset[str] = frozenset()
    tick_seconds: float | None = None

    def __init__(self, *, topic: str, acks: int, times: Pace, leaders: Leaders, gates: Gates, connections_max: int = 256) -> None:
        self.topic = topic
        self.leaders = leaders
        self._acks = acks
        self._timeout_ms = max(1, times.lambda_us // 1000)
        self._times = times
        self._gates = gates
        self._connections_max = connections_max
        self._is_shared = False
        self._templates: dict[Shard, produce.ProduceTemplate] = {}
        self._channels: dict[tuple[object, ...], Channel] = {}

    async def open(self, deadline: float) -> None:
        """Connects every partition whose leader is known, until the deadline."""
        shards = self.leaders.shards(self.topic)
        self._is_shared = len(shards) > self._connections_max
        for shard in shards:
            leader = self.leaders.of(shard)
            if leader is not None:
                self._channel(shard, leader).prepare(leader.address)
        while time.monotonic() < deadline and not all(channel.is_ready for channel in self._channels.values()):
            await asyncio.sleep(POLL_SECONDS)

    def issue(self, flights: Sequence[Flight]) -> None:
        """Sends each on its way."""
        for flight in flights:
            self._send(flight)

    def overdue(self, flight: Flight) -> None:
        """Excuses what a quota held up, and takes a new connection for what comes next; what has an excuse proves nothing."""
        if flight.excuse is not None:
            return
        self.leaders.suspect()
        parcel = flight.carrier
        if isinstance(parcel, _Write):
            parcel.channel.overdue(parcel, flight)

    def tick(self) -> None:
        """Nothing to do: the event loop does it."""

    async def close(self) -> None:
        """Ends all connections."""
        for channel in self._channels.values():
            channel.close()

    def _send(self, flight: Flight) -> None:
        leader = self.leaders.of(flight.shard)
        if leader is None:
            self.leaders.wait(flight, self._send)
            return
        flight.leader, flight.term, flight.topic_id = leader.broker, leader.term, leader.topic_id
        template = self._templates.get(flight.shard)
        if template is None:
            template = produce.ProduceTemplate(self.topic, int(flight.shard.shard), self._acks, self._timeout_ms)
            self._templates[flight.shard] = template
        channel = self._channel(flight.shard, leader)
        flight.carrier = parcel = _Write(self.leaders, channel, template, flight, leader.address)
        channel.send(parcel, leader.address)

    def _channel(self, shard: Shard, leader: Leader) -> Channel:
        key: tuple[object, ...] = shard
        if self._is_shared:
            brokers = {leader.broker, *map(str, leader.replicas)}
            slots = max(1, self._connections_max // len(brokers))
            key = (leader.broker, leader.replicas, int(shard.shard) % slots)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel(self._gates, NEEDS, self._times)
        return channel


class _Write:
    """One record on its way."""

    __slots__ = ("address", "channel", "flights", "leaders", "template", "wire")

    def __init__(self, leaders: Leaders, channel: Channel, template: produce.ProduceTemplate, flight: Flight, address: Address) -> None:
        self.address = address
        self.leaders = leaders
        self.channel = channel
        self.template = template
        self.flights: tuple[Flight, ...] = (flight,)
        self.wire: Wire | None = None

    def post(self, wire: Wire) -> int:
        flight = self.flights[0]
        if wire.address != self.address:
            self._turned_to(wire.address, flight)
        body = self.template.body(flight.payload, time.time_ns() // 1_000_000)
        return wire.post(produce.API_KEY, produce.VERSION, body, self)

    def _turned_to(self, address: Address, flight: Flight) -> None:
        """While it waited for a connection another broker was elected: it goes to that one."""
        leader = self.leaders.of(flight.shard)
        is_his = leader is not None and leader.address == address
        self.address = address
        flight.leader = leader.broker if leader is not None and is_his else None
        flight.term = leader.term if leader is not None and is_his else None

    def answered(self, frame: memoryview, received_ns: int) -> None:
        flight = self.flights[0]
        try:
            error, offset, appended_ms, throttle_ms = self.template.read(frame)
        except struct.error:
            flight.land(Reply(Outcome.UNKNOWN, received_ns, UNREADABLE))
            self.channel.answered(self.wire)
            return
        if throttle_ms:
            self.channel.throttled_until_ns = received_ns + throttle_ms * 1_000_000
        if error:
            code = error_name(error)
            flight.land(Reply(codes.of_write(code), received_ns, code, is_answered=True))
            self.leaders.suspect()
        else:
            server_at_us = appended_ms * 1000 if appended_ms >= 0 else None
            flight.land(Reply(Outcome.ACKED, received_ns, None, is_answered=True, position=offset, server_at_us=server_at_us))
        self.channel.answered(self.wire)

    def failed(self, error: WireError) -> None:
        if self.channel.is_closing:
            return  # we closed it; the flight is over, or its time will be up
        flight = self.flights[0]
        flight.land(Reply(Outcome.UNKNOWN, time.monotonic_ns(), error.code))
        self.channel.lost(self.wire)
        self.leaders.suspect()

    def refused(self, error: WireError, at_ns: int) -> None:
        flight = self.flights[0]
        flight.land(Reply(codes.of_no_connection(error), at_ns, error.code))
        self.leaders.suspect()
