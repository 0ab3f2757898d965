"""What Jolokia answers is told apart: values, leaders' flags, followers' lag, errors."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.brokers.base import AskFailed, Shard, ShardSample
from pipelines.brokers.kafka.jolokia import APP_INFO, CLUSTER_ID, GAUGES_AND_METERS, PARTITIONS, QUESTIONS, RAFT, Jolokia, read
from pipelines.errors import UsageError


def answer(**values: Any) -> bytes:
    """Jolokia's answer to our bulk read; what is not given was not found."""
    given = {APP_INFO: values.get("app"), CLUSTER_ID: values.get("cluster"), RAFT: values.get("raft")}
    given |= {PARTITIONS[name]: value for name, value in values.items() if name in PARTITIONS}
    given |= {pattern: values["gauges"].get(pattern) for pattern in GAUGES_AND_METERS if "gauges" in values}
    found = [
        {"status": 404, "error": "InstanceNotFound"} if given.get(one) is None else {"status": 200, "value": given[one]}
        for one in QUESTIONS
    ]
    return json.dumps(found).encode()


def of(kind: str, name: str, partition: int, value: int, topic: str = "t", extra: str = "") -> dict[str, Any]:
    return {f"{kind},name={name},{extra}topic={topic},partition={partition}": {"Value": value}}


def test_a_broker_without_anything_is_an_empty_sample() -> None:
    sample = read(answer())

    assert (sample.broker, sample.cluster_id, sample.values, sample.shards) == (None, None, {}, {})


def test_it_says_who_it_is() -> None:
    info = {"kafka.server:type=app-info,client-id=1": {}, "kafka.server:type=app-info,id=7": {}, "kafka.server:type=app-info": {}}

    sample = read(answer(app=info, cluster={"Value": "abc"}))

    assert (sample.broker, sample.cluster_id) == ("7", "abc")


def test_meters_are_taken_by_their_count_and_what_says_nothing_is_left_out() -> None:
    replica_manager = {
        "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec": {"Count": 4, "MeanRate": 0.2, "EventType": "shrinks"},
        "kafka.server:type=ReplicaManager,name=LeaderCount": {"Value": 2},
        "kafka.server:type=ReplicaManager,name=PartitionCount": {"Value": "text"},
        "kafka.server:type=ReplicaManager,name=ProducerIdCount": {"Value": 7},
    }
    controller = {
        "kafka.controller:type=KafkaController,name=FencedBrokerCount": {"Value": 1},
        "kafka.controller:type=KafkaController,name=BrokerRegistrationState,broker=3": {"Value": 30},
    }
    gauges = {
        "kafka.server:type=KafkaServer,name=BrokerState": {"Value": 3},
        "kafka.server:type=ReplicaManager,*": replica_manager,
        "kafka.controller:type=KafkaController,*": controller,
    }

    sample = read(
        answer(
            gauges=gauges, raft={"current-state": "leader", "current-epoch": 5, "commit-latency-avg": None, "fetch-records-rate": 0.5}
        )
    )

    assert sample.values == {
        "BrokerState": 3.0,
        "IsrShrinksPerSec.Count": 4.0,
        "LeaderCount": 2.0,
        "FencedBrokerCount": 1.0,
        "raft.current-epoch": 5.0,
        "raft.is-leader": 1.0,
    }


def test_flags_are_the_leaders_and_the_lag_is_the_followers() -> None:
    partition, log = "kafka.cluster:type=Partition", "kafka.log:type=Log"
    lag, thread = "kafka.server:type=FetcherLagMetrics", "clientId=ReplicaFetcherThread-0-3,"

    sample = read(
        answer(
            in_sync_replicas=of(partition, "InSyncReplicasCount", 0, 2) | of(partition, "InSyncReplicasCount", 1, 0),
            is_under_replicated=of(partition, "UnderReplicated", 0, 1) | of(partition, "UnderReplicated", 1, 0),
            is_at_min_isr=of(partition, "AtMinIsr", 0, 1) | of(partition, "AtMinIsr", 1, 0),
            lag_records=of(lag, "ConsumerLag", 1, 40, extra=thread),
            log_end=of(log, "LogEndOffset", 0, 90)
            | of(log, "LogEndOffset", 1, 50)
            | of(log, "LogEndOffset", 0, 9, "__cluster_metadata"),
        )
    )

    assert sample.shards == {
        Shard("t", "0"): ShardSample(True, None, True, 2, None, None, 90),
        Shard("t", "1"): ShardSample(None, None, None, None, 40, None, 50),
    }


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"[1]", json.dumps([{"value": 5}] * len(QUESTIONS)).encode()])
def test_what_is_not_jolokias_answer_is_an_error(body: bytes) -> None:
    with pytest.raises(AskFailed) as caught:
        read(body)

    assert (caught.value.code, caught.value.outcome) == ("NOT_JOLOKIA", "REJECTED")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}/jolokia"


def test_silence_is_unknown(listener: socket.socket) -> None:
    with pytest.raises(AskFailed) as caught:
        Jolokia(url_of(listener)).poll(0.1)

    assert (caught.value.code, caught.value.outcome) == ("TIMED_OUT", "UNKNOWN")


def test_a_refused_connection_is_rejected(listener: socket.socket) -> None:
    url = url_of(listener)
    listener.close()

    with pytest.raises(AskFailed) as caught:
        Jolokia(url).poll(1.0)

    assert (caught.value.code, caught.value.outcome) == ("CONNECTION_REFUSED", "REJECTED")


@pytest.mark.parametrize(
    ("reply", "code", "outcome"),
    [
        (b"", "CONNECTION_LOST", "UNKNOWN"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "HTTP_401", "REJECTED"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwhat", "NOT_JOLOKIA", "REJECTED"),
    ],
)
def test_other_answers_are_told_apart(listener: socket.socket, reply: bytes, code: str, outcome: str) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 20)
            connection.sendall(reply)

    server = threading.Thread(target=serve)
    server.start()
    with pytest.raises(AskFailed) as caught:
        Jolokia(url_of(listener), ("user", "secret")).poll(5.0)
    server.join()

    assert (caught.value.code, caught.value.outcome) == (code, outcome)


def test_a_url_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="'broker1:7777' is not one"):
        Jolokia("broker1:7777")
