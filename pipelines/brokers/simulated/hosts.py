"""What do the clocks of the simulated hosts show? Each its own time, by which it stamps what it appends and what it answers.

The rule: the truth is told on the clock of the first prober. A host's clock is off it by a constant, and is set now and then; it
stamps milliseconds. The second and third prober may have clocks of their own, which are never set: they are monotonic.

Example: a clock that is 7,200,000 ms ahead stamps a record of 10.0042 s as 7,210.004 s.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.brokers.simulated.cluster import Trace
from pipelines.brokers.simulated.quorum import UP
from pipelines.brokers.simulated.scenario import PROBER, Clocks, Scenario
from pipelines.brokers.simulated.steps import Steps
from pipelines.domain.clock_book import ClockBook
from pipelines.domain.clocks import APPEND_TIME, RESPONSE_TIME, clock_bound
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ClockSeen, Probes
from pipelines.domain.spans import Line

SECOND = 1_000_000
CLOCK_ID = "clock1-0"
FIRST = "canary"

INSTANTS = ("started_at_us", "ended_at_us", "last_issued_at_us", "first_decided_at_us", "last_decided_at_us", "earliest_decided_at_us")
OFFSETS = ("clock_offset_us_min", "clock_offset_us_max")


class HostClocks:
    """The clocks of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._clocks = scenario.clocks or Clocks()
        self._offsets: dict[str, Steps[int]] = {host: Steps(0) for host in scenario.hosts}
        for host, steps in self._clocks.hosts:
            offsets = self._offsets[host] = Steps(steps[0][1])
            for at_us, offset_us in steps[1:]:
                offsets.set(at_us, offset_us)

    def offset(self, host: str, at_us: int) -> int:
        """A host's clock minus the first prober's."""
        return self._offsets[host].at(at_us)

    def stamp(self, host: str, at_us: int) -> int:
        """What a host's clock shows, to the millisecond."""
        return (at_us + self._offsets[host].at(at_us)) // 1000 * 1000

    @property
    def append_time(self) -> Callable[[str, int], int] | None:
        """How a leader stamps what it appends, where acknowledgements carry that."""
        return self.stamp if self._clocks.has_append_times and self._clocks.hosts else None

    def of_prober(self, prober_id: str) -> int:
        """A prober's clock minus the first one's."""
        number = number_of(prober_id)
        return (self._clocks.probers[number - 2] or 0) if 2 <= number < 2 + len(self._clocks.probers) else 0

    def clock_id(self, prober_id: str) -> str:
        """The name of the clock that a prober reads."""
        number = number_of(prober_id)
        is_own = 2 <= number < 2 + len(self._clocks.probers) and self._clocks.probers[number - 2] is not None
        return f"clock{number}-0" if is_own else CLOCK_ID


def number_of(name: str) -> int:
    """Which prober a name, or a fault's target, means: 1 for `canary`, 2 for `prober-2`; 1 for everybody else."""
    head, _, tail = name.rpartition("-")
    return int(tail) if head in (FIRST, PROBER) and tail.isdigit() else 1


def moved(line: Line, offset_us: int) -> Line:
    """The fields of a record as a clock shows them that is off by so much."""
    if not offset_us:
        return line
    instants = {name: line[name] + offset_us for name in INSTANTS if line.get(name) is not None}
    return line | instants | {name: line[name] - offset_us for name in OFFSETS if line.get(name) is not None}


def book_of_probes(runs: list[Probes]) -> list[Line]:
    """What the book of a canary writes of the acknowledgements of its runs, by the canary's own clock, as the canary keeps it."""
    found: list[Line] = []
    book = ClockBook(APPEND_TIME, _taker(found))
    for run in runs:
        proven = clock_bound(run)
        if proven is not None:
            book.take(proven.host, proven.offset, proven.begin_us, proven.end_us)
    book.close()
    return found


def book_of_answers(scenario: Scenario, trace: Trace, clocks: HostClocks, rng: random.Random) -> Iterator[Line]:
    """What is written of the clocks of hosts that are asked for their metrics: they stamp whole seconds."""
    for host in scenario.hosts:
        found: list[Line] = []
        book = ClockBook(RESPONSE_TIME, _taker(found))
        for asked in range(rng.randrange(SECOND), scenario.end_us, SECOND):
            answered = asked + rng.randint(2_000, 40_000)
            stamped = asked + rng.randint(1_000, answered - asked - 1)
            if host not in trace.states or trace.states[host].at(asked) == UP == trace.states[host].at(answered):
                stamp = (stamped + clocks.offset(host, stamped)) // SECOND * SECOND
                book.take(host, Bounds(stamp - answered, stamp + SECOND - 1 - asked), asked, answered)
        book.close()
        yield from found


def _taker(found: list[Line]) -> Callable[..., object]:
    def write(_: type[ClockSeen], **fields: Any) -> None:
        found.append(fields)

    return write
