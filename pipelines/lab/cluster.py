"""How does one get a real Kafka cluster on this machine, hurt it, and be sure of what it is?

The rule: the cluster is ready when a record with acks=all was acknowledged on every partition of a topic that every broker leads
a part of, and when every setting that it was given was read back from the running brokers. Nothing of it outlives the lab.

For example:

    with Lab() as lab:                                   # three nodes, racks az1 to az3
        lab.admin.create_topic("orders", partitions=6, replicas=3)
        fault = lab.kill(lab.active_controller())        # gone when this returns
        lab.start(lab.node(int(fault.target)))           # serving when this returns
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from pipelines import jars
from pipelines.brokers.base import ClusterPlace
from pipelines.brokers.kafka.admin import Admin, PartitionState
from pipelines.brokers.kafka.readiness import wait_for_writes
from pipelines.domain.clock import Anchor
from pipelines.errors import ConnectionFailed, LabError, LastackError, RetryableError, TimedOut
from pipelines.java import Java, find_java
from pipelines.lab import archive, config, zookeeper
from pipelines.lab.claims import Claim, release_left_behind
from pipelines.lab.config import LabSpec
from pipelines.lab.faults import Faults
from pipelines.lab.folder import LabFolder, remove_left_behind
from pipelines.lab.hosts import Host
from pipelines.lab.layout import Ground, make_nodes, ports_of
from pipelines.lab.mode import Kraft, Mode
from pipelines.lab.network import Network
from pipelines.lab.node import Node
from pipelines.lab.process_faults import METADATA_SECONDS, READY_SECONDS, PortTaken
from pipelines.lab.security import Credentials, issue
from pipelines.lab.storage import new_kafka_id
from pipelines.lab.volumes import make_volumes
from pipelines.lab.zookeeper import ZooKeeperNode
from pipelines.lab.zookeeper_mode import ZooKeeperMode
from pipelines.processes import Child, spawn, wait_until

ATTEMPTS = 3
PROBE_TOPIC = "lastack-lab-probe"
PARTITIONS_PER_NODE = 2
TOOL_HEAP = "-Xmx256m"
ZOOKEEPERS_FROM = 200
"""The last bytes of the addresses of the ZooKeeper servers' own hosts: 201, 202, ..."""
MODES: dict[str, Callable[[LabSpec], Mode]] = {"kraft": Kraft, "zookeeper": ZooKeeperMode}


def say_to_stderr(line: str) -> None:
    """The default way to tell a person what the lab is doing."""
    sys.stderr.write(f"{line}\n")


class Lab(Faults):
    """A cluster, running inside a `with` block.

    Args:
        spec: what kind of cluster; three nodes by default.
        anchor: the clock that the faults' instants are read on; share it with the collectors.
        say: is told, in one line each, what the lab is doing.
    """

    def __init__(self, spec: LabSpec | None = None, anchor: Anchor | None = None, say: Callable[[str], None] = say_to_stderr) -> None:
        self.spec = spec or LabSpec()
        self._mode = _mode_of(self.spec)
        super().__init__(anchor or Anchor.now())
        self.all_nodes: list[Node] = []
        self.cluster_id = new_kafka_id()
        self.ready_seconds = 0.0
        self._say = say
        self._folder: LabFolder | None = None
        self._java: Java | None = None
        self._jars: jars.JarSet | None = None
        self._admin: Admin | None = None
        self._extra_flags: tuple[str, ...] = ()
        self._claim: Claim | None = None
        self.credentials: Credentials | None = None

    def __enter__(self) -> Self:
        self._java, self._jars = find_java(), jars.ensure(self._mode.jar_set)
        release_left_behind()
        remove_left_behind()
        if not self._extra_flags:
            self._extra_flags = self._class_archive(self._java, self._jars)
        try:
            self._start_with_new_ports()
        except BaseException as error:
            self.close(failed=isinstance(error, Exception))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(failed=isinstance(error, Exception))

    # ---- what it is --------------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the nodes' files are while the lab runs."""
        if self._folder is None:
            raise LabError("the lab is not running: use it in a with block")
        return self._folder.path

    @property
    def admin(self) -> Admin:
        """An operator's view of the cluster."""
        if self._admin is None:
            raise LabError("the lab is not running: use it in a with block")
        return self._admin

    @property
    def bootstrap(self) -> str:
        """The brokers' client addresses, HOST:PORT with commas."""
        return ",".join(node.address for node in self.nodes)

    @property
    def secure_bootstrap(self) -> str:
        """The addresses of the SASL_SSL listeners. Raises LabError when the lab has no login."""
        if self.credentials is None:
            raise LabError("this lab has no secured listener: give its LabSpec a login")
        return ",".join(f"{node.ports.host}:{node.ports.secure}" for node in self.nodes)

    @property
    def nodes(self) -> list[Node]:
        """The brokers."""
        return [node for node in self.all_nodes if node.is_broker]

    @property
    def controller_nodes(self) -> list[Node]:
        """The controllers: the brokers themselves when combined."""
        return [node for node in self.all_nodes if node.is_controller]

    @property
    def controllers(self) -> list[str]:
        """The controllers' addresses, HOST:PORT; none where ZooKeeper elects one of the brokers."""
        return [] if self.zookeepers else [node.controller_address for node in self.controller_nodes]

    @property
    def zookeepers(self) -> list[ZooKeeperNode]:
        """The ZooKeeper servers; none in KRaft mode."""
        return self._mode.zookeepers

    @property
    def zookeeper_connect(self) -> str:
        """HOST:PORT of every ZooKeeper server, with commas, as `zookeeper.connect` takes it. Raises LabError in KRaft mode."""
        if not self.zookeepers:
            raise LabError("this lab has no ZooKeeper: give its LabSpec mode='zookeeper'")
        return ",".join(node.address for node in self.zookeepers)

    @property
    def jolokia_urls(self) -> list[str]:
        """Where the metrics of all nodes are read, controllers of their own included."""
        return [node.jolokia_url for node in self.all_nodes]

    @property
    def place(self) -> ClusterPlace:
        """Where it is measured: all brokers, all metrics, and where its mode has its control plane."""
        way = {"zookeeper": (self.zookeeper_connect,)} if self.zookeepers else {"controllers": tuple(self.controllers)}
        return ClusterPlace(system="kafka", bootstrap=self.bootstrap, metrics=tuple(self.jolokia_urls), settings=way)

    @property
    def client_properties(self) -> Path:
        """A `client.properties` for the secured listener, as Kafka's own tools take it."""
        if self.credentials is None:
            raise LabError("this lab has no secured listener: give its LabSpec a login")
        return self.credentials.client_properties

    @property
    def librdkafka(self) -> Mapping[str, str | int]:
        """What a librdkafka client needs to reach the plain listeners. It comes back fast after a broker's death."""
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500}

    def node(self, node_id: int) -> Node:
        """A broker or a controller by its id. Raises LabError when there is none."""
        for node in self.all_nodes:
            if node.node_id == node_id:
                return node
        raise LabError(f"the lab has no node {node_id}, only {[node.node_id for node in self.all_nodes]}")

    def active_controller(self, timeout: float = 30.0) -> Node:
        """The node that says that it is the active controller, as soon as one does. Raises TimedOut."""
        found: list[Node] = []

        def is_known() -> bool:
            found[:] = [
                node for node in self.controller_nodes if node.is_alive() and not node.is_paused() and node.is_active_controller()
            ]
            return len(found) == 1

        wait_until(is_known, timeout, "exactly one active controller in the lab")
        return found[0]

    def partition(self, topic: str, partition: int) -> PartitionState:
        """A partition by the newest metadata: leader, replicas, ISR. Raises LabError when there is none."""
        found = self.metadata().topics.get(topic)
        info = None if found is None else found.partitions.get(partition)
        if info is None:
            raise LabError(f"the lab has no partition {topic}-{partition}")
        return PartitionState(partition, info.leader, info.replicas, info.isr)

    def leader(self, topic: str, partition: int) -> Node | None:
        """The node that leads a partition by the newest metadata; None while there is none."""
        leader = self.partition(topic, partition).leader
        return None if leader is None else self.node(leader)

    def replicas(self, topic: str, partition: int) -> list[Node]:
        """The nodes that have a copy, the preferred leader first."""
        return [self.node(node_id) for node_id in self.partition(topic, partition).replicas]

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        """The ids of the in-sync replicas."""
        return frozenset(self.partition(topic, partition).isr)

    def run_tool(self, main_class: str, arguments: Iterable[str], log_path: Path) -> Child:
        """Starts one of Kafka's own tools as a process of its own, for instance `org.apache.kafka.tools.VerifiableProducer`.

        It runs on the prober's host, where the nodes have hosts of their own.
        """
        java, jar_set = self._tools()
        flags = [*config.JVM_FLAGS, TOOL_HEAP]
        command = [*self.command_prefix, str(java.executable), *flags, "-cp", jar_set.class_path, main_class, *arguments]
        return spawn(main_class.rpartition(".")[2], command, log_path)

    def keep_logs(self, destination: Path) -> list[Path]:
        """Copies the nodes' logs and settings to a folder that outlives the lab; returns the copies."""
        if self._folder is None:
            raise LabError("the lab is not running: its logs are gone")
        return self._folder.copy_logs(destination)

    def close(self, failed: bool = False) -> None:
        """Ends all nodes; removes their files, or keeps them and says where when something failed. Does nothing twice."""
        self._admin = None
        for node in (*self.all_nodes, *self.zookeepers):
            node.stop()
        try:
            self._give_back()
        finally:
            self._close_folder(failed)

    def _give_back(self) -> None:
        """Ends the network, and gives back what was taken of this host."""
        network, self._network = self._network, None
        if network is not None:
            network.close()
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()

    def _close_folder(self, failed: bool) -> None:
        folder, self._folder = self._folder, None
        if folder is None:
            return
        if failed:
            folder.keep()
            self._say(f"lab: something failed; the brokers' logs are kept in {folder.path}")
        else:
            folder.remove()

    # ---- how it starts -----------------------------------------------------------------------------------------------------

    def _start_with_new_ports(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._folder = LabFolder()
            try:
                self._start()
            except PortTaken as error:
                if attempt == ATTEMPTS:
                    raise LabError(f"lost a port to another program {ATTEMPTS} times in a row: {error}") from error
                self._say(f"lab: {error}; choosing other ports")
                self.close()
            else:
                return

    def _start(self) -> None:
        begun = time.monotonic()
        self._say(f"lab: starting {self._described()}")
        self._make_nodes()
        self._start_zookeepers()
        for node in self.all_nodes:
            node.start()
        self._admin = Admin(self.librdkafka, timeout=METADATA_SECONDS)
        self._wait(self._all_registered, READY_SECONDS, "all nodes to register with the controller", self.all_nodes)
        self.cluster_id = self.admin.cluster_id()
        partitions = PARTITIONS_PER_NODE * self.spec.nodes
        self.admin.create_topic(PROBE_TOPIC, partitions, self.spec.replicas)
        try:
            wait_for_writes(self.librdkafka, PROBE_TOPIC, partitions, READY_SECONDS)
            self.admin.wait_until_led(PROBE_TOPIC, READY_SECONDS)
        except TimedOut as error:
            raise LabError(f"the lab does not serve: {error}\n{self._last_words(self.all_nodes)}") from error
        for node in self.all_nodes:
            self._check_settings(node)
        self.admin.delete_topic(PROBE_TOPIC)
        self.ready_seconds = time.monotonic() - begun
        self._say(f"lab: {self._described()} serve after {self.ready_seconds:.1f} s ({self.bootstrap})")

    def _class_archive(self, java: Java, jar_set: jars.JarSet) -> tuple[str, ...]:
        """The flags that use the JVM's class archive; makes one first, with a small cluster, where there is none."""
        path = archive.archive_path(java, jar_set, config.JVM_FLAGS, self._mode.archive_kind)
        if not path.is_file():
            self._say("lab: preparing Kafka's classes, once")
            try:
                made = self._make_archive(path)
            except LastackError as error:
                self._say(f"lab: {error}")
                made = False
            if not made:
                self._say("lab: no class archive was made; the nodes start slower, and run the same")
        return archive.using(path)

    def _make_archive(self, path: Path) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder:
            made = Path(folder) / path.name
            spec = LabSpec(nodes=1, replicas=1, min_insync_replicas=1, mode=self.spec.mode)
            small = Lab(spec, say=lambda _line: None)
            small._extra_flags = archive.making(made)
            with small:
                small.terminate(small.nodes[0])
            return archive.publish(made, path)

    def _make_nodes(self) -> None:
        """Makes hosts and volumes, writes every node's files and formats its data; starts nothing."""
        java, jar_set = self._tools()
        hosts, beside = self._make_hosts()
        if self.spec.own_volume_mb is not None:
            make_volumes(self._own_claim(), self.folder, self.spec.all_ids, self.spec.own_volume_mb)
        ports = ports_of(self.spec, {node_id: host.address for node_id, host in hosts.items()})
        if self.spec.login is not None:
            addresses = [host.address for host in hosts.values()]
            self.credentials = issue(java.keytool, self.folder / "tls", self.spec.login, addresses)
        prefixes = {node_id: host.prefix for node_id, host in hosts.items()}
        ground = Ground(java, jar_set, self.folder, self.anchor, self.cluster_id, self.credentials, self._extra_flags, prefixes)
        self._mode.prepare(java, jar_set, self.folder, self.anchor, self._extra_flags, beside)
        self.all_nodes = make_nodes(self.spec, self._mode, ground, ports)

    def _start_zookeepers(self) -> None:
        for server in self.zookeepers:
            server.start()
        if self.zookeepers:
            self._wait(lambda: all(map(ZooKeeperNode.answers, self.zookeepers)), READY_SECONDS, "ZooKeeper to answer", self.zookeepers)
        for server in self.zookeepers:
            wanted = config.read_properties((server.folder / "zookeeper.properties").read_text())
            wrong = zookeeper.differences(wanted, server.conf())
            if wrong:
                raise LabError(f"{server.name} of the lab does not run with the settings that it was given: {'; '.join(wrong)}")

    def _wait_until_may_start(self, node: Node, timeout: float) -> None:
        self._mode.wait_until_may_start(node, timeout)

    def _metadata_offset(self, node: Node) -> int:
        return self._mode.metadata_offset(node)

    def _make_hosts(self) -> tuple[dict[int, Host], dict[int, Host]]:
        """The nodes' own hosts and those of the ZooKeeper servers; none where all share this machine's loopback."""
        if not self.spec.network:
            return {}, {}
        names = {node_id: str(node_id) for node_id in self.spec.all_ids}
        beside = {node_id: f"zookeeper-{node_id}" for node_id in self.spec.zookeeper_ids}
        numbers = {
            **{name: node_id for node_id, name in names.items()},
            **{name: ZOOKEEPERS_FROM + node_id for node_id, name in beside.items()},
        }
        self._network = Network(self._own_claim(), numbers, self.folder / "relay.log")
        if self.spec.zone_delay_ms:
            zones = [[str(node_id) for node_id in members] for members in self.spec.zones.values()]
            self._network.set_zones(zones, self.spec.zone_delay_ms)
        hosts = self._network.hosts
        return {node_id: hosts[name] for node_id, name in names.items()}, {node_id: hosts[name] for node_id, name in beside.items()}

    def _own_claim(self) -> Claim:
        self._claim = self._claim or Claim()
        return self._claim

    def _tools(self) -> tuple[Java, jars.JarSet]:
        if self._java is None or self._jars is None:
            raise LabError("the lab is not running: use it in a with block")
        return self._java, self._jars

    def _all_registered(self) -> bool:
        try:
            is_registered = self.admin.brokers() == set(self.spec.node_ids)
        except (ConnectionFailed, RetryableError):
            return False
        return is_registered and (bool(self.zookeepers) or all(node.is_in_quorum() for node in self.controller_nodes))

    def _described(self) -> str:
        controllers = f" and {self.spec.controllers} controllers" if self.spec.controllers else ""
        return f"{self.spec.nodes} Kafka nodes{controllers}"

    def _check_settings(self, node: Node) -> None:
        """Reads the effective settings back: Kafka ignores a name that it does not know, in silence."""
        wanted = config.read_properties((node.folder / "server.properties").read_text())
        if node.is_broker:
            found = self.admin.broker_settings(node.node_id)
        else:
            from pipelines.brokers.kafka.one_node import settings_of

            found = settings_of(node.controller_address, node.node_id)
        wrong = config.differences(wanted, found)
        if wrong:
            raise LabError(f"{node.name} of the lab does not run with the settings that it was given: {'; '.join(wrong)}")


def _mode_of(spec: LabSpec) -> Mode:
    if spec.mode not in MODES:
        raise LabError(f"no such mode of a lab: {spec.mode}; one of {', '.join(MODES)}")
    return MODES[spec.mode](spec)
