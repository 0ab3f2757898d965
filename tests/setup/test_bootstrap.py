"""The environment is made from the lock once; a half-made one is never trusted; `make` tells a newcomer what there is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import bootstrap

REPOSITORY = Path(__file__).parents[2]


class Steps(list):
    """The steps of `bootstrap.make`, recorded instead of run; those named in `fail` fail."""

    fail = ()

    def call(self, command, **options):
        if command[1:] == ["-c", ""]:
            return 0
        name = "venv" if command[1:3] == ["-m", "venv"] else "lock" if "-r" in command else "project"
        self.append(name)
        if name == "venv":
            binaries = Path(command[3]) / "bin"
            binaries.mkdir(parents=True)
            (binaries / "python").symlink_to(sys.executable)
        return int(name in self.fail)


@pytest.fixture
def steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("requirements.lock").write_text("one==1 --hash=sha256:00\n")
    recorded = Steps()
    monkeypatch.setattr(subprocess, "call", recorded.call)
    return recorded


def test_a_fresh_checkout_gets_an_environment_and_a_second_run_does_nothing(steps):
    assert bootstrap.make(".venv") == 0
    assert steps == ["venv", "lock", "project"]
    assert bootstrap.make(".venv") == 0
    assert steps == ["venv", "lock", "project"]


def test_a_half_made_environment_is_thrown_away(steps):
    steps.fail = ("lock",)
    assert bootstrap.make(".venv") == 1
    Path(".venv", "half-installed").touch()
    steps.fail = ()
    assert bootstrap.make(".venv") == 0
    assert not Path(".venv", "half-installed").exists()
    assert steps == ["venv", "lock", "venv", "lock", "project"]


def test_a_changed_lock_updates_the_environment(steps):
    bootstrap.make(".venv")
    Path("requirements.lock").write_text("one==2 --hash=sha256:00\n")
    del steps[:]
    assert bootstrap.make(".venv") == 0
    assert steps == ["lock", "project"]


def test_an_update_that_failed_leaves_nothing_that_is_trusted(steps):
    bootstrap.make(".venv")
    Path("requirements.lock").write_text("one==2 --hash=sha256:00\n")
    steps.fail = ("project",)
    bootstrap.make(".venv")
    steps.fail = ()
    del steps[:]
    bootstrap.make(".venv")
    assert steps == ["venv", "lock", "project"]


def test_a_checkout_that_was_moved_gets_a_new_environment(steps, tmp_path, monkeypatch):
    bootstrap.make(".venv")
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(tmp_path / ".venv", moved / ".venv")
    shutil.move(tmp_path / "requirements.lock", moved)
    monkeypatch.chdir(moved)
    del steps[:]
    bootstrap.make(".venv")
    assert steps == ["venv", "lock", "project"]


def test_an_environment_whose_python_is_gone_is_made_anew(steps):
    bootstrap.make(".venv")
    Path(".venv", "bin", "python").unlink()
    del steps[:]
    bootstrap.make(".venv")
    assert steps == ["venv", "lock", "project"]


def test_a_python_that_is_too_old_is_told_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    assert bootstrap.main([".venv"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lastack: needs Python 3.11 or newer, and ")
    assert error.count("\n") == 1


def run_make(*arguments):
    # Without what a `make test` around us left: it would make this one a part of that.
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environ, check=False)


def test_make_alone_prints_every_target_and_does_nothing_else():
    answer = run_make()
    assert answer.returncode == 0
    assert answer.stderr == ""
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE).group(1).split()
    told = re.findall(r"^  make (\S+) +\S", answer.stdout, re.MULTILINE)
    assert sorted(told) == sorted(phony)


def test_a_missing_python_is_told_in_one_line():
    answer = run_make("setup", "PYTHON=python-that-is-not-there")
    assert answer.returncode == 2
    first, *rest = answer.stderr.splitlines()
    assert first.startswith("lastack: there is no python-that-is-not-there; install Python 3.11 or newer")
    assert [line for line in rest if not line.startswith("make: ***")] == []


def test_the_lock_is_hashed_throughout_and_names_no_host():
    text = (REPOSITORY / "requirements.lock").read_text()
    pins = re.findall(r"^([a-zA-Z0-9._-]+)==\S+ \\$", text, re.MULTILINE)
    assert len(pins) > 80
    assert len(re.findall(r"^[a-zA-Z]", text, re.MULTILINE)) == len(pins)
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    assert "--trusted-host" not in text


def test_the_lock_has_every_pin_of_the_project():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    lock = (REPOSITORY / "requirements.lock").read_text().lower()
    for requirement in project["dependencies"] + project["optional-dependencies"]["dev"]:
        name, _, version = requirement.partition("==")
        name = re.split(r"[><=\[]", name)[0].lower()
        assert f"\n{name}=={version}" in f"\n{lock}", requirement


def test_the_wheel_holds_what_is_not_code(tmp_path):
    import zipfile

    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("lastack-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"pipelines/shipped/conf/jars/{name}.lock" for name in ("kafka", "kafka-zookeeper", "spark")} <= names
    assert any(name.startswith("pipelines/shipped/sql/ddl/") for name in names)
    assert {"pipelines/__main__.py", "dashboards/__init__.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "conf/", "sql/"))]
