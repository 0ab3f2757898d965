"""The metadata log is decoded as Kafka's own tool decodes it, and replayed as Kafka replays it."""

import base64
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.brokers.base import BadPosition, Decision
from pipelines.brokers.kafka.definitions import Definitions, Fields, UnknownRecord
from pipelines.brokers.kafka.metadata import topic_id_text
from pipelines.brokers.kafka.replay import Key, Replay
from pipelines.brokers.kafka.wire import uvarint
from pipelines.domain.observations import ControlEvent
from tests.brokers.kafka_logs import GOLDEN, batch, definitions, golden_batches

TOPIC = uuid.UUID(int=7)
NOW = 1_795_000_000_000


@pytest.fixture(scope="module")
def defined() -> Definitions:
    return definitions()


@pytest.fixture
def replay(defined: Definitions) -> Replay:
    """A cluster with the topic orders, of one partition that is led by 2 in epoch 4."""
    made = Replay(defined)
    made.apply(
        batch(
            0,
            NOW,
            [
                record(defined, "TopicRecord", 0, name="orders", topic_id=TOPIC),
                partition(defined, leader=2, leader_epoch=4, isr=[2, 3, 1], replicas=[2, 3, 1]),
            ],
        )
    )
    return made


def record(defined: Definitions, kind: str, version: int, /, **fields: Any) -> bytes:
    definition = defined.message(kind)
    head = bytes((1, definition.api_key, version))
    return head + definition.encode(fields, version)


def partition(defined: Definitions, **fields: Any) -> bytes:
    whole = {"partition_id": 0, "topic_id": TOPIC, "removing_replicas": [], "adding_replicas": [], "partition_epoch": 0}
    return record(defined, "PartitionRecord", 2, directories=[], **whole, **fields)


def change(defined: Definitions, **fields: Any) -> bytes:
    return record(defined, "PartitionChangeRecord", 2, partition_id=0, topic_id=TOPIC, **fields)


def no_op() -> bytes:
    return bytes((1, Key.NO_OP, 0))


# --- held against Kafka's own tool --------------------------------------------------------------------------------------


def test_every_record_of_a_real_log_is_decoded_as_kafka_s_dump_decodes_it(defined: Definitions) -> None:
    dumped = {line["offset"]: line for line in map(json.loads, (GOLDEN / "unclean-election" / "dump.jsonl").open())}
    seen = 0
    for one in golden_batches("unclean-election", "00000000000000000000.log"):
        for index, (_, value) in enumerate(one.records):
            expected = dumped.pop(one.base_offset + index)
            assert expected["timestamp_ms"] == one.timestamp_ms
            ours = decoded(defined, one.is_control, value or b"")
            assert_says(ours, expected["data"])
            seen += 1
    assert (seen, dumped) == (122, {})


def decoded(defined: Definitions, is_control: bool, value: bytes) -> Fields:
    if is_control:
        return defined.message("LeaderChangeMessage").decode(value, int.from_bytes(value[:2]))
    view = memoryview(value)
    _, position = uvarint(view, 0)
    api_key, position = uvarint(view, position)
    version, position = uvarint(view, position)
    return defined.record(api_key, version, view[position:])


def assert_says(ours: Any, dumped: Any) -> None:
    """The dump leaves defaults out, names fields inCamelCase and prints ids and bytes as base64."""
    if isinstance(dumped, dict):
        for name, value in dumped.items():
            assert_says(ours[re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()], value)
    elif isinstance(dumped, list):
        assert len(ours) == len(dumped)
        for mine, theirs in zip(ours, dumped, strict=True):
            assert_says(mine, theirs)
    elif isinstance(ours, uuid.UUID):
        assert base64.urlsafe_b64encode(ours.bytes).decode().rstrip("=") == dumped
    elif isinstance(ours, bytes):
        assert base64.b64encode(ours).decode() == dumped
    else:
        assert ours == dumped


def test_a_real_history_gives_each_decision_with_what_was_before_it(defined: Definitions) -> None:
    made = Replay(defined)
    decisions = [one for each in golden_batches("unclean-election", "00000000000000000000.log") for one in made.apply(each)]

    (unclean,) = [one for one in decisions if one.is_unclean]
    assert unclean == Decision(
        event="partition_changed",
        position="83",
        started_at_us=1_795_236_073_101_000,
        ended_at_us=1_795_236_073_101_999,
        stamped_by="3",
        resource="unclean",
        topic_id="ALfAnPxWSyeBVCKtrZDo6Q",
        shard="0",
        leader="2",
        previous_leader="1",
        term=1,
        isr=("2",),
        previous_isr=("1",),
        replicas=("1", "2"),
        eligible_replicas=(),
        is_unclean=True,
    )
    controllers = [(one.position, one.previous_leader, one.leader, one.term) for one in decisions if one.event == "controller_changed"]
    assert controllers == [("0", None, "3", 1), ("116", "3", "1", 2)]
    assert [one.broker for one in decisions if one.event == "broker_fenced"] == ["2", "1", "3"]
    assert sum(one.event == "partition_removed" for one in decisions) == 6
    elr = next(one for one in decisions if one.position == "86")
    assert (elr.isr, elr.eligible_replicas, elr.is_unclean) == (("3",), ("1",), False)
    (silent,) = [one for one in decisions if one.event == ControlEvent.CONTROLLER_SILENT]
    # Controller 3 was terminated: its last write, by its own clock, and the longest pause that it had made.
    assert (silent.broker, silent.stamped_by, silent.position) == ("3", "3", "116")
    assert silent.ended_at_us - silent.started_at_us == 508_999


def test_a_snapshot_is_the_state_that_the_log_leads_to(defined: Definitions) -> None:
    by_log, by_snapshot = Replay(defined), Replay(defined)
    for one in golden_batches("snapshots", "00000000000000000000.log"):
        if one.next_offset <= 68:
            by_log.apply(one)
    snapshot = golden_batches("snapshots", "00000000000000000068-0000000001.checkpoint")

    assert by_snapshot.load(snapshot, 68, 1) == []
    assert by_snapshot.state == by_log.state
    assert (by_snapshot.next_offset, by_snapshot.epoch) == (68, 1)


def test_a_later_snapshot_tells_what_was_decided_in_between_with_bounds_as_wide(defined: Definitions) -> None:
    made = Replay(defined)
    made.load(golden_batches("snapshots", "00000000000000000035-0000000001.checkpoint"), 35, 1)
    since_ms = made.timestamp_ms
    decisions = made.load(golden_batches("snapshots", "00000000000000000068-0000000001.checkpoint"), 68, 1)

    assert since_ms is not None
    assert {one.event for one in decisions} == {"partition_created"}
    assert {one.position for one in decisions} == {"67"}
    assert all(one.started_at_us == since_ms * 1000 < one.ended_at_us for one in decisions)


# --- leader epochs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "leader", "term", "is_unclean"),
    [
        ({"isr": [3, 1]}, "2", 4, None),
        ({"isr": [3, 1], "leader": 3}, "3", 5, False),
        ({"leader": 2}, "2", 5, False),
        ({"isr": [], "leader": -1}, None, 5, None),
        ({"isr": [9], "leader": 9, "leader_recovery_state": 1}, "9", 5, True),
        # A reassignment may bring the new leader into the ISR by the very record that names it: clean.
        ({"isr": [9], "leader": 9, "replicas": [9]}, "9", 5, False),
        ({"leader_recovery_state": 0}, "2", 4, None),
    ],
)
def test_the_epoch_rises_with_every_record_that_names_a_leader(
    replay: Replay, defined: Definitions, fields: Fields, leader: str | None, term: int, is_unclean: bool | None
) -> None:
    (decision,) = replay.apply(batch(2, NOW + 5, [change(defined, **fields)]))

    assert (decision.leader, decision.term, decision.is_unclean) == (leader, term, is_unclean)
    assert (decision.previous_leader, decision.previous_isr) == ("2", ("2", "3", "1"))
    assert (decision.started_at_us, decision.ended_at_us) == ((NOW + 5) * 1000, (NOW + 5) * 1000 + 999)


def test_cleared_eligible_replicas_are_gone(replay: Replay, defined: Definitions) -> None:
    replay.apply(batch(2, NOW, [change(defined, eligible_leader_replicas=[1])]))
    replay.apply(batch(3, NOW, [record(defined, "ClearElrRecord", 0, topic_name="")]))

    (decision,) = replay.apply(batch(4, NOW, [change(defined, isr=[2])]))
    assert decision.eligible_replicas == ()


def test_a_broker_that_registers_again_before_it_is_fenced_is_fenced_by_that(replay: Replay, defined: Definitions) -> None:
    fields = {
        "incarnation_id": TOPIC,
        "broker_epoch": 1,
        "end_points": [],
        "features": [],
        "rack": None,
        "is_migrating_zk_broker": False,
    }
    register = record(defined, "RegisterBrokerRecord", 4, broker_id=1, fenced=True, in_controlled_shutdown=False, **fields)
    unfence = record(defined, "BrokerRegistrationChangeRecord", 3, broker_id=1, broker_epoch=1, fenced=-1)
    shut_down = record(defined, "BrokerRegistrationChangeRecord", 3, broker_id=1, broker_epoch=1, in_controlled_shutdown=1)

    told = [
        [one.event for one in replay.apply(batch(offset, NOW, [value]))]
        for offset, value in enumerate((register, unfence, shut_down, shut_down, register), start=2)
    ]
    assert told == [
        ["broker_registered"],
        ["broker_unfenced"],
        ["broker_shutting_down"],
        [],
        ["broker_registered", "broker_fenced"],
    ]


# --- transactions ---------------------------------------------------------------------------------------------------------


def test_records_of_a_transaction_count_when_it_ends(replay: Replay, defined: Definitions) -> None:
    begin = record(defined, "BeginTransactionRecord", 0, name=None)
    end = record(defined, "EndTransactionRecord", 0)

    assert replay.apply(batch(2, NOW, [begin, change(defined, leader=3)])) == []
    assert replay.saved() is None
    (decision,) = replay.apply(batch(4, NOW + 9, [end]))

    assert (decision.position, decision.started_at_us, decision.term) == ("3", (NOW + 9) * 1000, 5)


def test_records_of_an_aborted_transaction_never_count(replay: Replay, defined: Definitions) -> None:
    begin = record(defined, "BeginTransactionRecord", 0, name=None)
    abort = record(defined, "AbortTransactionRecord", 0, reason=None)

    replay.apply(batch(2, NOW, [begin, change(defined, leader=3), abort]))
    (decision,) = replay.apply(batch(5, NOW, [change(defined, isr=[2])]))

    assert (decision.leader, decision.term) == ("2", 4)


# --- silence --------------------------------------------------------------------------------------------------------------


def idle(replay: Replay, gaps: list[int]) -> Iterator[Decision]:
    offset, now = replay.next_offset, NOW
    for gap in gaps:
        now += gap
        yield from replay.apply(batch(offset, now, [no_op()]))
        offset += 1


def test_a_gap_of_more_than_twice_the_usual_is_a_silent_controller(replay: Replay) -> None:
    silent, resumed = idle(replay, [500] * 10 + [2800] + [500] * 3)

    assert silent.event == "controller_silent"
    # Its last write, and the longest pause that it usually makes.
    assert (silent.started_at_us, silent.ended_at_us) == ((NOW + 5000) * 1000, (NOW + 5500) * 1000 + 999)
    assert (resumed.event, resumed.started_at_us) == ("controller_resumed", (NOW + 7800) * 1000)


@pytest.mark.parametrize("gaps", [[500] * 10 + [1400], [5000] * 10, [500, 500, 9000], [500] * 10 + [-3000]])
def test_gaps_that_are_usual_here_or_cannot_be_judged_yet_are_no_silence(replay: Replay, gaps: list[int]) -> None:
    assert list(idle(replay, gaps)) == []


# --- what it does not know ------------------------------------------------------------------------------------------------


def test_a_record_that_is_newer_than_the_definitions_is_an_error_and_no_guess(replay: Replay, defined: Definitions) -> None:
    newer = bytes((1, Key.PARTITION_CHANGE, 99)) + change(defined, leader=3)[3:]
    with pytest.raises(UnknownRecord, match=r"PartitionChangeRecord in version 99, .* up to 2"):
        replay.apply(batch(2, NOW, [newer]))


def test_records_that_do_not_matter_here_are_not_even_looked_at(replay: Replay) -> None:
    secret = bytes((1, 11, 99)) + b"\xff" * 8
    assert replay.apply(batch(2, NOW, [secret])) == []


def test_what_is_saved_is_gone_on_from(replay: Replay, defined: Definitions) -> None:
    other = Replay(defined)
    other.restore(replay.saved() or "")

    assert other.state == replay.state
    following = batch(2, NOW + 1, [change(defined, leader=3)])
    assert other.apply(following) == replay.apply(following)


@pytest.mark.parametrize("saved", ["", "[]", "{}", '{"state": {"format": 2}}', '{"state": {"format": 1}}'])
def test_what_cannot_be_gone_on_from_is_said(replay: Replay, saved: str) -> None:
    with pytest.raises(BadPosition):
        replay.restore(saved)


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    assert topic_id_text(uuid.UUID("0370f6f6-0c1e-426a-842c-3edeaa093638")) == "A3D29gweQmqELD7eqgk2OA"
    assert topic_id_text(uuid.UUID(int=0)) is None
