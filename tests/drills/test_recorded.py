"""The judge on recorded histories of real runs: two in which all that we said was true, and one in which it was not.

unclean-election: as conf/drills has it.
leader-killed: Kafka 4.3.1, KRaft, three combined nodes, the active controller killed with -9; three partitions of each witness.
two-brokers-down: the same with two brokers killed 7 s apart. At that time the rows called a partition down without a break although
it had been served for a second between the two, and did not speak of the acks=all writes that were refused below min.insync.replicas.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.drills.history import History
from pipelines.drills.judge import always

FOLDER = Path(__file__).parent / "recorded"
OUTAGES = "gold.outages"


def recorded(name):
    return History.parse(json.loads((FOLDER / f"{name}.json").read_text()))


def wrong(history):
    return {one.name for one in always(history, 0.8) if not one.holds}


def shifted(history, bound, by_us):
    """The history with another begin or end of each outage of the witnesses' topics."""
    names = (f"{bound}_at_min", f"{bound}_at_max")
    rows = [
        {**row, **{name: row[name] + by_us for name in names}} if row["resource"].startswith("witness") else row
        for row in history.rows(OUTAGES)
    ]
    return replace(history, tables={**history.tables, OUTAGES: rows})


@pytest.fixture(scope="module")
def killed():
    return recorded("leader-killed-kraft")


def test_all_that_was_said_of_a_killed_leader_is_true(killed):
    assert wrong(killed) == set()


def test_an_outage_that_is_said_to_end_a_second_later_than_it_did_is_wrong(killed):
    later = shifted(killed, "ended", 1_000_000)
    assert wrong(later) == {"witness-all: never down while it served", "witness-one: never down while it served"}


def test_an_outage_that_is_said_to_begin_half_a_second_early_is_wrong(killed):
    early = shifted(killed, "started", -500_000)
    assert wrong(early) == {"witness-all: never down while it served", "witness-one: never down while it served"}


def test_an_outage_that_is_said_to_end_four_seconds_early_is_wrong(killed):
    short = shifted(killed, "ended", -4_000_000)
    assert wrong(short) == {"witness-all: never silent for longer than we say", "witness-one: never silent for longer than we say"}


def test_a_fault_that_was_done_a_second_earlier_is_not_where_the_outages_begin(killed):
    act = killed.acts[0]
    earlier = {name: getattr(act, name) - 1_000_000 for name in ("before_at_us", "after_at_us", "verified_at_us")}
    assert "faults begin outages" in wrong(replace(killed, acts=(replace(act, **earlier), *killed.acts[1:])))


def test_a_service_between_two_outages_and_refused_durable_writes_convict_rows_that_do_not_know_of_them():
    assert wrong(recorded("two-brokers-down-kraft")) == {
        "witness-all: never down while it served",
        "witness-all: never silent for longer than we say",
    }


# --- an unclean election: 600 records and more, acknowledged with acks=all, are gone ----------------------------------

GONE = "ledger: what is gone is what we say"
READ_AND_GONE = "ledger: what was read and is gone is lost"


def of_losses(history, change):
    rows = [{**row, **change} if row["resource"] == "ledger" else row for row in history.rows("gold.losses")]
    return replace(history, tables={**history.tables, "gold.losses": [row for row in rows if row is not None]})


@pytest.fixture(scope="module")
def unclean():
    return recorded("unclean-election-kraft")


def test_what_was_said_of_an_unclean_election_is_true(unclean):
    assert sum(map(len, unclean.witnesses[0].gone().values())) >= 600
    assert wrong(unclean) == set()


def test_a_loss_that_is_not_said_or_is_said_wrongly_is_found(unclean):
    assert wrong(of_losses(unclean, {"verdict": "PRESENT"})) == {GONE, READ_AND_GONE}
    assert wrong(of_losses(unclean, {"records_min": 100_000})) == {GONE}
    assert wrong(of_losses(unclean, {"rpo_ms_min": 60_000.0})) == {GONE}
    assert wrong(of_losses(unclean, {"rpo_ms_max": 10.0})) == {GONE}
