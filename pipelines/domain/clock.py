"""What time is it, on one clock that never steps?

Every instant in Lastack is an integer of microseconds since the epoch, UTC, read from the host's monotonic clock and anchored
to UTC once. A wall clock that is stepped by an administrator or by NTP therefore never makes a duration negative; it only makes
the anchor wrong, which shifts everything alike.

Processes of one host share an `Anchor` (it is handed to each collector), so their instants can be compared without any error
term: CLOCK_MONOTONIC is the same for all of them until the host reboots. `clock_id` names the anchor; instants of different
`clock_id` may only be compared after widening by a clock error.

Example: anchored at monotonic 5_000_000_000 ns = 2026-11-21T04:00:00Z, a reading of 5_000_250_000 ns is 04:00:00.000250Z.
"""

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment seen on both clocks of a host. `text()` and `parse()` carry it across a command line."""

    clock_id: str
    monotonic_ns: int
    utc_ns: int

    @classmethod
    def now(cls) -> Self:
        """Anchors the monotonic clock to UTC. The wall clock is read between two monotonic readings; the tightest of
        several tries is taken, so the pair is some hundred nanoseconds apart, not a scheduler's pause."""
        tries = []
        for _ in range(5):
            before = time.monotonic_ns()
            utc_ns = time.time_ns()
            after = time.monotonic_ns()
            tries.append((after - before, (before + after) // 2, utc_ns))
        _, monotonic_ns, utc_ns = min(tries)
        return cls(f"{host_boot_id()[:8]}-{uuid.uuid4().hex[:8]}", monotonic_ns, utc_ns)

    def at_us(self, monotonic_ns: int) -> int:
        """Microseconds since the epoch, UTC, of a monotonic reading in nanoseconds."""
        return (self.utc_ns + monotonic_ns - self.monotonic_ns) // 1000

    def now_us(self) -> int:
        """The present instant in microseconds since the epoch, UTC."""
        return self.at_us(time.monotonic_ns())

    def text(self) -> str:
        """The anchor as one word for a command line: `clock_id:monotonic_ns:utc_ns`."""
        return f"{self.clock_id}:{self.monotonic_ns}:{self.utc_ns}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `text()`. Raises ValueError when the word is not of that form."""
        clock_id, monotonic_ns, utc_ns = text.rsplit(":", 2)
        return cls(clock_id, int(monotonic_ns), int(utc_ns))


def instant(at_us: int) -> datetime:
    """Microseconds since the epoch as a UTC timestamp, to the microsecond."""
    return EPOCH + timedelta(microseconds=at_us)


def microseconds(instant: datetime) -> int:
    """The inverse of `instant`, without the rounding of a float."""
    since = instant - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def host_boot_id() -> str:
    """An identifier of this boot of this host; where the system has none, one of this process."""
    if BOOT_ID_FILE.exists():
        return BOOT_ID_FILE.read_text().strip().replace("-", "")
    return uuid.uuid4().hex
