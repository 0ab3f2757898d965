"""A drill's file is read strictly: what is misspelt is an error that names the file, the line and what is allowed."""

import pytest

from pipelines.drills import plan
from pipelines.errors import UsageError

GOOD = """\
title: A leader is killed
description: It dies.
modes: [kraft]
cluster:
  nodes: 3
  properties: {broker.session.timeout.ms: "6000"}
topics:
  ledger: {assignment: [[1, 2]], settings: {min.insync.replicas: "1"}}
witnesses:
  - {topic: ledger, acks: all}
steady-state-hypothesis: [served]
method:
  - {action: kill, target: leader of ledger/0, as: victim, until: [victim is fenced], within: 30}
rollbacks:
  - {action: start, target: victim}
expect:
  - outages: {where: {topic: ledger, since: kill}, partitions: led by victim, each: {rto_ms: {min: 1}, leader_before: victim}}
"""


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "drill.yml"
        path.write_text(text)
        return plan.read_drill(path)

    return read_text


def test_a_drill_is_what_its_file_says(read):
    drill = read(GOOD)
    assert drill.spec("kraft").properties == {"broker.session.timeout.ms": "6000"}
    assert drill.topics[0].assignment == ((1, 2),)
    assert [(one.topic, one.acks) for one in drill.witnesses] == [("ledger", -1)]
    step = drill.method[0]
    assert (step.action, step.target, step.role, step.until, step.within_seconds) == (
        "kill",
        "leader of ledger/0",
        "victim",
        ("victim is fenced",),
        30,
    )
    expectation = drill.expect[0]
    assert (expectation.table, dict(expectation.where), expectation.since) == ("gold.outages", {"resource": "ledger"}, "kill")


@pytest.mark.parametrize("name", plan.names())
def test_every_drill_that_is_shipped_can_be_read_and_has_something_to_say(name):
    drill = plan.load(name)
    assert drill.expect
    assert drill.witnesses
    assert all(drill.cluster[mode] is not None for mode in drill.modes)


@pytest.mark.parametrize(
    ("right", "is_wrong", "line", "said"),
    [
        ("title: A", "titel: A", 1, "'titel' is not allowed here; allowed are cluster, coverage"),
        ("modes: [kraft]", "modes: [raft]", 3, "'raft' is not known; one of kraft, zookeeper"),
        ("nodes: 3", "brokers: 3", 5, "'brokers' is not allowed here"),
        ("action: kill", "action: kil", 13, "'kil' is not known; one of "),
        ("leader of ledger/0", "leader of the ledger", 13, "is no target; one of leader of TOPIC/P"),
        ("victim is fenced", "victim is dead", 13, "is no condition; one of served"),
        ("victim is fenced", "victom is fenced", 13, "'victom' is no role of an earlier step (victim)"),
        ("within: 30", "within: soon", 13, "expected a number"),
        ("within: 30", "limit: 30", 13, "'limit' is not allowed here"),
        ("target: victim}", "target: culprit}", 15, "'culprit' is no target"),
        ("action: start, target: victim", "action: start", 15, "start needs a target"),
        ("outages:", "outage:", 17, "'outage' is not allowed here; allowed are availability"),
        ("where: {topic", "where: {topik", 17, "'topik' is not allowed here"),
        ("rto_ms", "rto", 17, "'rto' is not allowed here"),
        ("since: kill", "since: terminate", 17, "'terminate' is not known; one of kill, start, victim"),
        ("{min: 1}", "{mim: 1}", 17, "'mim' is not allowed here; allowed are max, min"),
        ("led by victim", "led by everyone", 17, "'everyone' is no role"),
        ("led by victim", "near victim", 17, "says no partitions; one of led by ROLE"),
        ("topic: ledger, acks: all", "topic: leger, acks: all", 10, "'leger' is not known; one of ledger"),
        ("acks: all", "acks: some", 10, "'some' is not known; one of 1, all"),
        ("description: It dies.\n", "", 1, "'description' is missing"),
        ("title: A", "title: A\ntitle: A", 2, "'title' is here twice"),
        ("[served]", "[served", 12, "not YAML"),
        ("within: 30", "within: !!int many", 13, "cannot be read: invalid literal"),
        ("within: 30", "within: 2026-99-99", 13, "cannot be read: month must be"),
        ("within: 30", "within: " + "9" * 5000, 13, "cannot be read: "),
        ("within: 30", "within: .nan", 13, "expected a number, 0.1 or more, found '.nan'"),
        ("within: 30", "within: .inf", 13, "expected a number"),
        ("title: A", "coverage: 7\ntitle: A", 1, "expected a number, 0 to 1, found '7'"),
        ("title: A", "probers: 10\ntitle: A", 1, "expected a whole number, 1 to 9, found '10'"),
        ("modes: [kraft]", "modes: []", 3, "names no mode; one of kraft, zookeeper"),
        ("nodes: 3", "nodes: three", 5, "expected a whole number, 1 or more, found 'three'"),
        ("nodes: 3", "nodes: yes", 5, "expected a whole number"),
        ("nodes: 3", "network: maybe", 5, "expected true or false, found 'maybe'"),
        ("nodes: 3", "zones: [az1]", 5, "expected a mapping, found a list"),
        ("nodes: 3", "own_volume_mb: much", 5, "expected a whole number"),
        ("[[1, 2]]", "[]", 8, "an assignment is a list of partitions"),
        ("[[1, 2]]", "[[1, 1]]", 8, "each a list of different brokers"),
        ("acks: all", "acks: all, reads: perhaps", 10, "expected true or false"),
        ("{min: 1}", "{min: soon}", 17, "expected a number"),
        ("{min: 1}", "{min: 2, max: 1}", 17, "nothing lies within {min: 2, max: 1}"),
        ("partitions: led by victim", "rows: {min: 2, max: 1}", 17, "nothing lies within"),
    ],
)
def test_what_is_wrong_is_said_with_its_file_and_line(read, right, is_wrong, line, said):
    assert right in GOOD
    with pytest.raises(UsageError) as error:
        read(GOOD.replace(right, is_wrong, 1))
    assert str(error.value).startswith(f"drill.yml:{line}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe\x00", "it is not UTF-8"), (b"a: " + b"[" * 3000, "it is nested too deeply")])
def test_what_is_no_text_or_has_no_end_is_refused_with_its_file(tmp_path, content, said):
    path = tmp_path / "drill.yml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"drill.yml: not YAML: {said}"):
        plan.read_drill(path)


def test_a_drill_that_does_nothing_is_refused(read):
    with pytest.raises(UsageError, match="no step of the method does anything"):
        read(GOOD.replace("action: kill, target: leader of ledger/0, as: victim, until: [victim is fenced]", "until: [served]")
             .replace("rollbacks:\n  - {action: start, target: victim}\n", ""))  # fmt: skip


def test_a_drill_of_another_name_is_not_known():
    with pytest.raises(UsageError, match=r"there is no drill 'leader-kiled'; known are .*leader-killed"):
        plan.load("leader-kiled")


def test_a_mode_that_it_does_not_run_in_is_refused(read):
    with pytest.raises(UsageError, match="does not run in the mode zookeeper"):
        read(GOOD).spec("zookeeper")


def test_settings_of_one_mode_win_in_that_mode_only(read):
    text = GOOD.replace("modes: [kraft]", "modes: [kraft, zookeeper]").replace("  nodes: 3", "  nodes: 3\n  kraft: {nodes: 4}")
    drill = read(text)
    assert drill.cluster["kraft"]["nodes"] == 4
    assert drill.cluster["zookeeper"]["nodes"] == 3
