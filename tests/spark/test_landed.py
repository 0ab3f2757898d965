"""`lastack derive`: a landing that somebody else wrote, derived by the program itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.histories import History, kill_of_broker_2, land

pytestmark = pytest.mark.spark

PLACE = {"resource": "queue", "shard": "0", "kind": "write", "lane": "raw"}


def test_a_landing_of_any_collector_is_derived_and_left_as_it_is(tmp_path: Path) -> None:
    other = History("another")
    other.probes(PLACE, "ACKED", 0, 100, 1_790_000_000_000_000)
    other.probes(PLACE, "REJECTED", 100, 50, 1_790_000_010_000_000)
    landing, result = tmp_path / "landing", tmp_path / "result.json"
    land(kill_of_broker_2().lines(), landing, "kill")
    land(["garbage", *other.lines()], landing, "other")
    (landing / ".unfinished.part").write_text("not read")
    before = {path.name: path.read_bytes() for path in landing.iterdir()}

    command = [sys.executable, "-m", "pipelines", "derive", str(landing), "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=Path(__file__).parents[2])

    assert done.returncode == 1, "a line was refused" + done.stderr
    assert "other.jsonl: not a JSON object" in done.stdout
    assert {path.name: path.read_bytes() for path in landing.iterdir()} == before
    found = json.loads(result.read_text())
    assert (found["refused"]["lines"], found["refused"]["examples"][0]["line"]) == (1, "garbage")
    another, history = found["clusters"]
    (outage,) = another["outages"]
    assert (outage["topic"], outage["is_open"], outage["rto_ms_max"]) == ("queue", True, None)
    assert outage["rto_ms_min"] >= 4_900
    assert len(history["outages"]) > 10
    assert {one["verdict"] for one in history["losses"]} == {"PRESENT"}
