"""How is a Kafka cluster asked and changed as an operator does it: topics, settings, brokers?

The rule: a call returns what Kafka answered, or raises one of our errors that names the object and Kafka's own code. Nothing
that already exists is altered by the way: creating a topic that is there is an error, not an update.

Example: `Admin({"bootstrap.servers": "127.0.0.1:9092"}).create_topic("probe", partitions=6, replicas=3)` returns when the
controller has acknowledged it; `wait_until_led("probe", 30)` when every partition has a leader and its whole ISR.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from pipelines.errors import BrokerRefused, ConnectionFailed, LastackError, RetryableError, TimedOut, Unauthorised
from pipelines.processes import wait_until

TIMEOUT_SECONDS = 10.0
T = TypeVar("T")

# By the names that librdkafka gives; those that begin with an underscore are its own, the others are Kafka's.
_UNAUTHORISED = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
}
_NOT_REACHED = {"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE"}
_LOST_ON_OUR_SIDE = {"_DESTROY_BROKER"}
"""librdkafka dropped the connection for one of its own: a bootstrap address turned out to be a broker that it knows."""
_STALE = {"NOT_CONTROLLER"}
"""In ZooKeeper mode librdkafka asks the controller that it knows of, and looks for the new one only when metadata are asked for."""
RETRY_SECONDS = 0.2
KNOWN_SECONDS = 5.0
"""By then every broker knows a topic that the controller has made."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as the cluster's metadata shows it. `leader` is None while there is none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader is not None and set(self.isr) == set(self.replicas)


class Admin:
    """An operator's view of one cluster. Takes librdkafka's properties; `timeout` is the limit of a
    look at the metadata, in seconds."""

    def __init__(self, properties: Mapping[str, Any], timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._address = str(properties.get("bootstrap.servers", "?"))
        # librdkafka logs each refused connection to standard error; what matters comes back as an error of the call.
        self._client = AdminClient({**properties, "log_level": 0})

    def brokers(self) -> frozenset[int]:
        """The ids of the brokers that are registered and not fenced."""
        return frozenset(self._metadata(None).brokers)

    def cluster_id(self) -> str:
        """The cluster's own id."""
        return str(self._metadata(None).cluster_id)

    def topics(self) -> frozenset[str]:
        """The names of all topics that we may see."""
        return frozenset(self._metadata(None).topics)

    def partitions(self, topic: str) -> list[PartitionState]:
        """The partitions of a topic in order; empty when there is no such topic."""
        # The whole list is asked for: asking for a topic by its name would have a lenient broker create it.
        found = self._metadata(None).topics.get(topic)
        if found is None:
            return []
        if found.error is not None:
            raise _as_ours(found.error, f"the metadata of the topic {topic}", self._address)
        states = (
            PartitionState(number, one.leader if one.leader >= 0 else None, tuple(one.replicas), tuple(one.isrs))
            for number, one in found.partitions.items()
        )
        return sorted(states, key=lambda state: state.partition)

    def create_topic(
        self, topic: str, partitions: int, replicas: int, settings: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """Creates a topic. Raises BrokerRefused (TOPIC_ALREADY_EXISTS) when it is there."""
        self._create(NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(settings or {})), timeout)

    def create_assigned_topic(
        self, topic: str, assignment: list[list[int]], settings: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """Creates a topic whose partition `p` has the replicas `assignment[p]`, the preferred leader first."""
        new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment, config=dict(settings or {}))
        self._create(new, timeout)

    def _create(self, new: NewTopic, timeout: float) -> None:
        self._change(
            lambda: self._client.create_topics([new], operation_timeout=timeout, request_timeout=timeout)[new.topic],
            f"creating the topic {new.topic}",
            timeout,
            done_before="TOPIC_ALREADY_EXISTS",
        )

    def _change(self, ask: "Callable[[], Future[Any]]", what: str, timeout: float, done_before: str | None = None) -> None:
        """Asks until there is an answer or the time is over. `done_before`: what a second attempt is told when the first one took."""
        asked = 0

        def attempt() -> None:
            nonlocal asked
            asked += 1
            try:
                self._result(ask(), what, timeout)
            except BrokerRefused as error:
                if not (asked > 1 and done_before is not None and done_before in str(error)):
                    raise

        # The answer was lost, not the request; or another node was meant, which the metadata name.
        self._again_while(lambda error: isinstance(error, RetryableError), attempt, timeout)

    def _again_while(self, is_passing: Callable[[LastackError], bool], attempt: Callable[[], T], seconds: float) -> T:
        """Tries until it does not fail in a way that passes, at the longest for so many seconds; looks at the metadata in between."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return attempt()
            except LastackError as error:
                if not is_passing(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)
                with contextlib.suppress(ConnectionFailed, RetryableError):
                    self._metadata(None)

    def alter_topic(self, topic: str, settings: Mapping[str, str], timeout: float = TIMEOUT_SECONDS) -> None:
        """Sets these settings of a topic that exists and leaves its others alone."""
        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._change(
            lambda: self._client.incremental_alter_configs([resource], request_timeout=timeout)[resource],
            f"altering the settings of the topic {topic}",
            timeout,
        )

    def add_partitions(self, topic: str, assignment: list[list[int]], timeout: float = TIMEOUT_SECONDS) -> None:
        """Adds partitions with these replicas, the preferred leaders first, to a topic that exists."""
        count = len(self.partitions(topic)) + len(assignment)
        new = NewPartitions(topic, count, replica_assignment=assignment)
        self._change(
            lambda: self._client.create_partitions([new], operation_timeout=timeout, request_timeout=timeout)[topic],
            f"adding partitions to the topic {topic}",
            timeout,
            done_before="INVALID_PARTITIONS",
        )

    def delete_topic(self, topic: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Deletes a topic and returns when the metadata no longer shows it."""
        self._change(
            lambda: self._client.delete_topics([topic], operation_timeout=timeout, request_timeout=timeout)[topic],
            f"deleting the topic {topic}",
            timeout,
            done_before="UNKNOWN_TOPIC_OR_PART",
        )
        wait_until(lambda: topic not in self.topics(), timeout, f"the topic {topic} to be gone")

    def topic_id(self, topic: str, timeout: float = TIMEOUT_SECONDS) -> str:
        """The topic's id, in Kafka's own base64 form; a topic created anew under the same name has another."""
        answer = self._client.describe_topics(TopicCollection([topic]), request_timeout=timeout)[topic]
        return str(self._result(answer, f"describing the topic {topic}", timeout).topic_id)

    def broker_settings(self, broker: int, timeout: float = TIMEOUT_SECONDS) -> dict[str, str | None]:
        """The effective settings of a broker; None for a value that it keeps to itself (a password)."""
        return self._settings(ConfigResource(ResourceType.BROKER, str(broker)), f"the settings of broker {broker}", timeout)

    def topic_settings(self, topic: str, timeout: float = TIMEOUT_SECONDS) -> dict[str, str | None]:
        """The effective settings of a topic, defaults included. One that was just made need not be known to every broker yet."""
        return self._again_while(
            lambda error: isinstance(error, BrokerRefused) and "UNKNOWN_TOPIC_OR_PART" in str(error),
            lambda: self._settings(ConfigResource(ResourceType.TOPIC, topic), f"the settings of the topic {topic}", timeout),
            KNOWN_SECONDS,
        )

    def wait_until_led(self, topic: str, timeout: float) -> None:
        """Returns when every partition of a topic has a leader and its whole ISR. Raises TimedOut."""

        def is_led() -> bool:
            try:
                states = self.partitions(topic)
            except (ConnectionFailed, RetryableError):
                return False
            return bool(states) and all(state.is_whole for state in states)

        wait_until(is_led, timeout, f"a leader and the whole ISR for every partition of {topic}")

    def _settings(self, resource: Any, what: str, timeout: float) -> dict[str, str | None]:
        answer = self._client.describe_configs([resource], request_timeout=timeout)[resource]
        entries = self._result(answer, what, timeout)
        return {name: entry.value for name, entry in entries.items()}

    def _metadata(self, topic: str | None) -> Any:
        try:
            return self._client.list_topics(topic, timeout=self._timeout)
        except KafkaException as error:
            raise _as_ours(error.args[0], "the cluster's metadata", self._address) from error

    def _result(self, answer: "Future[Any]", what: str, timeout: float) -> Any:
        try:
            return answer.result(timeout + TIMEOUT_SECONDS)
        except FutureTimeout as error:
            raise TimedOut(f"waited {timeout:g} s for {what} at {self._address}, in vain") from error
        except KafkaException as error:
            raise _as_ours(error.args[0], what, self._address) from error


def _as_ours(error: Any, what: str, address: str) -> Exception:
    """Our error for one of Kafka's. It names what failed, where, and Kafka's own code."""
    text = f"{what} at {address}: {error.name()}: {error.str()}"
    if error.name() in _UNAUTHORISED:
        return Unauthorised(f"not allowed: {text}; check the user and its ACLs")
    if error.name() in _NOT_REACHED:
        return ConnectionFailed(f"not reached: {text}; check the address and whether the brokers run")
    if error.retriable() or error.name() in _LOST_ON_OUR_SIDE | _STALE:
        return RetryableError(text)
    return BrokerRefused(text)
