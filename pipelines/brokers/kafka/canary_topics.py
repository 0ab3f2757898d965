"""Are the canary's topics there, and are they as a measurement needs them?

The rule: a topic that is missing is created. One that is there is never altered without leave (`may_alter`, the command line's
`--yes`): what does not fit is an error that says what would be changed. Needed are

- `cleanup.policy=delete`: compaction would remove records that were never lost;
- `message.timestamp.type=LogAppendTime`: each acknowledgement then carries the leader's clock;
- as many replicas as the cluster can give, up to three.

That some broker leads no partition, because the cluster has grown, is a warning: everything else can still be measured. It is mended
with `--yes`, too. `min.insync.replicas` is the cluster's own; below 2 the durable lane cannot promise what its name says, and a warning
says so.

Example: `lastack-canary-write` is compacted. Without leave: "topic lastack-canary-write: cleanup.policy is compact, needed is delete;
run again with --yes to have it changed, or name another --topic-prefix".
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.brokers.kafka.admin import Admin, PartitionState
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.placement import placement, uncovered
from pipelines.brokers.kafka.wire import WireError
from pipelines.errors import BrokerRefused, ConnectionFailed, UsageError

REPLICAS = 3
NEEDED = {"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
OPEN_SECONDS = 10.0
LED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the canary's records a broker keeps: what a read-back may still want to see. 128 MiB are 20 hours at a
    period of 100 ms, and two at 10 ms."""

    milliseconds: int = 7 * 24 * 3600 * 1000
    bytes: int = 128 * 1024 * 1024
    segment_bytes: int = 16 * 1024 * 1024


def fit_topics(
    connection: Connection, topics: Sequence[str], *, may_alter: bool, partitions_max: int, retention: Retention | None = None
) -> list[str]:
    """Creates the topics that are missing and checks the others. Returns warnings for people.

    Raises UsageError for a topic that does not fit, ConnectionFailed, Unauthorised.
    """
    racks = asyncio.run(_racks(connection))
    admin = Admin(connection.librdkafka())
    existing = admin.topics()
    kept = retention or Retention()
    settings = {
        **NEEDED,
        "retention.ms": str(kept.milliseconds),
        "retention.bytes": str(kept.bytes),
        "segment.bytes": str(kept.segment_bytes),
    }
    for topic in topics:
        if topic not in existing:
            _create(admin, topic, placement(racks, REPLICAS, partitions_max), settings)
    warnings = []
    for topic in topics:
        warnings += _check(admin, topic, racks, may_alter)
    return warnings


async def _racks(connection: Connection) -> dict[int, str | None]:
    cluster = Cluster(connection)
    try:
        metadata = await cluster.refresh(time.monotonic() + OPEN_SECONDS, ())
    except WireError as error:
        raise ConnectionFailed(f"{error}; check the address and whether the brokers run") from error
    finally:
        await cluster.close()
    return {node: broker.rack for node, broker in metadata.brokers.items()}


def _create(admin: Admin, topic: str, assignment: list[list[int]], settings: Mapping[str, str]) -> None:
    try:
        admin.create_assigned_topic(topic, assignment, settings)
    except BrokerRefused as error:
        if "TOPIC_ALREADY_EXISTS" not in str(error):
            raise
    admin.wait_until_led(topic, LED_SECONDS)


def _check(admin: Admin, topic: str, racks: Mapping[int, str | None], may_alter: bool) -> list[str]:
    states = admin.partitions(topic)
    settings = admin.topic_settings(topic)
    wrong = {name: value for name, value in NEEDED.items() if settings.get(name) != value}
    # Kafka wants every partition of a topic to have as many replicas as the others.
    replicas = len(states[0].replicas) if states else REPLICAS
    missing = uncovered([state.replicas for state in states], racks, replicas)
    if may_alter:
        if wrong:
            admin.alter_topic(topic, wrong)
        if missing:
            admin.add_partitions(topic, missing)
        wrong, missing = {}, []
    if wrong:
        found = ", ".join(f"{name} is {settings.get(name)}, needed is {value}" for name, value in wrong.items())
        raise UsageError(f"topic {topic}: {found}; run again with --yes to have it changed, or name another --topic-prefix")
    return [*_few_replicas(topic, states, racks), *_unled(topic, missing), *_not_durable(topic, settings, states)]


def _few_replicas(topic: str, states: Sequence[PartitionState], racks: Mapping[int, str | None]) -> list[str]:
    fewest, wanted = min((len(state.replicas) for state in states), default=0), min(REPLICAS, len(racks))
    if fewest >= wanted:
        return []
    return [f"topic {topic} has a partition with {fewest} replicas where {wanted} are possible: it fails when user topics would not"]


def _unled(topic: str, missing: Sequence[Sequence[int]]) -> list[str]:
    if not missing:
        return []
    brokers = ", ".join(str(one[0]) for one in missing)
    return [f"topic {topic} has no partition that broker {brokers} should lead; run with --yes to add one for each"]


def _not_durable(topic: str, settings: Mapping[str, str | None], states: Sequence[PartitionState]) -> list[str]:
    minimum = int(settings.get("min.insync.replicas") or 1)
    replicas = min((len(state.replicas) for state in states), default=0)
    if min(minimum, replicas) >= 2:
        return []
    return [f"topic {topic} has min.insync.replicas={minimum} and {replicas} replicas: acks=all does not promise two copies there"]
