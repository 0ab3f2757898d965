"""Which record should a read probe ask for?

The rule: the newest one whose write was acknowledged as durable. A few older ones are kept for the case that it is gone: a record
that was acknowledged and is not there makes one read fail, which is the truth; after that the lane asks for an older one, since
whether the partition serves reads and whether it has lost records are two questions.

Example: the record at offset 900 was lost in an unclean election, and nothing is acknowledged since. The read of 900 fails with
OFFSET_OUT_OF_RANGE; the next one asks for 896.
"""

from collections import deque

THINNED = 64
"""Every so manieth acknowledged record is kept."""
KEPT = 64


class Committed:
    """The records of one partition that are known to be committed."""

    def __init__(self) -> None:
        self._newest: tuple[bytes, int | str] | None = None
        self._older: deque[tuple[bytes, int | str]] = deque(maxlen=KEPT)
        self._count = 0

    def acknowledged(self, payload: bytes, position: int | str | None) -> None:
        """A durable write was acknowledged."""
        if position is None:
            return
        self._newest = (payload, position)
        if self._count % THINNED == 0:
            self._older.append(self._newest)
        self._count += 1

    def is_gone(self, position: int | str | None) -> None:
        """The record there is not there any more."""
        if self._newest is not None and self._newest[1] == position:
            self._newest = None
        while self._older and self._newest is None:
            if self._older[-1][1] == position:
                self._older.pop()
            else:
                self._newest = self._older[-1]

    def target(self) -> tuple[bytes, int | str | None]:
        """What to read: the bytes that must come back, and where from; no position when nothing is known yet."""
        return self._newest or (b"", None)
