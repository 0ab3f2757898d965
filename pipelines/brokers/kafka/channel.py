"""Over which connection does a probe travel, and what if the one before it hangs?

The rule: a channel has at most one connection that takes new requests, to the leader that its probes are meant for now. Kafka
handles the requests of one connection one at a time and answers in order, so a request that hangs (acks=all, a dead replica
in the ISR) holds up all behind it. Hence

- partitions share a channel only where there are too many for one each (`ChannelPlan`), and then only those with the same leader
  and the same replicas, which wait for the same brokers;
- once a probe's time is up unanswered, the channel takes a new connection for what comes next and puts the old one aside. It stays
  open for late answers, at most ASIDE_SECONDS, and at most ASIDE_MAX of them: the broker forgets what a closed connection still
  had in its queue, so an outage leaves no mountain of old requests behind that would delay the first good answers after it.

A request is sent once. What cannot be sent waits for a connection, and is not sent at all when its time is up first.

Example: acks=all hangs for 9 s at a period of 100 ms. The first probe's time is up at 1.0 s; the ten probes behind it are on
the same connection and are decided there; the next ten travel on a second one, and so on.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.gate import Gate, Gates
from pipelines.brokers.kafka.wire import ConnectionLost, NotSupported, Receiver, Wire, WireError
from pipelines.brokers.probing import WAITING_FOR_CONNECTION, Flight

ASIDE_SECONDS = 10.0
ASIDE_MAX = 2


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

    def __init__(self, gates: Gates, needs: Needs) -> None:
        self.throttled_until_ns = 0
        self.is_closing = False
        self._gates = gates
        self._needs = needs
        self._gate: Gate | None = None
        self._wire: Wire | None = None
        self._waiting: list[Parcel] = []
        self._aside: list[Wire] = []

    @property
    def is_urgent(self) -> bool:
        """A probe waits for a connection."""
        return bool(self._waiting)

    def prepare(self, address: Address) -> None:
        """Makes for a connection before there is a probe to send."""
        self._turn_to(address)
        if self._gate is not None and (self._wire is None or not self._wire.is_usable):
            self._gate.want(self)

    def send(self, parcel: Parcel, address: Address) -> None:
        """Sends it to the listener at `address`, now or as soon as there is a connection."""
        if self._gate is None or self._gate.address != address:
            self._turn_to(address)
        if self._wire is not None and self._wire.is_usable and self._post(self._wire, parcel):
            return
        for flight in parcel.flights:
            flight.waits_for = WAITING_FOR_CONNECTION
        self._waiting.append(parcel)
        self._gates.at(address).want(self)

    def overdue(self, parcel: Parcel) -> None:
        """The time of what it carries is up and no answer came."""
        if parcel.wire is None:
            self._waiting = [one for one in self._waiting if one is not parcel]
        elif parcel.wire is self._wire and self._gate is not None:
            self._put_aside()
            self._gate.want(self)

    def lost(self, wire: Wire | None) -> None:
        """A connection ended with a request on it."""
        if wire is self._wire and self._gate is not None:
            self._wire = None
            self._gate.want(self)

    @property
    def is_ready(self) -> bool:
        """There is a connection for the next probe."""
        return self._wire is not None and self._wire.is_usable

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
        waiting, self._waiting = self._waiting, []
        for parcel in waiting:
            if not all(flight.is_over for flight in parcel.flights) and not self._post(wire, parcel):
                self._waiting.append(parcel)

    def refused(self, error: WireError, attempted_ns: int) -> None:
        """From the gate: an attempt that began at `attempted_ns` was refused."""
        at_ns = time.monotonic_ns()
        waiting, self._waiting = self._waiting, []
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
        self._aside, self._wire, self._waiting = [], None, []

    def _post(self, wire: Wire, parcel: Parcel) -> bool:
        try:
            sent_ns = parcel.post(wire)
        except ConnectionLost:
            self.lost(wire)
            return False
        parcel.wire = wire
        for flight in parcel.flights:
            flight.sent_ns = sent_ns
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


def _check(wire: Wire, needs: Needs) -> None:
    for message, version in needs:
        if wire.version(message, version) < version:
            raise NotSupported(wire.address, f"this broker is too old: Lastack needs {message.name} in version {version}, Kafka 2.3")
