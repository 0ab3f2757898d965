"""How is traffic between two hosts of a lab made slow? Its packets take a way through this process, which keeps them a while.

The kernel's own means (netem) is a module that small kernels do not have, so the lab brings its own. Each host has, beside its
interface, a second one (a TUN device) whose other end is here; a route on the host sends to it what is to be slow. Here a packet
waits for its turn and its time and then leaves through the host's real interface, unchanged.

A *flow* is what one host sends to another. It goes through *pipes* one after the other. A pipe has a rate (packets follow each
other as their bits fit through, and what finds 1,000 packets waiting is dropped, as netem does) and a delay with a jitter
(uniform, plus or minus). Several flows may share a pipe: that is a host's slow link. Within a flow packets never overtake each
other.

Run as `python -I -S relay.py SOCKET NAMESPACE...`, with the standard library only. Told by a JSON line on a Unix socket what all
flows and pipes are from now on, it answers with a line: "ok". What waits then is sent at once.

Example: a pipe of 100 kbit/s and 20 ms, 3 packets of 1,250 bytes at once: they leave after 120, 220 and 320 ms.
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time
from typing import Any

TUN = "/dev/net/tun"
TUN_INTERFACE = "slow"
REAL_INTERFACE = b"eth0"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
NAMESPACES = "/run/netns/"
QUEUE_PACKETS = 1000
PACKETS_A_TURN = 64
PACKET_BYTES = 65536


class Pipe:
    """A rate and a delay that packets share."""

    def __init__(self, delay_ms: float = 0.0, jitter_ms: float = 0.0, rate_kbit: float | None = None) -> None:
        self._delay, self._jitter = delay_ms / 1000, jitter_ms / 1000
        self._bytes_a_second = None if rate_kbit is None else rate_kbit * 1000 / 8
        self._is_free_at = 0.0
        self._leave_at: list[float] = []

    def through(self, size: int, now: float) -> float | None:
        """When a packet that comes in now is through; None when it is dropped."""
        if self._bytes_a_second is not None:
            while self._leave_at and self._leave_at[0] <= now:
                heapq.heappop(self._leave_at)
            if len(self._leave_at) >= QUEUE_PACKETS:
                return None
            self._is_free_at = max(now, self._is_free_at) + size / self._bytes_a_second
            heapq.heappush(self._leave_at, self._is_free_at)
            now = self._is_free_at
        jitter = random.uniform(-self._jitter, self._jitter) if self._jitter else 0.0  # noqa: S311 - not a secret
        return now + max(0.0, self._delay + jitter)


class Flow:
    """What one host sends to another, through its pipes, in order."""

    def __init__(self, pipes: list[Pipe]) -> None:
        self._pipes = pipes
        self._last = 0.0

    def release_at(self, size: int, now: float) -> float | None:
        """When a packet that comes in now is to leave; None when it is dropped."""
        at: float | None = now
        for pipe in self._pipes:
            at = pipe.through(size, at) if at is not None else None
        if at is not None:
            self._last = at = max(at, self._last)
        return at


class Relay:
    """All hosts' second interfaces, and the packets that wait."""

    def __init__(self, namespaces: list[str]) -> None:
        self._ways = {}
        for namespace in namespaces:
            tun, out = _open(namespace)
            self._ways[tun] = out
        self._flows: dict[bytes, Flow] = {}
        self._waiting: list[tuple[float, int, bytes, socket.socket]] = []
        self._number = 0

    def set_flows(self, text: bytes) -> None:
        """Takes a new table, and sends at once what waits by the old one."""
        table = json.loads(text)
        pipes = {name: Pipe(**settings) for name, settings in table["pipes"].items()}
        self._flows = {
            socket.inet_aton(flow["from"]) + socket.inet_aton(flow["to"]): Flow([pipes[name] for name in flow["pipes"]])
            for flow in table["flows"]
        }
        self._send_until(float("inf"))

    def run(self, control: socket.socket) -> None:
        """Carries packets until whoever controls it is gone."""
        inputs: list[Any] = [*self._ways, control]
        text = b""
        while True:
            pause = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            ready, _, _ = select.select(inputs, [], [], pause)
            for one in ready:
                if one is not control:
                    self._take(one)
                    continue
                received = control.recv(PACKET_BYTES)
                if not received:
                    return
                text += received
                while b"\n" in text:
                    line, _, text = text.partition(b"\n")
                    self.set_flows(line)
                    control.sendall(b"ok\n")
            self._send_until(time.monotonic())

    def _take(self, tun: int) -> None:
        for _ in range(PACKETS_A_TURN):
            try:
                packet = os.read(tun, PACKET_BYTES)
            except BlockingIOError:
                return
            if packet[0] >> 4 != 4:
                continue
            now = time.monotonic()
            flow = self._flows.get(packet[12:20])
            release_at = now if flow is None else flow.release_at(len(packet), now)
            if release_at is not None:
                self._number += 1
                heapq.heappush(self._waiting, (release_at, self._number, packet, self._ways[tun]))

    def _send_until(self, instant: float) -> None:
        while self._waiting and self._waiting[0][0] <= instant:
            _, _, packet, out = heapq.heappop(self._waiting)
            # What the kernel does not take is lost, as on any network; TCP sends it again.
            with contextlib.suppress(OSError):
                out.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))


def _open(namespace: str) -> tuple[int, socket.socket]:
    """The end of a host's second interface, and a socket that sends through its real one whatever its routes say."""
    descriptor = os.open(NAMESPACES + namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        sys.exit(f"cannot enter the network namespace {namespace}: errno {ctypes.get_errno()}")
    os.close(descriptor)
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", TUN_INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, REAL_INTERFACE)
    return tun, out


def main() -> None:
    """Runs until its parent's connection ends."""
    path, *namespaces = sys.argv[1:]
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    relay = Relay(namespaces)
    # Before anything else on a busy machine: a packet that is late here was late on the network, as far as anybody can see.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    control.connect(path)
    relay.run(control)


if __name__ == "__main__":
    main()
