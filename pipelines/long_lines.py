"""Which files of the landing have a line that is longer than any reader holds in memory, and what becomes of them?

The rule: Spark skips such a line without a word, and the file goes when the lines around it are taken. So the quarantine has a row for
the file, and the file is kept whole, as a second name of the same bytes, in HOME/stream/refused; of many, those that came last.

Example: a collector that forgot its line feeds wrote 100 MB into one line; HOME/stream/refused/NAME.jsonl has it.
"""

import contextlib
import hashlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.settings import Home

CHUNK_BYTES = 1024 * 1024
KEPT_FILES_MAX = 20


def unreadable(home: Home, longest: int) -> list[Path]:
    """The files of the landing that have a line of more than `longest` bytes and are not kept yet."""
    found = []
    for path in sorted(home.landing.glob("[!.]*.jsonl")):
        # One that is gone meanwhile had been looked at when it was there.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_size > longest and not _kept(home, path).exists() and has_longer_line(path, longest):
                found.append(path)
    return found


def quarantined(path: Path, longest: int) -> dict[str, Any]:
    """The row of the quarantine that tells of a file."""
    return {
        "line_id": hashlib.sha256(path.name.encode()).hexdigest(),
        "file": path.name,
        "reason": f"a line of more than {longest // 1024**2} MiB is not read; the file is kept in HOME/stream/refused",
        "line": "",
        "ingested_at": datetime.now(tz=UTC),
    }


def keep(home: Home, path: Path) -> None:
    """Keeps a file of the landing whole, in place of the oldest one where there are too many."""
    kept = _kept(home, path)
    kept.parent.mkdir(exist_ok=True)
    part = kept.with_name(f".{kept.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(path, part)
    except OSError:
        shutil.copyfile(path, part)  # a file system without second names
    part.replace(kept)
    for old in sorted(kept.parent.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns)[:-KEPT_FILES_MAX]:
        old.unlink()


def has_longer_line(path: Path, longest: int) -> bool:
    """Whether a line of a file has more bytes than that, its end not counted."""
    since = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                if since + len(line) > longest:
                    return True
                since = 0
            since += len(rest)
            if since > longest:
                return True
    return False


def _kept(home: Home, path: Path) -> Path:
    return home.stream / "refused" / path.name
