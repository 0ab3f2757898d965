"""Ports, folders and archives of the lab, without starting it."""

import os
import re
import socket

import pytest

from pipelines.errors import LabError
from pipelines.lab import LabSpec, archive, folder, ports, storage
from pipelines.lab.folder import LabFolder, remove_left_behind
from pipelines.lab.layout import ports_of


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_free_ports_differ_and_can_be_bound():
    found = ports.free_ports(12)
    assert len(set(found)) == 12
    for port in found:
        with socket.socket() as one:
            one.bind((ports.LOOPBACK, port))


def test_a_port_is_never_one_that_the_kernel_may_give_to_an_outgoing_connection(tmp_path, monkeypatch):
    range_file = tmp_path / "range"
    range_file.write_text("20000\t60999\n")
    monkeypatch.setattr(ports, "OUTGOING_RANGE", range_file)
    assert all(ports.LOWEST <= port < 20_000 for port in ports.free_ports(20))


def test_a_host_without_free_ports_is_told_so(monkeypatch):
    with socket.socket() as held:
        held.bind((ports.LOOPBACK, 0))
        taken = held.getsockname()[1]
        monkeypatch.setattr(ports, "_candidates", lambda: range(taken, taken + 1))
        with pytest.raises(LabError, match="found 0 free ports"):
            ports.free_ports(2)


def test_a_folder_in_use_is_never_removed_however_old():
    own = LabFolder()
    os.utime(own.path / "owner.lock", (1, 1))
    assert remove_left_behind() == []
    own.remove()
    assert not own.path.exists()


def test_what_a_killed_lab_left_is_removed_a_day_later():
    left = LabFolder()
    left.keep()
    written = (left.path / "owner.lock").stat().st_mtime
    assert remove_left_behind(now=written + folder.LEFT_BEHIND_SECONDS - 1) == []
    assert remove_left_behind(now=written + folder.LEFT_BEHIND_SECONDS + 1) == [left.path]
    assert not left.path.exists()


def test_logs_are_copied_and_data_is_not(tmp_path):
    own = LabFolder()
    data = own.path / "node-1" / "data"
    data.mkdir(parents=True)
    (data / "00000.log").touch()
    (own.path / "node-1" / "server.log").write_text("started")
    copies = own.copy_logs(tmp_path / "kept")
    assert [copy.relative_to(tmp_path / "kept").as_posix() for copy in copies] == ["node-1/server.log"]
    own.remove()


def test_an_id_of_kafka_s_form_never_begins_with_a_dash():
    ids = {storage.new_kafka_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in ids)


def test_a_new_archive_takes_the_place_of_older_ones(tmp_path):
    older, path, made = tmp_path / "kafka-old.jsa", tmp_path / "kafka-new.jsa", tmp_path / "made"
    older.touch()
    assert archive.using(path) == ()
    assert archive.publish(made, path) is False
    made.touch()
    assert archive.publish(made, path) is True
    assert archive.using(path)[0] == f"-XX:SharedArchiveFile={path}"
    assert not older.exists()


def test_each_node_has_the_ports_of_its_role_and_shares_none():
    found = ports_of(LabSpec(controllers=2), {})
    assert [(one.client is None, one.controller is None) for one in found.values()] == [(False, True)] * 3 + [(True, False)] * 2
    given = [port for one in found.values() for port in (one.client, one.controller, one.jolokia) if port is not None]
    assert len(set(given)) == 10


def test_on_hosts_of_their_own_all_nodes_have_the_same_ports():
    found = ports_of(LabSpec(nodes=2, replicas=2), {1: "10.200.7.1", 2: "10.200.7.2"})
    assert [(one.host, one.client) for one in found.values()] == [("10.200.7.1", 9092), ("10.200.7.2", 9092)]
