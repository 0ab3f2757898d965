"""A suitable Java is found where one is; where none is, one line says what was found and what to type."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import java
from pipelines.errors import UsageError

GOOD_MODULES = ("java.base", "jdk.incubator.vector")


def make_java(home: Path, version: str, modules: tuple[str, ...] = GOOD_MODULES) -> Path:
    """A program that answers `--list-modules` as a Java of that version does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = "".join(f"echo {module}@{version}\n" for module in modules)
    program.write_text(f"#!/bin/sh\n{lines}" if modules else "#!/bin/sh\necho 'Unrecognized option' >&2\nexit 1\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path):
    first, second = make_java(tmp_path / "a", "21.0.2"), make_java(tmp_path / "b", "17.0.15")
    found = java.find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")}, ())
    assert (found.home, found.major) == (first, 21)


def test_a_wrong_java_home_does_no_harm_where_a_right_java_is_installed(tmp_path):
    wrong, right = make_java(tmp_path / "a", "25"), make_java(tmp_path / "jvm" / "b", "17.0.15")
    found = java.find_java({"JAVA_HOME": str(wrong), "PATH": str(wrong / "bin")}, (str(tmp_path / "jvm" / "*"),))
    assert found.home == right


@pytest.mark.parametrize(
    ("version", "modules", "said"),
    [
        ("25", GOOD_MODULES, "25 (JAVA_HOME)"),
        ("11.0.2", GOOD_MODULES, "11.0.2 (JAVA_HOME)"),
        ("17.0.15", ("java.base",), "17.0.15 without jdk.incubator.vector (JAVA_HOME)"),
        ("8", (), "a Java older than 9, or none (JAVA_HOME)"),
    ],
)
def test_a_java_that_does_not_serve_is_named(tmp_path, version, modules, said):
    home = make_java(tmp_path / "a", version, modules)
    with pytest.raises(UsageError) as error:
        java.find_java({"JAVA_HOME": str(home), "PATH": ""}, ())
    assert f"found {said}; need 17 or 21; install it with: " in str(error.value)


def test_a_java_home_without_a_java_is_named(tmp_path):
    with pytest.raises(UsageError, match="JAVA_HOME that does not run"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, ())


def test_no_java_at_all_is_said():
    with pytest.raises(UsageError, match="found none; need 17 or 21"):
        java.find_java({"PATH": ""}, ())


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "apt-get install -y openjdk-17-jre-headless"),
        ('ID=debian\nVERSION_ID="13"\n', "apt-get install -y openjdk-21-jre-headless"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "apt-get install -y openjdk-17-jre-headless"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install -y java-21-openjdk-headless"),
        ("ID=fedora\n", "dnf install -y java-21-openjdk-headless"),
        ("ID=somethingelse\n", "your system's package manager (an OpenJDK 17 or 21 runtime)"),
    ],
)
def test_the_command_is_that_of_the_system(tmp_path, text, command):
    path = tmp_path / "os-release"
    path.write_text(text)
    assert java.install_command(path, "linux") == command


def test_a_mac_gets_its_own_command(tmp_path):
    assert java.install_command(tmp_path / "none", "darwin") == "brew install openjdk@17"


def test_an_old_style_version_has_its_second_number_as_its_major():
    assert java.Java(Path("/x"), "1.8.0_392", frozenset(), "here").major == 8


def test_the_command_line_says_it_in_one_line_and_exits_with_2(monkeypatch, capsys):
    def find_none():
        raise UsageError("no suitable Java: found none")

    monkeypatch.setattr(java, "find_java", find_none)
    assert java.main() == 2
    assert capsys.readouterr().err == "lastack: no suitable Java: found none\n"


def test_this_machine_s_java_is_printed():
    answer = subprocess.run([sys.executable, "-m", "pipelines.java"], capture_output=True, text=True, check=True)
    assert (Path(answer.stdout.strip()) / "bin" / "java").is_file()
