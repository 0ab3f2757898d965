"""Is a collector alive, how is it, and when must it stop?

The rule: silence means unmeasured, so every collector writes a status line every two seconds, at every change of state, and as
its last word. SIGTERM and SIGINT ask it to stop: it flushes what it knows, writes "stopped" and closes its spool. A second signal
of the same kind ends it the hard way, which the spool survives.

Example: `status = StatusLines(spool, clock, seconds=2.0)`; in the loop `status.write_if_due()`; on trouble
`status.degraded("the wall clock was stepped by 3 s")`, and `status.running()` when it is over.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from pipelines.collect.spool import Clock, Spool
from pipelines.domain.observations import Status

RUNNING, DEGRADED, STOPPING, STOPPED = "running", "degraded", "stopping", "stopped"


class StatusLines:
    """The status lines of one collector. Not for several threads."""

    def __init__(self, spool: Spool, clock: Clock, seconds: float = 2.0) -> None:
        self.state = RUNNING
        self._spool = spool
        self._clock = clock
        self._every_us = int(seconds * 1e6)
        self._message: str | None = None
        self._since_us = clock.now_us()
        self._due_us = self._since_us

    def write_if_due(self) -> None:
        """Call it often. While the disk is full nothing is written: the spool itself says so when it is over."""
        now = self._clock.now_us()
        if now >= self._due_us and not self._spool.is_full:
            self._due_us = now + self._every_us
            self._write(now)

    def running(self) -> None:
        """All is well (again)."""
        self._change(RUNNING, None)

    def degraded(self, message: str) -> None:
        """It goes on, but something is not as it should be."""
        self._change(DEGRADED, message)

    def stopping(self) -> None:
        """It was asked to stop."""
        self._change(STOPPING, None)

    def stopped(self) -> None:
        """Its last word."""
        self._change(STOPPED, None)

    def _change(self, state: str, message: str | None) -> None:
        if (state, message) == (self.state, self._message):
            return
        self.state, self._message = state, message
        self._since_us = self._due_us = self._clock.now_us()
        self.write_if_due()

    def _write(self, now: int) -> None:
        self._spool.write(Status, state=self.state, message=self._message, started_at_us=self._since_us, ended_at_us=now)


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets. Only in the main thread; the earlier handlers come back at the end and, for
    a second signal of the same kind, at once."""
    stop = threading.Event()
    earlier = {}

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        earlier[number] = signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
