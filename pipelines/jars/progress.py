"""How far is a download? A bar on a terminal; elsewhere (CI, a log file) one plain line for each quarter."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Meter:
    """Counts what arrives, from any thread, and tells it."""

    def __init__(self, title: str, files: int) -> None:
        self.title = title
        self.files = files
        self.files_done = 0
        self.bytes_done = 0
        self._lock = threading.Lock()

    def got_bytes(self, count: int) -> None:
        """Some bytes of some file have arrived."""
        with self._lock:
            self.bytes_done += count
        self.tell()

    def got_file(self) -> None:
        """A file is whole, verified and in its place."""
        with self._lock:
            self.files_done += 1
        self.tell()

    @property
    def megabytes(self) -> str:
        """What has arrived so far, for people."""
        return f"{self.bytes_done / 1e6:.1f} MB"

    def tell(self) -> None:
        """Shows the present counts; this one shows nothing."""


class _Bar(Meter):
    def __init__(self, title: str, files: int, progress: Progress) -> None:
        super().__init__(title, files)
        self._progress = progress
        self._task = progress.add_task(title, total=files, megabytes="")

    def tell(self) -> None:
        self._progress.update(self._task, completed=self.files_done, megabytes=self.megabytes)


class _Lines(Meter):
    def __init__(self, title: str, files: int, console: Console) -> None:
        super().__init__(title, files)
        self._console = console
        self._quarters_told = 0
        console.print(f"{title}: {files} files to fetch, once", highlight=False)

    def tell(self) -> None:
        quarters = 4 * self.files_done // self.files
        if quarters > self._quarters_told:
            self._quarters_told = quarters
            self._console.print(f"{self.title}: {self.files_done}/{self.files}, {self.megabytes}", highlight=False)


@contextmanager
def meter(title: str, files: int, console: Console) -> Iterator[Meter]:
    """A meter that shows itself on the console for as long as the block runs."""
    if not console.is_terminal:
        yield _Lines(title, files, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[megabytes]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield _Bar(title, files, progress)
