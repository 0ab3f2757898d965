"""`lastack demo` and `lastack measure` as a user runs them: exit codes, one line on an error, the document, nothing left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.lab import Lab, LabSpec, Login

pytestmark = pytest.mark.system

OUTAGE_KEYS = {
    "cluster", "topic", "partition", "kind", "lane", "evidence", "started_at_min", "started_at_max", "ended_at_min", "ended_at_max",
    "rto_ms_min", "rto_ms_max", "is_open", "phases",
}  # fmt: skip


def lastack(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"COLUMNS": "160", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pipelines", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environ, check=False)


def ours(home: Path) -> list[str]:
    """The command lines of processes that work in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(home) in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bootstrap", "127.0.0.1:1", "--for", "20s"], "refused"),
        (["--bootstrap", "127.0.0.1", "--for", "20s"], "HOST:PORT"),
        (["--bootstrap", "127.0.0.1:1", "--for", "soon"], "--for"),
        (["--bootstrap", "127.0.0.1:1", "--for", "1s"], "at least"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--command-config", "not-there.properties"], "not-there.properties"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--command-config", sys.executable], "is not a text"),
        (["--bootstrap", "127.0.0.1:1", "--for", "1000000h"], "too long"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--json", "/"], "is a folder"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--json", "not-there/out.json"], "not-there is not a folder"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--controller", "garbage"], "--controller: "),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--controller-config", "x"], "there is no --controller"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--metadata-log", "not-there"], "--metadata-log not-there"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--jolokia", "garbage"], "Jolokia URL 'garbage'"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--jolokia", "http://h:99999/jolokia"], "cannot be read"),
        (["--bootstrap", "127.0.0.1:1", "--for", "20s", "--zookeeper", "h:99999/kafka"], "--zookeeper 'h:99999/kafka': not an address"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    ended = lastack("measure", *arguments)
    assert ended.returncode == 2
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("lastack: ")
    assert said in lines[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--bootstrap", "user:s3cret@127.0.0.1:1"),
        ("--bootstrap", "http://user:s3cret@127.0.0.1:1"),
        ("--jolokia", "http://user:s3cret@127.0.0.1:1/jolokia"),
        ("--zookeeper", "user:s3cret@127.0.0.1:1/kafka"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(option: str, value: str) -> None:
    arguments = {"--bootstrap": "127.0.0.1:1", "--for": "20s", option: value}
    ended = lastack("measure", *(word for pair in arguments.items() for word in pair))
    assert ended.returncode == 2
    assert "has an @ in it" in ended.stderr
    assert "s3cret" not in ended.stdout + ended.stderr


def test_a_home_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = lastack("demo", "--once", "--home", str(tmp_path / "file"))
    assert (ended.returncode, len(ended.stderr.strip().splitlines())) == (2, 1), ended.stderr
    assert "--home" in ended.stderr


def test_a_secured_cluster_is_measured_with_its_client_properties_and_a_wrong_password_is_one_line(tmp_path: Path) -> None:
    with Lab(LabSpec(login=Login.new("SCRAM-SHA-512")), say=lambda _: None) as lab:
        wrong = tmp_path / "wrong.properties"
        wrong.write_text(lab.client_properties.read_text().replace('password="', 'password="not-'))
        refused = lastack("measure", "--bootstrap", lab.secure_bootstrap, "--for", "20s", "--command-config", str(wrong))
        assert refused.returncode == 2, refused.stdout
        assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr

        for option, wrong_place, said in (
            ("--controller", lab.bootstrap.split(",")[0], "a broker's listener, not a controller's"),
            ("--metadata-log", str(tmp_path), "no __cluster_metadata-0 in it"),
        ):
            refused = lastack("measure", "--bootstrap", lab.bootstrap, "--for", "20s", option, wrong_place)
            assert refused.returncode == 2, refused.stdout
            assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
            assert said in refused.stderr

        document, home = tmp_path / "out.json", tmp_path / "home"
        ended = lastack(
            "measure", "--bootstrap", lab.secure_bootstrap, "--for", "20s", "--command-config", str(lab.client_properties),
            "--json", str(document), "--home", str(home), timeout=400,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        found = json.loads(document.read_text())
        kinds = {(one["kind"], one["lane"]) for one in found["coverage"]}
        assert {("write", "raw"), ("durable_write", "raw"), ("durable_write", "client"), ("read", "read"), ("leader", "watch")} <= kinds
        assert found["cluster"] == lab.cluster_id
        secret = lab.client_properties.read_text().partition('password="')[2].partition('"')[0]
        assert secret
        leaks = [path for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert leaks == []
        assert ours(home) == []


def test_the_demo_measures_a_real_kill_writes_its_document_and_leaves_no_process_behind(tmp_path: Path) -> None:
    document, home = tmp_path / "demo.json", tmp_path / "home"
    ended = lastack("demo", "--once", "--json", str(document), "--home", str(home), timeout=580)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(document.read_text())
    raw = [one for one in found["outages"] if one["lane"] == "raw"]
    assert {one["kind"] for one in raw} == {"write", "durable_write"}
    assert all(set(one) >= OUTAGE_KEYS for one in found["outages"])
    longest = max(raw, key=lambda one: one["rto_ms_min"])
    assert 5_000 < longest["rto_ms_min"] <= longest["rto_ms_max"] < 90_000
    assert [one for one in found["losses"] if one["verdict"] == "LOST"] == []
    assert "PRESENT" in ended.stdout
    assert "RTO" in ended.stdout
    assert ours(home) == []
