"""Where results go is checked before anything is measured, and what is no file of ours is never replaced."""

import os
import stat
from pathlib import Path

import pytest

from pipelines.errors import LastackError, UsageError
from pipelines.workplace import check_result_file, temporary_folder, warn, workplace, write_result


def test_a_result_is_written_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    check_result_file(path)
    assert path.read_text() == "old"
    write_result(path, "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("out.json", "new")]


def test_a_device_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    link = tmp_path / "stdout"
    link.symlink_to("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (link, pipe):
        check_result_file(path)
        write_result(path, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert link.is_symlink()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["pipe", "stdout"]


@pytest.mark.parametrize("name", ["/proc/out.json", "x" * 250])
def test_a_file_that_cannot_be_made_is_said_before_anything_is_measured(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"--json .*: cannot be written: "):
        check_result_file(tmp_path / name)


def test_a_result_that_cannot_be_written_in_the_end_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LastackError, match="the result cannot be written to"):
        write_result(tmp_path / "gone" / "out.json", "text")


def test_a_home_in_which_nothing_can_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("a file where a folder belongs")
    with pytest.raises(UsageError, match=r"--home .*: cannot be made or used"), workplace("test", tmp_path):
        pass


def test_where_no_temporary_folder_can_be_made_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/not-there")
    with pytest.raises(UsageError, match="set TMPDIR"):
        temporary_folder("test")


def test_a_warning_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    warn("broker 2 cannot be reached:\n  refused")
    assert capsys.readouterr() == ("", "lastack: warning: broker 2 cannot be reached: refused\n")
