"""The lab's hosts and disks without any broker on them: they do what is asked, say so when they do not, and never stay behind."""

import contextlib
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from pipelines.domain.clock import Anchor
from pipelines.errors import LabError
from pipelines.lab import claims, hosts, volumes
from pipelines.lab.claims import Claim, release_left_behind
from pipelines.lab.config import Ports
from pipelines.lab.hosts import OPERATOR, PROBER, on_host, ping
from pipelines.lab.network import Network, Slowness
from pipelines.lab.node import Doing, Node
from pipelines.processes import wait_until

pytestmark = pytest.mark.system


@pytest.fixture
def doing():
    return Doing(Anchor.now())


@pytest.fixture
def claim():
    made = Claim()
    yield made
    made.release()


@pytest.fixture
def net(claim, tmp_path):
    made = Network(claim, {"1": 1, "2": 2, "3": 3}, tmp_path / "relay.log")
    yield made
    made.close()


def pair(one, other):
    return [frozenset((one, other))]


def test_a_cut_hangs_connections_that_are_open_and_healing_lets_them_go_on(net, doing):
    one, two = net.hosts["1"], net.hosts["2"]
    door = on_host(two, lambda: socket.create_server((two.address, 9092)))
    with door, on_host(one, lambda: socket.create_connection((two.address, 9092), timeout=2)) as near, door.accept()[0] as far:
        far.settimeout(0.3)
        near.sendall(b"before")
        assert far.recv(16) == b"before"
        net.cut(pair("1", "2"), doing)
        near.sendall(b"during")
        with pytest.raises(TimeoutError):
            far.recv(16)
        assert ping(net.hosts["3"], [one, two])["1"]
        net.heal(pair("1", "2"), doing)
        far.settimeout(10)
        assert far.recv(16) == b"during"


def test_a_cut_that_takes_no_effect_is_said_and_taken_back(net, doing, monkeypatch):
    wrong = net._elements("add", pair("1", "3"))
    healing = net._elements("delete", pair("1", "3"))
    monkeypatch.setattr(net, "_elements", lambda verb, _pairs: wrong if verb == "add" else healing)
    with pytest.raises(LabError, match=r"after the cut, 3 of 3 echoes from the host \d to \d came back, expected none"):
        net.cut(pair("1", "2"), doing)
    assert net.cuts == frozenset()
    assert ping(net.hosts["1"], [net.hosts["3"]])["3"]


def test_a_delay_that_takes_no_effect_is_said_and_taken_back(net, doing, monkeypatch):
    apply = net._apply
    monkeypatch.setattr(net, "_apply", lambda: None)
    with pytest.raises(LabError, match=r"the fastest of 6 round trips is \d\.\d ms, expected 100 to 125 ms"):
        net.slow(net.hosts["1"], Slowness(50), [net.hosts["2"]], doing)
    monkeypatch.setattr(net, "_apply", apply)
    net.slow(net.hosts["1"], Slowness(50), [net.hosts["2"]], doing)
    assert min(ping(net.hosts["2"], [net.hosts["1"]])["1"]) >= 0.1


def test_a_delay_a_jitter_and_a_rate_add_up_and_go_away(net, doing):
    one, two, three = (net.hosts[name] for name in "123")
    net.slow(one, Slowness(30, 10, 2000), [two], doing)
    back = ping(two, [one], count=10)["1"]
    assert len(back) == 10
    assert 0.040 <= min(back) < max(back) < 0.150
    assert min(ping(one, [three])["3"]) < 0.02
    with pytest.raises(LabError, match="slow already"):
        net.slow(one, Slowness(1), [two], doing)
    net.unslow(one, doing)
    assert min(ping(two, [one], count=3)["1"]) < 0.02


def test_what_is_sent_over_a_slow_link_arrives_whole_at_its_rate(net, doing):
    one, two = net.hosts["1"], net.hosts["2"]
    net.slow(one, Slowness(5, 0, 8000), [two], doing)
    sent = os.urandom(1_000_000)
    door = on_host(two, lambda: socket.create_server((two.address, 9092)))
    with door, on_host(one, lambda: socket.create_connection((two.address, 9092), timeout=10)) as near, door.accept()[0] as far:
        anchor = Anchor.now()
        begun = anchor.now_us()
        sender = threading.Thread(target=lambda: (near.sendall(sent), near.shutdown(socket.SHUT_WR)))
        sender.start()
        far.settimeout(10)
        received = b"".join(iter(lambda: far.recv(65536), b""))
        seconds = (anchor.now_us() - begun) / 1e6
        sender.join()
    assert received == sent
    assert 0.9 < seconds < 3.0


def test_a_relay_that_died_is_said_instead_of_a_fast_network(net, doing):
    net.slow(net.hosts["1"], Slowness(5), [net.hosts["2"]], doing)
    net._relay.kill()
    with pytest.raises(LabError, match="the relay that slows the lab's network does not answer"):
        net.slow(net.hosts["3"], Slowness(5), [net.hosts["2"]], doing)


def test_this_machine_s_own_cable_cannot_be_cut(net):
    with pytest.raises(LabError, match="nothing to cut or to slow"):
        net.peers(net.hosts["1"], [net.hosts[OPERATOR]])


def test_a_command_with_the_prober_s_prefix_has_the_prober_s_address_and_no_other(net):
    prober = net.hosts[PROBER]
    shown = subprocess.run([*prober.prefix, "ip", "-json", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    found = {one["local"] for link in json.loads(shown) for one in link["addr_info"]}
    assert found == {"127.0.0.1", prober.address}


def test_two_labs_at_once_share_neither_names_nor_addresses(net, tmp_path):
    other_claim = Claim()
    try:
        other = Network(other_claim, {"1": 1}, tmp_path / "relay.log")
        ranges = [ipaddress.ip_network(f"{one.hosts['1'].address}/24", strict=False) for one in (net, other)]
        assert not ranges[0].overlaps(ranges[1])
        assert not ping(net.hosts["1"], [other.hosts["1"]], limit=0.2)["1"]
        assert ping(net.hosts["1"], [net.hosts["2"]])["2"]
    finally:
        other_claim.release()


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(hosts.shutil, "which", lambda name: None if name == "nft" else f"/bin/{name}")
    with pytest.raises(LabError, match="install the Debian packages nftables"):
        hosts.require_programs()


def test_a_user_who_is_not_root_is_told_so(monkeypatch):
    monkeypatch.setattr(claims.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="only as root"):
        Claim()


def test_a_disk_is_full_and_read_only_as_the_kernel_says_and_keeps_what_it_had(claim, tmp_path, doing):
    node = Node(1, Ports(1, 2, 3), tmp_path / "node-1", ["true"], Anchor.now())
    volumes.make_volumes(claim, tmp_path, [1], 32)
    kept = node.folder / "volume" / "kept"
    kept.write_bytes(b"acknowledged")
    volumes.fill(node, doing)
    with pytest.raises(OSError, match="No space left"), (node.folder / "volume" / "new").open("wb", buffering=0) as file:
        file.write(bytes(8192))
    volumes.free(node, doing)
    with kept.open("ab", buffering=0) as open_before:
        volumes.make_read_only(node, doing)
        with pytest.raises(OSError, match="Read-only file system"):
            open_before.write(b"more")
    volumes.make_writable(node, doing)
    assert kept.read_bytes() == b"acknowledged"
    with pytest.raises(LabError, match="ends with success, expected EROFS"):
        volumes.make_writable(node, doing)


LEFT = """
import sys
from pathlib import Path
from pipelines.lab.claims import Claim
from pipelines.lab.network import Network
from pipelines.lab.volumes import make_volumes
from pipelines.processes import spawn
claim, folder = Claim(), Path(sys.argv[1])
network = Network(claim, {"1": 1}, folder / "relay.log")
network.set_zones([["1"], ["prober"]], 1)
make_volumes(claim, folder, [1], 32)
node = spawn("node", [*network.hosts["1"].prefix, "sleep", "600"], folder / "node.log", folder=folder / "node-1" / "volume")
print(claim.lab_id, network._relay.pid, node.pid, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_lab_left_is_given_back_by_the_next_one_and_not_before(tmp_path):
    killed = subprocess.Popen(
        [sys.executable, "-c", LEFT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        lab_id, *pids = killed.stdout.readline().split()
        assert lab_id not in release_left_behind()
        assert len(left_of(lab_id, tmp_path)) == 5
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
        assert lab_id in release_left_behind()
        assert left_of(lab_id, tmp_path) == []
        wait_until(lambda: not any(is_running(int(pid)) for pid in pids), 10, f"the processes {pids} to be gone")
    finally:
        killed.kill()
        killed.communicate(timeout=10)


def is_running(pid):
    """Whether the process does anything: one that nobody has reaped yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def left_of(lab_id, folder):
    """What there is of a lab: its namespaces (switch, 1, prober), its cable, its mount."""
    namespaces = [path.name for path in Path("/run/netns").glob(f"lastack-{lab_id}-*")]
    cables = [path.name for path in Path("/sys/class/net").glob(f"*{lab_id}*")]
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return [*namespaces, *cables, *mounts]
