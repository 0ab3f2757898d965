"""Does every partition of a topic take a durable write? The only proof that a cluster serves.

The rule: a partition serves when a record sent with acks=all was acknowledged. A port that is open, a log line or a wait of
so many seconds prove nothing.

Example: `wait_for_writes(properties, "probe", partitions=6, timeout=60)` returns the seconds that it took.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipelines.errors import TimedOut

ATTEMPT_MS = 2_000
POLL_SECONDS = 0.05


def wait_for_writes(properties: Mapping[str, Any], topic: str, partitions: int, timeout: float) -> float:
    """Sends one record with acks=all to each partition until each was acknowledged; returns the seconds that it took.

    Raises TimedOut naming the partitions that never acknowledged and the last error of each.
    """
    producer = Producer(
        {
            **properties,
            "acks": "all",
            "linger.ms": 0,
            "enable.idempotence": False,
            "message.send.max.retries": 0,
            "message.timeout.ms": ATTEMPT_MS,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 0,
        }
    )
    begun = time.monotonic()
    waiting: dict[int, str] = dict.fromkeys(range(partitions), "no answer yet")
    to_send = set(waiting)

    def delivered(error: KafkaError | None, partition: int) -> None:
        if error is None:
            waiting.pop(partition, None)
        else:
            waiting[partition] = error.name()
            to_send.add(partition)

    while waiting:
        for partition in sorted(to_send):
            to_send.discard(partition)
            _send(producer, topic, partition, delivered)
        producer.poll(POLL_SECONDS)
        if waiting and time.monotonic() - begun > timeout:
            missing = ", ".join(f"{topic}-{number} ({problem})" for number, problem in sorted(waiting.items()))
            raise TimedOut(f"waited {timeout:g} s for a write with acks=all to be acknowledged on {missing}, in vain")
    return time.monotonic() - begun


def _send(producer: Producer, topic: str, partition: int, delivered: Callable[[KafkaError | None, int], None]) -> None:
    def report(error: KafkaError | None, _message: Message) -> None:
        delivered(error, partition)

    try:
        producer.produce(topic, b"lastack", partition=partition, on_delivery=report)
    except KafkaException as error:  # the partition is not known yet, or the local queue is full
        delivered(error.args[0], partition)
