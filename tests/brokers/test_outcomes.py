"""What a failed request means for a probe: the table, code by code."""

import pytest
from confluent_kafka import KafkaError

from pipelines.brokers.kafka import codes
from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.stock_client import outcome_of
from pipelines.brokers.kafka.wire import ConnectionLost, NoAnswer, NotKafka, NotLetIn, NotReached, NotSupported

HERE = Address("127.0.0.1", 9092)


def test_no_code_is_in_two_classes() -> None:
    classes = [codes.REFUSED_BEFORE_APPEND, codes.MAYBE_APPENDED, codes.OUR_OWN]

    assert sum(map(len, classes)) == len(frozenset().union(*classes))


def test_every_code_is_one_of_kafkas_or_of_our_own_wire() -> None:
    from pipelines.brokers.kafka.wire import error_name

    known = {error_name(number) for number in range(-1, 135)} | {"AUTHENTICATION_FAILED"}

    assert frozenset().union(codes.REFUSED_BEFORE_APPEND, codes.MAYBE_APPENDED, codes.OUR_OWN) <= known


@pytest.mark.parametrize(
    ("code", "write", "read"),
    [
        ("NOT_LEADER_OR_FOLLOWER", "REJECTED", "REJECTED"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "UNKNOWN", "REJECTED"),
        ("REQUEST_TIMED_OUT", "UNKNOWN", "REJECTED"),
        ("KAFKA_STORAGE_ERROR", "UNKNOWN", "REJECTED"),
        ("TOPIC_AUTHORIZATION_FAILED", "VOID", "VOID"),
        ("CORRUPT_MESSAGE", "VOID", "REJECTED"),
        ("ERROR_4711", "UNKNOWN", "REJECTED"),
    ],
)
def test_a_brokers_code(code: str, write: str, read: str) -> None:
    assert (codes.of_write(code), codes.of_read(code)) == (write, read)


@pytest.mark.parametrize(
    ("error", "outcome", "is_refusal"),
    [
        (NotReached(HERE, "refused"), "REJECTED", True),
        (NotKafka(HERE, "hangs up"), "REJECTED", True),
        (ConnectionLost(HERE, "ended"), "REJECTED", True),
        (NotLetIn(HERE, "certificate", "TLS_FAILED"), "REJECTED", True),
        (NotLetIn(HERE, "password"), "VOID", True),
        (NotSupported(HERE, "too old"), "VOID", True),
        (NoAnswer(HERE, "silence"), "REJECTED", False),
    ],
)
def test_a_connection_that_was_not_made(error: Exception, outcome: str, is_refusal: bool) -> None:
    assert (codes.of_no_connection(error), codes.is_refusal(error)) == (outcome, is_refusal)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (KafkaError._MSG_TIMED_OUT, ("UNKNOWN", "_MSG_TIMED_OUT", False)),
        (KafkaError._TRANSPORT, ("UNKNOWN", "_TRANSPORT", False)),
        (KafkaError._UNKNOWN_PARTITION, ("REJECTED", "_UNKNOWN_PARTITION", False)),
        (KafkaError._QUEUE_FULL, ("VOID", "_QUEUE_FULL", False)),
        (KafkaError._AUTHENTICATION, ("VOID", "_AUTHENTICATION", False)),
        (KafkaError._OUTDATED, ("UNKNOWN", "_OUTDATED", False)),
        (6, ("REJECTED", "NOT_LEADER_OR_FOLLOWER", True)),
        (29, ("VOID", "TOPIC_AUTHORIZATION_FAILED", True)),
        (10, ("VOID", "MESSAGE_TOO_LARGE", True)),
        (7, ("UNKNOWN", "REQUEST_TIMED_OUT", True)),
    ],
)
def test_librdkafkas_errors_are_told_by_the_same_names(number: int, expected: tuple[str, str, bool]) -> None:
    assert outcome_of(KafkaError(number)) == expected
