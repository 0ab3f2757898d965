"""Who drives the lanes, and how does the prober know that it was blind?

The rule: one loop issues what is due, decides what is overdue and sleeps until there is something to do, for HEARTBEAT_NS at most.
So it knows at any time when it was last alive. When it comes round later than `stall` after that (a stopped process, a starved
CPU, a virtual machine that was paused), or the host was suspended meanwhile, the span is a `blind` record, and the lanes say which
probes are void for it (`lane`). An answer is looked at with the same eyes: the first one after a pause is noticed as such before it
is judged.

Example, stall 50 ms, lambda 1 s: the process gets SIGSTOP at 1.000 s and SIGCONT at 4.000 s. The answers that waited in the socket
would be judged as three seconds late; instead [0.995, 4.000] is blind and their probes are void.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from pipelines.collect.canary.journal import Journal
from pipelines.collect.canary.lane import ProbedLane

TICK_NS = 1_000_000
HEARTBEAT_NS = 20_000_000
FLUSH_NS = 100_000_000
SUSPEND_NS = 10_000_000
"""Clocks that count suspension and clocks that do not never differ by more from one look to the next, unless there was one."""

Look = Callable[[], None]


class Pacer:
    """Drives lanes on one event loop. `stall_us`: how late it may come round before it counts as blind."""

    def __init__(self, lanes: Sequence[ProbedLane], journal: Journal, at_us: Callable[[int], int], stall_us: int) -> None:
        self.stalls = 0
        self._lanes = tuple(lanes)
        self._journal = journal
        self._at_us = at_us
        self._stall_ns = stall_us * 1000
        self._alive_ns = 0
        self._suspended_ns = 0
        self._flush_ns = 0

    async def run(self, is_stopping: Callable[[], bool], look: Look) -> None:
        """Probes until `is_stopping`; `look` is called ten times a second for what else there is to do."""
        self._alive_ns = time.monotonic_ns()
        self._suspended_ns = _suspended_ns()
        for lane in self._lanes:
            lane.check_stall = self.check
            lane.start(self._alive_ns // 1000 * 1000 + HEARTBEAT_NS)
        while not is_stopping():
            self._tick(look)
            await asyncio.sleep(self._pause())

    def check(self, now_ns: int) -> None:
        """Notices that the loop has not come round for too long."""
        if now_ns - self._alive_ns > self._stall_ns:
            self._blind(now_ns)

    def _tick(self, look: Look) -> None:
        now_ns = time.monotonic_ns()
        self.check(now_ns)
        self._alive_ns = now_ns
        is_full = self._journal.is_full
        for lane in self._lanes:
            lane.issue_due(now_ns, is_full)
            lane.decide_overdue(now_ns)
            if lane.target.tick_seconds is not None:
                lane.target.tick()
        if now_ns >= self._flush_ns:
            self._flush_ns = now_ns + FLUSH_NS
            self._check_suspension(now_ns)
            for lane in self._lanes:
                lane.flush_if_due(self._at_us(now_ns))
            look()

    def _pause(self) -> float:
        """Seconds until there is something to do."""
        now_ns = time.monotonic_ns()
        until = now_ns + HEARTBEAT_NS
        for lane in self._lanes:
            due = lane.next_ns()
            if due is not None and due < until:
                until = due
            if lane.is_waiting and lane.target.tick_seconds is not None:
                until = min(until, now_ns + int(lane.target.tick_seconds * 1e9))
        # What is overdue already was put off so that answers can be looked at: no pause at all then.
        return 0.0 if until <= self._alive_ns else max(until - now_ns, TICK_NS) / 1e9

    def _check_suspension(self, now_ns: int) -> None:
        suspended_ns = _suspended_ns()
        if suspended_ns - self._suspended_ns > SUSPEND_NS:
            self._blind(now_ns, was_suspended=True)
        self._suspended_ns = suspended_ns

    def _blind(self, until_ns: int, *, was_suspended: bool = False) -> None:
        since_ns, self._alive_ns = self._alive_ns, until_ns
        self.stalls += 1
        for lane in self._lanes:
            lane.stalled(until_ns, was_suspended=was_suspended)
        self._journal.blind("stall", self._at_us(since_ns), self._at_us(until_ns))


def _suspended_ns() -> int:
    """How long this host has been suspended since it was booted, as far as the system says."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return 0
