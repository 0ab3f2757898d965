"""`lastack rebuild`: what does a person who derives everything again get to see?"""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from pipelines.errors import UsageError
from pipelines.rebuild import Rebuilt, run
from pipelines.settings import Home
from pipelines.workplace import Reporter, check_result_file, made_home, write_result


def command(source: str, home: Path, console: Console, *, is_check: bool, json_path: Path | None) -> int:
    """Derives again, prints what differs, and returns the exit code. Raises UsageError for what cannot be derived from."""
    if source != "bronze":
        raise UsageError(f"--from {source}: silver and gold are derived from bronze only; say --from bronze")
    if not Home(home).table("bronze.observations").is_dir():
        raise UsageError(
            f"--home {home}: there are no observations in it (lakehouse/bronze/observations); name the folder of an installation"
        )
    check_result_file(json_path)
    with Reporter(console) as say:
        found = run(made_home(home), is_check=is_check, say=say)
    differences = sum(len(one.differences) for one in found)
    if json_path is not None:
        write_result(json_path, json.dumps([_document(one) for one in found], indent=1, default=str) + "\n")
        console.print(f"written: {json_path}", markup=False, highlight=False)
    if not differences:
        console.print("Everything follows from the observations as it stands: nothing differs.")
        return 0
    rows = "row differs" if differences == 1 else "rows differ"
    done = "nothing was written" if is_check else "the tables hold what was derived now"
    console.print(f"{differences} {rows}; {done}.")
    return 1 if is_check else 0


def _document(one: Rebuilt) -> dict[str, object]:
    return {"table": one.table, "rows": one.rows, "differences": [asdict(each) for each in one.differences]}
