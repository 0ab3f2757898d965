"""What did the controller decide, read from the metadata log in a node's own folder?

The rule: the state comes from the newest snapshot (`OFFSET-EPOCH.checkpoint`), what follows it from the segments
(`OFFSET.log`), whose growth is followed: a batch that is not there in full is read when it is; a new segment is gone on with
when the old one has ended; a segment that was cut back (a follower that had records which its new leader does not have) is
noticed by its last batch, and read again from the snapshot on.

*Provisional.* A node's log may hold records that no majority has, and that are undone when another node leads. Kafka writes
the high watermark, below which that cannot happen, nowhere on disk. So decisions read here are provisional, unless somebody
says what the high watermark is (`high_watermark`, from the node's own raft-metrics): then each is held back until it is
below. A snapshot proves the same for everything before it, as only committed records go into one, but comes an hour too late
to be of use. A later record proves nothing: a leader without a majority goes on writing, for up to 1.5 times
controller.quorum.fetch.timeout.ms. Decisions that were given out as provisional and then undone cannot be called back; what
took their place is given out under the same positions.

Example: the folder holds `...0100-0000000003.checkpoint` and `...0060.log`: offsets 0 to 99 are state without decisions, 100
and above are read from the segment.
"""

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Protocol

from pipelines.brokers.base import Decision, Decisions
from pipelines.brokers.kafka.batches import SMALLEST, Batch, DamagedLog, read
from pipelines.brokers.kafka.definitions import Definitions
from pipelines.brokers.kafka.replay import Replay
from pipelines.errors import RetryableError, UsageError

TOPIC_FOLDER = "__cluster_metadata-0"
SEGMENT = re.compile(r"(\d{20})\.log")
SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
POLL_SECONDS = 0.1
ALIVE_SECONDS = 1.0
HOLD_SECONDS = 5.0
"""How long decisions are held back for a high watermark that does not come, before they go out as provisional."""
CHUNK_BYTES = 4 * 1024 * 1024
REMEMBERED_BATCHES = 10_000
SLICE_SECONDS = 0.25
"""How long a long log is read before others get a turn."""
NO_LIMIT = 2**63


class LogWasCut(RetryableError):
    """What was read is not in the log any more: it was truncated, deleted, or made anew."""


class CommitMark(Protocol):
    """Tells how far the log is committed."""

    def known(self) -> int | None:
        """The offset below which everything is committed, None while it is not known. Must not block."""

    def stop(self) -> None:
        """Nobody asks any more."""


def folder_of(path: Path) -> Path:
    """The folder of the metadata log in or at `path`. Raises UsageError when there is none."""
    for folder in (path, path / TOPIC_FOLDER):
        if folder.name == TOPIC_FOLDER and folder.is_dir():
            return folder
        if folder.is_dir() and any(SEGMENT.fullmatch(one.name) for one in folder.iterdir()):
            return folder
    raise UsageError(
        f"--metadata-log {path}: no {TOPIC_FOLDER} in it; expected metadata.log.dir (or the first of log.dirs) of a KRaft node"
    )


class Segments:
    """The batches of a folder's segments from an offset on, as they are written. `epoch` is that of the batch before the offset,
    0 where it is not known. Raises LogWasCut, DamagedLog, OSError."""

    def __init__(self, folder: Path, offset: int, epoch: int = 0) -> None:
        self._folder = folder
        self._next_offset = offset
        self._epoch = epoch
        self._file: BinaryIO | None = None
        self._base = -1
        self._position = 0
        self._last_header: tuple[int, bytes] = (0, b"")

    def read(self) -> Iterator[Batch]:
        """What can be read now and was not given out yet."""
        while True:
            if self._file is None and not self._open():
                return
            yield from self._rest_of_segment()
            if not self._has_successor():
                return
            # The old segment got its last batch before the new one was made; it may have come since we looked.
            yield from self._rest_of_segment()
            self.close()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch that was given out."""
        return self._next_offset

    def close(self) -> None:
        """Closes the segment that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _bases(self) -> list[int]:
        return sorted(int(match[1]) for one in self._folder.iterdir() if (match := SEGMENT.fullmatch(one.name)))

    def _open(self) -> bool:
        bases = self._bases()
        fitting = [base for base in bases if base <= self._next_offset]
        if not fitting:
            if bases:
                raise LogWasCut(f"{self._folder}: offset {self._next_offset} was deleted, the log starts at {bases[0]}")
            return False
        self._base, self._position, self._last_header = fitting[-1], 0, (0, b"")
        # Not a context manager: it stays open from one poll to the next, so that a deleted segment can still be read to its end.
        self._file = (self._folder / f"{self._base:020d}.log").open("rb", buffering=0)
        return True

    def _has_successor(self) -> bool:
        later = [base for base in self._bases() if base > self._base]
        if later and later[0] > self._next_offset:
            raise LogWasCut(f"{self._folder}: offsets {self._next_offset} to {later[0] - 1} are missing")
        return bool(later)

    def _rest_of_segment(self) -> Iterator[Batch]:
        assert self._file is not None  # noqa: S101 - opened by the caller
        descriptor = self._file.fileno()
        at, header = self._last_header
        if os.pread(descriptor, len(header), at) != header:
            raise LogWasCut(f"{self._folder}: the log was truncated below offset {self._next_offset}")
        used = 1
        while used and self._position < os.fstat(descriptor).st_size:
            data = os.pread(descriptor, CHUNK_BYTES, self._position)
            batches, used = read(data)
            start = 0
            for batch in batches:
                self._last_header = (self._position, data[start : start + SMALLEST])
                self._position += batch.size
                start += batch.size
                if self._is_new(batch):
                    yield batch

    def _is_new(self, batch: Batch) -> bool:
        if batch.base_offset >= self._next_offset:
            self._next_offset, self._epoch = batch.next_offset, batch.epoch
            return True
        # The batch before the offset from which we go on must be the one after which we stopped.
        is_the_last = batch.next_offset >= self._next_offset
        if is_the_last and (batch.next_offset > self._next_offset or self._epoch not in (0, batch.epoch)):
            raise LogWasCut(f"{self._folder}: offset {batch.base_offset} is not what it was")
        return False


class MetadataLog:
    """A `ControlSource` that reads a node's folder.

    Args:
        path: the folder `__cluster_metadata-0`, or the one that holds it.
        definitions: of the pinned Kafka JARs.
        high_watermark: tells the offset below which everything is committed; it is stopped with the source.
        poll_seconds: how often the folder is looked at.
        from_begin: what is in the log already is given out, too, as for a log that was kept.

    Raises UsageError when there is no metadata log.
    """

    name = "metadata_log"

    def __init__(
        self,
        path: Path,
        definitions: Definitions,
        high_watermark: CommitMark | None = None,
        poll_seconds: float = POLL_SECONDS,
        *,
        from_begin: bool = False,
    ) -> None:
        self._folder = folder_of(path)
        self._definitions = definitions
        # What lies below is state, what is decided from there on is news; None until the log was read to its end once.
        self._news_offset: int | None = 0 if from_begin else None
        self._read_ns: int | None = None
        self._high_watermark = high_watermark
        self._poll_seconds = poll_seconds
        self._replay = Replay(definitions)
        self._is_caught_up = False
        self._segments = Segments(self._folder, 0)
        self._reader: Iterator[Batch] | None = None
        self._held: deque[Batch] = deque()
        self._held_since = 0.0
        self._given: dict[int, int] = {}
        self._again: dict[int, int] = {}

    async def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
        """See `ControlSource.follow`. Raises UnknownRecord when the cluster is newer than the JARs."""
        if saved is None:
            self._load_snapshot()
        else:
            self._replay.restore(saved)
            self._news_offset = 0
        self._segments = Segments(self._folder, self._replay.next_offset, self._replay.epoch)
        alive_at = time.monotonic()
        while True:
            asked_ns = time.monotonic_ns()
            try:
                decided, is_done = self._advance()
            except LogWasCut:
                decided, is_done = self._start_again(), False
            except (DamagedLog, OSError) as error:
                self._reader = None
                decided, is_done = Decisions(trouble=f"{self._folder}: {error}"), True
            if is_done and not decided.trouble:
                self._is_caught_up = True
                self._begin_news()
                self._read_ns = None if self._held else asked_ns
            if decided.decisions or decided.trouble or time.monotonic() >= alive_at:
                alive_at = time.monotonic() + ALIVE_SECONDS
                yield replace(decided, read_ns=self._read_ns)
            await asyncio.sleep(self._poll_seconds if is_done else 0)

    def saved(self) -> str | None:
        """See `ControlSource.saved`."""
        return self._replay.saved() if self._is_caught_up else None

    async def close(self) -> None:
        """Closes the segment that is open, and ends the asking for the high watermark."""
        self._segments.close()
        if self._high_watermark is not None:
            self._high_watermark.stop()

    def _begin_news(self) -> None:
        """After the first reading of the whole log: what is known not to be committed yet is news when it is. While nobody has said yet
        how far that is, all that is there is state: that it is held back does not make it new."""
        if self._news_offset is None:
            limit, _ = self._limit()
            self._news_offset = min(
                (one.base_offset for one in self._held if 0 < limit < one.next_offset), default=self._segments.next_offset
            )

    def _advance(self) -> tuple[Decisions, bool]:
        """Reads for a slice of time. Returns what may go out, and whether the end of the log was reached."""
        decisions: list[Decision] = []
        until = time.monotonic() + SLICE_SECONDS
        limit, is_certain = self._limit()
        while self._held and self._held[0].next_offset <= limit:
            decisions += self._apply(self._held.popleft())
        if self._reader is None:
            self._reader = self._segments.read()
        for batch in self._reader:
            if batch.next_offset <= limit and not self._held:
                decisions += self._apply(batch)
            else:
                self._held_since = self._held_since if self._held else time.monotonic()
                self._held.append(batch)
            if time.monotonic() > until:
                return Decisions(tuple(decisions), not is_certain), False
        self._reader = None
        return Decisions(tuple(decisions), not is_certain), True

    def _limit(self) -> tuple[int, bool]:
        """The offset up to which decisions may go out now, and whether everything below it is committed."""
        if self._high_watermark is None:
            return NO_LIMIT, False
        known = self._high_watermark.known()
        if known is None and self._held and time.monotonic() - self._held_since > HOLD_SECONDS:
            return NO_LIMIT, False
        return known or 0, True

    def _apply(self, batch: Batch) -> list[Decision]:
        decided = self._replay.apply(batch)
        decisions = decided if self._news_offset is not None and batch.base_offset >= self._news_offset else []
        self._given[batch.base_offset] = batch.crc
        if len(self._given) > REMEMBERED_BATCHES:
            del self._given[next(iter(self._given))]
        if self._again:
            first, last = next(iter(self._again)), next(reversed(self._again))
            if batch.base_offset < first or self._again.get(batch.base_offset) == batch.crc:
                return []
            if batch.base_offset > last:
                self._again = {}
        return decisions

    def _start_again(self) -> Decisions:
        """After a cut: from the newest snapshot on. What was given out before is not given out again."""
        self._segments.close()
        self._held.clear()
        self._reader = None
        behind = self._replay.next_offset
        decisions = self._load_snapshot()
        is_deleted = self._replay.next_offset > behind
        if not is_deleted:
            self._again, self._given = self._given, {}
        self._segments = Segments(self._folder, self._replay.next_offset, self._replay.epoch)
        return Decisions(decisions if is_deleted else (), is_provisional=False, is_cut=is_deleted)

    def _load_snapshot(self) -> tuple[Decision, ...]:
        """Takes the newest snapshot that is whole as the state, and returns how it differs from the state before."""
        behind = self._replay.next_offset
        for offset, epoch in sorted(
            (m.groups() for one in self._folder.iterdir() if (m := SNAPSHOT.fullmatch(one.name))), reverse=True
        ):
            data = (self._folder / f"{offset}-{epoch}.checkpoint").read_bytes()
            batches, used = read(data)
            if used == len(data):
                if int(offset) <= behind:
                    self._replay = Replay(self._definitions)
                return tuple(self._replay.load(batches, int(offset), int(epoch)))
        self._replay = Replay(self._definitions)
        return ()
