"""All drills run one after the other, go on where they were stopped, and end with a table and JUnit XML."""

import io
import json
from dataclasses import asdict
from xml.etree import ElementTree

import pytest
from rich.console import Console

from pipelines.drills import plan, records
from pipelines.drills.claims import Claim
from pipelines.drills.runner import Verdict
from pipelines.drills.suite import BROKEN, FAILED, JUNIT, PASSED, RESULTS, Result, run_all
from pipelines.errors import LabError, LastackError

DRILLS = [plan.load("leader-killed"), plan.load("combined-node-killed")]


def result(drill, mode, *, holds=True):
    claims = (Claim("coverage", "80 % or more", "100 %" if holds else "3 %", holds),)
    return Result.of(Verdict(drill.name, mode, claims, 12.34, (8900.0, 9100.0), 0, None), None if holds else "kept/there")


def run(folder, run_one, **more):
    console = Console(file=io.StringIO(), width=200)
    is_passed = run_all(DRILLS, folder, run_one, console, **{"fresh": False, "modes": ("kraft",), **more})
    return is_passed, console.file.getvalue()


def test_every_drill_runs_in_every_mode_and_what_was_found_is_said(tmp_path):
    ran = []
    is_passed, said = run(tmp_path, lambda drill, mode: ran.append((drill.name, mode)) or result(drill, mode), modes=records.MODES)
    assert is_passed
    assert ran == [("leader-killed", "kraft"), ("leader-killed", "zookeeper"), ("combined-node-killed", "kraft")]
    assert "8.90-9.10 s" in said
    assert [one["verdict"] for one in json.loads((tmp_path / RESULTS).read_text())] == [PASSED] * 3


def test_a_second_call_goes_on_where_the_first_was_stopped_and_a_fresh_one_begins_anew(tmp_path):
    def stops(drill, mode):
        if drill.name == "combined-node-killed":
            raise KeyboardInterrupt
        return result(drill, mode)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stops)
    ran = []
    is_passed, _ = run(tmp_path, lambda drill, mode: ran.append(drill.name) or result(drill, mode))
    assert (is_passed, ran) == (True, ["combined-node-killed"])
    ran.clear()
    run(tmp_path, lambda drill, mode: ran.append(drill.name) or result(drill, mode), fresh=True)
    assert ran == ["leader-killed", "combined-node-killed"]


def test_a_drill_that_failed_or_could_not_run_is_not_passed_and_is_in_the_report(tmp_path):
    def run_one(drill, mode):
        if drill.name == "leader-killed":
            return result(drill, mode, holds=False)
        raise LabError("node 2 does not start")

    is_passed, said = run(tmp_path, run_one)
    assert not is_passed
    assert [one["verdict"] for one in json.loads((tmp_path / RESULTS).read_text())] == [FAILED, BROKEN]
    assert "leader-killed kraft: coverage: expected 80 % or more; found 3 %" in said
    assert "the evidence is in kept/there" in said
    assert "node 2 does not start" in said
    failures = ElementTree.parse(tmp_path / JUNIT).getroot().findall(".//failure")
    assert [one.attrib["message"] for one in failures] == [
        "expected 80 % or more; found 3 %",
        "expected a verdict; found node 2 does not start",
    ]


def test_results_that_are_not_ours_are_not_taken(tmp_path):
    (tmp_path / RESULTS).write_text(json.dumps([{**asdict(result(DRILLS[0], "kraft")), "verdikt": "passed"}]))
    with pytest.raises(LastackError, match="begin anew with --fresh"):
        run(tmp_path, result)
