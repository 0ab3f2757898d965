"""What does one broker's JVM say of the broker and of its partitions? One POST to its Jolokia agent.

The rule: everything is asked in one bulk request, under Kafka's own MBean names; what a broker does not have (a controller's metrics on
a mere broker, Raft's in ZooKeeper mode) is absent from the answer and from the sample. Verified on Kafka 4.3.1:

- `kafka.cluster:type=Partition` tells the truth on the leader only; elsewhere InSyncReplicasCount is 0, so that is how a follower is
  told from a leader, and its flags are left out;
- `FetcherLagMetrics,name=ConsumerLag` is a follower's own count of records that it is behind;
- meters (`...PerSec`) are taken by their Count, which only ever grows.

Of the broker's values those are kept that say something of its part in the cluster (KEPT); rates and stamps that only move are not.
It costs the broker about 0.1 ms of CPU for each of its partitions and poll.

Example: `Jolokia("http://127.0.0.1:7777/jolokia").poll(2.0)` gives `MetricSample(broker="2", values={"LeaderCount": 3.0, ...},
shards={Shard("orders", "0"): ShardSample(in_sync_replicas=3, ...)})`.
"""

import json
from collections.abc import Mapping
from typing import Any

import urllib3

from pipelines.brokers.base import AskFailed, MetricSample, Shard, ShardSample
from pipelines.domain.observations import Outcome
from pipelines.errors import UsageError

APP_INFO = "kafka.server:type=app-info,*"
CLUSTER_ID = "kafka.server:type=KafkaServer,name=ClusterId"
RAFT = "kafka.server:type=raft-metrics"
METADATA = "kafka.server:type=broker-metadata-metrics"
GAUGES_AND_METERS = (
    "kafka.server:type=KafkaServer,name=BrokerState",
    "kafka.server:type=ReplicaManager,*",
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag,*",
    "kafka.controller:type=KafkaController,*",
    "kafka.controller:type=ControllerStats,*",
)
PARTITIONS = {
    "is_under_replicated": "kafka.cluster:type=Partition,name=UnderReplicated,*",
    "is_under_min_isr": "kafka.cluster:type=Partition,name=UnderMinIsr,*",
    "is_at_min_isr": "kafka.cluster:type=Partition,name=AtMinIsr,*",
    "in_sync_replicas": "kafka.cluster:type=Partition,name=InSyncReplicasCount,*",
    "lag_records": "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,*",
    "log_start": "kafka.log:type=Log,name=LogStartOffset,*",
    "log_end": "kafka.log:type=Log,name=LogEndOffset,*",
}
KEPT = frozenset(
    {
        "BrokerState",
        *("UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount", "OfflineReplicaCount"),
        *("LeaderCount", "PartitionCount", "ReassigningPartitions", "MaxLag"),
        *("IsrShrinksPerSec.Count", "IsrExpandsPerSec.Count", "FailedIsrUpdatesPerSec.Count"),
        *("ActiveControllerCount", "OfflinePartitionsCount", "PreferredReplicaImbalanceCount", "GlobalPartitionCount"),
        *("ActiveBrokerCount", "FencedBrokerCount", "ControlledShutdownBrokerCount", "TimedOutBrokerHeartbeatCount"),
        *("NewActiveControllersCount", "MetadataErrorCount", "LeaderElectionRateAndTimeMs.Count"),
        *("UncleanLeaderElectionsPerSec.Count", "ElectionFromEligibleLeaderReplicasPerSec.Count"),
        *("raft.is-leader", "raft.current-leader", "raft.current-epoch", "raft.high-watermark", "raft.log-end-offset"),
        *("raft.commit-latency-avg", "raft.election-latency-avg", "raft.election-latency-max"),
        *("raft.number-unknown-voter-connections", "metadata.last-applied-record-lag-ms", "metadata.metadata-load-error-count"),
    }
)
TELLING = frozenset(
    {
        "BrokerState",
        "IsrShrinksPerSec.Count",
        "IsrExpandsPerSec.Count",
        "FailedIsrUpdatesPerSec.Count",
        "UnderReplicatedPartitions",
        "UnderMinIsrPartitionCount",
        "AtMinIsrPartitionCount",
        "OfflineReplicaCount",
        "LeaderCount",
        "ActiveControllerCount",
        "OfflinePartitionsCount",
        "ActiveBrokerCount",
        "FencedBrokerCount",
        "ControlledShutdownBrokerCount",
        "TimedOutBrokerHeartbeatCount",
        "NewActiveControllersCount",
        "UncleanLeaderElectionsPerSec.Count",
        "ElectionFromEligibleLeaderReplicasPerSec.Count",
        "raft.current-leader",
        "raft.current-epoch",
        "raft.is-leader",
    }
)
"""Values whose change is an event; the others move all the time."""
QUESTIONS = (APP_INFO, CLUSTER_ID, RAFT, METADATA, *GAUGES_AND_METERS, *PARTITIONS.values())
REQUEST = json.dumps([{"type": "read", "mbean": mbean} for mbean in QUESTIONS]).encode()
METADATA_TOPIC = "__cluster_metadata"

Beans = dict[str, Any]


class Jolokia:
    """The agent at a URL. Not for several threads. `login` is (user, password)."""

    telling = TELLING

    def __init__(self, url: str, login: tuple[str, str] | None = None) -> None:
        if "@" in url:
            raise UsageError(
                "a Jolokia URL has an @ in it; a password must not stand in commands and logs, write http://HOST:PORT/jolokia"
            )
        try:
            parts = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError as error:
            raise UsageError(f"Jolokia URL {url!r} cannot be read; expected http://HOST:PORT/jolokia") from error
        if parts.scheme not in ("http", "https") or not parts.host:
            raise UsageError(f"Jolokia URL {url!r} is not one; expected http://HOST:PORT/jolokia")
        self.address = f"{parts.host}:{parts.port}" if parts.port else parts.host
        self._url = url.rstrip("/") + "/"
        self._headers = {"Content-Type": "application/json"}
        if login is not None:
            self._headers |= urllib3.make_headers(basic_auth=":".join(login))
        self._pool = urllib3.PoolManager(maxsize=1, retries=False)

    def poll(self, timeout_seconds: float) -> MetricSample:
        """Asks everything once. Raises AskFailed: refused, silent, an error answer, or not Jolokia."""
        timeout = urllib3.Timeout(total=timeout_seconds)
        try:
            response = self._pool.request("POST", self._url, body=REQUEST, headers=self._headers, timeout=timeout)
        except urllib3.exceptions.HTTPError as error:
            raise _failed(f"{self._url}: {error}", error) from error
        if response.status != 200:
            raise AskFailed(f"{self._url}: HTTP {response.status}", f"HTTP_{response.status}", Outcome.REJECTED)
        return read(response.data, self._url)


def _failed(text: str, error: urllib3.exceptions.HTTPError) -> AskFailed:
    # The order matters: for urllib3 a refused connection is a kind of timeout.
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return AskFailed(text, "NAME_NOT_RESOLVED", Outcome.REJECTED)
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return AskFailed(text, "CONNECTION_REFUSED", Outcome.REJECTED)
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return AskFailed(text, "TIMED_OUT", Outcome.UNKNOWN)
    return AskFailed(text, "CONNECTION_LOST", Outcome.UNKNOWN)


def read(body: bytes, url: str = "") -> MetricSample:
    """The sample in an answer. Raises AskFailed when it is not an answer to our question."""
    try:
        answers = json.loads(body)
        found = {mbean: answer.get("value", {}) for mbean, answer in zip(QUESTIONS, answers, strict=True)}
        stamps = [answer["timestamp"] * 1_000_000 for answer in answers if "timestamp" in answer]
        stamped = (min(stamps), max(stamps) + 999_999) if stamps else None
        return MetricSample(_broker(found[APP_INFO]), found[CLUSTER_ID].get("Value"), _values(found), _shards(found), stamped)
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise AskFailed(f"{url}: not Jolokia's answer to a bulk read: {error!r}", "NOT_JOLOKIA", Outcome.REJECTED) from error


def _values(found: Mapping[str, Beans]) -> dict[str, float]:
    values: dict[str, float] = {}
    for pattern in GAUGES_AND_METERS:
        _add_values(values, found[pattern] if pattern.endswith("*") else {pattern: found[pattern]})
    _add_numbers(values, "raft.", found[RAFT])
    if "current-state" in found[RAFT]:
        values["raft.is-leader"] = float(found[RAFT]["current-state"] == "leader")
    _add_numbers(values, "metadata.", found[METADATA])
    return {name: value for name, value in values.items() if name in KEPT}


def _broker(beans: Beans) -> str | None:
    ids = [properties["id"] for properties in map(_properties, beans) if "id" in properties]
    return ids[0] if ids else None


def _properties(name: str) -> dict[str, str]:
    """The properties of an MBean's name. Topic names have no character that JMX would quote."""
    return dict(one.split("=", 1) for one in name.partition(":")[2].split(","))


def _add_values(values: dict[str, float], beans: Beans) -> None:
    for mbean, attributes in beans.items():
        properties = _properties(mbean)
        name = properties.get("name")
        if name is None or "broker" in properties:
            continue
        number = attributes.get("Count", attributes.get("Value"))
        if _is_number(number):
            values[f"{name}.Count" if "Count" in attributes else name] = float(number)


def _add_numbers(values: dict[str, float], prefix: str, attributes: Beans) -> None:
    values.update({prefix + name: float(value) for name, value in attributes.items() if _is_number(value)})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shards(found: Mapping[str, Beans]) -> dict[Shard, ShardSample]:
    told: dict[Shard, dict[str, int]] = {}
    for field, pattern in PARTITIONS.items():
        for mbean, attributes in found[pattern].items():
            properties, value = _properties(mbean), attributes.get("Value")
            if properties.get("topic") == METADATA_TOPIC or not _is_number(value):
                continue
            told.setdefault(Shard(properties["topic"], properties["partition"]), {})[field] = int(value)
    return {shard: _sample(one) for shard, one in told.items()}


def _sample(told: Mapping[str, int]) -> ShardSample:
    in_sync = told.get("in_sync_replicas") or None
    is_leader = in_sync is not None

    def flag(name: str) -> bool | None:
        return bool(told[name]) if is_leader and name in told else None

    return ShardSample(
        is_under_replicated=flag("is_under_replicated"),
        is_under_min_isr=flag("is_under_min_isr"),
        is_at_min_isr=flag("is_at_min_isr"),
        in_sync_replicas=in_sync,
        lag_records=None if is_leader else told.get("lag_records"),
        log_start=told.get("log_start"),
        log_end=told.get("log_end"),
    )
