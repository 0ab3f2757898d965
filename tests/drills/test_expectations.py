"""An expectation is a table, a selector and claims; each of them can be missed."""

import pytest

from pipelines.drills import marked
from pipelines.drills.expectations import judge, read_expectation
from pipelines.drills.records import Consumed
from tests.drills.histories import BACK_AT, SECOND, acks, history, loss, on_disk, outage, with_rows, with_witness


@pytest.fixture
def ask(tmp_path):
    def of(text, found=None):
        path = tmp_path / "expect.yml"
        path.write_text(text)
        expectation = read_expectation(marked.read(path), {"victim"}, {"kill", "start", "victim"})
        return judge(expectation, found or history())

    return of


@pytest.mark.parametrize(
    "text",
    [
        "outages: {where: {topic: canary-durable}, rows: 2}",
        "outages: {where: {topic: canary-durable, kind: durable_write}, rows: {min: 1, max: 2}}",
        "outages: {where: {topic: canary-durable}, partitions: with victim in the ISR}",
        "outages: {where: {topic: canary-durable, partition: 0}, each: {rto_ms: {min: 8000, max: 9200}, leader_before: victim}}",
        "outages: {where: {leader_before: victim, since: kill, before: start}, rows: 3}",
        "outages: {where: {since: start}, rows: 0}",
        "outages: {each: {cause: [leader_failed, isr_member_dead], detection_ms: known, lost_records_max: 'null'}}",
        "outages: {where: {codes: NOT_LEADER_OR_FOLLOWER}, rows: 3}",
        "losses: {rows: 0}",
        "witnesses: {where: {topic: witness-all}, each: {gone: 0, acks: -1, longest_silence_ms: {min: 8000}}}",
    ],
)
def test_what_is_true_is_met(ask, text):
    assert ask(text).holds, ask(text).line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outages: {where: {topic: canary-durable}, rows: 1}", "2 rows: canary-durable/0 durable_write raw"),
        ("outages: {where: {topic: nobody}}", "0 rows"),
        ("outages: {where: {topic: witness-all}, partitions: with victim in the ISR}", "no row of witness-all/1"),
        ("outages: {where: {topic: orders}, partitions: led by victim, rows: {min: 0}}", "no partition is led by victim"),
        ("outages: {each: {rto_ms: {min: 9000}}}", "rto_ms is [8850, 9150], not 9000 or more"),
        ("outages: {each: {rto_ms: {max: 9000}}}", "rto_ms is [8850, 9150], not 9000 or less"),
        ("outages: {each: {cause: leader_failed}}", "canary-durable/1 durable_write raw isr_member_dead: cause is isr_member_dead"),
        ("outages: {each: {leader_after: victim}}", "leader_after is 3"),
        ("outages: {each: {election_ms: known}}", "election_ms is not known"),
        ("outages: {each: {detection_ms: 'null'}}", "detection_ms is [8000, 8100]"),
        ("outages: {each: {lost_records_max: {max: 0}}}", "lost_records_max is None"),
        ("losses: {where: {verdict: LOST}}", "0 rows"),
        ("witnesses: {each: {gone: {min: 1}}}", "gone is 0, not 1 or more"),
    ],
)
def test_what_is_not_true_is_not_met_and_says_what_was_found(ask, text, said):
    found = ask(text)
    assert not found.holds
    assert said in found.found


def test_an_open_outage_has_no_upper_bound_and_meets_no_limit(ask):
    found = with_rows(history(), "gold.outages", [outage(rto_ms_max=None)])
    assert not ask("outages: {each: {rto_ms: {max: 99999}}}", found).holds
    assert ask("outages: {each: {rto_ms: {min: 8000}}}", found).holds


def test_rows_after_and_before_an_action_are_told_apart(ask):
    later = outage(started_at_min=BACK_AT + SECOND, started_at_max=BACK_AT + 2 * SECOND)
    found = with_rows(history(), "gold.outages", [outage(), later])
    assert ask("outages: {where: {since: start}, rows: 1}", found).holds
    assert ask("outages: {where: {since: victim, before: start}, rows: 1}", found).holds


def test_what_is_gone_is_a_table_as_well(ask):
    acked = acks()
    found = with_witness(history(), stored=on_disk(acked)[:50])
    assert ask("witnesses: {each: {gone: {min: 100}, gone_span_ms: {min: 10000}}}", found).holds


def test_what_a_consumer_had_read_and_is_gone_is_counted(ask):
    acked = acks()
    read = tuple(Consumed(*one) for one in acked[:60])
    found = with_witness(history(), stored=on_disk(acked)[:50], consumed=read)
    assert ask("witnesses: {each: {consumed_and_gone: {min: 10, max: 10}}}", found).holds
    assert not ask("witnesses: {each: {consumed_and_gone: {min: 1}}}").holds


def test_losses_are_dated_by_when_they_were_checked(ask):
    found = with_rows(history(), "gold.losses", [loss()])
    assert ask("losses: {where: {verdict: LOST, since: start}, rows: 1}", found).holds
    assert ask("losses: {where: {verdict: LOST, before: kill}, rows: 0}", found).holds
