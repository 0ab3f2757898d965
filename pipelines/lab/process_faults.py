"""What can be done to the processes of a lab, and how is it known that it was done?

The rule: every method returns when the effect was *seen*, and records a `Fault` with the instants before, after and of seeing
it. Each has an inverse: kill and terminate, start; pause, resume. What is waited for has a limit and a sentence.

Example: `lab.kill(node)` takes 9 ms: the signal, and then the process is gone; `lab.start(node)` some 5 s: the process, until the
controller has unfenced the broker and the others see it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pipelines.domain.clock import Anchor
from pipelines.errors import ConnectionFailed, LabError, RetryableError, TimedOut
from pipelines.lab.node import Doing, Fault, Node
from pipelines.processes import wait_until

if TYPE_CHECKING:
    # What it imports makes its classes from Kafka's schemas, which takes a while: whoever only names a Fault need not wait.
    from pipelines.brokers.kafka.metadata import Metadata

READY_SECONDS = 120.0
METADATA_SECONDS = 3.0


class PortTaken(Exception):
    """Somebody took a port between our trying it and the node's binding it."""


class ProcessFaults:
    """What is done to processes. `faults` is what was done so far, in order."""

    all_nodes: list[Node]

    def __init__(self, anchor: Anchor) -> None:
        self.anchor = anchor
        self.faults: list[Fault] = []

    # ---- processes ---------------------------------------------------------------------------------------------------------

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
        return self.start_all([node], timeout)[0]

    def start_all(self, nodes: Sequence[Node], timeout: float = READY_SECONDS) -> list[Fault]:
        """Starts nodes again at once, in this order, and returns when all serve.

        Where no node can serve alone (a combined cluster without a majority), they have to be started together.
        """
        for node in nodes:
            self._wait_until_may_start(node, timeout)
        started = [(node, self.launch(node)) for node in nodes]
        self.wait_until_serving(nodes, timeout)
        return [self._record(replace(fault, verified_at_us=self.anchor.now_us())) for _, fault in started]

    def launch(self, node: Node) -> Fault:
        """Starts a node's process and returns at once; whether it serves is a question of its own (`wait_until_serving`).

        The Fault is not recorded: that it took effect was not seen yet.
        """
        before = self.anchor.now_us()
        node.start()
        after = self.anchor.now_us()
        return Fault("start", node.target, node.pid, before, after, after)

    def wait_until_serving(self, nodes: Iterable[Node], timeout: float = READY_SECONDS) -> None:
        """Returns when each node is in full service and the others see it. Raises LabError when one ends, or with its last words."""
        for node in nodes:
            self._wait(partial(self._serves, node), timeout, f"{node.name} to serve again", (node,))

    def down_nodes(self) -> list[Node]:
        """The nodes that do not run, in the order in which they went down.

        Started again in this order they come back in the worst one: the first to go has the oldest data, the last to go has all.
        """
        went = {fault.target: index for index, fault in enumerate(self.faults) if fault.fault in ("kill", "terminate")}
        down = [node for node in self.all_nodes if not node.is_alive()]
        return sorted(down, key=lambda node: went.get(str(node.node_id), -1))

    # ---- waiting -----------------------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Returns as soon as the condition holds; brokers that cannot answer now are asked again.

        Args:
            condition: may ask the cluster; a ConnectionFailed or a RetryableError counts as "not yet".
            timeout: in seconds.
            what: ends the sentence "waited N s for ..." of the TimedOut.
        """

        def holds() -> bool:
            try:
                return condition()
            except (ConnectionFailed, RetryableError):
                return False

        wait_until(holds, timeout, what)

    def metadata(self) -> "Metadata":
        """The cluster as the broker tells it that has read furthest in the metadata log.

        Not whichever broker a client happens to ask: one that is cut off from the controllers still says that it leads.
        """
        from pipelines.brokers.kafka.one_node import metadata_of

        running = [node for node in self.all_nodes if node.is_broker and node.is_alive() and not node.is_paused()]
        offset, _, newest = max(((self._metadata_offset(node), node.node_id, node) for node in running), default=(-1, -1, None))
        if newest is None or offset < 0:
            raise ConnectionFailed("no broker of the lab answers")
        return metadata_of(newest.address, METADATA_SECONDS)

    def wait_until_in_sync(self, timeout: float = 60.0) -> None:
        """Returns when every partition of every topic has a leader and its whole ISR."""

        def is_in_sync() -> bool:
            partitions = self.metadata().partitions().values()
            return all(info.is_whole for info in partitions)

        self.wait_for(is_in_sync, timeout, "every partition of the lab to have its whole ISR")

    def _wait_until_may_start(self, node: Node, timeout: float) -> None:
        """Returns when a node that has run before may be started again: at once, unless the lab knows better."""

    def _metadata_offset(self, node: Node) -> int:
        """How far a broker has read the cluster's metadata; -1 when it does not answer."""
        return node.metadata_offset()

    def _serves(self, node: Node) -> bool:
        """Whether the node says that it is in full service, and the others see a broker."""
        if not node.is_running():
            return False
        try:
            return not node.is_broker or node.node_id in self.metadata().brokers
        except (ConnectionFailed, RetryableError):
            return False

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str, nodes: Iterable[Node]) -> None:
        """Waits, and stops waiting as soon as one of the nodes has ended."""

        def holds() -> bool:
            for node in nodes:
                if node.lost_its_port():
                    raise PortTaken(f"a port of {node.name} was taken by another program")
                if not node.is_alive():
                    raise LabError(f"{node.name} of the lab ended while it started:\n{node.last_words()}")
            return condition()

        try:
            wait_until(holds, timeout, what)
        except TimedOut as error:
            raise LabError(f"{error}\n{self._last_words(nodes)}") from error

    def _last_words(self, nodes: Iterable[Node]) -> str:
        return "\n".join(f"{node.name}: {node.last_words(3)}" for node in nodes)

    def _record(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def _timed(self, fault: str, target: str, do: Callable[[Doing], object], detail: str = "") -> Fault:
        """Has something done, within the `Doing` that it is given, that returns when its effect was seen; records it."""
        doing = Doing(self.anchor)
        do(doing)
        return self._record(Fault(fault, target, None, doing.before_at_us, doing.after_at_us, self.anchor.now_us(), detail))
