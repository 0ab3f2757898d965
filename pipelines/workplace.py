"""Where does a one-off command work, and how does it say what it is doing?"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from pipelines.errors import UsageError
from pipelines.settings import Home


@contextlib.contextmanager
def workplace(name: str, path: Path | None) -> Iterator[Home]:
    """A home: the one that was asked for, which stays, or a temporary one, which goes unless something failed in it."""
    if path is not None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--home {path}: cannot be made or used: {error.strerror}; name a folder that you may write to") from error
        yield Home(path.resolve())
        return
    folder = Path(tempfile.mkdtemp(prefix=f"lastack-{name}-"))
    try:
        yield Home(folder)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception as error:
        error.add_note(f"what was measured, and the logs, are kept in {folder}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def check_result_file(path: Path | None) -> None:
    """Before anything is measured: raises UsageError where the result could not be written in the end."""
    if path is None:
        return
    if path.is_dir() or not path.name:
        raise UsageError(f"--json {path}: is a folder; name the file to write")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--json {path}: {path.parent} is not a folder that can be written to; name a file in one that is there")


class Reporter:
    """One line that says what is being waited for and for how long; on a terminal it turns, elsewhere each line is printed once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._status = console.status("starting") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, line: str) -> None:
        """Says a line, with the seconds since the beginning."""
        stamped = f"[{time.monotonic() - self._began:6.1f} s] {line}"
        if self._status is not None:
            self.console.print(stamped, markup=False, highlight=False)
            self._status.update(line)
        else:
            self.console.print(stamped, markup=False, highlight=False)
