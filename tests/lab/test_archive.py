"""Class archives of one kind replace each other, and leave those of another kind alone."""

from pathlib import Path

from pipelines.lab.archive import publish


def test_a_new_archive_removes_the_older_ones_of_its_own_kind_only(tmp_path: Path) -> None:
    for name in ("kafka-aaaa.jsa", "zookeeper-bbbb.jsa", "made"):
        (tmp_path / name).touch()
    assert publish(tmp_path / "made", tmp_path / "kafka-cccc.jsa")
    assert {path.name for path in tmp_path.iterdir()} == {"kafka-cccc.jsa", "zookeeper-bbbb.jsa"}
