"""What does a running drill know? The lab, the measurement, the witnesses, the roles that were resolved, and the injector's log.

The rule: the injector's log is the drill's own ground truth, one JSON line for each thing done or waited for, written and flushed
before the drill goes on. A line says what was asked, whom it was resolved to, the instants just before, just after and when the
effect had been seen (microseconds, UTC, the clock that the collectors share), and who led and followed which partition then.

Example: {"record": "action", "action": "kill", "label": "victim", "targets": ["2"], "before_at_us": 1000, "after_at_us": 1060,
"verified_at_us": 9000, "stops": true, "placement": {"orders/0": {"leader": "2", "isr": ["2", "3"], "replicas": ["2", "3"]}}}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.domain.clock import Anchor
from pipelines.drills.records import Placement
from pipelines.drills.witness import Witness
from pipelines.errors import LabError, LastackError
from pipelines.lab import Lab, Node
from pipelines.lab.volumes import DataCopy
from pipelines.measuring import Measurement


@dataclass(slots=True)
class Context:
    """A drill that is running."""

    lab: Lab
    measurement: Measurement
    anchor: Anchor
    log_path: Path
    folder: Path
    witnesses: dict[str, Witness] = field(default_factory=dict)
    roles: dict[str, list[Node]] = field(default_factory=dict)
    placement: Placement = field(default_factory=dict)
    step_began_at_us: int = 0
    copies: dict[int, DataCopy] = field(default_factory=dict)
    """Of the data of nodes, to roll back to."""

    def say(self, line: str) -> None:
        """Tells a person."""
        self.measurement.say(line)

    def write(self, record: Mapping[str, Any]) -> None:
        """One line of the injector's log."""
        with self.log_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")

    def node_of(self, role: str) -> Node:
        """The one node of a role. Raises LabError where it has several, or none."""
        nodes = self.roles.get(role, [])
        if len(nodes) != 1:
            raise LabError(f"{role!r} is {len(nodes)} nodes, expected one")
        return nodes[0]

    def look(self) -> Placement:
        """Who leads and follows what now, as far as the cluster tells; what it told last where nobody answers."""
        try:
            partitions = self.lab.metadata().partitions()
        except LastackError:
            return self.placement
        found: Placement = {
            f"{one.topic}/{one.partition}": {
                "leader": None if state.leader is None else str(state.leader),
                "isr": [str(each) for each in sorted(state.isr)],
                "replicas": [str(each) for each in state.replicas],
            }
            for one, state in sorted(partitions.items())
        }
        self.placement = found
        return found
