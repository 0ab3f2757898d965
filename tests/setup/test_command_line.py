"""The command line says what a person can mend in one line, and nothing else."""

import subprocess
import sys

import pytest

import pipelines.__main__ as command_line
from pipelines import __version__
from pipelines.errors import UsageError


def lastack(*arguments):
    return subprocess.run([sys.executable, "-m", "pipelines", *arguments], capture_output=True, text=True, check=False)


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
