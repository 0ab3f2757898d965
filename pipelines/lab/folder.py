"""Where does a lab keep its nodes' files, and what becomes of them?

The rule: a temporary folder, removed at the end; kept, and its path said, when something failed. A lab that was killed with -9
could do neither: the next one removes what such a lab left more than a day ago. Who owns a folder holds a lock on a file in it,
which the kernel lets go when the owner dies, so a folder in use is never taken.

Example: `$TMPDIR/lastack-lab-x1y2z3/{owner.lock, tls/, node-1/{server.properties, server.log, output.log, data/}}`.
"""

import contextlib
import fcntl
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

PREFIX = "lastack-lab-"
LEFT_BEHIND_SECONDS = 24 * 3600
LOGS = ("*.log", "*.properties")
FOLDERS = ("node-*", "zookeeper-*")


class LabFolder:
    """A folder that is owned while it is open."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock: IO[str] = (self.path / "owner.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def keep(self) -> None:
        """Leaves everything where it is, and lets go of it."""
        self._lock.close()

    def copy_logs(self, destination: Path) -> list[Path]:
        """Copies the nodes' logs and settings, not their data; returns the copies."""
        copies = []
        for folder in sorted(folder for pattern in FOLDERS for folder in self.path.glob(pattern)):
            target = destination / folder.name
            target.mkdir(parents=True, exist_ok=True)
            copies += [Path(shutil.copy2(file, target)) for pattern in LOGS for file in folder.glob(pattern)]
        return copies


def remove_left_behind(now: float | None = None) -> list[Path]:
    """Removes the folders of labs that died more than a day ago; returns what was removed."""
    now = time.time() if now is None else now
    removed = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder / "owner.lock"
        # A folder that another one removes meanwhile, or that is another user's, is not ours to remove.
        with contextlib.suppress(OSError):
            if now - owner.stat().st_mtime < LEFT_BEHIND_SECONDS:
                continue
            with owner.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
                removed.append(folder)
    return removed
