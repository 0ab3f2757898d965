"""What can be done to the network and the disks of a lab?

The rule of `process_faults` holds: what returns was seen to have taken effect, and is recorded. Each has an exact inverse: cut, heal;
slow, unslow; fill_disk, free_disk; read_only, writable. How each is seen says the module that does it, `network` or `volumes`.

Example: `lab.cut(lab.node(1), from_=[lab.node(2), lab.node(3)])` leaves a leader that still serves the prober, and that nobody
follows; 0.3 s later the Fault is `Fault("cut", "1", None, ..., detail="from 2, 3")`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipelines.domain.clock import Anchor
from pipelines.errors import LabError
from pipelines.lab import volumes
from pipelines.lab.config import LabSpec
from pipelines.lab.hosts import PROBER, Host
from pipelines.lab.network import Network, Slowness
from pipelines.lab.node import Doing, Fault, Node, kill_all
from pipelines.lab.process_faults import ProcessFaults
from pipelines.lab.volumes import DataCopy

Place = Node | Host
"""A node stands for its host."""


class Faults(ProcessFaults):
    """The hands of the lab: processes, network, disks."""

    spec: LabSpec

    def __init__(self, anchor: Anchor) -> None:
        super().__init__(anchor)
        self._network: Network | None = None
        self._copies = 0

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the nodes' files are while the lab runs."""

    @property
    def network(self) -> Network:
        """The hosts and what is between them. Raises LabError when the nodes have no hosts of their own."""
        if self._network is None:
            raise LabError(
                "the nodes of this lab share this machine's loopback: give its LabSpec network=True, and use it in a with block"
            )
        return self._network

    @property
    def prober(self) -> Host:
        """The host that measuring processes run on, where the nodes have hosts of their own."""
        return self.network.hosts[PROBER]

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """What goes before the command of a measuring process, so that it looks at the cluster from the prober's host.

        Nothing, where all share this machine's loopback.
        """
        return () if self._network is None else self.prober.prefix

    def host(self, place: Place) -> Host:
        """The host of a node."""
        return self.network.hosts[place.host_name] if isinstance(place, Node) else place

    # ---- network -----------------------------------------------------------------------------------------------------------

    def cut(self, place: Place, from_: Sequence[Place] | None = None) -> Fault:
        """Nothing gets from a host to these others any more, nor back; not given: to all others, the prober included."""
        host, others = self._peers(place, from_)
        return self._cut(host.name, [frozenset((host.name, other)) for other in others], ", ".join(others))

    def heal(self, place: Place, from_: Sequence[Place] | None = None) -> Fault:
        """Takes a cut back; not given: all cuts of this host."""
        host, others = self._peers(place, from_)
        healed = [other for other in others if frozenset((host.name, other)) in self.network.cuts]
        pairs = [frozenset((host.name, other)) for other in healed]
        return self._timed("heal", host.name, partial(self.network.heal, pairs), f"from {', '.join(healed)}")

    def slow(
        self,
        place: Place,
        delay_ms: float = 0.0,
        jitter_ms: float = 0.0,
        rate_kbit: float | None = None,
        towards: Sequence[Place] | None = None,
    ) -> Fault:
        """Slows what a host exchanges with these others; not given: with all others, the prober included.

        Args:
            place: whose link becomes slow.
            delay_ms: how long each packet takes, one way and both ways: a round trip takes twice as long.
            jitter_ms: each packet's delay varies by this much up and down.
            rate_kbit: what the link carries, each way, for all of these others together; None: no limit.
            towards: the others.
        """
        host, others = self._peers(place, towards)
        how = Slowness(delay_ms, jitter_ms, rate_kbit)
        hosts = [self.network.hosts[other] for other in others]
        detail = f"{how} towards {', '.join(others)}"
        return self._timed("slow", host.name, partial(self.network.slow, host, how, hosts), detail)

    def unslow(self, place: Place) -> Fault:
        """Takes that back."""
        host = self.host(place)
        return self._timed("unslow", host.name, partial(self.network.unslow, host))

    def zone_nodes(self, zone: str) -> list[Node]:
        """The nodes of a rack. Raises LabError when there is none of that name."""
        found = [node for node in self.all_nodes if self.spec.zone(node.node_id) == zone]
        if not found:
            raise LabError(f"the lab has no zone {zone}, only {sorted({str(self.spec.zone(node.node_id)) for node in self.all_nodes})}")
        return found

    def lose_zone(self, zone: str) -> list[Fault]:
        """Kills all nodes of a rack, as a power loss there does: all signals first, then it is seen that all are gone."""
        return [self._record(fault) for fault in kill_all(self.zone_nodes(zone))]

    def cut_zone(self, zone: str) -> Fault:
        """Cuts a rack off from everything outside it; its nodes still see each other."""
        pairs, others = self._border(zone)
        return self._cut(zone, pairs, ", ".join(others))

    def heal_zone(self, zone: str) -> Fault:
        """Takes that back."""
        pairs, others = self._border(zone)
        return self._timed("heal", zone, partial(self.network.heal, pairs), f"from {', '.join(others)}")

    def _border(self, zone: str) -> tuple[list[frozenset[str]], list[str]]:
        inside = [str(node.node_id) for node in self.zone_nodes(zone)]
        outside = [host.name for host in self.network.others if host.name not in inside]
        return [frozenset((one, other)) for one in inside for other in outside], outside

    def _cut(self, target: str, pairs: Sequence[frozenset[str]], others: str) -> Fault:
        return self._timed("cut", target, partial(self.network.cut, pairs), f"from {others}")

    def _peers(self, place: Place, others: Sequence[Place] | None) -> tuple[Host, list[str]]:
        host = self.host(place)
        found = self.network.peers(host, None if others is None else [self.host(other) for other in others])
        return host, [other.name for other in found]

    # ---- disks -------------------------------------------------------------------------------------------------------------

    def fill_disk(self, node: Node) -> Fault:
        """No byte more fits onto the node's disk."""
        return self._on_disk("fill_disk", node, volumes.fill)

    def free_disk(self, node: Node) -> Fault:
        """Takes that back."""
        return self._on_disk("free_disk", node, volumes.free)

    def read_only(self, node: Node) -> Fault:
        """The node's disk takes no more writes, as after an error of the disk; a running broker ends by itself."""
        return self._on_disk("read_only", node, volumes.make_read_only)

    def writable(self, node: Node) -> Fault:
        """The disk of a node that is down is checked and mounted again."""
        return self._on_disk("writable", node, volumes.make_writable)

    def _on_disk(self, fault: str, node: Node, do: Callable[[Node, Doing], None]) -> Fault:
        return self._timed(fault, str(node.node_id), partial(do, node))

    def copy_data(self, node: Node) -> DataCopy:
        """A copy of one instant of a node's data, to roll back to. A node that runs is paused meanwhile, which is recorded."""
        self._copies += 1
        path = self.folder / "copies" / f"node-{node.node_id}-{self._copies}"
        is_to_pause = node.is_alive() and not node.is_paused()
        if is_to_pause:
            self.pause(node)
        begun = self.anchor.now_us()
        try:
            volumes.copy_data(node, path)
        finally:
            ended = self.anchor.now_us()
            if is_to_pause:
                self.resume(node)
        return DataCopy(node.node_id, path, begun, ended)

    def roll_back_data(self, node: Node, copy: DataCopy) -> Fault:
        """A power loss, on a node that is dead: its partitions are what they were when the copy was made.

        What Kafka flushes before it goes on (the metadata log) stays.
        """
        return self._timed("roll_back_data", str(node.node_id), partial(volumes.roll_back, node, copy))
