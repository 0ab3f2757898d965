"""Which files have a line that no reader holds."""

import os
from pathlib import Path

import pytest

from pipelines.long_lines import CHUNK_BYTES, KEPT_FILES_MAX, has_longer_line, keep, unreadable
from pipelines.settings import Home

LONGEST = 10


@pytest.mark.parametrize(
    ("text", "is_longer"),
    [("", False), ("a" * 10, False), ("a" * 11, True), (("a" * 10 + "\n") * 5, False), ("a\n" * 9 + "b" * 11 + "\na\n", True)],
)
def test_a_line_counts_and_not_the_file(tmp_path: Path, text: str, is_longer: bool) -> None:
    (tmp_path / "file").write_text(text)

    assert has_longer_line(tmp_path / "file", LONGEST) is is_longer


@pytest.mark.parametrize(("before", "length", "is_longer"), [(CHUNK_BYTES - 5, 10, False), (CHUNK_BYTES - 5, 11, True)])
def test_a_line_that_lies_across_two_reads(tmp_path: Path, before: int, length: int, is_longer: bool) -> None:
    (tmp_path / "file").write_text("\n" * before + "a" * length + "\n")

    assert has_longer_line(tmp_path / "file", LONGEST) is is_longer


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.create()
    return made


def test_it_is_kept_whole_and_told_of_once(home: Home) -> None:
    long = home.landing / "long.jsonl"
    long.write_text("a" * 11)
    (home.landing / "short.jsonl").write_text("a\n" * 11)
    (home.landing / ".part.jsonl").write_text("a" * 11)
    assert unreadable(home, LONGEST) == [long]

    keep(home, long)
    assert unreadable(home, LONGEST) == []
    long.unlink()
    assert (home.stream / "refused" / "long.jsonl").read_text() == "a" * 11


def test_of_many_those_that_came_last_are_kept(home: Home) -> None:
    for number in range(KEPT_FILES_MAX + 2):
        path = home.landing / f"{number:02d}.jsonl"
        path.write_text("a" * 11)
        os.utime(path, ns=(number, number))
        keep(home, path)

    assert sorted(one.name for one in (home.stream / "refused").iterdir()) == [
        f"{number:02d}.jsonl" for number in range(2, KEPT_FILES_MAX + 2)
    ]
