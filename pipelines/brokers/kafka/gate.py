"""Can this broker's listener be connected to, right now? Asked once for all who want to know.

The rule: whoever needs a connection stands in the queue of the listener's `Gate`. While anybody stands there the gate tries,
one attempt after the other. An attempt that is refused is an answer to every probe that was issued before the attempt began:
the refusal then lies between issue and answer, which is what a refusal must prove. An attempt that succeeds goes to the first
in the queue, and all others connect at once. So a dead broker with 300 probed partitions costs one refused connection every
few milliseconds, not 300, and silence (a hung broker, a dropped packet) never looks like a refusal.

An attempt that hangs is not waited for: the next begins after HANG_SECONDS, and the first to succeed counts. A lost SYN is
sent again after a whole second, a broker that comes back answers a new one at once.

Example: a broker is killed at 0 ms. Probes are due at 10 and 12 ms. The attempt that began at 11 ms is refused at 11.3 ms:
this rejects the first probe, and the next attempt, begun at 16 ms, the second.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Protocol

from pipelines.brokers.kafka.codes import is_refusal
from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.wire import Wire, WireError

HANG_SECONDS = 0.25
CONNECT_SECONDS = 2.0
SPACING_SECONDS = 0.005
"""Between two attempts while probes wait."""
IDLE_SPACING_SECONDS = 0.2
"""Between two attempts while nothing but readiness is waited for."""
AT_ONCE_MAX = 8
"""Attempts in flight of one gate: it bounds what a hung broker finds in its accept queue when it wakes up."""
FOLLOW_AT_ONCE = 4
"""Connections made at once when a listener opens for many guests: a handshake costs the loop a millisecond or two."""


class Guest(Protocol):
    """Somebody who needs a connection. All calls come on the event loop."""

    @property
    def is_urgent(self) -> bool:
        """A probe waits for it."""

    def connected(self, wire: Wire) -> None:
        """Here it is; it belongs to the guest now."""

    def refused(self, error: WireError, attempted_ns: int) -> None:
        """An attempt that began then was refused. The guest stays in the queue."""


class Gate:
    """The listener at one address."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self.address = address
        self._connection = connection
        self._queue: dict[Guest, None] = {}
        self._wake = asyncio.Event()
        self._attempts: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def want(self, guest: Guest) -> None:
        """Puts a guest in the queue, if it is not there yet."""
        self._queue[guest] = None
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"gate {self.address}")

    def leave(self, guest: Guest) -> None:
        """The guest does not want a connection any more."""
        self._queue.pop(guest, None)

    async def close(self) -> None:
        """Ends all attempts."""
        tasks = [*self._attempts, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            if len(self._attempts) < AT_ONCE_MAX:
                begun = time.monotonic()
                attempt = asyncio.create_task(self._attempt())
                self._attempts.add(attempt)
                attempt.add_done_callback(self._attempts.discard)
                await asyncio.wait({attempt}, timeout=HANG_SECONDS)
                await self._pause(begun)
            else:
                await asyncio.wait(self._attempts, timeout=HANG_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _pause(self, begun: float) -> None:
        """Until the next attempt may begin: soon when a probe waits, or comes to wait, later when not."""
        await asyncio.sleep(max(0.0, begun + SPACING_SECONDS - time.monotonic()))
        while not any(guest.is_urgent for guest in self._queue):
            self._wake.clear()
            left = begun + IDLE_SPACING_SECONDS - time.monotonic()
            if left <= 0 or not self._queue:
                return
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _attempt(self) -> None:
        attempted_ns = time.monotonic_ns()
        try:
            wire = await self._open()
        except WireError as error:
            if is_refusal(error):
                for guest in list(self._queue):
                    guest.refused(error, attempted_ns)
            return
        if not self._queue:
            wire.close()
            return
        guest = next(iter(self._queue))
        del self._queue[guest]
        guest.connected(wire)
        others = iter(list(self._queue))
        await asyncio.gather(*(self._follow(others) for _ in range(FOLLOW_AT_ONCE)))

    async def _follow(self, guests: Iterator[Guest]) -> None:
        """The listener is open: every guest gets a connection of its own, without standing in line."""
        for guest in guests:
            try:
                wire = await self._open()
            except WireError:
                return  # the guests are still in the queue, whose next attempt says what is wrong
            if guest in self._queue:
                del self._queue[guest]
                guest.connected(wire)
            else:
                wire.close()

    async def _open(self) -> Wire:
        return await Wire.open(self.address, self._connection, time.monotonic() + CONNECT_SECONDS)


class Gates:
    """One gate for each listener."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._gates: dict[Address, Gate] = {}

    def at(self, address: Address) -> Gate:
        """The gate of a listener."""
        gate = self._gates.get(address)
        if gate is None:
            gate = self._gates[address] = Gate(address, self._connection)
        return gate

    async def close(self) -> None:
        """Ends all attempts of all gates."""
        await asyncio.gather(*(gate.close() for gate in self._gates.values()))
