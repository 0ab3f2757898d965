"""`lastack derive`: what follows from observations that anybody's collector wrote?

The rule: the files of a landing (docs/landing-format.md) are copied into a home, each time under names of their own, and go the way
that every line goes, through bronze and silver to gold; what gold says of each cluster is printed. The files that were given are never
touched. A line that is no observation stops nothing: it is told with its reason, and the exit code is 1.

Example: a collector for another broker wrote its first `probes` lines to out/; `lastack derive out` says which outages they show.
"""

import json
import shutil
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from pipelines.domain.clock import instant
from pipelines.errors import UsageError
from pipelines.results import Results
from pipelines.serving import Serving, Snapshot
from pipelines.settings import Home
from pipelines.stream import Options
from pipelines.stream import run as run_stream
from pipelines.workplace import Reporter, check_result_file, workplace, write_result

REFUSED_SHOWN = 10


def command(landing: Path, console: Console, *, home: Path | None = None, json_path: Path | None = None) -> int:
    """Derives, prints what was found, and returns the exit code. Raises UsageError where there is nothing to derive from."""
    check_result_file(json_path)
    files = _files(landing)
    with workplace("derive", home) as place, Reporter(console) as say:
        place.create()
        if landing.resolve() == place.landing:
            raise UsageError(f"{landing}: is the landing of --home itself, whose files go when they are taken in; name a copy of it")
        say(f"copying {len(files)} files of {landing}")
        ending = f"-{uuid.uuid4().hex[:8]}.jsonl"
        for path in files:
            _copy(path, place.landing, ending)
        say("deriving (the first seconds go into starting Spark)")
        _derive(place)
        with Serving(place).snapshot() as snapshot:
            clusters = [dict(row) for row in snapshot.rows("landed_clusters")]
            refused = _refused(snapshot, ending)
        found = [Results(place, one["cluster_id"], instant(one["from_us"])) for one in clusters]
    for one, results in zip(clusters, found, strict=True):
        console.print(f"{one['system']} {one['cluster_id']}: {one['observations']} observations", markup=False, highlight=False)
        results.show(console)
    if refused["lines"]:
        console.print(f"{refused['lines']} lines are no observations:", markup=False, highlight=False)
        for example in refused["examples"]:
            console.print(f"  {example['file']}: {example['reason']}", markup=False, highlight=False)
    if json_path is not None:
        document = {"format": 1, "clusters": [results.document() for results in found], "refused": refused}
        write_result(json_path, json.dumps(document, indent=2, allow_nan=False) + "\n")
        console.print(f"written: {json_path}", markup=False, highlight=False)
    return 1 if refused["lines"] else 0


def _files(landing: Path) -> list[Path]:
    if not landing.is_dir():
        raise UsageError(f"{landing}: is not a folder; name the landing directory that a collector writes to")
    found = sorted(path for path in landing.glob("*.jsonl") if path.name[0] not in "._" and path.is_file())
    if not found:
        raise UsageError(f"{landing}: there is no finished file in it; expected NAME.jsonl as docs/landing-format.md says")
    return found


def _copy(path: Path, landing: Path, ending: str) -> None:
    """As a collector finishes a file: whole or not at all."""
    part = landing / f".{path.name}.part"
    try:
        shutil.copyfile(path, part)
    except OSError as error:
        raise UsageError(f"{path}: cannot be copied to {landing}: {error.strerror}") from error
    # A stream takes a name only once.
    part.replace(landing / f"{path.stem}{ending}")


def _derive(home: Home) -> None:
    """Takes in all that lies in the landing, as a stream does that is told to stop."""
    stopping = threading.Event()
    stopping.set()
    with (home.logs / "stream.log").open("a", encoding="utf-8") as log:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(log))
        try:
            run_stream(home, Options(trigger_seconds=0.0), stopping)
        finally:
            structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))


def _refused(snapshot: Snapshot, ending: str) -> dict[str, Any]:
    rows = snapshot.rows("refused_lines", ending=ending, limit=REFUSED_SHOWN)
    examples = [{"file": f"{row['file'].removesuffix(ending)}.jsonl", "reason": row["reason"], "line": row["line"]} for row in rows]
    return {"lines": rows[0]["total_rows"] if rows else 0, "examples": examples}
