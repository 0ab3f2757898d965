"""`lastack drill`: one drill, all of them, or their names."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from pipelines.drills import plan
from pipelines.drills.plan import Drill
from pipelines.drills.records import MODES
from pipelines.drills.runner import run as run_drill
from pipelines.drills.suite import PASSED, Result, run_all
from pipelines.errors import DrillFailed, UsageError
from pipelines.workplace import Reporter, check_home, check_result_file, made_home, temporary_folder, write_result

ALL, LIST = "all", "list"


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """What the command line asks. `folder` is where `all` writes its results, `home` where one drill keeps what it measures."""

    name: str
    mode: str | None = None
    json_path: Path | None = None
    home: Path | None = None
    folder: Path = Path("build/drills")
    fresh: bool = False


def run(options: DrillOptions, console: Console) -> None:
    """Runs what is asked. Raises DrillFailed where a claim does not hold."""
    if options.mode is not None and options.mode not in MODES:
        raise UsageError(f"--mode {options.mode}: is no mode; one of {', '.join(MODES)}")
    if options.name == LIST:
        _list(console)
    elif options.name == ALL:
        _all(options, console)
    else:
        _one(options, console)


def _list(console: Console) -> None:
    for drill in map(plan.load, plan.names()):
        console.print(f"{drill.name:32} {','.join(drill.modes):18} {drill.title}", markup=False, highlight=False, soft_wrap=True)


def _all(options: DrillOptions, console: Console) -> None:
    drills = [plan.load(name) for name in plan.names()]
    evidence = options.folder / "evidence"

    def run_one(drill: Drill, mode: str) -> Result:
        home = evidence / f"{drill.name}-{mode}"
        shutil.rmtree(home, ignore_errors=True)
        return _run(drill, mode, home, console)

    modes = (options.mode,) if options.mode else MODES
    if not run_all(drills, options.folder, run_one, console, fresh=options.fresh, modes=modes):
        raise DrillFailed(f"not every drill passed; the results are in {options.folder}")


def _one(options: DrillOptions, console: Console) -> None:
    check_result_file(options.json_path)
    check_home(options.home)
    drill = plan.load(options.name)
    mode = options.mode or drill.modes[0]
    if mode not in drill.modes:
        raise UsageError(f"--mode {mode}: {drill.name} runs in {', '.join(drill.modes)}")
    home = options.home or temporary_folder(f"drill-{drill.name}")
    result = _run(drill, mode, home, console, is_kept=options.home is not None)
    for one in result.claims:
        mark = "ok  " if one["holds"] else "FAIL"
        line = f"{mark} {one['name']}: expected {one['expected']}; found {one['found']}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{drill.name} {mode}: {result.verdict} in {result.seconds:.0f} s", markup=False, highlight=False)
    if options.json_path is not None:
        write_result(options.json_path, json.dumps(asdict(result), indent=2) + "\n")
    if result.verdict != PASSED:
        raise DrillFailed(f"{drill.name} {mode}: a claim does not hold; the evidence is in {result.evidence}")


def _run(drill: Drill, mode: str, home: Path, console: Console, *, is_kept: bool = False) -> Result:
    """Runs one drill in a folder that goes when it passed and nobody asked for it."""
    try:
        with Reporter(console) as say:
            verdict = run_drill(drill, mode, made_home(home), say)
    except KeyboardInterrupt:
        if not is_kept:
            shutil.rmtree(home, ignore_errors=True)
        raise
    except Exception as error:
        error.add_note(f"the evidence is in {home}")
        raise
    if verdict.is_met and not is_kept:
        shutil.rmtree(home, ignore_errors=True)
        return Result.of(verdict, None)
    return Result.of(verdict, str(home.resolve()))
