"""Over which connection does a probe travel, and what if the one before it hangs?

The rule: a channel has at most one connection that takes new requests, to the leader that its probes are meant for now. Kafka
handles the requests of one connection one at a time and answers in order, so a request that hangs (acks=all, a dead replica in
the ISR) holds up all behind it. Hence

- partitions share a channel only where there are too many for one each, and then only those with the same leader and the same
  replicas, which wait for the same brokers;
- at most `window` requests are on their way. What is due beyond that waits here, behind the same request that it would wait for
  there, and is not sent at all when its time is up first: an outage leaves no mountain of old requests with the broker, which
  would delay the first good answers after it;
- once a probe's time is up and nothing came on its connection for half of lambda, though it was waited for, the channel takes a new
  connection for what comes next and puts the old one aside. It stays open for late answers, at most ASIDE_SECONDS, and at most
  ASIDE_MAX of them; the broker forgets what a closed one had in its queue. A connection on which answers still come is slow, not
  stuck, and is kept: to replace it would make a slow broker slower.

A request is sent once.

Example: acks=all hangs for 9 s at a period of 100 ms, window 4. Four probes are sent, six wait. At 1.0 s the first one's time is up;
what is due now travels on a second connection, and so on. When the hang ends, twelve old requests are answered, not ninety.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from pipelines.brokers.kafka import codes
from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.gate import Gate, Gates
from pipelines.brokers.kafka.wire import ConnectionLost, NotSupported, Receiver, Wire, WireError
from pipelines.brokers.probing import WAITING_FOR_ANSWER, WAITING_FOR_CONNECTION, Flight, Pace

ASIDE_SECONDS = 10.0
ASIDE_MAX = 2
WINDOW_MIN = 4


def window(pace: Pace) -> int:
    """How many requests may be on their way: what is due in a quarter of lambda, so that a distant cluster is no hindrance."""
    return max(WINDOW_MIN, pace.lambda_us // 4 // pace.period_us)


class Parcel(Receiver, Protocol):
    """One request that carries one probe or several."""

    flights: tuple[Flight, ...]
    wire: Wire | None

    def post(self, wire: Wire) -> int:
        """Encodes and sends it; returns sent_ns. Raises ConnectionLost."""

    def refused(self, error: WireError, at_ns: int) -> None:
        """It could not be sent."""


Needs = Sequence[tuple[Any, int]]
"""Requests (kafka-python's classes) and the versions in which they will be posted."""


class Channel:
    """The way to the leader of one group of partitions. `is_closing` is true while it closes a connection itself, so that what
    was in flight there can be told from what the broker cut off."""

    def __init__(self, gates: Gates, needs: Needs, pace: Pace) -> None:
        self.throttled_until_ns = 0
        self.is_closing = False
        self._gates = gates
        self._needs = needs
        self._window = window(pace)
        self._patience_ns = pace.lambda_us * 1000 // 2
        self._gate: Gate | None = None
        self._wire: Wire | None = None
        self._on_way = 0
        self._answered_ns = 0
        self._waiting: deque[Parcel] = deque()
        self._aside: list[Wire] = []

    @property
    def is_urgent(self) -> bool:
        """A probe waits for a connection."""
        return bool(self._waiting) and not self.is_ready

    @property
    def is_ready(self) -> bool:
        """There is a connection for the next probe."""
        return self._wire is not None and self._wire.is_usable

    def prepare(self, address: Address) -> None:
        """Makes for a connection before there is a probe to send."""
        self._turn_to(address)
        if self._gate is not None and not self.is_ready:
            self._gate.want(self)

    def send(self, parcel: Parcel, address: Address) -> None:
        """Sends it to the listener at `address`: now, or when there is a connection with room for it."""
        if self._gate is None or self._gate.address != address:
            self._turn_to(address)
        wire = self._wire
        if wire is not None and wire.is_usable:
            if self._on_way < self._window and not self._waiting and self._post(wire, parcel):
                return
        else:
            self._gates.at(address).want(self)
        waits_for = WAITING_FOR_ANSWER if self.is_ready else WAITING_FOR_CONNECTION
        for flight in parcel.flights:
            flight.waits_for = waits_for
        self._waiting.append(parcel)

    def overdue(self, parcel: Parcel, flight: Flight) -> None:
        """The time of a flight that it carries is up and no answer came; what a quota held up is excused."""
        if flight.sent_ns is not None and flight.sent_ns < self.throttled_until_ns:
            flight.excuse = codes.THROTTLED
        while self._waiting and _is_over(self._waiting[0]):
            self._waiting.popleft()
        if parcel.wire is not None and parcel.wire is self._wire and self._gate is not None and self._is_stuck(parcel):
            self._put_aside()
            self._gate.want(self)

    def _is_stuck(self, parcel: Parcel) -> bool:
        waited_since = max(self._answered_ns, parcel.flights[0].sent_ns or 0)
        return time.monotonic_ns() - waited_since > self._patience_ns

    def answered(self, wire: Wire | None) -> None:
        """A request on this connection was answered: there is room for the next."""
        if wire is self._wire and wire is not None:
            self._answered_ns = time.monotonic_ns()
            self._on_way -= 1
            self._send_waiting(wire)

    def lost(self, wire: Wire | None) -> None:
        """A connection ended with a request on it."""
        if wire is self._wire and self._gate is not None:
            self._wire = None
            self._gate.want(self)

    def connected(self, wire: Wire) -> None:
        """From the gate."""
        try:
            _check(wire, self._needs)
        except NotSupported as error:
            wire.close()
            self.refused(error, time.monotonic_ns())
            return
        self._put_aside()
        self._wire = wire
        self._on_way = 0
        self._send_waiting(wire)

    def refused(self, error: WireError, attempted_ns: int) -> None:
        """From the gate: an attempt that began at `attempted_ns` was refused."""
        if self.is_ready:
            return
        at_ns = time.monotonic_ns()
        waiting, self._waiting = self._waiting, deque()
        for parcel in waiting:
            if all(flight.issued_ns <= attempted_ns for flight in parcel.flights):
                parcel.refused(error, at_ns)
            else:
                self._waiting.append(parcel)

    def close(self) -> None:
        """Ends all its connections."""
        if self._gate is not None:
            self._gate.leave(self)
        for wire in [*self._aside, *([self._wire] if self._wire else [])]:
            self._end(wire)
        self._aside, self._wire = [], None
        self._waiting.clear()

    def _send_waiting(self, wire: Wire) -> None:
        while self._waiting and self._on_way < self._window and wire.is_usable:
            parcel = self._waiting.popleft()
            if not _is_over(parcel) and not self._post(wire, parcel):
                self._waiting.appendleft(parcel)
                return

    def _post(self, wire: Wire, parcel: Parcel) -> bool:
        try:
            sent_ns = parcel.post(wire)
        except ConnectionLost:
            self.lost(wire)
            return False
        self._on_way += 1
        parcel.wire = wire
        for flight in parcel.flights:
            flight.sent_ns = sent_ns
            flight.waits_for = WAITING_FOR_ANSWER
        return True

    def _turn_to(self, address: Address) -> None:
        """Another broker leads now: its connection is wanted, and what waits goes there."""
        gate = self._gates.at(address)
        if gate is self._gate:
            return
        if self._gate is not None:
            self._gate.leave(self)
        self._put_aside()
        self._gate = gate
        if self._waiting:
            gate.want(self)

    def _put_aside(self) -> None:
        wire, self._wire = self._wire, None
        if wire is None:
            return
        wire.retire()
        self._aside.append(wire)
        if len(self._aside) > ASIDE_MAX:
            self._end(self._aside.pop(0))
        asyncio.get_running_loop().call_later(ASIDE_SECONDS, self._forget, wire)

    def _forget(self, wire: Wire) -> None:
        if wire in self._aside:
            self._aside.remove(wire)
            self._end(wire)

    def _end(self, wire: Wire) -> None:
        self.is_closing = True
        wire.close()
        self.is_closing = False


def _is_over(parcel: Parcel) -> bool:
    return all(flight.is_over for flight in parcel.flights)


def _check(wire: Wire, needs: Needs) -> None:
    for message, version in needs:
        if wire.version(message, version) < version:
            raise NotSupported(wire.address, f"this broker is too old: Lastack needs {message.name} in version {version}, Kafka 2.3")
