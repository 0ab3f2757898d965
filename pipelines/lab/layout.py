"""Where does each node of a lab listen, and which files does it get before it is started?

The rule: on loopback every node has ports that nobody else has; on hosts of their own all nodes have the same ports, Kafka's
usual ones, each on its host's address. What is written here (properties, logging, a formatted data folder) is all that a node
knows when it starts; nothing is started here.

Example: `ports_of(LabSpec(controllers=1), {})` gives brokers 1 to 3 a client port and a port for metrics each, and controller
101 a controller port and one for metrics: 8 different ports on 127.0.0.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.domain.clock import Anchor
from pipelines.jars import JarSet
from pipelines.java import Java
from pipelines.lab import config
from pipelines.lab.config import LabSpec, Ports, Roles
from pipelines.lab.mode import Mode
from pipelines.lab.node import Node
from pipelines.lab.ports import LOOPBACK, free_ports
from pipelines.lab.security import Credentials

OWN_HOST_PORTS = {"client": 9092, "controller": 9093, "secure": 9094, "jolokia": 8778}
"""Below the range of outgoing connections, see `ports`; a host that the lab made has nothing else on it."""
VOLUME = "volume"
"""Where a node's own file system is mounted, below its folder."""


@dataclass(frozen=True)
class Ground:
    """What the nodes of one lab stand on."""

    java: Java
    jar_set: JarSet
    folder: Path
    anchor: Anchor
    cluster_id: str
    credentials: Credentials | None = None
    flags: tuple[str, ...] = ()
    """More flags for the nodes' JVMs."""
    prefixes: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """What goes before a node's command, so that it runs on its host."""


def ports_of(spec: LabSpec, addresses: Mapping[int, str]) -> dict[int, Ports]:
    """Where each node listens.

    Args:
        spec: the cluster.
        addresses: of the nodes' own hosts; empty when all nodes are on this one's loopback.
    """
    wanted = {node_id: list(_listeners(spec, node_id)) for node_id in spec.all_ids}
    free: Iterator[int] = iter([] if addresses else free_ports(sum(map(len, wanted.values()))))
    found = {}
    for node_id, names in wanted.items():
        ports = {name: OWN_HOST_PORTS[name] if addresses else next(free) for name in names}
        found[node_id] = Ports(
            ports.get("client"), ports.get("controller"), ports["jolokia"], ports.get("secure"), addresses.get(node_id, LOOPBACK)
        )
    return found


def _listeners(spec: LabSpec, node_id: int) -> Iterator[str]:
    roles = spec.roles(node_id)
    if roles is not Roles.CONTROLLER:
        yield "client"
    if roles is not Roles.BROKER:
        yield "controller"
    yield "jolokia"
    if roles is not Roles.CONTROLLER and spec.login is not None:
        yield "secure"


def node_folder(folder: Path, node_id: int) -> Path:
    """Where a node's files are."""
    return folder / f"node-{node_id}"


def make_nodes(spec: LabSpec, mode: Mode, ground: Ground, ports: Mapping[int, Ports]) -> list[Node]:
    """Writes every node's files and formats its data. Volumes, where the spec asks for them, are mounted already."""
    agent = ground.jar_set.path_of("jolokia-agent-jvm")
    nodes = []
    for node_id in spec.all_ids:
        folder = node_folder(ground.folder, node_id)
        folder.mkdir(exist_ok=True)
        data = folder / "data" if spec.own_volume_mb is None else folder / VOLUME / "data"
        properties = mode.properties(node_id, ports, data, ground.credentials)
        (folder / "server.properties").write_text(config.properties_text(properties))
        logging_name, logging_text = mode.logging(folder / "server.log")
        (folder / logging_name).write_text(logging_text)
        command = mode.command(ground.java.executable, ground.jar_set.class_path, agent, folder, ports[node_id], ground.flags)
        prefix = ground.prefixes.get(node_id, ())
        nodes.append(Node(node_id, ports[node_id], folder, [*prefix, *command], ground.anchor, spec.roles(node_id), data))
    mode.format(ground.java.executable, ground.jar_set.class_path, nodes, ground.cluster_id)
    return nodes
