"""What `lastack derive` says before it starts anything."""

from pathlib import Path

import pytest
from rich.console import Console

from pipelines.errors import UsageError
from pipelines.landed import command


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "is not a folder"),
        ("file.jsonl", "is not a folder"),
        ("empty", "no finished file"),
        ("unfinished", "no finished file"),
    ],
)
def test_where_there_is_nothing_to_derive_from(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file.jsonl").write_text("{}\n")
    for folder in ("empty", "unfinished"):
        (tmp_path / folder).mkdir()
    (tmp_path / "unfinished" / ".a.jsonl").write_text("{}\n")
    (tmp_path / "unfinished" / "_b.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=said):
        command(tmp_path / name, Console())


def test_a_result_that_could_not_be_written_is_said_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--json"):
        command(tmp_path, Console(), json_path=tmp_path / "missing" / "result.json")


def test_the_landing_of_the_home_itself_is_not_taken_for_a_copy(tmp_path: Path) -> None:
    landing = tmp_path / "home" / "landing"
    landing.mkdir(parents=True)
    (landing / "a.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="is the landing of --home itself"):
        command(landing, Console(), home=tmp_path / "home")
