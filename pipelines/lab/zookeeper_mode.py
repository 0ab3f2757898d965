"""How is a Kafka cluster made that keeps its metadata in ZooKeeper?

The rule: ZooKeeper answers before a broker starts; a broker is told what a KRaft node is told, without what only a KRaft node knows
(roles, voters, the controllers' listener) and with `broker.id` and `zookeeper.connect`. Nothing is formatted: the first broker gives
the cluster its id.

A broker that was killed stays registered until its session expires, and a new process cannot register under the same id before that (it
ends with NodeExists). So starting it again waits for its old registration to go, as a supervisor that restarts it over and over would.

Example: three brokers and one ZooKeeper, `ZooKeeperMode(LabSpec(mode="zookeeper"))`; `zookeeper_connect` is `127.0.0.1:21811`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.brokers.kafka.znodes import registered_brokers
from pipelines.domain.clock import Anchor
from pipelines.errors import ConnectionFailed, LabError, RetryableError
from pipelines.jars import JarSet
from pipelines.java import Java
from pipelines.lab import config, zookeeper
from pipelines.lab.config import CONTROLLER_LISTENER, LabSpec, Ports
from pipelines.lab.hosts import Host
from pipelines.lab.layout import OWN_HOST_PORTS
from pipelines.lab.node import Node
from pipelines.lab.ports import free_ports
from pipelines.lab.security import Credentials
from pipelines.lab.zookeeper import ZooKeeperNode
from pipelines.processes import wait_until

ONLY_KRAFT = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")
PORTS_PER_SERVER = 4
CLIENT_PORT, PEERS_PORT, ELECTION_PORT = 2181, 2888, 3888
"""ZooKeeper's usual ones, on a host of its own."""


class ZooKeeperMode:
    """The metadata is in znodes."""

    jar_set = "kafka-zookeeper"
    archive_kind = "zookeeper"

    def __init__(self, spec: LabSpec) -> None:
        if spec.login is not None and spec.login.scram_arguments:
            raise LabError("the lab keeps no SCRAM users in ZooKeeper; give the LabSpec of a ZooKeeper-mode lab a PLAIN login")
        self._spec = spec
        self.zookeepers: list[ZooKeeperNode] = []

    @property
    def connect(self) -> str:
        """HOST:PORT of every server, with commas."""
        return ",".join(node.address for node in self.zookeepers)

    def prepare(
        self, java: Java, jar_set: JarSet, folder: Path, anchor: Anchor, extra_flags: tuple[str, ...], hosts: Mapping[int, Host]
    ) -> None:
        """Writes the servers' files. Only brokers make the class archive, which the servers may use, too."""
        ids = self._spec.zookeeper_ids
        if hosts:
            ports = {node_id: Ports(CLIENT_PORT, PEERS_PORT, OWN_HOST_PORTS["jolokia"], host=hosts[node_id].address) for node_id in ids}
            elections = dict.fromkeys(ids, ELECTION_PORT)
        else:
            found = iter(free_ports(PORTS_PER_SERVER * len(ids)))
            ports = {node_id: Ports(next(found), next(found), next(found)) for node_id in ids}
            elections = {node_id: next(found) for node_id in ids}
        agent = jar_set.path_of("jolokia-agent-jvm")
        is_making = any(flag.startswith("-XX:ArchiveClassesAtExit") for flag in extra_flags)
        self.zookeepers = []
        for node_id in ids:
            own = folder / f"zookeeper-{node_id}"
            told = zookeeper.server_properties(self._spec, node_id, ports, elections, own / "data")
            zookeeper.write_files(own, node_id, told, self.logging(own / "server.log"))
            flags = () if is_making else extra_flags
            command = zookeeper.server_command(java.executable, jar_set.class_path, agent, own, ports[node_id], flags)
            prefix = hosts[node_id].prefix if hosts else ()
            self.zookeepers.append(ZooKeeperNode(node_id, ports[node_id], own, [*prefix, *command], anchor))

    def properties(self, node_id: int, ports: Mapping[int, Ports], data: Path, credentials: Credentials | None) -> dict[str, str]:
        """See `Mode.properties`."""
        as_kraft = config.node_properties(self._spec, node_id, ports, data, credentials)
        told = {name: value for name, value in as_kraft.items() if name not in ONLY_KRAFT}
        protocols = told["listener.security.protocol.map"].split(",")
        return {
            **told,
            "broker.id": str(node_id),
            "zookeeper.connect": self.connect,
            "listeners": told["advertised.listeners"],
            "listener.security.protocol.map": ",".join(one for one in protocols if not one.startswith(f"{CONTROLLER_LISTENER}:")),
            **self._spec.properties,
            **self._spec.node_properties.get(node_id, {}),
        }

    def logging(self, log: Path) -> tuple[str, str]:
        """Log4j 1, as reload4j has it: one file a node, instants in UTC with milliseconds."""
        return "log4j.properties", (
            "log4j.rootLogger=INFO, file\n"
            "log4j.appender.file=org.apache.log4j.FileAppender\n"
            f"log4j.appender.file.File={log}\n"
            "log4j.appender.file.layout=org.apache.log4j.EnhancedPatternLayout\n"
            "log4j.appender.file.layout.ConversionPattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %-5p %c{1}: %m%n\n"
        )

    def command(self, java: Path, class_path: str, agent: Path, folder: Path, ports: Ports, extra_flags: tuple[str, ...]) -> list[str]:
        """See `Mode.command`."""
        return [
            str(java),
            *config.JVM_FLAGS,
            *extra_flags,
            f"-XX:ErrorFile={folder / 'hs_err.log'}",
            f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
            f"-javaagent:{agent}=port={ports.jolokia},host={ports.host},discoveryEnabled=false",
            "-cp",
            class_path,
            "kafka.Kafka",
            str(folder / "server.properties"),
        ]

    def format(self, java: Path, class_path: str, nodes: Sequence[Node], cluster_id: str) -> None:
        """Nothing is formatted: a broker makes its folder at its first start."""

    def wait_until_may_start(self, node: Node, timeout: float) -> None:
        """When its old registration is gone. Raises TimedOut."""
        if isinstance(node, ZooKeeperNode):
            return

        def is_gone() -> bool:
            try:
                return node.node_id not in registered_brokers(self.connect)
            except (ConnectionFailed, RetryableError):
                return False

        wait_until(is_gone, timeout, f"the session of {node.name} to expire, so that it can register again")

    def metadata_offset(self, node: Node) -> int:
        """The controller tells the others, so it knows best; who answers at all comes next."""
        if node.read_mbean("kafka.server:type=KafkaServer,name=BrokerState") is None:
            return -1
        return 1 if node.is_active_controller() else 0
