"""How does each node of a lab get a host of its own, and how does one host reach another?

The rule: a host is a network namespace with one interface and one address; all hosts hang on one switch, a bridge in a further
namespace. The lab's own eyes (admin, metrics, settings) look from this machine over a cable of their own to the same switch, so
they see the cluster whatever is cut between its hosts; the measuring processes run on the host `prober`, which can be cut off as
any other. The addresses are a /24 of 10.128.0.0/9 that no route or interface of this machine has anything to do with. Nothing is
routed beyond the switch.

A ping is an ICMP echo, which the kernel of the other host answers whether or not its broker runs.

Example: a lab of three nodes has the hosts "1", "2", "3" (10.201.77.1 to .3), "prober" (.250), and this machine as "operator"
(.254); `ping(hosts["1"], [hosts["2"]])` is {"2": [0.00006, ...]}: 60 us there and back.
"""

import contextlib
import ctypes
import ipaddress
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipelines.errors import LabError
from pipelines.lab.claims import Claim, alone

PROBER = "prober"
OPERATOR = "operator"
SWITCH = "switch"
PROBER_NUMBER = 250
OPERATOR_NUMBER = 254
INTERFACE = "eth0"
RANGE = ipaddress.ip_network("10.128.0.0/9")
TRIES = 50
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
ECHO_REQUEST, ECHO_REPLY = 8, 0
COMMAND_SECONDS = 30
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "nsenter": "util-linux"}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Host:
    """A place on the lab's network. `namespace` is None for this machine itself."""

    name: str
    address: str
    namespace: str | None

    @property
    def prefix(self) -> tuple[str, ...]:
        """What goes before a command so that it runs on this host.

        Not `ip netns exec`: that also gives the command a copy of all mounts, which would keep a volume busy that the lab takes away.
        """
        return () if self.namespace is None else ("nsenter", f"--net={NAMESPACES / self.namespace}", "--")


def require_programs() -> None:
    """Raises LabError naming the packages that a lab with a network needs and this machine lacks."""
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if missing:
        raise LabError(f"a lab with network=True needs programs that are not here: install the Debian packages {', '.join(missing)}")
    if not Path("/dev/net/tun").exists():
        raise LabError("a lab with network=True needs the device /dev/net/tun: load the kernel's module tun")


def make_hosts(claim: Claim, numbers: Mapping[str, int]) -> dict[str, Host]:
    """Makes the hosts with these names and last bytes of the address, the prober and this machine's own cable.

    Raises LabError when the kernel does not let us.
    """
    lab = f"lastack-{claim.lab_id}"
    switch, cable = f"{lab}-{SWITCH}", f"lsk{claim.lab_id}"
    numbers = {**numbers, PROBER: PROBER_NUMBER}
    with alone():
        net = free_range()
        hosts = {name: Host(name, str(net[number]), f"{lab}-{name}") for name, number in numbers.items()}
        hosts[OPERATOR] = Host(OPERATOR, str(net[OPERATOR_NUMBER]), None)
        for namespace in (switch, *(host.namespace for host in hosts.values() if host.namespace)):
            claim.take("namespace", namespace)
        claim.take("link", cable)
        _ip(None, _links(hosts, switch, cable))
        _ip(switch, _switch(hosts))
        _ip(None, [f"addr add {hosts[OPERATOR].address}/24 dev {cable}", f"link set {cable} up"])
    for host in hosts.values():
        if host.namespace:
            _ip(host.namespace, ["link set lo up", f"addr add {host.address}/24 dev {INTERFACE}", f"link set {INTERFACE} up"])
    return hosts


def _links(hosts: Mapping[str, Host], switch: str, cable: str) -> list[str]:
    lines = [f"netns add {switch}"]
    for host in hosts.values():
        if host.namespace is None:
            lines.append(f"link add {cable} type veth peer name {host.name} netns {switch}")
        else:
            lines.append(f"netns add {host.namespace}")
            lines.append(f"link add {host.name} netns {switch} type veth peer name {INTERFACE} netns {host.namespace}")
    return lines


def _switch(hosts: Mapping[str, Host]) -> list[str]:
    ports = [line for name in hosts for line in (f"link set {name} master {SWITCH}", f"link set {name} up")]
    return [f"link add {SWITCH} type bridge", f"link set {SWITCH} up", *ports]


def free_range() -> ipaddress.IPv4Network:
    """A /24 that this machine neither has an address in nor a route to (but the default one). Raises LabError."""
    answer = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
    )
    taken = [ipaddress.ip_network(route["dst"], strict=False) for route in json.loads(answer.stdout) if route["dst"] != "default"]
    for _ in range(TRIES):
        net = ipaddress.IPv4Network((int(RANGE[0]) + (random.randrange(RANGE.num_addresses) & ~0xFF), 24))  # noqa: S311 - not a secret
        if not any(net.overlaps(other) for other in taken if other.version == 4 and other.prefixlen > 0):
            return net
    raise LabError(f"found no /24 of {RANGE} without a route in {TRIES} tries: this machine routes all of it somewhere")


def _ip(namespace: str | None, lines: Iterable[str]) -> None:
    run("ip", [*(["-netns", namespace] if namespace else []), "-batch", "-"], "\n".join(lines) + "\n")


def run(program: str, arguments: Sequence[str], text: str) -> str:
    """Feeds a program its commands; returns its output. Raises LabError with the program's own words."""
    answer = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    if answer.returncode != 0:
        raise LabError(f"{program} could not do {text.strip()!r}: {(answer.stderr or answer.stdout).strip()}")
    return answer.stdout


def on_host(host: Host, do: Callable[[], Result]) -> Result:
    """Does something on a host, in a thread of its own that ends with it: the sockets that it opens are that host's."""
    result: Future[Result] = Future()

    def work() -> None:
        try:
            if host.namespace is not None:
                _enter(host.namespace)
            result.set_result(do())
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            result.set_exception(error)

    thread = threading.Thread(target=work, name=f"on host {host.name}")
    thread.start()
    thread.join()
    return result.result()


def _enter(namespace: str) -> None:
    descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise LabError(f"cannot enter the network namespace {namespace}: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def ping(
    source: Host, targets: Sequence[Host], count: int = 1, limit: float = 1.0, size: int = 56, interval: float = 0.02
) -> dict[str, list[float]]:
    """The round trips that came back, in seconds, for each target by name.

    Args:
        source: whence.
        targets: whither, all at the same time.
        count: echoes to each.
        limit: how long to wait for the answers after the last echo was sent.
        size: bytes of each echo beyond the headers (28 bytes).
        interval: the pause between two echoes to the same target.
    """
    return on_host(source, lambda: _ping({host.address: host.name for host in targets}, count, limit, size, interval))


def _ping(names: Mapping[str, str], count: int, limit: float, size: int, interval: float) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in names.values()}
    identity = random.randrange(1 << 16)  # noqa: S311 - not a secret
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sent: dict[tuple[str, int], float] = {}
        begun = time.monotonic()
        for number in range(count):
            _receive(sock, identity, sent, found, names, begun + number * interval, is_last=False)
            for address in names:
                sent[address, number] = time.monotonic()
                # A host that is cut off at our own end says so at once; that is no answer either.
                with contextlib.suppress(OSError):
                    sock.sendto(_echo(identity, number, size), (address, 0))
        _receive(sock, identity, sent, found, names, time.monotonic() + limit, is_last=True)
    return found


def _receive(
    sock: socket.socket,
    identity: int,
    sent: dict[tuple[str, int], float],
    found: dict[str, list[float]],
    names: Mapping[str, str],
    until: float,
    *,
    is_last: bool,
) -> None:
    """Takes answers until the instant; at last only until none is missing."""
    while (sent or not is_last) and (left := until - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            packet, (address, _) = sock.recvfrom(65536)
        except TimeoutError:
            return
        header = (packet[0] & 0x0F) * 4
        kind, _, _, its_identity, number = struct.unpack_from(">BBHHH", packet, header)
        if kind == ECHO_REPLY and its_identity == identity and (address, number) in sent:
            found[names[address]].append(time.monotonic() - sent.pop((address, number)))


def _echo(identity: int, number: int, size: int) -> bytes:
    body = struct.pack(">BBHHH", ECHO_REQUEST, 0, 0, identity, number) + bytes(size)
    total = sum(struct.unpack(f">{len(body) // 2}H", body[: len(body) // 2 * 2]))
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return struct.pack(">BBHHH", ECHO_REQUEST, 0, checksum, identity, number) + bytes(size)
