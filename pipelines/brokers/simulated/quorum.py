"""Who decides? The event loop of the simulated cluster, and its active controller: a node that can be killed, hung or restarted.

The rule is that of a quorum. The active controller writes now and then, also when it has nothing to say. When it stops, nothing is
decided: what brokers ask for waits. The others elect one of them once they have missed it for long enough and are a majority; it
writes that it is the controller now, and gives every broker a new session. One that hangs for less than that goes on by itself.
Without controllers of its own a scenario has one that never fails.

Example: broker 2, the active controller, is killed at 10 s; after a timeout of 2 s, 3 is elected at 12 s; 2 is fenced at 21 s and
not at 19 s: the session of 9 s begins with the new controller.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pipelines.brokers.simulated.scenario import Scenario
from pipelines.brokers.simulated.steps import Steps
from pipelines.domain.observations import ControlEvent

UP = "up"
IMMORTAL = "0"


@dataclass(frozen=True, slots=True)
class Write:
    """A batch that the controller wrote, with nothing in it (`event` None) or with one event of it."""

    at_us: int
    writer: str
    epoch: int
    position: int
    event: dict[str, Any] | None = None


class Controlled:
    """The event loop. `decides` names the actions that only an active controller can take: without one they wait for it."""

    decides: ClassVar[frozenset[str]] = frozenset()
    fences: ClassVar[str] = "_fence"

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        self.scenario = scenario
        self.rng = rng
        self.now_us = 0
        self.states: dict[str, Steps[str]] = {one: Steps(UP) for one in (*scenario.brokers, *scenario.controllers)}
        self.log: list[Write] = []
        self.without: list[tuple[int, int | None]] = []
        """Spans without a controller that could decide."""
        self.active = rng.choice(scenario.controllers) if scenario.controllers else IMMORTAL
        self.epoch = 1
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._position = 1000
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._lost = 0
        if scenario.controllers:
            self._after(0, scenario.idle_us, self._idle, self.epoch, self._lost)

    def play(self, end_us: int) -> None:
        """Plays everything up to an instant."""
        while self._events and self._events[0][0] <= end_us:
            self.now_us, _, action, arguments = heapq.heappop(self._events)
            if action.__name__ in self.decides and not self.has_controller:
                self._waiting.append((action, arguments))
            else:
                action(*arguments)

    @property
    def has_controller(self) -> bool:
        """Whether anybody can decide now."""
        return not self.without or self.without[-1][1] is not None

    def _at(self, at_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(at_us, self.now_us), self._count, action, arguments))

    def _after(self, low_us: int, high_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self._at(self.now_us + self.rng.randint(low_us, max(low_us, high_us)), action, *arguments)

    # --- the controller -----------------------------------------------------------------------------------------------

    def _idle(self, epoch: int, lost: int) -> None:
        """It writes although it has nothing to say."""
        if (epoch, lost) == (self.epoch, self._lost):
            self._write()
            self._at(self.now_us + self.scenario.idle_us, self._idle, epoch, lost)

    def _write(self, event: dict[str, Any] | None = None) -> None:
        self._position += 1
        self.log.append(Write(self.now_us, self.active, self.epoch, self._position, event))

    def _record(self, event: str, **fields: Any) -> None:
        self._write({"event": event, **fields})

    def _controller_stopped(self, node: str) -> None:
        """Called when a node stops, of whatever kind."""
        if node == self.active and self.has_controller:
            self._lost += 1
            self.without.append((self.now_us, None))
            timeout = self.scenario.takeover_us
            self._after(timeout * 4 // 5, timeout, self._elect_controller, self._lost)

    def _controller_back(self, node: str) -> None:
        """Called when a node that had hung goes on: it is still the controller if nobody else has been elected."""
        if node == self.active and not self.has_controller:
            self._lost += 1
            self._took_over()
            self._write()
            self._at(self.now_us + self.scenario.idle_us, self._idle, self.epoch, self._lost)

    def _elect_controller(self, lost: int) -> None:
        if lost != self._lost:
            return
        able = [one for one in self.scenario.controllers if self.states[one].last == UP]
        if 2 * len(able) <= len(self.scenario.controllers):
            timeout = self.scenario.takeover_us
            self._after(timeout // 4, timeout // 2, self._elect_controller, lost)
            return
        previous, self.active = self.active, self.rng.choice(able)
        self.epoch += 1
        self._took_over()
        self._record(ControlEvent.CONTROLLER_CHANGED, broker=self.active, leader=self.active, previous_leader=previous, term=self.epoch)
        self._at(self.now_us + self.scenario.idle_us, self._idle, self.epoch, self._lost)

    def _took_over(self) -> None:
        """What had to wait is done now; sessions begin anew."""
        begin, _ = self.without[-1]
        self.without[-1] = (begin, self.now_us)
        waiting, self._waiting = self._waiting, []
        session = self.scenario.session_us
        for action, arguments in waiting:
            if action.__name__ == self.fences:
                self._after(session - session // 20, session, action, *arguments)
            else:
                self._after(500, 5_000, action, *arguments)
