"""Where does a one-off command work, and how does it say what it is doing?"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from pipelines.errors import LastackError, UsageError
from pipelines.settings import Home


@contextlib.contextmanager
def workplace(name: str, path: Path | None) -> Iterator[Home]:
    """A home: the one that was asked for, which stays, or a temporary one, which goes unless something failed in it."""
    if path is not None:
        yield made_home(path)
        return
    folder = temporary_folder(name)
    try:
        yield Home(folder)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception as error:
        error.add_note(f"what was measured, and the logs, are kept in {folder}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def made_home(path: Path) -> Home:
    """The home at that place, with all its folders. Raises UsageError where it cannot be."""
    home = Home(path)
    try:
        home.create()
    except OSError as error:
        raise UsageError(f"--home {path}: cannot be made or used: {error.strerror}; name a folder that you may write to") from error
    return Home(path.resolve())


def temporary_folder(name: str) -> Path:
    """A new folder for one command. Raises UsageError where there is no place for one."""
    try:
        return Path(tempfile.mkdtemp(prefix=f"lastack-{name}-"))
    except OSError as error:
        raise UsageError(
            f"no temporary folder can be made: {error.strerror}; set TMPDIR to a folder with room, or name one with --home"
        ) from error


def check_home(path: Path | None) -> None:
    """Raises UsageError where something that is no folder stands at the place of a home; it need not be there yet."""
    if path is None:
        return
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--home {path}: cannot be used: {said}; name the folder of an installation") from error
    if not is_folder:
        raise UsageError(f"--home {path}: is not a folder; name the folder of an installation")


def check_result_file(path: Path | None) -> None:
    """Before anything is measured: raises UsageError where the result could not be written in the end."""
    if path is None:
        return
    if path.is_dir() or not path.name:
        raise UsageError(f"--json {path}: is a folder; name the file to write")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--json {path}: {path.parent} is not a folder that can be written to; name a file in one that is there")
    if not _is_replaced(path):
        return
    try:
        # Only trying tells: of /proc, of a name that is too long and of a read-only mount nothing else does.
        _part(path).touch()
        _part(path).unlink()
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}; name a file that you may write") from error


def write_result(path: Path, text: str) -> None:
    """Writes a result, whole or not at all. Raises LastackError when it cannot be written.

    What is there and is no file of its own, such as /dev/stdout, is written to and never replaced.
    """
    try:
        if not _is_replaced(path):
            path.write_text(text, encoding="utf-8")
            return
        part = _part(path)
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LastackError(
            f"the result cannot be written to {path}: {error.strerror}; name a file in a folder that is there"
        ) from error


def _is_replaced(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def warn(text: str) -> None:
    """Says on standard error, in one line, what is not as it should be and stops nothing."""
    sys.stderr.write(f"lastack: warning: {' '.join(text.split())}\n")


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
