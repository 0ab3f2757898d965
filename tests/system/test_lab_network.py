"""A lab whose nodes have hosts and disks of their own: every fault is seen from outside, and so is its inverse."""

import subprocess

import psutil
import pytest
from confluent_kafka import Producer

from pipelines.brokers.kafka.readiness import wait_for_writes
from pipelines.errors import LabError, TimedOut
from pipelines.lab import Lab, LabSpec
from pipelines.lab.hosts import ping
from pipelines.lab.node import Doing

pytestmark = pytest.mark.system

SPEC = LabSpec(
    controllers=3,
    network=True,
    zones={"a": [1, 101], "b": [2, 102], "c": [3, 103]},
    zone_delay_ms=2,
    own_volume_mb=64,
    # So that faults show within seconds.
    properties={"replica.lag.time.max.ms": "2000", "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"},
)


@pytest.fixture(scope="module")
def lab():
    with Lab(SPEC, say=lambda line: None) as running:
        yield running


@pytest.fixture
def whole(lab):
    """The lab, at the end of the test as it was at its begin."""
    lab.wait_until_in_sync()
    yield lab
    if lab.network.cuts:
        lab.network.heal(lab.network.cuts, Doing(lab.anchor))
    for node in lab.nodes:
        if node.is_paused():
            lab.resume(node)
    lab.start_all(lab.down_nodes())
    lab.wait_until_in_sync()


def led_by(lab, topic, *replicas):
    """A topic of one partition, led by the first of these nodes."""
    lab.admin.create_assigned_topic(topic, [[node.node_id for node in replicas]])
    lab.wait_for(lambda: topic in lab.admin.topics(), 10, f"{topic} to be known")
    lab.admin.wait_until_led(topic, 20)


def writer(lab, topic):
    """Sends a record with acks=1 each time that it is called."""
    producer = Producer({**lab.librdkafka, "acks": 1, "linger.ms": 0, "log_level": 0})

    def write():
        producer.produce(topic, b"x", partition=0)
        return producer.flush(5) == 0

    return write


def test_brokers_and_controllers_are_nodes_of_their_own_with_the_settings_that_they_were_given(whole):
    lab = whole
    assert [node.node_id for node in lab.nodes] == [1, 2, 3]
    assert [node.node_id for node in lab.controller_nodes] == [101, 102, 103]
    assert lab.active_controller() in lab.controller_nodes
    assert [lab.admin.broker_settings(node.node_id)["broker.rack"] for node in lab.nodes] == ["a", "b", "c"]
    with pytest.raises(LabError, match="controller 101 of the lab is no broker"):
        _ = lab.node(101).address


def test_every_node_listens_on_its_own_host_only(whole):
    for node in whole.all_nodes:
        host = whole.host(node)
        shown = subprocess.run([*host.prefix, "ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
        listening = {line.split()[3].removeprefix("[::ffff:").replace("]:", ":").partition("%")[0] for line in shown.splitlines()}
        ports = {node.ports.client, node.ports.controller, node.ports.jolokia} - {None}
        assert listening == {f"{host.address}:{port}" for port in ports}
    assert not [one for one in psutil.Process().net_connections() if one.laddr.port == 9092 and one.status == psutil.CONN_LISTEN]


def test_packets_take_their_time_between_zones_and_none_from_the_prober(whole):
    hosts = whole.network.hosts
    back = ping(hosts["1"], [hosts["2"], hosts["103"], hosts["101"]], count=5)
    assert min(back["2"]) >= 0.004
    assert min(back["103"]) >= 0.004
    assert min(back["101"]) < 0.002
    assert min(ping(whole.prober, [hosts["1"]], count=5)["1"]) < 0.002


def test_another_controller_takes_over_and_the_cluster_lives_without_a_majority_of_them_until_they_are_back(whole):
    lab = whole
    led_by(lab, "served", *lab.nodes)
    active = lab.active_controller()
    lab.kill(active)
    following = lab.active_controller()
    assert following is not active
    lab.kill(following)
    wait_for_writes(lab.librdkafka, "served", 1, timeout=10)
    with pytest.raises(TimedOut, match="exactly one active controller"):
        lab.active_controller(timeout=0.5)
    assert lab.down_nodes() == [active, following]
    lab.start_all(lab.down_nodes())
    assert lab.active_controller() in lab.controller_nodes


def test_a_slow_follower_leaves_the_isr_and_comes_back(whole):
    lab = whole
    leader, follower, other = lab.nodes
    led_by(lab, "slow", leader, follower, other)
    write = writer(lab, "slow")
    fault = lab.slow(follower, delay_ms=1500, towards=[leader])
    assert fault.before_at_us < fault.after_at_us < fault.verified_at_us
    assert fault.detail == "1500 ms +- 0 ms each way towards 1"
    lab.wait_for(lambda: write() and lab.isr("slow", 0) == {1, 3}, 20, "the slow follower to leave the ISR")
    lab.unslow(follower)
    lab.wait_for(lambda: lab.isr("slow", 0) == {1, 2, 3}, 20, "the follower to be back in the ISR")


def test_a_leader_that_is_cut_off_from_all_but_the_prober_is_replaced_and_still_reached(whole):
    lab = whole
    zombie, heir, other = lab.nodes
    led_by(lab, "zombie", zombie, heir, other)
    fault = lab.cut(zombie, from_=[heir, other, *lab.controller_nodes])
    assert fault.detail == "from 2, 3, 101, 102, 103"
    lab.wait_for(lambda: lab.leader("zombie", 0) in (heir, other), 20, "another leader")
    probe = f"import socket; socket.create_connection(('{lab.host(zombie).address}', {zombie.ports.client}), 2)"
    assert subprocess.run([*lab.command_prefix, "python3", "-c", probe], check=False).returncode == 0
    with pytest.raises(LabError, match="nothing left to cut"):
        lab.cut(zombie, from_=[heir])
    assert lab.heal(zombie).detail == "from 2, 3, 101, 102, 103"


def test_the_prober_can_be_cut_off_alone(whole):
    lab = whole
    led_by(lab, "served-on", *lab.nodes)
    lab.cut(lab.prober)
    hosts = [lab.host(node) for node in lab.all_nodes]
    assert not any(ping(lab.prober, hosts, limit=0.2).values())
    wait_for_writes(lab.librdkafka, "served-on", 1, timeout=10)
    lab.heal(lab.prober)
    assert all(ping(lab.prober, hosts).values())


def test_a_zone_is_lost_with_all_that_is_in_it(whole):
    faults = whole.lose_zone("b")
    assert [fault.target for fault in faults] == ["2", "102"]
    assert faults[1].before_at_us < faults[0].verified_at_us
    assert whole.down_nodes() == [whole.node(2), whole.node(102)]


def test_a_zone_can_be_cut_off_as_a_whole(whole):
    whole.cut_zone("c")
    hosts = whole.network.hosts
    assert ping(hosts["3"], [hosts["103"], hosts["1"], hosts["prober"]], limit=0.3)["103"]
    assert not any(ping(hosts["3"], [hosts["1"], hosts["prober"]], limit=0.3).values())
    whole.heal_zone("c")


def test_a_broker_whose_disk_is_full_ends_and_comes_back_when_there_is_room(whole):
    lab = whole
    leader, victim, other = lab.nodes
    led_by(lab, "full", leader, victim, other)
    lab.fill_disk(victim)
    producer = Producer({**lab.librdkafka, "linger.ms": 0, "log_level": 0})

    def is_over():
        producer.produce("full", bytes(50_000), partition=0)
        producer.flush(5)
        return not victim.is_alive()

    lab.wait_for(is_over, 30, "the broker without room to end")
    with pytest.raises(LabError, match="the disk of node 1 was not filled"):
        lab.free_disk(leader)
    lab.free_disk(victim)


def test_a_broker_whose_disk_turns_read_only_ends_and_comes_back_when_it_is_mended(whole):
    lab = whole
    leader, victim, other = lab.nodes
    led_by(lab, "read-only", leader, victim, other)
    write = writer(lab, "read-only")
    lab.read_only(victim)
    lab.wait_for(lambda: write() and not victim.is_alive(), 30, "the broker that cannot write to end")
    assert "log dirs" in victim.last_words()
    lab.writable(victim)


def test_after_a_power_loss_a_node_alone_has_what_its_earlier_copy_had(whole):
    lab = whole
    node = lab.node(3)
    led_by(lab, "alone", node)
    write = writer(lab, "alone")
    assert [write() for _ in range(5)] == [True] * 5
    copy = lab.copy_data(node)
    assert [fault.fault for fault in lab.faults[-2:]] == ["pause", "resume"]
    assert [write() for _ in range(7)] == [True] * 7
    with pytest.raises(LabError, match="kill it before its data is rolled back"):
        lab.roll_back_data(node, copy)
    assert end_of(lab, "alone") == 12
    lab.kill(node)
    with pytest.raises(LabError, match="not of node 3"):
        lab.roll_back_data(node, lab.copy_data(lab.node(2)))
    lab.roll_back_data(node, copy)
    lab.start(node)
    lab.wait_for(lambda: lab.leader("alone", 0) is node, 20, "the node to lead again")
    assert end_of(lab, "alone") == 5


def end_of(lab, topic):
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**lab.librdkafka, "group.id": "end", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
    finally:
        consumer.close()


def test_all_brokers_come_back_in_the_worst_order(whole):
    lab = whole
    first, second, last = lab.nodes
    for node in (second, first, last):
        lab.kill(node)
    assert lab.down_nodes() == [second, first, last]
    lab.start_all(lab.down_nodes())
