"""`make bench`: runs the benchmarks, writes one JSON file and prints a table.

Exit codes: 0 all were run (whether they met their aims or not), 1 one of them could not be run, 2 used wrongly.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines.bench import outages, prober, storage, stream
from pipelines.bench.base import Bench, Figure, load, machine
from pipelines.errors import LastackError
from pipelines.workplace import Reporter

DEFAULT_JSON = Path("build/bench.json")
STYLES = {"met": "green", "missed": "red", "void": "yellow", "-": "dim"}

Run = Callable[[Bench], list[Figure]]


class Outages:
    """Alert and gold are measured in one run of everything: who asks second is given what the first one found."""

    def __init__(self) -> None:
        self._measured: outages.Measured | None = None

    def of(self, name: str) -> Run:
        """The benchmark `alert` or `gold`."""

        def run(bench: Bench) -> list[Figure]:
            if self._measured is None:
                self._measured = outages.measure(bench)
            return outages.figures(self._measured, name)

        return run


def benchmarks() -> dict[str, Run]:
    """All benchmarks by name, in the order in which they run."""
    shared = Outages()
    return {"prober": prober.run, "stream": stream.run, "alert": shared.of("alert"), "gold": shared.of("gold"), "storage": storage.run}


def main(arguments: list[str]) -> int:
    """Runs what is asked for; returns the exit code."""
    runs = benchmarks()
    asked = _parser(runs).parse_args(arguments)
    console = Console()
    document: dict[str, Any] = {
        "format": 1,
        "began_at": datetime.now(tz=UTC).isoformat(timespec="seconds"),
        "is_quick": asked.quick,
        "machine": machine(),
        "load_before": load(),
        "benchmarks": {},
    }
    with Reporter(console) as say:
        for name in asked.only or runs:
            say(f"benchmark {name} (load {load():.1f})")
            document["benchmarks"][name] = _measured(name, runs[name], say, is_quick=asked.quick)
            _write(asked.json, document)
    document["load_after"] = load()
    document["ended_at"] = datetime.now(tz=UTC).isoformat(timespec="seconds")
    _write(asked.json, document)
    _show(console, document)
    console.print(f"written: {asked.json}")
    return int(any("error" in one for one in document["benchmarks"].values()))


def _parser(runs: dict[str, Run]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measures our own speed; see pipelines/bench.")
    parser.add_argument("--only", action="append", choices=list(runs), metavar="NAME", help=f"one of {', '.join(runs)}; repeatable")
    parser.add_argument("--quick", action="store_true", help="shorter and smaller: says that it works, not how well")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="FILE", help=f"where to write; {DEFAULT_JSON} by default")
    return parser


def _measured(name: str, run: Run, say: Callable[[str], None], *, is_quick: bool) -> dict[str, Any]:
    before = load()
    try:
        with tempfile.TemporaryDirectory(prefix=f"lastack-bench-{name}-") as folder:
            figures = run(Bench(Path(folder), is_quick, say))
    except LastackError as error:
        # The other benchmarks can still be run; this one has no figure, and says why.
        say(f"benchmark {name} failed: {error}")
        return {"load_before": before, "load_after": load(), "error": str(error), "figures": []}
    return {"load_before": before, "load_after": load(), "figures": [figure.document() for figure in figures]}


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(document, indent=2) + "\n")
    part.rename(path)


def _show(console: Console, document: dict[str, Any]) -> None:
    table = Table(title=f"bench{' (quick)' if document['is_quick'] else ''}, load {document['load_before']:.1f}")
    for name in ("what", "figure", "aim", "verdict", "method"):
        table.add_column(name, justify="right" if name in ("figure", "aim") else "left", overflow="fold")
    for name, one in document["benchmarks"].items():
        if "error" in one:
            table.add_row(name, "", "", "[red]failed[/red]", one["error"])
        for figure in one["figures"]:
            aim = "" if figure["aim"] is None else f"<= {figure['aim']:g}"
            verdict = f"[{STYLES[figure['verdict']]}]{figure['verdict']}[/]"
            table.add_row(figure["name"], f"{figure['value']:g} {figure['unit']}", aim, verdict, figure["method"])
            for word in ("limit", "void"):
                if figure[word]:
                    table.add_row("", "", "", "", f"[dim]{word}: {figure[word]}[/dim]")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
