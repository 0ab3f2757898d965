"""How does what a collector saw get to disk, so that it survives the observed, the observer and a full disk?

The rule: one spool per running collector appends JSON Lines to a hidden file, `.NAME.part`. `rotate_us` after its first line, or
at `rotate_bytes`, the file is finished: fsync of the file, atomic rename to `NAME`, fsync of the directory. NAME is
`<collector>-<prober>-<boot>-<number>.jsonl`. Readers see finished files only, and a finished file never changes.

What is promised, and when:

- *Process killed*: every line is handed to the kernel before `write` returns, so nothing is lost. The next run of the same
  collector and prober finishes the file that was left behind: complete lines stay, a torn last line is dropped.
- *Host lost*: finished files are on disk. Up to `rotate_us` of lines may be gone; the observer was gone for longer than that, and
  its silence is unmeasured time. An fsync per line would buy half a second of an observer that just died, for tens of
  milliseconds a line on a busy disk, which is the stall that a prober may not have. The fsync runs in a thread of its own.
- *Disk full* (or over quota, over `bytes_max`, under `reserve_bytes`, failing): `trouble` is set, an alert goes out, and the
  collector must stop collecting while `is_full`. A line that was written in part is cut off again. Lines that the disk would
  not take, also those of a file whose fsync failed, wait in memory (at most `backlog_bytes_max`) and go out first, under their
  old `seq`, when the disk takes lines again; a `degraded` status and a `blind` record then say from when to when nothing was
  collected.

Example: number 17 of a canary is `.canary-p1-6f0c-00000017.jsonl.part` for half a second, then `canary-p1-6f0c-00000017.jsonl`.
"""

import dataclasses
import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import structlog

from pipelines.collect.segments import BOOT, WORD, Sealer, Segment, recover
from pipelines.domain import landing
from pipelines.domain.observations import Blind, Envelope, Status
from pipelines.errors import SpoolError, UsageError

RETRY_US = 1_000_000

Record = TypeVar("Record", bound=Envelope)


class Clock(Protocol):
    """What a spool needs of `pipelines.domain.clock.Anchor`."""

    @property
    def clock_id(self) -> str:
        """Names the clock."""

    def now_us(self) -> int:
        """The present instant."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """When a file is finished, and how much disk may be used. `bytes_max` is for all files in the landing directory
    (None: no limit of ours); `reserve_bytes` is what is left free for others on that file system."""

    rotate_us: int = 500_000
    rotate_bytes: int = 4 * 1024 * 1024
    bytes_max: int | None = None
    reserve_bytes: int = 64 * 1024 * 1024
    backlog_bytes_max: int = 16 * 1024 * 1024


Alert = Callable[[str, bool], None]
"""Called with a message for people and whether the trouble is over."""


def _log_alert(message: str, is_over: bool) -> None:
    log = structlog.get_logger("spool")
    if is_over:
        log.warning("spool_takes_lines_again", message=message)
    else:
        log.error("spool_takes_no_lines", message=message)


class Spool:
    """The spool of one running collector. Use it as a context manager; safe for use from several threads."""

    def __init__(  # noqa: PLR0913 - the envelope's own fields, once for all lines
        self,
        *,
        directory: Path,
        collector: str,
        prober_id: str,
        boot_id: str,
        system: str,
        cluster_id: str,
        clock: Clock,
        limits: Limits | None = None,
        alert: Alert = _log_alert,
    ) -> None:
        for word in (collector, prober_id):
            if not WORD.fullmatch(word):
                raise UsageError(f"{word!r} cannot be part of a file name; use letters, digits, dot, dash and underscore")
        if not BOOT.fullmatch(boot_id):
            raise UsageError(f"boot_id {boot_id!r} cannot be part of a file name; use letters and digits")
        self.directory = directory
        self.recovered: tuple[str, ...] = ()
        self._envelope: dict[str, Any] = {
            "system": system,
            "cluster_id": cluster_id,
            "collector": collector,
            "prober_id": prober_id,
            "boot_id": boot_id,
            "clock_id": clock.clock_id,
        }
        self._stem = f"{collector}-{prober_id}-"
        self._boot_id = boot_id
        self._clock = clock
        self._limits = limits or Limits()
        self._alert = alert
        self._lock = threading.RLock()
        self._seq = 0
        self._number = 0
        self._segment: Segment | None = None
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._trouble: SpoolError | None = None
        self._trouble_since_us = 0
        self._retry_at_us = 0
        self._sealer = Sealer(directory, measures_use=self._limits.bytes_max is not None)

    def __enter__(self) -> Self:
        """Makes the directory, finishes what an earlier run left behind (`recovered` says what), and starts."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.recovered = tuple(recover(self.directory, self._stem))
        except OSError as error:
            raise SpoolError(f"spool {self.directory}: cannot be used ({error}); name a directory we may write to") from error
        self._sealer.start()
        now = self._clock.now_us()
        for message in self.recovered:
            self.write(Status, state="running", message=message, started_at_us=now, ended_at_us=now)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def is_full(self) -> bool:
        """The disk takes no lines: stop collecting until this is false again."""
        return self._trouble is not None

    @property
    def trouble(self) -> SpoolError | None:
        """Why the disk takes no lines; None while it does."""
        return self._trouble

    def write(self, kind: type[Record], /, **fields: Any) -> Record:
        """Appends one record and returns it with its envelope filled in. Raises SpoolError only when the disk is full *and*
        more than `backlog_bytes_max` waits in memory: the collector did not stop collecting."""
        with self._lock:
            record = kind(**self._envelope, seq=self._seq, **fields)
            line = landing.encode(record).encode() + b"\n"  # type: ignore[arg-type]
            if self._trouble is None:
                self._append(line)
            else:
                self._keep(line)
            self._seq += 1
            return record

    def flush_if_due(self) -> None:
        """Call it often: finishes the file that has been open for long enough, and tries again on a disk that was full."""
        with self._lock:
            now = self._clock.now_us()
            for failed in reversed(self._sealer.failures()):
                self._set_trouble(failed.error, failed.what)
                self._keep(*failed.lines, first=True)
            if self._trouble is not None:
                if now >= self._retry_at_us:
                    self._retry(now)
            elif self._segment is not None and now - self._segment.opened_at_us >= self._limits.rotate_us:
                self._rotate()

    def close(self) -> None:
        """Finishes the open file and waits until it is on disk. What a full disk would not take is lost, and said."""
        with self._lock:
            if self._trouble is not None:
                self._retry(self._clock.now_us())
            self._rotate()
        self._sealer.stop()
        lost = len(self._backlog) + sum(len(failed.lines) for failed in self._sealer.failures())
        if lost:
            raise SpoolError(
                f"spool {self.directory}: closed while the disk takes nothing ({self._trouble}); {lost} lines were lost, "
                "all finished files are whole; free some space"
            )

    def _append(self, line: bytes) -> None:
        try:
            self._put(line)
        except OSError as error:
            self._set_trouble(error, "writing")
            self._keep(line)

    def _put(self, line: bytes) -> None:
        if self._segment is None:
            self._check_space()
            number, self._number = self._number, self._number + 1
            name = f"{self._stem}{self._boot_id}-{number:08d}.jsonl"
            self._segment = Segment(self.directory, name, self._clock.now_us())
        self._segment.append(line)
        if self._segment.size >= self._limits.rotate_bytes:
            self._rotate()

    def _rotate(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            self._sealer.seal(segment)

    def _keep(self, *lines: bytes, first: bool = False) -> None:
        size = sum(map(len, lines))
        if self._backlog_bytes + size > self._limits.backlog_bytes_max:
            raise SpoolError(
                f"spool {self.directory}: {self._trouble}, and {self._backlog_bytes} bytes already wait in memory, the most "
                "allowed; free some space and start again (finished files are whole)"
            )
        self._backlog_bytes += size
        if first:
            self._backlog.extendleft(reversed(lines))
        else:
            self._backlog.extend(lines)

    def _set_trouble(self, error: OSError, what: str) -> None:
        now = self._clock.now_us()
        self._retry_at_us = now + RETRY_US
        # What is written is made visible; the next attempt begins with a new file.
        self._rotate()
        if self._trouble is not None:
            return
        self._trouble_since_us = now
        self._trouble = SpoolError(
            f"spool {self.directory}: {what} failed: {error.strerror or error}; nothing is collected until it can be written"
        )
        self._alert(str(self._trouble), False)

    def _retry(self, now: int) -> None:
        """Tries to write what waits. Only when all of it is written, the trouble is over."""
        was = self._trouble
        try:
            self._sealer.measure()
            self._check_space()
            while self._backlog:
                self._put(self._backlog[0])
                self._backlog_bytes -= len(self._backlog.popleft())
        except OSError as error:
            self._set_trouble(error, "writing")
            return
        since, self._trouble = self._trouble_since_us, None
        self.write(Status, state="degraded", message=str(was), started_at_us=since, ended_at_us=now)
        self.write(Blind, cause="spool_full", started_at_us=since, ended_at_us=now)
        if self._trouble is None:
            self._alert(f"spool {self.directory}: takes lines again after {(now - since) / 1e6:.1f} s", True)

    def _check_space(self) -> None:
        """Our own limits fail as the disk would, before the disk does."""
        limits = self._limits
        if limits.reserve_bytes:
            system = os.statvfs(self.directory)
            if system.f_bavail * system.f_frsize < limits.reserve_bytes:
                raise OSError(errno.ENOSPC, f"less than the reserve of {limits.reserve_bytes} bytes is free")
        used = self._sealer.used_bytes
        if limits.bytes_max is not None and used >= limits.bytes_max:
            raise OSError(errno.EDQUOT, f"{used} bytes are in it, the limit is {limits.bytes_max}")
