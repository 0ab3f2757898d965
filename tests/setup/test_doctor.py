"""What is missing is said in one line; the tests' browser is installed where that may be done."""

import shlex
import subprocess

import pytest

from pipelines import doctor
from pipelines.doctor import Check
from pipelines.errors import UsageError


def put_program(folder, name):
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_an_installed_browser_is_found_under_any_of_its_names(tmp_path):
    program = put_program(tmp_path, "google-chrome-stable")
    assert doctor.find_browser({"PATH": str(tmp_path)}, ()) == program


def test_the_browser_that_the_user_names_wins(tmp_path):
    put_program(tmp_path, "chromium")
    assert str(doctor.find_browser({"PATH": str(tmp_path), "LASTACK_BROWSER": "/my/chrome"}, ())) == "/my/chrome"


def test_a_browser_in_a_mac_s_usual_place_is_found(tmp_path):
    program = put_program(tmp_path, "Google Chrome")
    assert doctor.find_browser({"PATH": ""}, (str(program),)) == program


def test_where_it_may_debian_s_browser_is_installed(tmp_path, monkeypatch):
    commands = []

    def apt_get(command):
        commands.append(command[1:])
        if command[1] == "install":
            put_program(tmp_path, "chromium")
        return 0

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LASTACK_BROWSER", raising=False)
    monkeypatch.setattr(doctor, "MAC_BROWSERS", ())
    assert doctor.install_browser(apt_get, is_root=True, apt_get="apt-get") == tmp_path / "chromium"
    assert [command[0] for command in commands] == ["update", "install"]
    assert commands[1][-1] == "chromium"
    doctor.install_browser(lambda command: pytest.fail("it was there already"), is_root=True, apt_get="apt-get")


@pytest.mark.parametrize(("is_root", "apt_get"), [(False, "apt-get"), (True, "")])
def test_where_it_may_not_it_says_what_is_missing_in_one_line(tmp_path, monkeypatch, is_root, apt_get):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LASTACK_BROWSER", raising=False)
    with pytest.raises(UsageError, match="need Chromium or Chrome, and none is installed") as error:
        doctor.install_browser(lambda command: pytest.fail("it may not"), is_root=is_root, apt_get=apt_get)
    assert "\n" not in str(error.value)


def test_a_failed_installation_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LASTACK_BROWSER", raising=False)
    with pytest.raises(UsageError, match="`apt-get update --quiet=2` failed"):
        doctor.install_browser(lambda command: 100, is_root=True, apt_get="apt-get")


def test_the_report_has_a_line_for_each_check_and_a_remedy_where_one_is_needed():
    text = doctor.report([Check("java", "17.0.15"), Check("browser", "none found", "install one")])
    assert text.splitlines() == ["ok       java     17.0.15", "missing  browser  none found  ->  install one"]


def test_every_check_looks_at_this_machine():
    assert [check.name for check in doctor.check_all()] == ["python", "java", "jars", "browser", "memory", "disk"]


def test_a_tmpdir_where_nothing_can_be_written_is_missing_and_not_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "not-there", tmp_path / "file"):
        monkeypatch.setenv("TMPDIR", str(place))
        monkeypatch.setattr(doctor.tempfile, "tempdir", None)
        check = doctor.check_disk()
        assert not check.is_ok
        assert str(place) in check.found
        assert "TMPDIR" in check.remedy


def test_a_browser_that_is_named_and_not_there_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("LASTACK_BROWSER", str(tmp_path / "not-there"))
    check = doctor.check_browser()
    assert "LASTACK_BROWSER" in check.remedy


def test_the_command_that_it_suggests_runs_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("LASTACK_CACHE", str(tmp_path))
    program, *arguments = shlex.split(doctor.check_jars().remedy)
    assert arguments == ["-m", "pipelines.jars", "fetch"]
    script = "import pipelines.jars.__main__"
    assert subprocess.run([program, "-c", script], cwd=tmp_path, env={}, check=False).returncode == 0
