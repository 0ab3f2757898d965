"""What is an action, and what does it say that it did?

Example: `Action(run, stops=True)` is one that needs a target, is told nothing more, and whose target serves nothing from then on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.drills.context import Context
from pipelines.lab import Fault, Node


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that was done, to a broker or to a topic. Instants in microseconds, UTC."""

    action: str
    target: str
    before_at_us: int
    after_at_us: int
    verified_at_us: int


Run = Callable[[Context, Sequence[Node], Mapping[str, Any]], list[Done]]


@dataclass(frozen=True, slots=True)
class Action:
    """An action: how it is done, what it must and may be told, and whether it stops brokers from serving at that very instant."""

    run: Run
    has_target: bool = True
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    stops: bool = False


def done_of(fault: Fault) -> Done:
    """What the lab did, as an action says it."""
    return Done(fault.fault, fault.target, fault.before_at_us, fault.after_at_us, fault.verified_at_us)
