"""Who may write here now? One process, and whatever JVM it started.

The rule: an exclusive lock on a file, held through an open descriptor that the JVM inherits. The kernel gives it up when the last
holder is gone, so a process that was killed with -9 leaves no lock behind, and its JVM, which may live a little longer and may still
be in the middle of a commit, is waited for.

Example: `with only_writer(path, 60) as lock, session(..., pass_fds=(lock.fileno(),)): ...`.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pipelines.errors import TimedOut

POLL_SECONDS = 0.1


@contextmanager
def only_writer(path: Path, wait_seconds: float) -> Iterator[IO[str]]:
    """Holds the lock, once whoever holds it is gone. Raises TimedOut when somebody keeps it for longer than `wait_seconds`."""
    with path.open("a") as file:
        limit = time.monotonic() + wait_seconds
        while not _is_taken(file):
            if time.monotonic() > limit:
                raise TimedOut(
                    f"somebody else has held {path} for {wait_seconds:g} s; one stream writes a lakehouse: stop the other first"
                )
            time.sleep(POLL_SECONDS)
        yield file


def _is_taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
