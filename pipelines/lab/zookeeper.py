"""One ZooKeeper server of the lab: what is it told, and does it answer?

The rule: a server answers when it says by its own word `srvr` that it serves clients (alone, or in an ensemble that has a leader). What
it was told is read back by its word `conf`. Its ticks are the granularity at which sessions expire: with the default of 3 s here
(`tickTime`), a broker whose session is 18 s is gone 18 to 21 s after its last sign of life, and no session can be shorter than two
ticks or longer than twenty.

Example: `ZooKeeperNode(...).conf()` is `{"tickTime": "3000", "minSessionTimeout": "6000", "maxSessionTimeout": "60000", ...}`.
"""

import contextlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.lab.config import HEAP, JVM_FLAGS, LabSpec, Ports, properties_text
from pipelines.lab.node import Node

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SMALL_HEAP = ("-Xms32m", "-Xmx256m")
WORD_SECONDS = 2.0
TICK_MS = 3000
"""ZooKeeper's own default."""


class ZooKeeperNode(Node):
    """A ZooKeeper server. Of its ports, `controller` is the one where its peers come in."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.target

    @property
    def target(self) -> str:
        """What a fault is recorded under: never a broker's id."""
        return f"zookeeper-{self.node_id}"

    @property
    def host_name(self) -> str:
        """What its host is called, where it has one of its own."""
        return self.target

    @property
    def is_broker(self) -> bool:
        """It serves no client of Kafka."""
        return False

    def is_running(self) -> bool:
        """Whether it serves clients now."""
        return self.answers()

    def answers(self) -> bool:
        """Whether it serves clients now."""
        return "Mode:" in self._word("srvr")

    def conf(self) -> dict[str, str]:
        """The settings that it runs with; empty when it does not answer."""
        return dict(line.split("=", 1) for line in self._word("conf").splitlines() if "=" in line)

    def _word(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words; empty when there is none."""
        said = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.ports.host, self.ports.client), timeout=WORD_SECONDS) as connection,
        ):
            connection.sendall(word.encode())
            while part := connection.recv(65536):
                said += part
        return said.decode(errors="replace")


def server_properties(
    spec: LabSpec, node_id: int, ports: Mapping[int, Ports], elections: Mapping[int, int], data: Path
) -> dict[str, str]:
    """The `zookeeper.properties` of one server; `elections` are the ports on which an ensemble elects its leader."""
    peers = {
        f"server.{other}": f"{own.host}:{own.controller}:{elections[other]};{own.host}:{own.client}" for other, own in ports.items()
    }
    alone = {"clientPort": str(ports[node_id].client), "clientPortAddress": ports[node_id].host}
    return {
        "dataDir": str(data),
        "tickTime": str(TICK_MS),
        "initLimit": "10",
        "syncLimit": "5",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,conf",
        **(peers if len(ports) > 1 else alone),
        **spec.zookeeper_properties,
    }


def write_files(folder: Path, node_id: int, properties: Mapping[str, str], logging: tuple[str, str]) -> None:
    """A server's folder, with its number where an ensemble looks for it."""
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "myid").write_text(f"{node_id}\n")
    (folder / "zookeeper.properties").write_text(properties_text(properties))
    (folder / logging[0]).write_text(logging[1])


def server_command(java: Path, class_path: str, agent: Path, folder: Path, ports: Ports, extra_flags: Sequence[str] = ()) -> list[str]:
    """The command that runs the server whose files are in `folder`."""
    return [
        str(java),
        *(flag for flag in JVM_FLAGS if flag not in HEAP),
        *SMALL_HEAP,
        *extra_flags,
        f"-XX:ErrorFile={folder / 'hs_err.log'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        f"-javaagent:{agent}=port={ports.jolokia},host={ports.host},discoveryEnabled=false",
        "-cp",
        class_path,
        MAIN,
        str(folder / "zookeeper.properties"),
    ]


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What a running server does otherwise than it was told, of the settings that it shows; `dataDir` it shows as a folder in it."""
    shown = {name: value for name, value in wanted.items() if name in found and name != "dataDir"}
    return [f"{name} is {found[name]}, not {value}" for name, value in shown.items() if found[name] != value]
