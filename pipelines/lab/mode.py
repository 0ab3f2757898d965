"""Where does a lab's cluster keep its metadata, and what follows from it for its nodes?

The rule: `cluster.Lab` starts, hurts and watches nodes, whatever the mode; all that differs is asked of one `Mode`: which JARs, what a
node is told, how its data folder begins, which servers have to run before it.

Example: `Kraft(spec)` has no server beside its nodes, and formats their folders; `zookeeper_mode.ZooKeeperMode(spec)` starts ZooKeeper
first, and formats nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pipelines.domain.clock import Anchor
from pipelines.jars import JarSet
from pipelines.java import Java
from pipelines.lab import config
from pipelines.lab.config import LabSpec, Ports
from pipelines.lab.hosts import Host
from pipelines.lab.node import Node
from pipelines.lab.security import Credentials
from pipelines.lab.storage import format_all
from pipelines.lab.zookeeper import ZooKeeperNode


class Mode(Protocol):
    """What a lab asks. One object a lab; `prepare` is called once for every start with new ports, before the others."""

    jar_set: str
    """The lock of the JARs that its nodes run on."""
    archive_kind: str
    """What the names of its class-data archives begin with."""
    zookeepers: list[ZooKeeperNode]
    """The servers that have to answer before a broker starts; empty in KRaft mode."""

    def prepare(
        self, java: Java, jar_set: JarSet, folder: Path, anchor: Anchor, extra_flags: tuple[str, ...], hosts: Mapping[int, Host]
    ) -> None:
        """Writes the files of the servers beside the nodes; starts nothing. `hosts`: theirs, empty where all share loopback."""

    def properties(self, node_id: int, ports: Mapping[int, Ports], data: Path, credentials: Credentials | None) -> dict[str, str]:
        """A node's `server.properties`."""

    def logging(self, log: Path) -> tuple[str, str]:
        """The name and the text of the file that sets a node's logging up."""

    def command(self, java: Path, class_path: str, agent: Path, folder: Path, ports: Ports, extra_flags: tuple[str, ...]) -> list[str]:
        """The command that runs the node whose files are in `folder`."""

    def format(self, java: Path, class_path: str, nodes: Sequence[Node], cluster_id: str) -> None:
        """Makes the nodes' data folders what their first start expects."""

    def wait_until_may_start(self, node: Node, timeout: float) -> None:
        """Returns when a node that has run before may be started again."""

    def metadata_offset(self, node: Node) -> int:
        """How far a broker has read the cluster's metadata; -1 when it does not answer."""


class Kraft:
    """The metadata is a log of the nodes themselves."""

    jar_set = "kafka"
    archive_kind = "kafka"

    def __init__(self, spec: LabSpec) -> None:
        self._spec = spec
        self.zookeepers: list[ZooKeeperNode] = []

    def prepare(
        self, java: Java, jar_set: JarSet, folder: Path, anchor: Anchor, extra_flags: tuple[str, ...], hosts: Mapping[int, Host]
    ) -> None:
        """There is nothing beside the nodes."""

    def properties(self, node_id: int, ports: Mapping[int, Ports], data: Path, credentials: Credentials | None) -> dict[str, str]:
        """See `Mode.properties`."""
        return config.node_properties(self._spec, node_id, ports, data, credentials)

    def logging(self, log: Path) -> tuple[str, str]:
        """Log4j 2."""
        return "log4j2.properties", config.logging_text(log)

    def command(self, java: Path, class_path: str, agent: Path, folder: Path, ports: Ports, extra_flags: tuple[str, ...]) -> list[str]:
        """See `Mode.command`."""
        return config.java_command(java, class_path, agent, folder, ports, extra_flags)

    def format(self, java: Path, class_path: str, nodes: Sequence[Node], cluster_id: str) -> None:
        """With Kafka's own tool."""
        scram = self._spec.login.scram_arguments if self._spec.login else []
        # A controller's folder first: what the tool writes for it is what any node may have.
        by_role = sorted(nodes, key=lambda node: node.node_id not in self._spec.controller_ids)
        format_all(java, class_path, by_role, cluster_id, scram)

    def wait_until_may_start(self, node: Node, timeout: float) -> None:
        """At once: a node that registers again takes the place of the one that died."""

    def metadata_offset(self, node: Node) -> int:
        """Of the metadata log."""
        return node.metadata_offset()
