"""What is a node of the lab told: its properties, its JVM's flags, its logging? Pure: no file is written here.

Example: `node_properties(spec, 1, ports, data)` of the default three nodes holds `broker.rack=az1`, `min.insync.replicas=2` and
the three controllers as voters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.lab.ports import LOOPBACK
from pipelines.lab.security import Credentials, Login

CONTROLLER_LISTENER = "CONTROLLER"
CLIENT_LISTENER = "PLAINTEXT"
SECURE_LISTENER = "SECURE"
SECRETS = ("password", "secret", "jaas.config")

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


@dataclass(frozen=True, slots=True)
class LabSpec:
    """What kind of cluster is wanted.

    `properties` are added to every node's, `node_properties` to one node's (by id); both win over the lab's own. Every one of
    them is read back from the running broker and must hold.
    """

    nodes: int = 3
    replicas: int = 3
    min_insync_replicas: int = 2
    properties: Mapping[str, str] = field(default_factory=dict)
    node_properties: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    login: Login | None = None
    """With a login there is a second listener, SASL_SSL, for clients that have one."""

    @property
    def node_ids(self) -> range:
        """1, 2, 3, ..."""
        return range(1, self.nodes + 1)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node listens, all on loopback. `secure` is there only when the lab has a login."""

    client: int
    controller: int
    jolokia: int
    secure: int | None = None


def node_properties(
    spec: LabSpec, node_id: int, ports: Mapping[int, Ports], data: Path, credentials: Credentials | None
) -> dict[str, str]:
    """The `server.properties` of one combined broker and controller."""
    own = ports[node_id]
    listeners = {CLIENT_LISTENER: own.client}
    protocols = {CLIENT_LISTENER: "PLAINTEXT", CONTROLLER_LISTENER: "PLAINTEXT"}
    secured: dict[str, str] = {}
    if credentials is not None and own.secure is not None:
        listeners[SECURE_LISTENER] = own.secure
        protocols[SECURE_LISTENER] = "SASL_SSL"
        secured = credentials.listener_properties(SECURE_LISTENER)
    advertised = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "broker.rack": f"az{node_id}",
        "controller.quorum.voters": voters(ports),
        "listeners": f"{advertised},{CONTROLLER_LISTENER}://{LOOPBACK}:{own.controller}",
        "advertised.listeners": advertised,
        "controller.listener.names": CONTROLLER_LISTENER,
        "inter.broker.listener.name": CLIENT_LISTENER,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
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
        **secured,
        **spec.properties,
        **spec.node_properties.get(node_id, {}),
    }


def voters(ports: Mapping[int, Ports]) -> str:
    """The controllers as `id@host:port`, the same on every node."""
    return ",".join(f"{node_id}@{LOOPBACK}:{own.controller}" for node_id, own in sorted(ports.items()))


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


def java_command(
    java: Path, class_path: str, agent: Path, folder: Path, jolokia_port: int, extra_flags: tuple[str, ...] = ()
) -> list[str]:
    """The command that runs a node whose files are in `folder`. The agent shows its metrics on loopback, and announces nothing."""
    return [
        str(java),
        *JVM_FLAGS,
        *extra_flags,
        f"-XX:ErrorFile={folder / 'hs_err.log'}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-javaagent:{agent}=port={jolokia_port},host={LOOPBACK},discoveryEnabled=false",
        "-cp",
        class_path,
        "kafka.Kafka",
        str(folder / "server.properties"),
    ]
