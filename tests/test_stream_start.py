"""What a stream finds of one that was killed: a first batch that was never planned is begun anew, any other is gone on with."""

from pathlib import Path

import pytest

from pipelines.stream import age_mark, forget_unborn, said_by


def checkpoint(path: Path, *offsets: str) -> Path:
    folder = path / "checkpoint"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"x"}')
    for name in offsets:
        (folder / "offsets" / name).write_text("v1")
    return folder


@pytest.mark.parametrize("left", [(), (".0.6f1c.tmp",), (".0.6f1c.tmp", "..0.6f1c.tmp.crc")])
def test_one_that_was_killed_before_its_first_batch_was_planned_is_begun_anew(tmp_path: Path, left: tuple[str, ...]) -> None:
    folder = checkpoint(tmp_path, *left)
    forget_unborn(folder)

    assert not folder.exists()


def test_one_that_had_planned_a_batch_is_gone_on_with(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "0", ".0.crc", ".1.6f1c.tmp")
    forget_unborn(folder)

    assert (folder / "offsets" / "0").is_file()


def test_where_there_is_none_there_is_nothing_to_forget(tmp_path: Path) -> None:
    forget_unborn(tmp_path / "checkpoint")


def test_what_lies_in_the_landing_and_is_no_file_has_no_age_and_ends_nothing(tmp_path: Path) -> None:
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    assert [age_mark(loop), age_mark(tmp_path / "gone.jsonl")] == [0, 0]


def test_of_what_went_wrong_in_a_batch_the_cause_is_said_and_not_the_word_traceback() -> None:
    text = "[FAILED] Reason: Return Message: Traceback (most recent call last):\n  File x\nOSError: [Errno 28] No space left\n\tat py4j"
    assert said_by(RuntimeError(text)) == "OSError: [Errno 28] No space left"
    assert said_by(RuntimeError("[ONE] line\nmore")) == "[ONE] line"
    assert said_by(RuntimeError()) == "RuntimeError"
