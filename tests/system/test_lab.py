"""The lab is what it says: real brokers, on loopback only, with the settings that they were given, gone when we are."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipelines.brokers.kafka.admin import Admin
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.readiness import wait_for_writes
from pipelines.errors import BrokerRefused, LabError, LastackError
from pipelines.lab import Lab, LabSpec, Login
from pipelines.processes import wait_until

pytestmark = pytest.mark.system

SLOW_TO_NOTICE = LabSpec(login=Login.new("PLAIN"))


@pytest.fixture(scope="module")
def lab():
    with Lab(SLOW_TO_NOTICE, say=lambda line: None) as running:
        yield running


def test_three_nodes_serve_in_three_racks_with_the_settings_that_they_were_given(lab):
    assert lab.admin.brokers() == {1, 2, 3}
    assert lab.admin.cluster_id() == lab.cluster_id
    assert lab.admin.topics() == set()
    for node in lab.nodes:
        settings = lab.admin.broker_settings(node.node_id)
        assert settings["broker.rack"] == f"az{node.node_id}"
        assert settings["default.replication.factor"] == "3"
        assert settings["min.insync.replicas"] == "2"
        assert settings["broker.session.timeout.ms"] == "9000"
        assert node.metadata_log_dir.is_dir()
        assert "BrokerServer" in node.log_path.read_text()


def test_every_listener_is_on_loopback(lab):
    for node in lab.nodes:
        listening = [one for one in psutil.Process(node.pid).net_connections() if one.status == psutil.CONN_LISTEN]
        assert {one.laddr.ip.removeprefix("::ffff:") for one in listening} == {"127.0.0.1"}
        assert {one.laddr.port for one in listening} == {
            node.ports.client,
            node.ports.controller,
            node.ports.jolokia,
            node.ports.secure,
        }


def test_a_client_with_a_login_comes_in_over_tls_and_one_with_a_wrong_password_does_not(lab):
    connection = load(lab.secure_bootstrap, lab.client_properties)
    admin = Admin(connection.librdkafka())
    admin.create_topic("secured", partitions=1, replicas=3)
    wait_for_writes(connection.librdkafka(), "secured", 1, timeout=20)
    with pytest.raises(LastackError):
        Admin({**connection.librdkafka(), "sasl.password": "wrong"}, timeout=3).brokers()


def test_kafka_s_own_tools_take_the_client_properties(lab, tmp_path):
    arguments = ["--bootstrap-server", lab.secure_bootstrap, "--command-config", str(lab.client_properties), "--list"]
    tool = lab.run_tool("org.apache.kafka.tools.TopicCommand", arguments, tmp_path / "tool.log")
    assert tool.wait(60) == 0, tool.log_tail()


def test_a_topic_that_is_there_is_not_altered(lab):
    lab.admin.create_topic("there", partitions=1, replicas=3)
    with pytest.raises(BrokerRefused, match="TOPIC_ALREADY_EXISTS"):
        lab.admin.create_topic("there", partitions=2, replicas=3)
    assert len(lab.admin.partitions("there")) == 1


def test_a_killed_leader_that_is_also_the_active_controller_is_replaced_and_comes_back(lab):
    controller = lab.active_controller()
    others = [node.node_id for node in lab.nodes if node is not controller]
    lab.admin.create_assigned_topic("led", [[controller.node_id, *others]])
    lab.admin.wait_until_led("led", 20)
    assert lab.leader("led", 0) is controller

    fault = lab.kill(controller)
    assert fault.before_at_us <= fault.after_at_us <= fault.verified_at_us
    assert not psutil.pid_exists(fault.pid)
    assert lab.active_controller() is not controller
    wait_until(lambda: lab.leader("led", 0) not in (controller, None), 40, "another leader")

    lab.start(controller)
    lab.wait_until_in_sync()
    wait_for_writes(lab.librdkafka, "led", 1, timeout=20)
    assert [fault.fault for fault in lab.faults] == ["kill", "start"]
    assert all(fault.target == str(controller.node_id) for fault in lab.faults)


def test_a_paused_node_is_seen_to_be_paused_and_to_run_again(lab):
    node = lab.node(1)
    lab.pause(node)
    try:
        assert node.is_alive()
        assert node.is_paused()
        assert node.read_mbean("java.lang:type=Runtime", "Uptime") is None
    finally:
        lab.resume(node)
    assert not node.is_paused()
    assert node.read_mbean("java.lang:type=Runtime", "Uptime") > 0


def test_a_terminated_node_ends_by_itself(lab):
    node = lab.node(2)
    lab.terminate(node)
    assert not node.is_alive()
    with pytest.raises(LabError, match="gone already"):
        lab.kill(node)
    lab.start(node)
    lab.wait_until_in_sync()


def test_a_misspelt_setting_is_refused_and_the_logs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    said = []
    spec = LabSpec(nodes=1, replicas=1, min_insync_replicas=1, properties={"broker.sesion.timeout.ms": "3000"})
    with pytest.raises(LabError, match=r"broker\.sesion\.timeout\.ms is unknown to it"), Lab(spec, say=said.append):
        pass
    kept = list(tmp_path.glob("lastack-lab-*/node-1/server.log"))
    assert len(kept) == 1
    assert str(kept[0].parents[1]) in said[-1]


def test_a_scram_user_comes_in_from_the_first_start_on():
    spec = LabSpec(nodes=1, replicas=1, min_insync_replicas=1, login=Login.new("SCRAM-SHA-512"))
    with Lab(spec, say=lambda line: None) as lab:
        folder = lab.folder
        assert Admin(load(lab.secure_bootstrap, lab.client_properties).librdkafka()).brokers() == {1}
    assert not folder.exists()


def test_no_broker_outlives_a_parent_that_is_killed_with_minus_nine(tmp_path):
    script = "\n".join(
        [
            "import sys",
            "from pipelines.lab import Lab",
            "with Lab() as lab:",
            "    print(*[node.pid for node in lab.nodes], flush=True)",
            "    sys.stdin.read()",
        ]
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 3
        assert all(psutil.pid_exists(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        wait_until(lambda: not any(is_running(pid) for pid in pids), 10, f"the brokers {pids} to be gone")
    finally:
        parent.kill()
        parent.communicate(timeout=10)


def is_running(pid):
    """Whether the process does anything: one that nobody has reaped yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
