"""How does one file of the spool get finished, and what becomes of one that was left behind?

The rule: a segment is written under a hidden name and under a lock that says "somebody is writing this". It is finished by fsync,
atomic rename and fsync of the directory, in a thread of its own. A hidden file that nobody holds was left behind by a process
that died: its whole lines are kept and a torn last line is cut off.

Example: a process is killed in the middle of its 41st line. The next run finds `.canary-p1-6f0c-00000017.jsonl.part` unlocked,
cuts it after 40 lines and renames it to `canary-p1-6f0c-00000017.jsonl`.
"""

import contextlib
import dataclasses
import fcntl
import os
import queue
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

PART = ".part"
WORD = re.compile(r"[A-Za-z0-9._-]+")
BOOT = re.compile(r"[A-Za-z0-9]+")
"""A boot_id has no dash, so that the parts of a file name can be told apart from the right."""
MEASURE_SECONDS = 5.0
"""Bytes in the landing directory are counted at most this often."""


class Segment:
    """One file while it is written. It keeps its lines until it is on disk, so that a failing disk loses none."""

    def __init__(self, directory: Path, name: str, opened_at_us: int) -> None:
        self.part = directory / f".{name}{PART}"
        self.final = directory / name
        self.opened_at_us = opened_at_us
        self.lines: list[bytes] = []
        self.size = 0
        self._fd = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        # The lock says "somebody is writing this"; it goes away with the process, whatever ends it.
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, line: bytes) -> None:
        """Hands a line to the kernel. Raises OSError; what was written of it is then cut off again."""
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self.size)
            raise
        self.size += len(line)
        self.lines.append(line)

    def seal(self, directory_fd: int) -> None:
        """Makes the file durable and visible. Raises OSError; its lines, which may then not be on disk, are still in `lines`."""
        try:
            if not self.size:
                self.part.unlink()
                return
            os.fsync(self._fd)
            self.part.rename(self.final)
            os.fsync(directory_fd)
        except OSError:
            # After a failed fsync the kernel may have dropped the pages, so the lines are written again, to another file. That
            # a disk in trouble also refuses to delete this one does no harm: the same line twice changes nothing.
            with contextlib.suppress(OSError):
                self.part.unlink(missing_ok=True)
            raise
        finally:
            os.close(self._fd)


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be finished; its lines have to be written again."""

    what: str
    error: OSError
    lines: tuple[bytes, ...]


class Sealer:
    """Finishes files in a thread of its own, in order, so that no fsync ever stalls a prober."""

    def __init__(self, directory: Path, *, measures_use: bool) -> None:
        self.used_bytes = 0
        self._directory = directory
        self._measures_use = measures_use
        self._measured_at = 0.0
        self._todo: queue.SimpleQueue[Segment | None] = queue.SimpleQueue()
        self._failed: queue.SimpleQueue[Failure] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="spool-sealer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self.measure()
        self._thread.start()

    def seal(self, segment: Segment) -> None:
        """Takes over a segment that nobody appends to any more."""
        self._todo.put(segment)

    def stop(self) -> None:
        """Returns when all that was given is finished or has failed."""
        if self._thread.is_alive():
            self._todo.put(None)
            self._thread.join()

    def failures(self) -> list[Failure]:
        """What could not be finished since the last call."""
        found = []
        while not self._failed.empty():
            found.append(self._failed.get())
        return found

    def measure(self) -> None:
        """Counts the bytes in the landing directory, where a limit was set."""
        if self._measures_use:
            self.used_bytes = _used_bytes(self._directory)
            self._measured_at = time.monotonic()

    def _run(self) -> None:
        while (segment := self._todo.get()) is not None:
            try:
                with _opened(self._directory) as directory_fd:
                    segment.seal(directory_fd)
                if time.monotonic() - self._measured_at > MEASURE_SECONDS:
                    self.measure()
            except OSError as error:
                self._failed.put(Failure(f"finishing {segment.final.name}", error, tuple(segment.lines)))


def recover(directory: Path, stem: str) -> list[str]:
    """Finishes the hidden files `.<stem><boot>-<number>.jsonl.part` that nobody writes any more. Returns what was done, in words.

    Complete lines are kept, a torn last line is dropped. A file that another process holds is left alone.
    """
    pattern = re.compile(re.escape(f".{stem}") + BOOT.pattern + r"-\d{8}\.jsonl" + re.escape(PART))
    done = []
    for part in sorted(path for path in directory.iterdir() if pattern.fullmatch(path.name)):
        fd = os.open(part, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            done.append(_finish(part, fd))
        except BlockingIOError:
            continue
        finally:
            os.close(fd)
    if done:
        with _opened(directory) as directory_fd:
            os.fsync(directory_fd)
    return done


def _finish(part: Path, fd: int) -> str:
    content = part.read_bytes()
    whole = content.rfind(b"\n") + 1
    torn = len(content) - whole
    if torn:
        os.ftruncate(fd, whole)
    tail = f", a torn last line of {torn} bytes was dropped" if torn else ""
    if not whole:
        part.unlink()
        return f"removed {part.name}, left by an earlier run without a whole line{tail}"
    os.fsync(fd)
    final = part.with_name(part.name.removeprefix(".").removesuffix(PART))
    part.rename(final)
    lines = content.count(b"\n")
    return f"finished {final.name}, left by an earlier run: {lines} lines kept{tail}"


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _used_bytes(directory: Path) -> int:
    """Bytes of all files in the landing directory, also of other collectors."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            # A reader may take a finished file away while we count.
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_size
    return total
