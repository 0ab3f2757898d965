"""A real ZooKeeper server for tests, and somebody who writes its znodes as Kafka's brokers and controller do."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from pipelines import jars
from pipelines.domain.clock import Anchor
from pipelines.java import find_java
from pipelines.lab import LabSpec, Ports
from pipelines.lab.ports import free_ports
from pipelines.lab.zookeeper import ZooKeeperNode, server_command, server_properties, write_files
from pipelines.lab.zookeeper_mode import ZooKeeperMode
from pipelines.processes import wait_until

CLUSTER = "zk-cluster"


@contextlib.contextmanager
def zookeeper_server(folder: Path) -> Iterator[ZooKeeperNode]:
    """A server with ticks of 200 ms, so that sessions of half a second can expire."""
    spec = LabSpec(mode="zookeeper", zookeeper_properties={"tickTime": "200"})
    ports = {1: Ports(*free_ports(3))}
    jar_set, own = jars.ensure("kafka-zookeeper"), folder / "zookeeper-1"
    logging = ZooKeeperMode(spec).logging(own / "server.log")
    write_files(own, 1, server_properties(spec, 1, ports, {1: 0}, own / "data"), logging)
    agent = jar_set.path_of("jolokia-agent-jvm")
    command = server_command(find_java().executable, jar_set.class_path, agent, own, ports[1])
    node = ZooKeeperNode(1, ports[1], own, command, Anchor.now())
    node.start()
    try:
        wait_until(node.answers, 30, "ZooKeeper to answer")
        yield node
    finally:
        node.stop()


class WriterOfZnodes:
    """Writes what Kafka 3.9's controller and brokers write, below a chroot."""

    def __init__(self, address: str, chroot: str) -> None:
        self._address = address
        self.connect = f"{address}{chroot}"
        root = self._session(address)
        root.ensure_path(chroot)
        root.stop()
        root.close()
        self.client = self._session(self.connect)
        for path in ("/brokers/topics", "/brokers/ids", "/admin/delete_topics", "/log_dir_event_notification"):
            self.client.ensure_path(path)
        self.client.ensure_path("/cluster")
        self._put("/cluster/id", {"version": "1", "id": CLUSTER})
        self.client.create("/controller_epoch", b"0")
        self.brokers: dict[int, KazooClient] = {}

    def _session(self, connect: str, timeout: float = 4.0) -> KazooClient:
        client = KazooClient(connect, timeout=timeout)
        client.start(20)
        return client

    def _put(self, path: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        if self.client.exists(path):
            return self.client.set(path, data)
        self.client.create(path, data, makepath=True)
        return self.client.get(path)[1]

    def create_topic(self, name: str, replicas: list[list[int]], topic_id: str | None = "id") -> None:
        """The topic's znode, and a state for each partition, led by its first replica."""
        self.assign(name, replicas, topic_id)
        transaction = self.client.transaction()
        transaction.create(f"/brokers/topics/{name}/partitions")
        for number, nodes in enumerate(replicas):
            transaction.create(f"/brokers/topics/{name}/partitions/{number}")
            transaction.create(f"/brokers/topics/{name}/partitions/{number}/state", state(nodes[0], 0, nodes))
        assert not [one for one in transaction.commit() if isinstance(one, Exception)]

    def assign(self, name: str, replicas: list[list[int]], topic_id: str | None = "id") -> Any:
        """Writes the topic's znode."""
        partitions = {str(number): nodes for number, nodes in enumerate(replicas)}
        body = {"version": 3, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}}
        return self._put(f"/brokers/topics/{name}", body | ({} if topic_id is None else {"topic_id": topic_id}))

    def change(self, name: str, number: int, leader: int, epoch: int, isr: list[int], **more: Any) -> Any:
        """Writes a partition's state; returns the Stat that it got."""
        return self.client.set(f"/brokers/topics/{name}/partitions/{number}/state", state(leader, epoch, isr, **more))

    def delete_topic(self, name: str) -> None:
        """As the controller does it: asked for, leaders taken away, gone, done."""
        self.client.create(f"/admin/delete_topics/{name}")
        for number in self.client.get_children(f"/brokers/topics/{name}/partitions"):
            self.change(name, int(number), -1, 99, [1])
        self.client.delete(f"/brokers/topics/{name}", recursive=True)
        self.client.delete(f"/admin/delete_topics/{name}")

    def register(self, broker: int) -> Any:
        """A broker's registration, in a session of its own; returns its Stat."""
        session = self.brokers[broker] = self._session(self.connect)
        session.create(f"/brokers/ids/{broker}", b"{}", ephemeral=True)
        return session.exists(f"/brokers/ids/{broker}")

    def unregister(self, broker: int) -> None:
        """The broker's session ends, and with it all that it had registered."""
        session = self.brokers.pop(broker)
        session.stop()
        session.close()

    def elect(self, broker: int, epoch: int) -> Any:
        """The broker becomes the controller; returns the Stat of its registration."""
        transaction = self.brokers[broker].transaction()
        transaction.create("/controller", json.dumps({"version": 2, "brokerid": broker}).encode(), ephemeral=True)
        transaction.set_data("/controller_epoch", str(epoch).encode())
        assert not [one for one in transaction.commit() if isinstance(one, Exception)]
        return self.client.exists("/controller")

    def close(self) -> None:
        """Ends all sessions."""
        for broker in list(self.brokers):
            self.unregister(broker)
        self.client.stop()
        self.client.close()


def state(leader: int, epoch: int, isr: list[int], **more: Any) -> bytes:
    """A partition's state as the controller writes it."""
    return json.dumps({"version": 1, "leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "isr": isr} | more).encode()
