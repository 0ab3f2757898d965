"""How are transactions written, some of them aborted? For drills: control records and aborted data are gaps that are no loss.

Example: `write_transactions({"bootstrap.servers": "127.0.0.1:9092"}, "orders", transactions=10, records=20)` commits five
transactions of 20 records and aborts five.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from pipelines.errors import BrokerRefused

TIMEOUT_SECONDS = 30.0


def write_transactions(properties: Mapping[str, Any], topic: str, transactions: int, records: int) -> int:
    """Writes so many transactions of so many records and aborts every second one; returns how many were committed."""
    producer = Producer({**properties, "transactional.id": f"lastack-{uuid.uuid4().hex}", "log_level": 0})
    committed = 0
    try:
        producer.init_transactions(TIMEOUT_SECONDS)
        for number in range(transactions):
            producer.begin_transaction()
            for index in range(records):
                producer.produce(topic, f"transaction {number} record {index}".encode())
            producer.flush(TIMEOUT_SECONDS)
            if number % 2:
                producer.abort_transaction(TIMEOUT_SECONDS)
            else:
                producer.commit_transaction(TIMEOUT_SECONDS)
                committed += 1
    except KafkaException as error:
        raise BrokerRefused(f"transactions on the topic {topic}: {error.args[0].name()}: {error.args[0].str()}") from error
    return committed
