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
from pipelines.brokers.kafka.admin import Admin
from pipelines.brokers.kafka.readiness import wait_for_writes
from pipelines.domain.clock import Anchor
from pipelines.errors import ConnectionFailed, LabError, LastackError, RetryableError, TimedOut
from pipelines.java import Java, find_java
from pipelines.lab import archive, config
from pipelines.lab.config import LabSpec, Ports
from pipelines.lab.folder import LabFolder, remove_left_behind
from pipelines.lab.node import Fault, Node
from pipelines.lab.ports import LOOPBACK, free_ports
from pipelines.lab.security import Credentials, issue
from pipelines.lab.storage import format_all, new_kafka_id
from pipelines.processes import Child, spawn, wait_until

READY_SECONDS = 120.0
ATTEMPTS = 3
PROBE_TOPIC = "lastack-lab-probe"
PARTITIONS_PER_NODE = 2
BROKER_RUNNING = 3
METADATA_SECONDS = 3.0
TOOL_HEAP = "-Xmx256m"


class _PortTaken(Exception):
    """Somebody took a port between our trying it and the node's binding it."""


def say_to_stderr(line: str) -> None:
    """The default way to tell a person what the lab is doing."""
    sys.stderr.write(f"{line}\n")


class Lab:
    """A cluster, running inside a `with` block.

    Args:
        spec: what kind of cluster; three nodes by default.
        anchor: the clock that the faults' instants are read on; share it with the collectors.
        say: is told, in one line each, what the lab is doing.
    """

    def __init__(self, spec: LabSpec | None = None, anchor: Anchor | None = None, say: Callable[[str], None] = say_to_stderr) -> None:
        self.spec = spec or LabSpec()
        self.anchor = anchor or Anchor.now()
        self.faults: list[Fault] = []
        self.nodes: list[Node] = []
        self.cluster_id = new_kafka_id()
        self.ready_seconds = 0.0
        self._say = say
        self._folder: LabFolder | None = None
        self._java: Java | None = None
        self._jars: jars.JarSet | None = None
        self._admin: Admin | None = None
        self._extra_flags: tuple[str, ...] = ()
        self.credentials: Credentials | None = None

    def __enter__(self) -> Self:
        self._java, self._jars = find_java(), jars.ensure("kafka")
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
        return ",".join(f"{LOOPBACK}:{node.ports.secure}" for node in self.nodes)

    @property
    def controllers(self) -> list[str]:
        """The controllers' addresses, HOST:PORT."""
        return [node.controller_address for node in self.nodes]

    @property
    def jolokia_urls(self) -> list[str]:
        """Where the nodes' metrics are read."""
        return [node.jolokia_url for node in self.nodes]

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
        """A node by its id (the broker's id). Raises LabError when there is none."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise LabError(f"the lab has no node {node_id}, only {[node.node_id for node in self.nodes]}")

    def active_controller(self, timeout: float = 30.0) -> Node:
        """The node that says that it is the active controller, as soon as one does. Raises TimedOut."""
        found: list[Node] = []

        def is_known() -> bool:
            found[:] = [node for node in self.nodes if node.is_alive() and not node.is_paused() and node.is_active_controller()]
            return len(found) == 1

        wait_until(is_known, timeout, "exactly one active controller in the lab")
        return found[0]

    def leader(self, topic: str, partition: int) -> Node | None:
        """The node that leads a partition by the cluster's metadata; None while there is none."""
        state = next((one for one in self.admin.partitions(topic) if one.partition == partition), None)
        if state is None:
            raise LabError(f"the lab has no partition {topic}-{partition}")
        return None if state.leader is None else self.node(state.leader)

    # ---- what is done to it ------------------------------------------------------------------------------------------------

    def kill(self, node: Node) -> Fault:
        """SIGKILL; the process is gone when this returns."""
        return self._record(node.kill())

    def terminate(self, node: Node) -> Fault:
        """An operator's stop; the process is gone when this returns."""
        return self._record(node.terminate())

    def pause(self, node: Node) -> Fault:
        """SIGSTOP: connections stay open, nobody answers."""
        return self._record(node.pause())

    def resume(self, node: Node) -> Fault:
        """SIGCONT."""
        return self._record(node.resume())

    def start(self, node: Node, timeout: float = READY_SECONDS) -> Fault:
        """Starts a node again on its own ports and data; it serves when this returns. Raises LabError when it does not."""
        before = self.anchor.now_us()
        node.start()
        after = self.anchor.now_us()
        self._wait(lambda: self._serves(node), timeout, f"{node.name} to serve again", (node,))
        return self._record(Fault("start", str(node.node_id), node.pid, before, after, self.anchor.now_us()))

    def wait_until_in_sync(self, timeout: float = 60.0) -> None:
        """Returns when every partition of every topic has a leader and its whole ISR."""

        def is_in_sync() -> bool:
            try:
                return all(state.is_whole for topic in self.admin.topics() for state in self.admin.partitions(topic))
            except (ConnectionFailed, RetryableError):
                return False

        wait_until(is_in_sync, timeout, "every partition of the lab to have its whole ISR")

    def run_tool(self, main_class: str, arguments: Iterable[str], log_path: Path) -> Child:
        """Starts one of Kafka's own tools as a process of its own, for instance `org.apache.kafka.tools.VerifiableProducer`."""
        java, jar_set = self._tools()
        flags = [*config.JVM_FLAGS, TOOL_HEAP]
        command = [str(java.executable), *flags, "-cp", jar_set.class_path, main_class, *arguments]
        return spawn(main_class.rpartition(".")[2], command, log_path)

    def keep_logs(self, destination: Path) -> list[Path]:
        """Copies the nodes' logs and settings to a folder that outlives the lab; returns the copies."""
        if self._folder is None:
            raise LabError("the lab is not running: its logs are gone")
        return self._folder.copy_logs(destination)

    def close(self, failed: bool = False) -> None:
        """Ends all nodes; removes their files, or keeps them and says where when something failed. Does nothing twice."""
        self._admin = None
        for node in self.nodes:
            node.stop()
        if self._folder is None:
            return
        if failed:
            self._folder.keep()
            self._say(f"lab: something failed; the brokers' logs are kept in {self._folder.path}")
        else:
            self._folder.remove()
        self._folder = None

    # ---- how it starts -----------------------------------------------------------------------------------------------------

    def _start_with_new_ports(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._folder = LabFolder()
            try:
                self._start()
            except _PortTaken as error:
                if attempt == ATTEMPTS:
                    raise LabError(f"lost a port to another program {ATTEMPTS} times in a row: {error}") from error
                self._say(f"lab: {error}; choosing other ports")
                self.close()
            else:
                return

    def _start(self) -> None:
        begun = time.monotonic()
        self._say(f"lab: starting {self.spec.nodes} Kafka nodes")
        self._make_nodes()
        for node in self.nodes:
            node.start()
        self._admin = Admin(self.librdkafka, timeout=METADATA_SECONDS)
        self._wait(self._all_registered, READY_SECONDS, "all nodes to register with the controller", self.nodes)
        partitions = PARTITIONS_PER_NODE * self.spec.nodes
        self.admin.create_topic(PROBE_TOPIC, partitions, self.spec.replicas)
        try:
            wait_for_writes(self.librdkafka, PROBE_TOPIC, partitions, READY_SECONDS)
            self.admin.wait_until_led(PROBE_TOPIC, READY_SECONDS)
        except TimedOut as error:
            raise LabError(f"the lab does not serve: {error}\n{self._last_words(self.nodes)}") from error
        for node in self.nodes:
            self._check_settings(node)
        self.admin.delete_topic(PROBE_TOPIC)
        self.ready_seconds = time.monotonic() - begun
        self._say(f"lab: {self.spec.nodes} Kafka nodes serve after {self.ready_seconds:.1f} s ({self.bootstrap})")

    def _class_archive(self, java: Java, jar_set: jars.JarSet) -> tuple[str, ...]:
        """The flags that use the JVM's class archive; makes one first, with a small cluster, where there is none."""
        path = archive.archive_path(java, jar_set, config.JVM_FLAGS)
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
            small = Lab(LabSpec(nodes=1, replicas=1, min_insync_replicas=1), say=lambda _line: None)
            small._extra_flags = archive.making(made)
            with small:
                small.terminate(small.nodes[0])
            return archive.publish(made, path)

    def _make_nodes(self) -> None:
        """Writes every node's files and formats its data; starts nothing."""
        java, jar_set = self._tools()
        if self.spec.login is not None:
            self.credentials = issue(java.keytool, self.folder / "tls", self.spec.login)
        per_node = 3 if self.spec.login is None else 4
        found = free_ports(per_node * self.spec.nodes)
        ports = {node_id: Ports(*found[per_node * index : per_node * (index + 1)]) for index, node_id in enumerate(self.spec.node_ids)}
        self.nodes = []
        for node_id in self.spec.node_ids:
            folder = self.folder / f"node-{node_id}"
            folder.mkdir()
            properties = config.node_properties(self.spec, node_id, ports, folder / "data", self.credentials)
            (folder / "server.properties").write_text(config.properties_text(properties))
            (folder / "log4j2.properties").write_text(config.logging_text(folder / "server.log"))
            agent = jar_set.path_of("jolokia-agent-jvm")
            command = config.java_command(java.executable, jar_set.class_path, agent, folder, ports[node_id].jolokia, self._extra_flags)
            self.nodes.append(Node(node_id, ports[node_id], folder, command, self.anchor))
        scram = self.spec.login.scram_arguments if self.spec.login else []
        folders = [node.folder for node in self.nodes]
        format_all(java.executable, jar_set.class_path, folders, self.spec.node_ids, self.cluster_id, scram)

    def _tools(self) -> tuple[Java, jars.JarSet]:
        if self._java is None or self._jars is None:
            raise LabError("the lab is not running: use it in a with block")
        return self._java, self._jars

    def _all_registered(self) -> bool:
        try:
            return self.admin.brokers() == set(self.spec.node_ids)
        except (ConnectionFailed, RetryableError):
            return False

    def _serves(self, node: Node) -> bool:
        """Whether the node says that it is running (the controller has unfenced it) and the others see it."""
        if node.read_mbean("kafka.server:type=KafkaServer,name=BrokerState") != BROKER_RUNNING:
            return False
        try:
            return node.node_id in self.admin.brokers()
        except (ConnectionFailed, RetryableError):
            return False

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str, nodes: Iterable[Node]) -> None:
        """Waits, and stops waiting as soon as one of the nodes has ended."""

        def holds() -> bool:
            for node in nodes:
                if node.lost_its_port():
                    raise _PortTaken(f"a port of {node.name} was taken by another program")
                if not node.is_alive():
                    raise LabError(f"{node.name} of the lab ended while it started:\n{node.last_words()}")
            return condition()

        try:
            wait_until(holds, timeout, what)
        except TimedOut as error:
            raise LabError(f"{error}\n{self._last_words(nodes)}") from error

    def _last_words(self, nodes: Iterable[Node]) -> str:
        return "\n".join(f"{node.name}: {node.last_words(3)}" for node in nodes)

    def _check_settings(self, node: Node) -> None:
        """Reads the effective settings back: Kafka ignores a name that it does not know, in silence."""
        wanted = config.read_properties((node.folder / "server.properties").read_text())
        found = self.admin.broker_settings(node.node_id)
        wrong = config.differences(wanted, found)
        if wrong:
            raise LabError(f"{node.name} of the lab does not run with the settings that it was given: {'; '.join(wrong)}")

    def _record(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault
