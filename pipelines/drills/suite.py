"""How do all drills run, one after the other, so that a run that was stopped goes on where it was?

The rule: after each drill its result is written to results.json, whole or not at all; a second call runs only what has no result there
(a failure is one), unless everything is asked for again. At the end there is a table for people and a JUnit file for machines.

Example: with leader-killed/kraft in results.json, `lastack drill all` begins with the next one and says "leader-killed kraft: done".
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from rich.console import Console
from rich.table import Table

from pipelines.drills.plan import Drill
from pipelines.drills.runner import Verdict
from pipelines.errors import LastackError, UsageError
from pipelines.results import interval

PASSED, FAILED, BROKEN = "passed", "FAILED", "BROKEN"
RESULTS, JUNIT = "results.json", "junit.xml"


@dataclass(frozen=True, slots=True)
class Result:
    """One drill in one mode. `verdict` is BROKEN where it could not be run; `evidence` is the folder that was kept."""

    drill: str
    mode: str
    verdict: str
    seconds: float
    rto_ms: list[float] | None
    lost_records: int
    rpo_ms: list[float | None] | None
    claims: list[dict[str, Any]]
    error: str | None = None
    evidence: str | None = None

    @classmethod
    def of(cls, verdict: Verdict, evidence: str | None) -> "Result":
        """The result of a drill that ran."""
        return cls(
            verdict.drill,
            verdict.mode,
            PASSED if verdict.is_met else FAILED,
            round(verdict.seconds, 1),
            None if verdict.rto_ms is None else list(verdict.rto_ms),
            verdict.lost_records,
            None if verdict.rpo_ms is None else list(verdict.rpo_ms),
            [asdict(one) for one in verdict.claims],
            None,
            evidence,
        )


RunOne = Callable[[Drill, str], Result]


def run_all(drills: Iterable[Drill], folder: Path, run_one: RunOne, console: Console, *, fresh: bool, modes: tuple[str, ...]) -> bool:
    """Runs what has not run yet; returns whether every drill has passed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--results {folder}: cannot be made or used: {error.strerror}; name a folder that you may write to"
        ) from error
    path = folder / RESULTS
    found = {} if fresh else _read(path)
    wanted = [(drill, mode) for drill in drills for mode in drill.modes if mode in modes]
    for number, (drill, mode) in enumerate(wanted, start=1):
        head = f"[{number}/{len(wanted)}] {drill.name} {mode}"
        if (drill.name, mode) in found:
            console.print(f"{head}: done ({found[drill.name, mode].verdict})", markup=False, highlight=False)
            continue
        console.print(f"{head}: {drill.title}", markup=False, highlight=False)
        began = time.monotonic()
        try:
            result = run_one(drill, mode)
        except LastackError as error:
            said = "; ".join([str(error), *getattr(error, "__notes__", [])])
            result = Result(drill.name, mode, BROKEN, round(time.monotonic() - began, 1), None, 0, None, [], " ".join(said.split()))
        found[drill.name, mode] = result
        _write(path, found.values())
        _write_junit(folder / JUNIT, [one for key, one in found.items()])
    results = [found[drill.name, mode] for drill, mode in wanted]
    show(results, console)
    return all(one.verdict == PASSED for one in results)


def show(results: Iterable[Result], console: Console) -> None:
    """The table of all results, and the claims that do not hold."""
    table = Table(header_style="bold", pad_edge=False)
    for name in ("drill", "mode", "verdict", "RTO", "RPO", "lost", "seconds"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("RTO", "RPO", "lost", "seconds") else "left")
    kept = list(results)
    for one in kept:
        rto = interval(one.rto_ms[0], one.rto_ms[1]) if one.rto_ms else "-"
        rpo = interval(one.rpo_ms[0], one.rpo_ms[1]) if one.rpo_ms else "0"
        table.add_row(one.drill, one.mode, one.verdict, rto, rpo, str(one.lost_records), f"{one.seconds:.0f}")
    width, console.width = console.width, max(console.width, 120)
    console.print(table)
    console.width = width
    for one in kept:
        for each in one.claims:
            if not each["holds"]:
                said = f"{one.drill} {one.mode}: {each['name']}: expected {each['expected']}; found {each['found']}"
                console.print(said, markup=False, highlight=False, soft_wrap=True)
        if one.error:
            console.print(f"{one.drill} {one.mode}: {one.error}", markup=False, highlight=False, soft_wrap=True)
        if one.evidence:
            console.print(f"{one.drill} {one.mode}: the evidence is in {one.evidence}", markup=False, highlight=False, soft_wrap=True)


def junit(results: Iterable[Result]) -> str:
    """The results as JUnit XML: a suite a drill and mode, a case a claim."""
    root = Xml.Element("testsuites", name="lastack drills")
    for one in results:
        cases = one.claims or [{"name": "runs", "expected": "a verdict", "found": one.error or "", "holds": one.verdict == PASSED}]
        failures = sum(not each["holds"] for each in cases)
        suite = Xml.SubElement(
            root,
            "testsuite",
            name=f"{one.drill} ({one.mode})",
            tests=str(len(cases)),
            failures=str(failures),
            errors="0",
            time=f"{one.seconds:.1f}",
        )
        for each in cases:
            case = Xml.SubElement(suite, "testcase", classname=f"drills.{one.drill}.{one.mode}", name=each["name"], time="0")
            if not each["holds"]:
                said = f"expected {each['expected']}; found {each['found']}"
                Xml.SubElement(case, "failure", message=said).text = one.evidence or ""
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _read(path: Path) -> dict[tuple[str, str], Result]:
    if not path.is_file():
        return {}
    try:
        found = [Result(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise LastackError(f"{path} is not as we write it: {error}; begin anew with --fresh") from error
    return {(one.drill, one.mode): one for one in found}


def _write(path: Path, results: Iterable[Result]) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps([asdict(one) for one in results], indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def _write_junit(path: Path, results: Iterable[Result]) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(junit(results), encoding="utf-8")
    part.replace(path)
