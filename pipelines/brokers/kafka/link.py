"""How is a broker kept reachable, whatever becomes of its connections?

The rule: one connection takes the new requests. It is made when first needed, made again with a short backoff after it
failed, and put aside for a new one once a deadline has passed on it unanswered (`Wire.is_suspect`): a request that hangs
would hold up whatever is sent behind it, and closing the connection would take those down that may still be answered.

Requests that only read are sent once more on a new connection when theirs ends under them, as long as their deadline has not
passed: a broker that closes an idle connection is not down.

Example: a broker is killed with two requests in flight. Both fail with ConnectionLost inside, are tried again, and fail with
NotReached (connection refused) some milliseconds after the kill.
"""

import asyncio
import time
from typing import Any

from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.wire import Answer, ConnectionLost, NoAnswer, Wire

CONNECT_SECONDS = 2.0
"""How long one attempt to connect may take; a lost SYN is sent again after one second."""
BACKOFF_SECONDS = (0.02, 0.2)
"""The pause after a failed attempt to connect, at first and at most."""


class Link:
    """The way to one listener: at most one connection for new requests, older ones only until they are drained."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self.address = address
        self._connection = connection
        self._wire: Wire | None = None
        self._opening: asyncio.Task[Wire] | None = None
        self._failures = 0
        self._not_before = 0.0

    async def request(self, message: Any, deadline: float, at_most: int | None = None) -> Answer:
        """The broker's answer. Raises WireError: NotReached at once, NoAnswer at the deadline, others as they come."""
        while True:
            wire = await self.wire(deadline)
            try:
                return await wire.request(message, deadline, at_most)
            except ConnectionLost as error:
                # Not at once: a proxy in front of a dead broker takes connections and drops them.
                self._put_off()
                if time.monotonic() >= deadline:
                    raise NoAnswer(self.address, f"no answer within the time limit; last: {error}") from error

    async def wire(self, deadline: float) -> Wire:
        """A connection that is fit for a new request; waits for one that is being made, not beyond `deadline`."""
        if self._wire is not None and self._wire.is_usable:
            return self._wire
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        done, _ = await asyncio.wait({opening}, timeout=max(0.0, deadline - time.monotonic()))
        if not done:
            raise NoAnswer(self.address, "no connection within the time limit")
        return opening.result()

    async def _open(self) -> Wire:
        await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
        return await Wire.open(self.address, self._connection, time.monotonic() + CONNECT_SECONDS)

    def _opened(self, task: "asyncio.Task[Wire]") -> None:
        self._opening = None
        if task.cancelled():
            return
        if task.exception() is not None:
            self._put_off()
            return
        if self._wire is not None:
            self._wire.retire()
        self._wire = task.result()
        self._failures = 0

    def _put_off(self) -> None:
        first, longest = BACKOFF_SECONDS
        self._not_before = time.monotonic() + min(longest, first * 2 ** min(self._failures, 10))
        self._failures += 1

    async def close(self) -> None:
        """Ends the connection and any attempt to make one."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._wire is not None:
            self._wire.close()
