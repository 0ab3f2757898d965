"""Are the pinned JARs here, and whole?

A name in the cache is only ever given to bytes whose checksum was right: a download goes to a folder of its own, is hashed,
and is then renamed into place, so an interrupted run leaves nothing half-made under a good name.

Later runs are cheap: `<name>.verified.json` remembers the size and the modification time that each file had when it was last
hashed. A file for which they differ is hashed again, and fetched again when the hash is wrong.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pipelines.errors import DownloadError, UsageError
from pipelines.jars import maven
from pipelines.jars.lock import Jar, lock_path, read_lock
from pipelines.jars.progress import meter

PARALLEL_DOWNLOADS = 8
ATTEMPTS = 3

Fetch = Callable[[Jar, Path, Callable[[int], None]], Path]
"""Brings one JAR into the given empty folder and returns its path; see `maven.fetch`."""

Stamp = tuple[str, int, int]
"""SHA-256, size in bytes, modification time in nanoseconds."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """The verified files of one lock."""

    folder: Path
    jars: tuple[Jar, ...]

    @property
    def paths(self) -> list[Path]:
        """The JARs that belong on a class path, in the lock's order (agents do not)."""
        return [self.folder / jar.relative_path for jar in self.jars if not jar.is_agent]

    @property
    def class_path(self) -> str:
        """`paths` as Java's `-cp` takes them."""
        return os.pathsep.join(str(path) for path in self.paths)

    def path_of(self, artifact: str) -> Path:
        """The file of one artifact, by its name without group and version. Raises DownloadError when it is not pinned."""
        for jar in self.jars:
            if jar.artifact == artifact:
                return self.folder / jar.relative_path
        raise DownloadError(f"no JAR of {artifact} is pinned; add its root to conf/jars and run `make lock-jars`")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the JARs: below LASTACK_CACHE, else the XDG cache's, else `~/.cache/lastack`."""
    environ = os.environ if environ is None else environ
    if environ.get("LASTACK_CACHE"):
        return Path(environ["LASTACK_CACHE"]).expanduser().resolve() / "jars"
    base = Path(environ["XDG_CACHE_HOME"]) if environ.get("XDG_CACHE_HOME") else Path.home() / ".cache"
    return base / "lastack" / "jars"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing(name: str, folder: Path | None = None, lock: Path | None = None) -> list[Jar]:
    """The JARs of a set that the cache does not hold, or holds damaged."""
    folder = folder or cache_folder()
    return _sort_out(read_lock(lock or lock_path(name)).jars, folder, _read_stamps(folder, name))[0]


def ensure(
    name: str,
    folder: Path | None = None,
    lock: Path | None = None,
    fetch: Fetch = maven.fetch,
    console: Console | None = None,
) -> JarSet:
    """The set's JARs, all present and all verified; fetches what is missing, in parallel, and says how far it is.

    Raises DownloadError when a JAR cannot be fetched after three attempts, or is not the one that was pinned.
    """
    folder = folder or cache_folder()
    jars = read_lock(lock or lock_path(name)).jars
    known = _read_stamps(folder, name)
    absent, stamps = _sort_out(jars, folder, known)
    if absent:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the JAR cache {folder} cannot be made: {error.strerror}; name a folder that you may write to with LASTACK_CACHE"
            ) from error
        _fetch_all(f"JARs of {name}", absent, folder, fetch, console or Console(stderr=True))
        stamps |= {jar.relative_path: _stamp(jar, folder / jar.relative_path) for jar in absent}
    if stamps != known:
        _write_stamps(folder, name, stamps)
    return JarSet(folder, jars)


def _fetch_all(title: str, jars: Sequence[Jar], folder: Path, fetch: Fetch, console: Console) -> None:
    """Fetches in parallel; the first failure cancels what has not begun."""
    with meter(title, len(jars), console) as progress, ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        waiting = [pool.submit(_fetch_one, jar, folder, fetch, progress.got_bytes) for jar in jars]
        try:
            for done in as_completed(waiting):
                done.result()
                progress.got_file()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_one(jar: Jar, folder: Path, fetch: Fetch, got_bytes: Callable[[int], None]) -> None:
    """Fetches one JAR into a folder of its own, checks it, and gives it its name."""
    problem = ""
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as own:
            try:
                arrived = fetch(jar, Path(own), got_bytes)
            except OSError as error:  # a transfer that broke: requests' and urllib3's errors are OSErrors
                problem = f"{type(error).__name__}: {error}"
                continue
            found = sha256_of(arrived)
            if found == jar.sha256:
                target = folder / jar.relative_path
                target.parent.mkdir(parents=True, exist_ok=True)
                arrived.replace(target)
                return
            problem = f"its SHA-256 is {found}, but {jar.sha256} was pinned"
    raise DownloadError(
        f"could not fetch {jar.coordinate}: {problem}; check the network (or jgo's own repository settings) and run it again"
    )


def _sort_out(jars: Iterable[Jar], folder: Path, known: Mapping[str, Stamp]) -> tuple[list[Jar], dict[str, Stamp]]:
    """Which JARs have to be fetched, and the stamps of those that are good."""
    absent: list[Jar] = []
    good: dict[str, Stamp] = {}
    for jar in jars:
        path = folder / jar.relative_path
        if not path.is_file():
            absent.append(jar)
            continue
        stamp = _stamp(jar, path)
        if known.get(jar.relative_path) == stamp or sha256_of(path) == jar.sha256:
            good[jar.relative_path] = stamp
        else:
            absent.append(jar)
    return absent, good


def _stamp(jar: Jar, path: Path) -> Stamp:
    status = path.stat()
    return jar.sha256, status.st_size, status.st_mtime_ns


def _stamps_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.verified.json"


def _read_stamps(folder: Path, name: str) -> dict[str, Stamp]:
    path = _stamps_path(folder, name)
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text())
        return {file: (str(sha256), int(size), int(at)) for file, (sha256, size, at) in rows.items()}
    except (ValueError, AttributeError, TypeError):
        return {}  # it is only a memory of earlier work: without it every file is hashed again


def _write_stamps(folder: Path, name: str, stamps: Mapping[str, Stamp]) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.verified-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(stamps, file, indent=0)
    Path(temporary).replace(_stamps_path(folder, name))
