"""What does an application live through that writes with librdkafka as it comes?

The rule: one producer for all partitions, as an application would have it, told nothing but where the cluster is and how it lets us
in. It retries, batches and waits as it likes; a probe is decided when its delivery report comes, or when its time is up; reports
that come later are late acknowledgements. Delivery reports are collected every few milliseconds (`tick`).

Example: the leader is killed; the producer sends again and again for nine seconds and delivers at last: UNKNOWN at one second,
and a late acknowledgement at nine.
"""

import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from pipelines.brokers.kafka import codes
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.leaders import Leaders
from pipelines.brokers.kafka.wire import error_name
from pipelines.brokers.probing import WAITING_FOR_ANSWER, Flight, Reply
from pipelines.domain.observations import Outcome

CLOSE_SECONDS = 1.0

OF_LIBRDKAFKA = {
    "_MSG_TIMED_OUT": Outcome.UNKNOWN,  # not delivered in message.timeout.ms; an attempt may have been stored
    "_TIMED_OUT": Outcome.UNKNOWN,  # the last attempt was sent and not answered
    "_TRANSPORT": Outcome.UNKNOWN,  # the connection ended with the request on its way
    "_PURGE_INFLIGHT": Outcome.UNKNOWN,  # given up while on its way, at our end
    "_FAIL": Outcome.UNKNOWN,
    "_TIMED_OUT_QUEUE": Outcome.REJECTED,  # never sent
    "_PURGE_QUEUE": Outcome.REJECTED,  # never sent, given up at our end
    "_UNKNOWN_TOPIC": Outcome.REJECTED,  # the cluster says that there is none
    "_UNKNOWN_PARTITION": Outcome.REJECTED,
    "_ALL_BROKERS_DOWN": Outcome.REJECTED,
    "_RESOLVE": Outcome.REJECTED,
    "_SSL": Outcome.REJECTED,
    "_QUEUE_FULL": Outcome.VOID,  # our own queue: too much was sent for what came back
    "_AUTHENTICATION": Outcome.VOID,
    "_INVALID_ARG": Outcome.VOID,
    "_BAD_MSG": Outcome.VOID,
    "_CRIT_SYS_RESOURCE": Outcome.VOID,
    "_STATE": Outcome.VOID,
    "_FATAL": Outcome.VOID,
}
"""librdkafka's own errors (their names begin with an underscore). One that is not listed is UNKNOWN, which is never wrong."""


def outcome_of(error: KafkaError) -> tuple[Outcome, str, bool]:
    """Outcome, code and whether a broker said it, of a delivery that failed."""
    name = error.name()
    if name.startswith("_"):
        return OF_LIBRDKAFKA.get(name, Outcome.UNKNOWN), name, False
    code = error_name(error.code())
    return codes.of_write(code), code, True


class StockClient:
    """The target of the client lane of one topic."""

    gone: frozenset[str] = frozenset()
    tick_seconds: float | None = 0.005

    def __init__(self, *, topic: str, connection: Connection, leaders: Leaders) -> None:
        self.topic = topic
        self._connection = connection
        self._leaders = leaders
        self._producer: Producer | None = None

    async def open(self, deadline: float) -> None:  # noqa: ARG002 - it connects when it is used, as in an application
        """Makes the producer."""
        self._producer = Producer(self._connection.librdkafka(), logger=logging.getLogger("lastack.librdkafka"))

    def issue(self, flights: Sequence[Flight]) -> None:
        """Hands each to the producer."""
        for flight in flights:
            # Whom it is sent to, and when, is the producer's business: leader and term stay unknown.
            flight.waits_for = WAITING_FOR_ANSWER
            flight.sent_ns = time.monotonic_ns()
            try:
                self._open_producer.produce(
                    self.topic,
                    value=flight.payload,
                    partition=int(flight.shard.shard),
                    on_delivery=functools.partial(_delivered, flight),
                )
            except BufferError:
                flight.land(Reply(Outcome.VOID, time.monotonic_ns(), "_QUEUE_FULL"))
            except KafkaException as error:
                outcome, code, is_answered = outcome_of(error.args[0])
                flight.land(Reply(outcome, time.monotonic_ns(), code, is_answered=is_answered))

    def overdue(self, flight: Flight) -> None:  # noqa: ARG002 - nothing can be done, and nothing should
        """The producer goes on as it likes."""
        self._leaders.suspect()

    def tick(self) -> None:
        """Collects delivery reports."""
        self._open_producer.poll(0)

    async def close(self) -> None:
        """Gives up what is not delivered."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(CLOSE_SECONDS)

    @property
    def _open_producer(self) -> Any:
        if self._producer is None:
            raise RuntimeError("the client lane is used before open()")
        return self._producer


def _delivered(flight: Flight, error: KafkaError | None, message: Message) -> None:
    at_ns = time.monotonic_ns()
    if error is not None:
        outcome, code, is_answered = outcome_of(error)
        flight.land(Reply(outcome, at_ns, code, is_answered=is_answered))
        return
    kind, stamp_ms = message.timestamp()
    offset = message.offset()
    flight.land(
        Reply(
            Outcome.ACKED,
            at_ns,
            None,
            is_answered=True,
            position=offset if offset is not None and offset >= 0 else None,
            server_at_us=stamp_ms * 1000 if kind == TIMESTAMP_LOG_APPEND_TIME else None,
        )
    )
