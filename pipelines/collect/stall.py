"""Was it the service that stood still, or we?

The rule: a collector's loop beats every few tens of milliseconds. When a beat comes late by more than `allowed_us`, the
process did not run (no CPU, a paused host, a full disk that blocked it): whatever looked like silence of a broker in that
span is not evidence. A probe that was not answered in time and whose wait [issue, decision] touches such a span is void. A
probe that was answered in time stays good: a stall cannot make an answer come earlier.

Example: beats at 1.00 s and 1.05 s, then at 2.30 s: with 100 ms allowed, the process was stalled from 1.05 s to 2.30 s.
"""

from collections import deque
from typing import NamedTuple

STALLS_KEPT = 64


class Stall(NamedTuple):
    """A span in which the process did not run: from the last beat before it to the first one after it, microseconds."""

    started_at_us: int
    ended_at_us: int


class StallDetector:
    """Give it every beat. `allowed_us` is how much later than `every_us` after the one before a beat may come."""

    def __init__(self, every_us: int, allowed_us: int) -> None:
        self._limit_us = every_us + allowed_us
        self._last_us: int | None = None
        self._stalls: deque[Stall] = deque(maxlen=STALLS_KEPT)

    def beat(self, now_us: int) -> Stall | None:
        """Takes a beat. Returns the stall that it ends, if it ends one."""
        last, self._last_us = self._last_us, now_us
        if last is None or now_us - last <= self._limit_us:
            return None
        stall = Stall(last, now_us)
        self._stalls.append(stall)
        return stall

    def was_stalled(self, from_us: int, to_us: int) -> bool:
        """Whether a stall that is over touches the span; call it after a beat, so that one that just ended counts."""
        return any(stall.started_at_us <= to_us and from_us <= stall.ended_at_us for stall in self._stalls)
