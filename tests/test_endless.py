"""Which files have a line that no reader holds."""

from pathlib import Path

import pytest

from pipelines.endless import CHUNK_BYTES, has_longer_line, refused
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


def test_it_is_kept_whole_and_told_of_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    (home.landing / "long.jsonl").write_text("a" * 11)
    (home.landing / "short.jsonl").write_text("a\n" * 11)
    (home.landing / ".part.jsonl").write_text("a" * 11)
    (row,) = refused(home, LONGEST)
    again = refused(home, LONGEST)
    (home.landing / "long.jsonl").unlink()

    assert (row["file"], again) == ("long.jsonl", [])
    assert (home.stream / "refused" / "long.jsonl").read_text() == "a" * 11
