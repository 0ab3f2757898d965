"""The command line says what a person can mend in one line, and nothing else."""

import os
import socket
import subprocess
import sys

import pytest

import pipelines.__main__ as command_line
from pipelines import __version__
from pipelines.errors import UsageError


def lastack(*arguments, environ=None):
    return subprocess.run([sys.executable, "-m", "pipelines", *arguments], capture_output=True, text=True, check=False, env=environ)


def test_the_version_is_the_package_s():
    answer = lastack("--version")
    assert (answer.returncode, answer.stdout) == (0, f"lastack {__version__}\n")


def test_without_a_command_it_prints_help_and_loads_neither_spark_nor_a_client():
    script = "import sys, pipelines.__main__; print([name for name in ('pyspark', 'confluent_kafka', 'dash') if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
    assert "doctor" in lastack("--help").stdout


def test_what_a_person_can_mend_is_one_line_and_its_exit_code(monkeypatch, capsys):
    def fail(**_options):
        raise UsageError("--for: '2 minutes' is not a duration;\n  write 90s, 2m or 1h")

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as end:
        command_line.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "lastack: --for: '2 minutes' is not a duration; write 90s, 2m or 1h\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["no-such-command"], "no-such-command"),
        (["--foo"], "--foo"),
        (["measure"], "--bootstrap"),
        (["demo", "--port", "abc"], "--port"),
    ],
)
def test_a_wrong_use_is_one_line_that_names_it_and_where_help_is(arguments, named):
    answer = lastack(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    (line,) = answer.stderr.splitlines()
    assert line.startswith("lastack: ")
    assert named in line
    assert line.endswith("--help)")


def test_a_configuration_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe{")
    for command in (["collect", "watch"], ["stream"]):
        for path, said in ((tmp_path / "not-there.json", "No such file"), (tmp_path, "directory"), (tmp_path / "binary.json", "UTF-8")):
            answer = lastack(*command, str(path))
            (line,) = answer.stderr.splitlines()
            assert (answer.returncode, said in line, str(path) in line) == (2, True, True), line


def test_a_file_where_a_folder_is_needed_is_one_line_that_names_the_option(tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for option, arguments in (
        ("--home", ["dashboard", "--port", "0"]),
        ("--home", ["drill", "leader-killed"]),
        ("--home", ["measure", "--bootstrap", "127.0.0.1:1", "--for", "20s"]),
        ("--results", ["drill", "all"]),
    ):
        for name in ("file", "file/below", "loop"):
            answer = lastack(*arguments, option, str(tmp_path / name))
            (line,) = answer.stderr.splitlines()
            assert answer.returncode == 2, line
            assert line.startswith(f"lastack: {option} {tmp_path / name}: ")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_port_that_is_taken_is_one_line_that_names_the_option_and_leaves_nothing_behind(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments in (["demo", "--once"], ["dashboard", "--home", str(tmp_path / "home")]):
            environ = os.environ | {"TMPDIR": str(tmp_path)}
            answer = lastack(*arguments, "--port", port, environ=environ)
            (line,) = answer.stderr.splitlines()
            assert answer.returncode == 2, line
            assert line.startswith(f"lastack: --port {port}: ")
    assert list(tmp_path.iterdir()) == []
