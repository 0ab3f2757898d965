"""What does this one node say, a certain broker or a controller?

The rule: the question goes to the one address that is given, over our own wire, and to nobody else. A librdkafka client asks
whichever broker it likes, which in an outage may be the one that knows least; and it cannot ask a controller that is no broker
at all (it knows no `bootstrap.controllers`). A controller answers DescribeConfigs for the resource BROKER with its own node id on
its own listener (KIP-919).

Example: `settings_of("127.0.0.1:9093", 101)["process.roles"]` is "controller"; a secret's value is None.
"""

import asyncio
import time
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from pipelines.brokers.kafka.connection import Connection, addresses
from pipelines.brokers.kafka.metadata import Metadata, read_metadata
from pipelines.brokers.kafka.wire import Answer, Wire, error_name
from pipelines.errors import BrokerRefused

BROKER_RESOURCE = 4
TIMEOUT_SECONDS = 10.0


def settings_of(address: str, node_id: int, timeout: float = TIMEOUT_SECONDS) -> dict[str, str | None]:
    """The effective settings of the node that listens at HOST:PORT; None for a value that it keeps to itself.

    Raises BrokerRefused with Kafka's own code, or one of the wire's errors when there is no answer.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=None
    )
    answer = _ask(address, DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False), timeout)
    (result,) = answer.body.results
    if result.error_code:
        raise BrokerRefused(f"the settings of node {node_id} at {address}: {error_name(result.error_code)}")
    return {entry.name: None if entry.is_sensitive else entry.value for entry in result.configs}


def metadata_of(address: str, timeout: float = TIMEOUT_SECONDS) -> Metadata:
    """The whole cluster as the broker that listens at HOST:PORT tells it. Raises one of the wire's errors."""
    return read_metadata(_ask(address, MetadataRequest(topics=None, allow_auto_topic_creation=False), timeout))


def _ask(address: str, request: Any, timeout: float) -> Answer:
    return asyncio.run(_exchange(address, request, time.monotonic() + timeout))


async def _exchange(address: str, request: Any, deadline: float) -> Answer:
    wire = await Wire.open(addresses(address)[0], Connection.plain(address), deadline)
    try:
        return await wire.request(request, deadline)
    finally:
        wire.close()
