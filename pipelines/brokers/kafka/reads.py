"""Can a committed record of this partition be read now?

The rule: every period each leader is asked, in one Fetch request, for one record of each partition that it leads: a record whose
write was acknowledged with acks=all, at its known offset. The partition is served when the very bytes come back. A consumer that
waits for the *next* record would be silent in a write outage too; this one is not. The answers of one request are told apart
partition by partition, and each broker has a connection of its own, so a sick partition or a hung broker holds up no other.

Every failure is a refusal, for a read leaves nothing behind that could be half done; our own failures (`codes`) are not counted.

Example: the record at offset 512 is asked for at 100 ms; the new leader answers at 102 ms with the high watermark 510: REJECTED
(NOT_READABLE_YET); at 202 ms it answers with the bytes: ACKED.
"""

import asyncio
import struct
import time
from collections import defaultdict
from collections.abc import Sequence

from kafka.protocol.consumer import FetchRequest

from pipelines.brokers.kafka import codes, fetch
from pipelines.brokers.kafka.channel import Channel
from pipelines.brokers.kafka.gate import Gates
from pipelines.brokers.kafka.leaders import Leader, Leaders
from pipelines.brokers.kafka.wire import Wire, WireError, error_name
from pipelines.brokers.probing import Flight, Pace, Reply
from pipelines.domain.observations import Outcome

NEEDS = ((FetchRequest, fetch.VERSION),)
NO_RECORD = "NO_COMMITTED_RECORD"
NO_ANSWER = "NOT_IN_THE_ANSWER"
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
POLL_SECONDS = 0.01


class Reads:
    """The target of the read lane of one topic. A flight's `position` is the offset, its `payload` what must be there."""

    gone: frozenset[str] = frozenset({OUT_OF_RANGE, fetch.OTHER_RECORD})
    tick_seconds: float | None = None

    def __init__(self, *, topic: str, times: Pace, leaders: Leaders, gates: Gates) -> None:
        self.topic = topic
        self.leaders = leaders
        self._gates = gates
        self._times = times
        self._channels: dict[str, Channel] = {}

    async def open(self, deadline: float) -> None:
        """Connects to every leader that is known, until the deadline."""
        for shard in self.leaders.shards(self.topic):
            leader = self.leaders.of(shard)
            if leader is not None:
                self._channel(leader).prepare(leader.address)
        while time.monotonic() < deadline and not all(channel.is_ready for channel in self._channels.values()):
            await asyncio.sleep(POLL_SECONDS)

    def issue(self, flights: Sequence[Flight]) -> None:
        """Sends one request to each leader."""
        leaders: dict[str, Leader] = {}
        by_broker: dict[str, list[Flight]] = defaultdict(list)
        for flight in flights:
            leader = self.leaders.of(flight.shard)
            if flight.position is None:
                flight.land(Reply(Outcome.VOID, time.monotonic_ns(), NO_RECORD))
            elif leader is None:
                self.leaders.wait(flight, self._again)
            else:
                flight.leader, flight.term, flight.topic_id = leader.broker, leader.term, leader.topic_id
                leaders[leader.broker] = leader
                by_broker[leader.broker].append(flight)
        for broker, of_broker in by_broker.items():
            channel = self._channel(leaders[broker])
            parcel = _Read(self, channel, tuple(of_broker))
            for flight in of_broker:
                flight.carrier = parcel
            channel.send(parcel, leaders[broker].address)

    def overdue(self, flight: Flight) -> None:
        """Excuses what a quota held up, and takes a new connection for what comes next; what has an excuse proves nothing."""
        if flight.excuse is not None:
            return
        self.leaders.suspect()
        parcel = flight.carrier
        if isinstance(parcel, _Read):
            parcel.channel.overdue(parcel, flight)

    def tick(self) -> None:
        """Nothing to do: the event loop does it."""

    async def close(self) -> None:
        """Ends all connections."""
        for channel in self._channels.values():
            channel.close()

    def _again(self, flight: Flight) -> None:
        self.issue((flight,))

    def _channel(self, leader: Leader) -> Channel:
        channel = self._channels.get(leader.broker)
        if channel is None:
            channel = self._channels[leader.broker] = Channel(self._gates, NEEDS, self._times)
        return channel


class _Read:
    """One request for records of several partitions."""

    __slots__ = ("channel", "flights", "target", "wire")

    def __init__(self, target: Reads, channel: Channel, flights: tuple[Flight, ...]) -> None:
        self.target = target
        self.channel = channel
        self.flights = flights
        self.wire: Wire | None = None

    def post(self, wire: Wire) -> int:
        body = fetch.body(self.target.topic, [_wanted(flight) for flight in self.flights])
        return wire.post(fetch.API_KEY, fetch.VERSION, body, self)

    def answered(self, frame: memoryview, received_ns: int) -> None:
        try:
            answer = fetch.read(frame)
        except struct.error:
            answer = fetch.FetchAnswer(-1, 0, {})
        if answer.throttle_ms:
            self.channel.throttled_until_ns = received_ns + answer.throttle_ms * 1_000_000
        for flight in self.flights:
            reply = _reply(flight, answer, received_ns)
            flight.land(reply)
            if reply.outcome is not Outcome.ACKED:
                self.target.leaders.suspect()
        self.channel.answered(self.wire)

    def failed(self, error: WireError) -> None:
        if self.channel.is_closing:
            return  # we closed it; the flights are over, or their time will be up
        at_ns = time.monotonic_ns()
        for flight in self.flights:
            flight.land(Reply(Outcome.REJECTED, at_ns, error.code))
        self.channel.lost(self.wire)
        self.target.leaders.suspect()

    def refused(self, error: WireError, at_ns: int) -> None:
        outcome = codes.of_no_connection(error)
        for flight in self.flights:
            flight.land(Reply(outcome, at_ns, error.code))
        self.target.leaders.suspect()


def _wanted(flight: Flight) -> fetch.Wanted:
    offset = flight.position if isinstance(flight.position, int) else -1
    # No epoch of ours: a leader that was told of a newer one serves all the same, and the bytes prove what they are.
    return fetch.Wanted(int(flight.shard.shard), offset, -1, flight.payload)


def _reply(flight: Flight, answer: fetch.FetchAnswer, received_ns: int) -> Reply:
    found = answer.partitions.get(int(flight.shard.shard))
    if answer.error or found is None:
        code = error_name(answer.error) if answer.error else NO_ANSWER
        return Reply(codes.of_read(code), received_ns, code, is_answered=True)
    error, high_watermark, records = found
    if error:
        code = error_name(error)
        # Deleted by somebody: it says nothing of the service that what we ask for is not there any more.
        outcome = Outcome.VOID if code == OUT_OF_RANGE else codes.of_read(code)
        return Reply(outcome, received_ns, code, is_answered=True)
    why = fetch.judge(_wanted(flight), high_watermark, records)
    if why is not None:
        return Reply(Outcome.REJECTED, received_ns, why, is_answered=True)
    return Reply(Outcome.ACKED, received_ns, None, is_answered=True, position=flight.position)
