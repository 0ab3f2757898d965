"""One node of the lab as a process, broker or controller or both: how is it started, hurt, and looked at?

The rule: a fault is only reported when its effect was seen: a killed process is gone, a stopped one is in the kernel's stopped
state. The instants are read just before the signal, just after it, and once the effect was seen.

Example: `node.kill()` is a `Fault("kill", "1", before_at_us=..., after_at_us=+60 us, verified_at_us=+9 ms)`.
"""

import json
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any

import psutil

from pipelines.domain.clock import Anchor
from pipelines.errors import LabError
from pipelines.lab.config import Ports, Roles
from pipelines.processes import Child, spawn, wait_until

EFFECT_SECONDS = 10.0
SHUTDOWN_SECONDS = 90.0
JOLOKIA_SECONDS = 2.0
BROKER_RUNNING = 3
PORT_TAKEN = "Address already in use"

# Whatever proxy the user's environment names, it does not lead to our own loopback, nor to our own hosts.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to a node. All instants are microseconds since the epoch, UTC, by the lab's anchor."""

    fault: str
    target: str
    """The node's id, or the name of the host or of the zone."""
    pid: int | None
    """The process that it was done to; None for what is done to a network or a disk."""
    before_at_us: int
    """Just before it was done (the signal was sent)."""
    after_at_us: int
    """Just after; the fault happened between the two."""
    verified_at_us: int
    """When its effect had been seen."""
    detail: str = ""
    """What else there is to say, for people: from which hosts it was cut off, by how much it was slowed."""


class Doing:
    """Takes the instants just before and just after something is done: the block holds nothing else."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self.before_at_us = self.after_at_us = 0

    def __enter__(self) -> None:
        self.before_at_us = self._anchor.now_us()

    def __exit__(self, *_: object) -> None:
        self.after_at_us = self._anchor.now_us()


class Node:
    """A broker, a controller or both. Its files are in `folder`, and survive its restarts."""

    def __init__(
        self,
        node_id: int,
        ports: Ports,
        folder: Path,
        command: list[str],
        anchor: Anchor,
        roles: Roles = Roles.COMBINED,
        data_dir: Path | None = None,
    ) -> None:
        self.node_id = node_id
        self.ports = ports
        self.folder = folder
        self.roles = roles
        self.data_dir = data_dir or folder / "data"
        self._command = command
        self._anchor = anchor
        self._child: Child | None = None

    def __repr__(self) -> str:
        return f"Node({self.node_id}, {self.roles}, {self.ports.host})"

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{'controller' if self.roles is Roles.CONTROLLER else 'node'} {self.node_id}"

    @property
    def host_name(self) -> str:
        """What its host is called, where it has one of its own."""
        return str(self.node_id)

    @property
    def is_broker(self) -> bool:
        """Whether it serves clients."""
        return self.roles is not Roles.CONTROLLER

    @property
    def is_controller(self) -> bool:
        """Whether it votes."""
        return self.roles is not Roles.BROKER

    @property
    def target(self) -> str:
        """What a fault is recorded under."""
        return str(self.node_id)

    @property
    def address(self) -> str:
        """HOST:PORT for clients. Raises LabError for a controller, which has none."""
        if self.ports.client is None:
            raise LabError(f"{self.name} of the lab is no broker: clients have nothing to ask there")
        return f"{self.ports.host}:{self.ports.client}"

    @property
    def controller_address(self) -> str:
        """HOST:PORT of its controller listener. Raises LabError for a broker that is no controller."""
        if self.ports.controller is None:
            raise LabError(f"{self.name} of the lab is no controller: the lab has controllers of their own")
        return f"{self.ports.host}:{self.ports.controller}"

    @property
    def jolokia_url(self) -> str:
        """Where its metrics are read."""
        return f"http://{self.ports.host}:{self.ports.jolokia}/jolokia/"

    @property
    def pid(self) -> int:
        """The process id of its last start. Raises LabError when it was never started."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """The broker's own log."""
        return self.folder / "server.log"

    @property
    def output_path(self) -> Path:
        """What the JVM itself wrote."""
        return self.folder / "output.log"

    @property
    def metadata_log_dir(self) -> Path:
        """Its copy of `__cluster_metadata`."""
        return self.data_dir / "__cluster_metadata-0"

    @property
    def _process(self) -> Child:
        if self._child is None:
            raise LabError(f"{self.name} of the lab was never started")
        return self._child

    def is_alive(self) -> bool:
        """Whether its process is there; a paused one is."""
        return self._child is not None and self._child.is_alive()

    def is_paused(self) -> bool:
        """Whether its process is stopped by a signal."""
        try:
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def start(self) -> None:
        """Starts the process and returns at once; whether it serves is the lab's question. Raises LabError when it runs."""
        if self.is_alive():
            raise LabError(f"{self.name} runs already (pid {self.pid})")
        self._child = spawn(self.name, self._command, self.output_path, folder=self.folder)

    def kill(self) -> Fault:
        """SIGKILL; returns when the process is gone, and with it its sockets."""
        return self._hurt("kill", Signals.SIGKILL, lambda: not self.is_alive(), EFFECT_SECONDS)

    def terminate(self) -> Fault:
        """SIGTERM, as an operator's stop: it hands over its leaderships first. Returns when the process is gone."""
        return self._hurt("terminate", Signals.SIGTERM, lambda: not self.is_alive(), SHUTDOWN_SECONDS)

    def pause(self) -> Fault:
        """SIGSTOP: its connections stay open and nobody answers on them."""
        return self._hurt("pause", Signals.SIGSTOP, self.is_paused, EFFECT_SECONDS)

    def resume(self) -> Fault:
        """SIGCONT."""
        return self._hurt("resume", Signals.SIGCONT, lambda: not self.is_paused(), EFFECT_SECONDS)

    def stop(self, grace_seconds: float = 0.0) -> None:
        """Ends it without a record: for clearing up."""
        if self._child is not None:
            self._child.stop(grace_seconds)

    def lost_its_port(self) -> bool:
        """Whether it ended because somebody else has one of its ports."""
        logs = (path for path in (self.log_path, self.output_path) if path.is_file())
        return not self.is_alive() and any(PORT_TAKEN in path.read_text(errors="replace") for path in logs)

    def last_words(self, lines: int = 8) -> str:
        """The last errors of its log, or its last lines when it has none; for messages."""
        text = self.log_path.read_text(errors="replace").splitlines() if self.log_path.is_file() else []
        errors = [line for line in text if " ERROR " in line or " FATAL " in line]
        said = (errors or text)[-lines:]
        return "\n".join(said) or self._process.log_tail(lines)

    def read_mbean(self, mbean: str, attribute: str = "Value") -> Any:
        """One attribute of one MBean; None when the node does not answer or has no such MBean."""
        body = json.dumps({"type": "read", "mbean": mbean, "attribute": attribute}).encode()
        request = urllib.request.Request(self.jolokia_url, data=body, method="POST")  # noqa: S310 - our own address
        try:
            with _OPENER.open(request, timeout=JOLOKIA_SECONDS) as answer:
                return json.load(answer).get("value")
        except (OSError, ValueError):
            return None  # down, starting or paused: there is no value now

    def is_active_controller(self) -> bool:
        """Whether it says that it is the active controller now; False when it does not answer."""
        count: int | None = self.read_mbean("kafka.controller:type=KafkaController,name=ActiveControllerCount")
        return count == 1

    def metadata_offset(self) -> int:
        """How far this broker has read the metadata log; -1 when it does not answer, or is no broker."""
        offset: int | None = self.read_mbean("kafka.server:type=broker-metadata-metrics", "last-applied-record-offset")
        return -1 if offset is None else offset

    def is_in_quorum(self) -> bool:
        """Whether it, as a voter, leads the quorum or follows a leader of it now; False when it does not answer."""
        return self.read_mbean("kafka.server:type=raft-metrics", "current-state") in ("leader", "follower")

    def is_running(self) -> bool:
        """Whether it says that it is in full service: a broker, that the controller has unfenced it; a controller, its quorum."""
        if not self.is_broker:
            return self.is_in_quorum()
        return bool(self.read_mbean("kafka.server:type=KafkaServer,name=BrokerState") == BROKER_RUNNING)

    def _hurt(self, fault: str, number: Signals, has_effect: Callable[[], bool], timeout: float) -> Fault:
        return self._see(self._send(fault, number), has_effect, timeout)

    def _send(self, fault: str, number: Signals) -> Fault:
        """Sends the signal, and says when; that it took effect was not seen yet."""
        child = self._process
        before = self._anchor.now_us()
        was_sent = child.send(number)
        after = self._anchor.now_us()
        if not was_sent:
            raise LabError(f"cannot {fault} {self.name}: its process (pid {child.pid}) is gone already")
        return Fault(fault, self.target, child.pid, before, after, after)

    def _see(self, sent: Fault, has_effect: Callable[[], bool], timeout: float) -> Fault:
        wait_until(has_effect, timeout, f"{self.name} (pid {sent.pid}) to show the effect of {sent.fault}", poll_seconds=0.005)
        return replace(sent, verified_at_us=self._anchor.now_us())


def kill_all(nodes: Sequence[Node]) -> list[Fault]:
    """SIGKILL for all of them first, then it is seen that all are gone."""
    sent = [(node, node._send("kill", Signals.SIGKILL)) for node in nodes]  # noqa: SLF001 - our own class
    return [node._see(fault, partial(_is_gone, node), EFFECT_SECONDS) for node, fault in sent]  # noqa: SLF001


def _is_gone(node: Node) -> bool:
    return not node.is_alive()
