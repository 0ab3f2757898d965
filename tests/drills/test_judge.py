"""The judge believes what is true and catches what is not: the same history, with one thing wrong at a time."""

import json
from dataclasses import replace

import pytest

from pipelines.drills.history import Act, History
from pipelines.drills.judge import always
from pipelines.drills.records import Ack, CanaryAcks, Consumed, Stored
from tests.drills.histories import BACK_AT, KILLED_AT, SECOND, acks, history, loss, on_disk, outage, with_rows, with_witness


def wrong(found, coverage=0.8):
    """The names of the claims that do not hold."""
    return [one.name for one in always(found, coverage) if not one.holds]


def with_ack(at_ms, appended_ms):
    """The history, and one more record that was appended and acknowledged then."""
    found = history()
    witness = found.witnesses[0]
    more = Ack(0, 10_000, "one more", at_ms)
    stored = Stored(0, 10_000, "one more", appended_ms)
    return with_witness(found, acked=(*witness.acked, more), stored=(*witness.stored, stored))


def test_a_true_history_meets_every_claim():
    assert wrong(history()) == []


def test_a_history_says_the_same_after_it_was_written_and_read():
    found = History.parse(json.loads(json.dumps(history().document())))
    assert [one.line for one in always(found, 0.8)] == [one.line for one in always(history(), 0.8)]


def test_a_record_that_was_appended_while_the_leader_was_certainly_down_convicts_the_outage():
    assert "witness-all: never down while it served" in wrong(with_ack(15_005, 15_000))


def test_an_acknowledgement_that_comes_late_of_an_append_before_the_outage_proves_nothing():
    assert wrong(with_ack(10_400, 9_999)) == []


def test_an_append_within_the_bounds_of_the_start_or_the_end_proves_nothing():
    assert wrong(with_ack(10_045, 10_040)) == []
    assert wrong(with_ack(18_960, 18_950)) == []


def read(at_ms, appended_ms, *, is_there=True):
    """The history, and a record that was appended and that a consumer had then."""
    found = history()
    witness = found.witnesses[0]
    stored = (Stored(0, 10_000, "one more", appended_ms),) if is_there else ()
    return with_witness(found, stored=(*witness.stored, *stored), consumed=(Consumed(0, 10_000, "one more", at_ms),))


def test_a_record_that_was_appended_and_read_while_the_leader_was_certainly_down_convicts_the_outage():
    assert "witness-all: never down while it was read" in wrong(read(15_005, 15_000))


def test_what_was_read_long_after_its_append_proves_nothing_of_the_time_between():
    assert wrong(read(19_500, 9_900)) == []


def test_records_that_were_read_and_are_gone_are_lost():
    records = tuple(Consumed(0, 20_000 + at, f"gone {at}", at) for at in range(5_000, 9_000, 500))
    found = with_witness(history(), consumed=records)
    assert "witness-all: what was read and is gone is lost" in wrong(found)
    said = with_rows(found, "gold.losses", [loss(records_max=10)])
    assert "witness-all: what was read and is gone is lost" not in wrong(said)
    shorter = with_witness(history(), consumed=records[:3])
    assert "witness-all: what was read and is gone is lost" not in wrong(shorter)


def test_durable_writes_may_be_appended_before_the_last_replica_answers():
    stalled = [outage(kind="durable_write")]
    assert wrong(with_rows(with_ack(19_050, 15_000), "gold.outages", stalled)) == []
    assert "witness-all: never down while it served" in wrong(with_rows(with_ack(15_050, 15_000), "gold.outages", stalled))


def test_acks_1_are_not_held_against_durable_writes():
    found = with_rows(with_ack(15_005, 15_000), "gold.outages", [outage(kind="durable_write")])
    assert "witness-all: never down while it served" not in wrong(with_witness(found, acks=1))


def test_the_error_between_the_clocks_is_allowed_for():
    found = with_ack(10_062, 10_060)
    assert "witness-all: never down while it served" in wrong(found)
    assert wrong(replace(found, clock_error_us=20_000)) == []


@pytest.mark.parametrize("ended_at_max", [BACK_AT - 5 * SECOND, KILLED_AT + SECOND])
def test_a_silence_longer_than_our_upper_bound_convicts_it(ended_at_max):
    rows = [outage(ended_at_min=ended_at_max - 200_000, ended_at_max=ended_at_max)]
    assert "witness-all: never silent for longer than we say" in wrong(with_rows(history(), "gold.outages", rows))


def test_a_silence_that_we_never_saw_is_our_miss():
    assert wrong(with_rows(history(), "gold.outages", [])) == ["witness-all: never silent for longer than we say"]


def test_several_outages_may_explain_one_silence_together():
    first = outage(ended_at_max=KILLED_AT + 4 * SECOND, ended_at_min=KILLED_AT + 3 * SECOND)
    second = outage(kind="durable_write", started_at_min=KILLED_AT + 4 * SECOND, started_at_max=KILLED_AT + 4 * SECOND + 1)
    assert wrong(with_rows(history(), "gold.outages", [first, second])) == []


def test_an_outage_without_an_upper_bound_explains_any_silence():
    rows = [outage(ended_at_max=None, rto_ms_max=None)]
    assert wrong(with_rows(history(), "gold.outages", rows)) == []


def test_what_the_host_took_from_our_prober_it_may_have_taken_from_the_witness():
    short = [outage(ended_at_min=BACK_AT - 3 * SECOND, ended_at_max=BACK_AT - 3 * SECOND)]
    blind = [{"event": "blind", "happened_at_min": KILLED_AT, "happened_at_max": KILLED_AT + 3 * SECOND}]
    assert wrong(with_rows(history(), "gold.outages", short)) != []
    assert wrong(with_rows(with_rows(history(), "gold.outages", short), "silver.events", blind)) == []


# --- what is gone -----------------------------------------------------------------------------------------------------

GONE = "witness-all: what is gone is what we say"


def with_gone(count, **more):
    """The history without the last so many records before the kill on the disks."""
    acked = acks()
    last = sum(one.at_ms < 10_003 for one in acked)
    kept = [one for one in on_disk(acked) if not last - count <= one.offset < last]
    return with_witness(history(), stored=tuple(kept), **more)


def test_a_lost_row_without_a_lost_record_is_wrong():
    assert wrong(with_rows(history(), "gold.losses", [loss()])) == [GONE]


def test_committed_records_that_are_gone_and_that_nobody_calls_lost_are_wrong():
    assert wrong(with_gone(50)) == [GONE]


def test_records_that_were_gone_before_anybody_could_see_them_committed_may_go_unsaid():
    assert wrong(with_gone(10)) == []
    assert wrong(with_gone(50, acks=1)) == []


def test_fewer_lost_records_than_are_gone_are_at_least_so_many_and_more_are_wrong():
    assert wrong(with_rows(with_gone(50), "gold.losses", [loss(records_min=30)])) == []
    assert wrong(with_rows(with_gone(50), "gold.losses", [loss(records_min=51)])) == [GONE]
    assert wrong(with_rows(with_gone(50, failed=5), "gold.losses", [loss(records_min=51)])) == []


def test_a_span_that_cannot_be_is_wrong():
    for bounds in ({"rpo_ms_min": 7_000.0}, {"rpo_ms_max": 3_000.0}):
        assert wrong(with_rows(with_gone(50), "gold.losses", [loss(**bounds)])) == [GONE]
    for bounds in ({"rpo_ms_min": 4_000.0}, {"rpo_ms_max": 5_000.0}):
        assert wrong(with_rows(with_gone(50), "gold.losses", [loss(**bounds)])) == []


def test_an_outage_that_says_that_nothing_is_lost_while_acknowledged_records_are_gone_is_wrong():
    rows = [outage(lost_records_max=0)]
    assert wrong(with_rows(with_gone(5, acks=1), "gold.outages", rows)) == [GONE]
    assert wrong(with_rows(history(), "gold.outages", rows)) == []


def test_a_topic_that_is_no_more_has_no_truth():
    assert wrong(with_witness(with_gone(50), is_read=False)) == []


PURPOSE = "witness-all: what people delete is not lost"


def test_what_people_or_policies_delete_is_no_loss_and_must_not_be_called_one():
    deleted = Act("delete-records", "witness-all", "delete-records", KILLED_AT, KILLED_AT, KILLED_AT)
    for found in (replace(with_gone(50), acts=(deleted,)), with_gone(50, is_compacted=True)):
        assert wrong(found) == []
        assert wrong(with_rows(found, "gold.losses", [loss()])) == [PURPOSE]


CANARIES = "canaries: what we say is lost or present"


def canaries(rows, sequences=range(20), acked=range(20)):
    """The history with canaries on the disk at offsets of their own sequences, appended 300 ms apart from 0 s on."""
    records = [Stored(0, one, f"lastack1|b1|durable_write|raw|0|{one}|crc", one * 300) for one in sequences]
    runs = (CanaryAcks("canary-durable", "0", "b1", acked[0], acked[-1], acked[0]),) if acked else ()
    return replace(with_rows(history(), "gold.losses", rows), canaries={"canary-durable": records}, canary_acks=runs)


def canary_loss(**more):
    return loss("canary-durable", evidence="readback", **{"records_min": 4, "records_max": 4, **more})


def test_canaries_that_are_gone_are_called_lost_just_as_many_as_there_are():
    kept = [one for one in range(20) if one not in (5, 6, 7, 8)]
    assert wrong(canaries([canary_loss()], kept)) == []
    assert wrong(canaries([], kept)) == [CANARIES]
    assert wrong(canaries([canary_loss(records_max=3, records_min=3)], kept)) == [CANARIES]
    assert wrong(canaries([canary_loss(records_max=5, records_min=5)], kept)) == [CANARIES]
    assert wrong(canaries([canary_loss()])) == [CANARIES]


def test_a_canary_whose_place_another_one_has_taken_is_gone():
    found = canaries([canary_loss(records_min=1, records_max=1)])
    records = [one if one.offset != 7 else one._replace(value="lastack1|b1|durable_write|raw|0|700|crc") for one in _disk(found)]
    assert wrong(replace(found, canaries={"canary-durable": records})) == []


def test_canaries_below_the_begin_of_the_log_were_deleted_and_are_not_asked():
    assert wrong(canaries([], range(10, 20))) == []


def test_a_canary_that_was_never_acknowledged_is_not_missed():
    assert wrong(canaries([], range(5), acked=range(5))) == []
    assert wrong(canaries([], range(5), acked=range(6))) == [CANARIES]


def test_a_canary_that_is_called_present_is_there_and_was_appended_when_it_was_acknowledged():
    row = {"verdict": "PRESENT", "first_position": "17", "last_position": "19", "records_min": 0, "records_max": 0}
    assert wrong(canaries([canary_loss(**row)])) == []
    assert wrong(canaries([canary_loss(**{**row, "last_position": "25"})])) == [CANARIES]
    assert wrong(canaries([canary_loss(**{**row, "first_position": "3"})])) == [CANARIES]


def _disk(found):
    return found.canaries["canary-durable"]


# --- when it began ----------------------------------------------------------------------------------------------------


def test_an_outage_that_begins_after_the_fault_that_stopped_its_leader_is_wrong():
    late = outage("canary-durable", "0", "durable_write", "raw", started_at_min=KILLED_AT + 200_000, started_at_max=KILLED_AT + 300_000)
    rows = [outage(), late]
    assert wrong(with_rows(history(), "gold.outages", rows)) == ["faults begin outages"]


def test_an_outage_of_a_partition_that_the_target_has_nothing_to_do_with_may_begin_when_it_likes():
    late = outage("other", "7", "write", "raw", started_at_min=KILLED_AT + 200_000, started_at_max=KILLED_AT + 300_000)
    assert wrong(with_rows(history(), "gold.outages", [outage(), late])) == []


def test_an_outage_that_was_there_before_the_fault_is_wrong():
    early = outage("canary-durable", "0", "durable_write", "raw", started_at_min=5 * SECOND, started_at_max=6 * SECOND)
    assert wrong(with_rows(history(), "gold.outages", [outage(), early])) == ["nothing before the fault"]


def test_what_began_before_steady_state_is_not_asked():
    early = outage("canary-durable", "0", "durable_write", "raw", started_at_min=None, started_at_max=SECOND)
    assert wrong(with_rows(history(), "gold.outages", [outage(), early])) == []


def test_an_action_that_stops_nothing_at_once_begins_nothing():
    act = replace(history().acts[0], action="terminate", stops=False)
    late = outage("canary-durable", "0", "durable_write", "raw", started_at_min=KILLED_AT + 200_000, started_at_max=KILLED_AT + 300_000)
    assert isinstance(act, Act)
    assert wrong(with_rows(history(acts=(act,)), "gold.outages", [outage(), late])) == []


def test_time_that_was_not_measured_is_said():
    assert wrong(with_rows(history(), "gold.availability", [outage(coverage_ratio=0.5)])) == ["coverage"]
    assert wrong(with_rows(history(), "gold.availability", [])) == ["coverage"]
    assert wrong(with_rows(history(), "gold.availability", [outage(coverage_ratio=0.5)]), coverage=0.4) == []
