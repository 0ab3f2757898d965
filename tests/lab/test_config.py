"""What a node of the lab is told, without starting one."""

from pathlib import Path

import pytest

from pipelines.errors import LabError
from pipelines.lab.config import LabSpec, Ports, differences, node_properties, properties_text, read_properties
from pipelines.lab.security import Credentials, Login

PORTS = {1: Ports(9101, 9102, 9103, 9104), 2: Ports(9201, 9202, 9203, 9204), 3: Ports(9301, 9302, 9303, 9304)}


def test_each_node_has_a_rack_of_its_own_and_knows_all_controllers():
    for node_id in (1, 2, 3):
        properties = node_properties(LabSpec(), node_id, PORTS, Path("/data"), None)
        assert properties["broker.rack"] == f"az{node_id}"
        assert properties["controller.quorum.voters"] == "1@127.0.0.1:9102,2@127.0.0.1:9202,3@127.0.0.1:9302"
        assert (properties["default.replication.factor"], properties["min.insync.replicas"]) == ("3", "2")


def test_every_listener_is_on_loopback():
    properties = node_properties(LabSpec(), 2, PORTS, Path("/data"), None)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9201,CONTROLLER://127.0.0.1:9202"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9201"


def test_a_login_adds_a_secured_listener_and_leaves_the_plain_one():
    login = Login("SCRAM-SHA-512", "lastack", "secret")
    credentials = Credentials(login, Path("/tls/server.p12"), "store", Path("/tls/ca.pem"), Path("/tls/client.properties"))
    properties = node_properties(LabSpec(login=login), 1, PORTS, Path("/data"), credentials)
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9101,SECURE://127.0.0.1:9104"
    assert properties["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"
    assert properties["listener.name.secure.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"


def test_the_user_s_properties_win_and_one_node_s_win_over_all_nodes():
    spec = LabSpec(properties={"min.insync.replicas": "1", "x": "all"}, node_properties={2: {"x": "two"}})
    one, two = (node_properties(spec, node_id, PORTS, Path("/data"), None) for node_id in (1, 2))
    assert (one["min.insync.replicas"], one["x"], two["x"]) == ("1", "all", "two")


def test_properties_are_read_back_as_they_were_written():
    properties = {"path": r"C:\data", "jaas": 'x required user="a=b";'}
    assert read_properties(properties_text(properties)) == properties


def test_a_setting_that_a_broker_does_not_know_or_does_not_keep_is_named():
    wanted = {"a.known": "1", "a.changed": "1", "a.typo": "1", "ssl.key.password": "p", "listener.name.x.ssl.y": "z"}
    found = {"a.known": "1", "a.changed": "2", "a.typo": None, "ssl.key.password": None}
    assert differences(wanted, found) == ["a.changed is 2, not 1", "a.typo is unknown to it"]


def test_a_password_is_never_shown():
    login = Login.new("PLAIN")
    assert login.password not in repr(login)
    assert login.password != Login.new("PLAIN").password


def test_an_unknown_mechanism_is_named():
    with pytest.raises(LabError, match=r"no such SASL mechanism: PLANE; one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        Login.new("PLANE")


def test_controllers_of_their_own_vote_and_brokers_do_not():
    spec = LabSpec(controllers=1)
    ports = {1: Ports(9101, None, 9103), 2: Ports(9201, None, 9203), 3: Ports(9301, None, 9303), 101: Ports(None, 9402, 9403)}
    broker, controller = (node_properties(spec, node_id, ports, Path("/data"), None) for node_id in (1, 101))
    assert (broker["process.roles"], controller["process.roles"]) == ("broker", "controller")
    assert broker["controller.quorum.voters"] == controller["controller.quorum.voters"] == "101@127.0.0.1:9402"
    assert broker["listeners"] == broker["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9101"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:9402"
    assert "broker.rack" not in controller
    # A controller decides how many replicas a new topic has.
    assert controller["default.replication.factor"] == "3"


def test_a_zone_is_the_rack_of_its_brokers():
    spec = LabSpec(nodes=4, zones={"a": [1, 2], "b": [3, 4]})
    ports = {node_id: Ports(1, 2, 3) for node_id in spec.all_ids}
    assert [node_properties(spec, node_id, ports, Path("/data"), None)["broker.rack"] for node_id in (1, 2, 3, 4)] == [
        "a",
        "a",
        "b",
        "b",
    ]


@pytest.mark.parametrize(
    ("zones", "said"),
    [
        ({"a": [1, 2], "b": [3, 9]}, r"no such node \[9\]"),
        ({"a": [1, 2], "b": [2, 3]}, r"twice \[2\]"),
        ({"a": [1], "b": [2]}, r"in none \[3\]"),
    ],
)
def test_zones_that_do_not_hold_every_broker_once_are_refused(zones, said):
    with pytest.raises(LabError, match=said):
        LabSpec(zones=zones)


def test_a_delay_between_zones_needs_hosts_of_their_own():
    with pytest.raises(LabError, match="network=True"):
        LabSpec(zones={"a": [1, 2, 3]}, zone_delay_ms=2)
