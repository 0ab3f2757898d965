"""What is a node of the lab told: its properties, its JVM's flags, its logging? Pure: no file is written here.

Example: `node_properties(spec, 1, ports, data)` of the default three nodes holds `broker.rack=az1`, `min.insync.replicas=2` and
the three controllers as voters; with `LabSpec(controllers=3)` the voters are 101, 102 and 103, and node 1 is a broker only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pipelines.errors import LabError
from pipelines.lab.ports import LOOPBACK
from pipelines.lab.security import Credentials, Login

CONTROLLER_LISTENER = "CONTROLLER"
CLIENT_LISTENER = "PLAINTEXT"
SECURE_LISTENER = "SECURE"
SECRETS = ("password", "secret", "jaas.config")
FIRST_CONTROLLER_ID = 101
"""Far from the brokers' ids, so that a message about node 101 is seen to be about a controller."""

HEAP = ("-Xms192m", "-Xmx512m")
JVM_FLAGS = (
    *HEAP,
    "-XX:+UseSerialGC",
    # The second compiler takes a core for a minute after each start; the lab's load does not need what it gains.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    # No shared-memory file that a kill -9 would leave behind.
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


class Roles(StrEnum):
    """What a node is; the values are those of `process.roles`."""

    COMBINED = "broker,controller"
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class LabSpec:
    """What kind of cluster is wanted.

    `properties` are added to every node's, `node_properties` to one node's (by id); both win over the lab's own. Every one of
    them is read back from the running broker or controller and must hold.
    """

    nodes: int = 3
    """The brokers: 1, 2, 3, ..."""
    replicas: int = 3
    min_insync_replicas: int = 2
    properties: Mapping[str, str] = field(default_factory=dict)
    node_properties: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    login: Login | None = None
    """With a login there is a second listener, SASL_SSL, for clients that have one."""
    controllers: int = 0
    """Controllers of their own: 101, 102, ...; with none, every broker is a controller, too."""
    network: bool = False
    """Each node on a host of its own, a network namespace, so that the network between them can be cut and slowed. Needs root."""
    zones: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The racks, by name, and the ids of the nodes in each; not given: each broker in its own, az1, az2, ..."""
    zone_delay_ms: float = 0.0
    """How long a packet takes from one zone to another, one way (a round trip twice that); needs `network`."""
    own_volume_mb: int | None = None
    """The size of a file system of its own for each node's data, so that it can be filled or turn read-only. Needs root."""
    mode: str = "kraft"
    """Where the metadata is: `kraft` or `zookeeper`."""
    zookeepers: int = 1
    """How many ZooKeeper servers, in that mode."""
    zookeeper_properties: Mapping[str, str] = field(default_factory=dict)
    """Added to every ZooKeeper server's."""

    def __post_init__(self) -> None:
        placed = [node_id for members in self.zones.values() for node_id in members]
        unknown = sorted(set(placed) - set(self.all_ids))
        twice = sorted({node_id for node_id in placed if placed.count(node_id) > 1})
        homeless = sorted(set(self.node_ids) - set(placed)) if self.zones else []
        if unknown or twice or homeless:
            raise LabError(f"zones: every broker in one zone, please: no such node {unknown}, twice {twice}, in none {homeless}")
        if self.mode != "kraft" and self.controllers:
            raise LabError("controllers of their own are for a lab in KRaft mode")
        if self.zone_delay_ms and not (self.network and self.zones):
            raise LabError("zone_delay_ms needs zones, and network=True, for a delay between hosts needs hosts")

    @property
    def node_ids(self) -> range:
        """The brokers: 1, 2, 3, ..."""
        return range(1, self.nodes + 1)

    @property
    def zookeeper_ids(self) -> range:
        """The ZooKeeper servers: 1, 2, ...; none in KRaft mode."""
        return range(1, self.zookeepers + 1) if self.mode == "zookeeper" else range(0)

    @property
    def controller_ids(self) -> range:
        """The controllers: 101, 102, ..., or the brokers' own ids when combined."""
        return range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + self.controllers) if self.controllers else self.node_ids

    @property
    def all_ids(self) -> list[int]:
        """Every node, brokers first."""
        return sorted({*self.node_ids, *self.controller_ids})

    def roles(self, node_id: int) -> Roles:
        """What a node is."""
        if node_id in self.node_ids:
            return Roles.BROKER if self.controllers else Roles.COMBINED
        return Roles.CONTROLLER

    def zone(self, node_id: int) -> str | None:
        """The rack that a node is in; None for a controller that was put into none."""
        if not self.zones:
            return f"az{node_id}" if node_id in self.node_ids else None
        return next((name for name, members in self.zones.items() if node_id in members), None)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node listens: on loopback, or on the address of its own host.

    `client` and `controller` are there when it has that role, `secure` when the lab has a login.
    """

    client: int | None
    controller: int | None
    jolokia: int
    secure: int | None = None
    host: str = LOOPBACK


def node_properties(
    spec: LabSpec, node_id: int, ports: Mapping[int, Ports], data: Path, credentials: Credentials | None
) -> dict[str, str]:
    """The `server.properties` of one node: broker, controller or both."""
    roles = spec.roles(node_id)
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "controller.quorum.voters": voters(ports),
        "controller.listener.names": CONTROLLER_LISTENER,
        "log.dirs": str(data),
        "default.replication.factor": str(spec.replicas),
        "min.insync.replicas": str(spec.min_insync_replicas),
        "offsets.topic.replication.factor": str(spec.replicas),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": str(spec.replicas),
        "transaction.state.log.min.isr": str(spec.min_insync_replicas),
        # A client that misspells a topic hears so, and gets no new one.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        **(_controller_listener(ports[node_id]) if roles is Roles.CONTROLLER else _listeners(ports[node_id], credentials)),
        **({} if roles is Roles.CONTROLLER else {"broker.rack": spec.zone(node_id) or ""}),
        **spec.properties,
        **spec.node_properties.get(node_id, {}),
    }


def _controller_listener(own: Ports) -> dict[str, str]:
    return {
        "listeners": f"{CONTROLLER_LISTENER}://{own.host}:{own.controller}",
        "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT",
    }


def _listeners(own: Ports, credentials: Credentials | None) -> dict[str, str]:
    listeners = {CLIENT_LISTENER: own.client}
    protocols = {CLIENT_LISTENER: "PLAINTEXT", CONTROLLER_LISTENER: "PLAINTEXT"}
    secured: dict[str, str] = {}
    if credentials is not None and own.secure is not None:
        listeners[SECURE_LISTENER] = own.secure
        protocols[SECURE_LISTENER] = "SASL_SSL"
        secured = credentials.listener_properties(SECURE_LISTENER)
    advertised = ",".join(f"{name}://{own.host}:{port}" for name, port in listeners.items())
    controller = [] if own.controller is None else [f"{CONTROLLER_LISTENER}://{own.host}:{own.controller}"]
    return {
        "listeners": ",".join([advertised, *controller]),
        "advertised.listeners": advertised,
        "inter.broker.listener.name": CLIENT_LISTENER,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        **secured,
    }


def voters(ports: Mapping[int, Ports]) -> str:
    """The controllers as `id@host:port`, the same on every node."""
    controllers = ((node_id, own) for node_id, own in sorted(ports.items()) if own.controller is not None)
    return ",".join(f"{node_id}@{own.host}:{own.controller}" for node_id, own in controllers)


def properties_text(properties: Mapping[str, str]) -> str:
    """Java's properties format; backslashes are doubled, as its reader undoes them."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).replace("\\", "\\\\")


def read_properties(text: str) -> dict[str, str]:
    """The inverse of `properties_text`."""
    pairs = (line.split("=", 1) for line in text.replace("\\\\", "\\").splitlines())
    return dict(pairs)


def differences(wanted: Mapping[str, str], found: Mapping[str, str | None]) -> list[str]:
    """What a running broker does otherwise than it was told; empty when all holds.

    Kafka shows the value of a name that it does not know as it shows a secret's: not at all. Settings of one listener are not
    shown under their own names; a client that comes in proves those.
    """
    wrong = []
    for name, value in wanted.items():
        if name.startswith("listener.name.") or name.endswith(SECRETS):
            continue
        if found.get(name) is None:
            wrong.append(f"{name} is unknown to it")
        elif found[name] != value:
            wrong.append(f"{name} is {found[name]}, not {value}")
    return wrong


def logging_text(log: Path) -> str:
    """A Log4j 2 configuration: one file a node, instants in UTC with milliseconds."""
    return f"""\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}}{{UTC}} %-5p %c{{1}}: %m%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


def java_command(java: Path, class_path: str, agent: Path, folder: Path, ports: Ports, extra_flags: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a node whose files are in `folder`. The agent shows its metrics there only, and announces nothing."""
    return [
        str(java),
        *JVM_FLAGS,
        *extra_flags,
        f"-XX:ErrorFile={folder / 'hs_err.log'}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-javaagent:{agent}=port={ports.jolokia},host={ports.host},discoveryEnabled=false",
        "-cp",
        class_path,
        "kafka.Kafka",
        str(folder / "server.properties"),
    ]
