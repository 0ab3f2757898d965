"""What of this host has a lab taken (network namespaces, links, mounts), and who gives it back when the lab is killed?

The rule: a lab writes down what it is about to make, in a file that it holds a lock on, before it makes it. At its end it undoes
what the file says, the last first. The kernel lets the lock go when the lab dies, however it dies, so a later lab that gets the
lock knows that nobody needs those things any more, and undoes them at once. Undoing what was never made is no error.

The file names are the labs' own: six hexadecimal digits, which no two labs at work share, and all that a lab makes is called
after them.

Example: `RUN/3fa0c1.claim` holds `namespace lastack-3fa0c1-1` and `mount .../node-1/volume`, a line each.
"""

import contextlib
import fcntl
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from pipelines.errors import LabError, TimedOut
from pipelines.processes import wait_until

RUN = Path("/run/lastack-lab")
SUFFIX = ".claim"
COMMAND_SECONDS = 30
UNMOUNT_SECONDS = 10.0
UNDO = {"namespace": ["ip", "netns", "del"], "link": ["ip", "link", "del"], "mount": ["umount"]}


class Claim:
    """One lab's list, owned while it is open. Raises LabError when this host does not let us."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise LabError(
                "the lab makes hosts and volumes of its own only as root: run it as root, or without network and own_volume_mb"
            )
        RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._new()
        self.lab_id = Path(self._file.name).stem
        self._taken: list[tuple[str, str]] = []

    def take(self, kind: str, name: str) -> None:
        """Writes down what is to be made next: a `namespace`, a `link` or a `mount`."""
        self._taken.append((kind, name))
        self._file.write(f"{kind} {name}\n")
        self._file.flush()

    def release(self) -> None:
        """Undoes everything. Raises LabError naming what could not be undone; a later lab tries again. Does nothing twice."""
        if self._file.closed:
            return
        _undo(self._taken)
        Path(self._file.name).unlink()
        self._file.close()

    @staticmethod
    def _new() -> IO[str]:
        while True:
            path = RUN / f"{secrets.token_hex(3)}{SUFFIX}"
            with contextlib.suppress(FileExistsError):
                file = path.open("x")
                fcntl.flock(file, fcntl.LOCK_EX)
                # Somebody who clears up may have had it between its making and our lock.
                if path.exists():
                    return file
                file.close()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Nobody else looks for a free address range meanwhile."""
    with (RUN / "addresses.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def release_left_behind() -> list[str]:
    """Undoes what labs that were killed have left; returns their ids.

    What is in use, or cannot be undone now (somebody stands in a mount), is left for a later lab.
    """
    released = []
    for path in sorted(RUN.glob(f"*{SUFFIX}")) if os.geteuid() == 0 else []:
        with contextlib.suppress(FileNotFoundError, BlockingIOError, LabError), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            words = (line.split(" ", 1) for line in file.read().splitlines())
            _undo([(kind, name) for kind, name in words])
            path.unlink(missing_ok=True)
            released.append(path.stem)
    return released


def _undo(taken: Sequence[tuple[str, str]]) -> None:
    failed = []
    for kind, name in reversed(taken):
        try:
            wait_until(partial(_is_undone, kind, name), UNMOUNT_SECONDS, f"{kind} {name} to go")
        except TimedOut as error:
            failed.append(str(error))
    if failed:
        raise LabError(f"could not give back what the lab took of this host: {'; '.join(failed)}")


def _is_undone(kind: str, name: str) -> bool:
    """Tries to undo one thing, and says whether it is gone: a mount stays busy for as long as a dying process needs."""
    if not _is_there(kind, name):
        return True
    subprocess.run([*UNDO[kind], name], capture_output=True, timeout=COMMAND_SECONDS, check=False)
    return not _is_there(kind, name)


def _is_there(kind: str, name: str) -> bool:
    if kind == "namespace":
        return (Path("/run/netns") / name).exists()
    if kind == "link":
        return (Path("/sys/class/net") / name).exists()
    return os.path.ismount(name)
