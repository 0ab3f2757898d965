"""What the brokers and servers of a ZooKeeper-mode lab are told, without starting one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines import jars
from pipelines.domain.clock import Anchor
from pipelines.errors import LabError
from pipelines.java import Java
from pipelines.lab import Lab, LabSpec, Login, Ports
from pipelines.lab.hosts import Host
from pipelines.lab.zookeeper import differences, server_properties
from pipelines.lab.zookeeper_mode import ZooKeeperMode

PORTS = {1: Ports(9101, 9102, 9103), 2: Ports(9201, 9202, 9203), 3: Ports(9301, 9302, 9303)}


def prepared(folder: Path, spec: LabSpec, hosts: Mapping[int, Host] | None = None) -> ZooKeeperMode:
    mode = ZooKeeperMode(spec)
    agent = jars.Jar("org.jolokia:jolokia-agent-jvm:2.6.0:javaagent", "0" * 64)
    mode.prepare(Java(folder, "17", frozenset(), "here"), jars.JarSet(folder, (agent,)), folder, Anchor.now(), (), hosts or {})
    return mode


def test_a_broker_is_told_where_zookeeper_is_and_nothing_that_only_kraft_knows(tmp_path: Path) -> None:
    mode = prepared(tmp_path, LabSpec(mode="zookeeper", properties={"zookeeper.session.timeout.ms": "6000"}))
    told = mode.properties(2, PORTS, Path("/data"), None)
    assert told["broker.id"] == "2"
    assert told["zookeeper.connect"] == mode.connect == f"127.0.0.1:{mode.zookeepers[0].ports.client}"
    assert told["listeners"] == told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9201"
    assert told["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT"
    assert told["zookeeper.session.timeout.ms"] == "6000"
    assert not [name for name in told if name.startswith("controller.") or name in ("process.roles", "node.id")]


def test_the_session_timeout_is_kafka_s_own_unless_the_spec_says_otherwise(tmp_path: Path) -> None:
    told = prepared(tmp_path, LabSpec(mode="zookeeper")).properties(1, PORTS, Path("/data"), None)
    assert "zookeeper.session.timeout.ms" not in told


def test_the_servers_of_an_ensemble_know_each_other_and_one_alone_knows_nobody() -> None:
    spec = LabSpec(mode="zookeeper", zookeepers=3, zookeeper_properties={"tickTime": "500"})
    told = server_properties(spec, 2, PORTS, {1: 9104, 2: 9204, 3: 9304}, Path("/data"))
    assert told["server.3"] == "127.0.0.1:9302:9304;127.0.0.1:9301"
    assert told["tickTime"] == "500"
    alone = server_properties(LabSpec(mode="zookeeper"), 1, {1: PORTS[1]}, {1: 9104}, Path("/data"))
    assert (alone["clientPort"], alone["clientPortAddress"]) == ("9101", "127.0.0.1")
    assert not [name for name in alone if name.startswith("server.")]


def test_every_server_has_its_number_where_an_ensemble_looks_for_it(tmp_path: Path) -> None:
    mode = prepared(tmp_path, LabSpec(mode="zookeeper", zookeepers=3))
    assert [(node.folder / "data" / "myid").read_text() for node in mode.zookeepers] == ["1\n", "2\n", "3\n"]
    assert [node.target for node in mode.zookeepers] == ["zookeeper-1", "zookeeper-2", "zookeeper-3"]


def test_on_hosts_of_their_own_the_servers_have_zookeeper_s_usual_ports(tmp_path: Path) -> None:
    hosts = {number: Host(f"zookeeper-{number}", f"10.201.77.20{number}", f"ns-{number}") for number in (1, 2)}
    mode = prepared(tmp_path, LabSpec(mode="zookeeper", zookeepers=2, network=True), hosts)
    assert mode.connect == "10.201.77.201:2181,10.201.77.202:2181"
    assert [node.host_name for node in mode.zookeepers] == ["zookeeper-1", "zookeeper-2"]
    told = (tmp_path / "zookeeper-1" / "zookeeper.properties").read_text()
    assert "server.2=10.201.77.202:2888:3888;10.201.77.202:2181" in told


def test_a_setting_that_a_server_does_not_keep_is_named() -> None:
    wanted = {"tickTime": "500", "dataDir": "/data", "initLimit": "10"}
    assert differences(wanted, {"tickTime": "3000", "dataDir": "/data/version-2"}) == ["tickTime is 3000, not 500"]


def test_what_a_mode_cannot_do_is_said_before_anything_starts() -> None:
    with pytest.raises(LabError, match="no SCRAM users in ZooKeeper"):
        Lab(LabSpec(mode="zookeeper", login=Login.new("SCRAM-SHA-512")))
    with pytest.raises(LabError, match="no such mode of a lab: zk; one of kraft, zookeeper"):
        Lab(LabSpec(mode="zk"))
    with pytest.raises(LabError, match="mode='zookeeper'"):
        _ = Lab().zookeeper_connect
