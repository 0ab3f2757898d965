"""What does a probe cost at least, when librdkafka carries it? The floor that the canary's own cost is held against.

The rule: a bare confluent-kafka producer, one record a probe, acks=all, linger 0, no retries, a delivery callback that does nothing
but count. The same partitions and the same rate as the canary, spread over the period in the same way; the loop looks for what is
due once a millisecond, as the canary's does. Everything that makes a probe a measurement is left out: no identity, no record, no
deadline, no lane. It is a process of its own, so its CPU time is its cost, librdkafka's threads included.

Example: `python -m pipelines.brokers.kafka.floor 127.0.0.1:9092 topic 100 10 10` writes 10,000 records a second for 10 s and prints
`{"issued": 100000, "acked": 100000, "in_time": 99870, "cpu_seconds": 6.1,
"seconds": 10.0, "errors": {}}`.
"""

import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field

from confluent_kafka import KafkaError, Message, Producer

VALUE = b"x" * 64
"""As long as a canary record."""
WARM_UP_SECONDS = 3.0
TICK_SECONDS = 0.001
IN_TIME_SECONDS = 0.05
"""As the canary counts it: later than its `stall_ms` is too late to be fair."""
FLUSH_SECONDS = 10.0


@dataclass(slots=True)
class Floor:
    """What was done, and the CPU time that it took."""

    issued: int = 0
    acked: int = 0
    in_time: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)


def run(bootstrap: str, topic: str, partitions: int, period_ms: float, seconds: float) -> Floor:
    """Produces for so many seconds after a warm-up, which is not counted."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "message.send.max.retries": 0,
            "enable.idempotence": False,
        }
    )
    _Loop(producer, topic, partitions, period_ms / 1000).run(WARM_UP_SECONDS)
    producer.flush(FLUSH_SECONDS)
    loop = _Loop(producer, topic, partitions, period_ms / 1000)
    began, cpu = time.monotonic(), time.process_time()
    loop.run(seconds)
    producer.flush(FLUSH_SECONDS)
    loop.floor.cpu_seconds = time.process_time() - cpu
    loop.floor.seconds = time.monotonic() - began
    loop.floor.errors["NOT_REPORTED"] = len(producer)
    return loop.floor


class _Loop:
    def __init__(self, producer: Producer, topic: str, partitions: int, period_seconds: float) -> None:
        self.floor = Floor()
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._step = period_seconds / partitions

    def run(self, seconds: float) -> None:
        producer, floor, step = self._producer, self.floor, self._step
        began = time.monotonic()
        until = began + seconds
        while (now := time.monotonic()) < until:
            while (due := began + floor.issued * step) <= now:
                try:
                    producer.produce(self._topic, value=VALUE, partition=floor.issued % self._partitions, on_delivery=self._delivered)
                except BufferError:
                    floor.errors["QUEUE_FULL"] += 1  # the brokers are far behind: it counts as issued, and is never acknowledged
                floor.issued += 1
                floor.in_time += now - due <= IN_TIME_SECONDS
            producer.poll(0)
            time.sleep(max(TICK_SECONDS, min(due - time.monotonic(), until - now)))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002 - librdkafka's own signature
        if error is None:
            self.floor.acked += 1
        else:
            self.floor.errors[error.name()] += 1


def main(arguments: list[str]) -> None:
    """Runs it and prints what came of it as one line of JSON: BOOTSTRAP TOPIC PARTITIONS PERIOD_MS SECONDS."""
    bootstrap, topic, partitions, period_ms, seconds = arguments
    floor = run(bootstrap, topic, int(partitions), float(period_ms), float(seconds))
    sys.stdout.write(json.dumps(asdict(floor) | {"errors": dict(floor.errors)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
