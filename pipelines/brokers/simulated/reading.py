"""How does the control plane's reader see the log? It looks now and then, and every event carries the stamp of who wrote it.

The rule: an event is appended at the instant at which it is decided, and can be read a moment later. It is seen by the first look after
that, and was not there at the look before. Its stamp is read from the clock of the controller that wrote it; where a scenario has no
clocks, all clocks agree. A silence of the controller is read from the stamps of its writes, as `brokers/kafka/replay.py` does: told
when it, or another, writes again. The real slack of half a second is the pause of an idle controller here, since time is scaled.

Example: decided at 10.0042 s by a controller whose clock is two hours ahead, looks at 10.000 and 10.050 s: stamped 7,210.004 s, seen at
10.052 s, not seen at 10.000 s.
"""

import random
import statistics
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipelines.brokers.simulated.cluster import Trace
from pipelines.brokers.simulated.hosts import HostClocks
from pipelines.brokers.simulated.quorum import Write
from pipelines.brokers.simulated.scenario import Scenario
from pipelines.domain.observations import ControlEvent
from pipelines.domain.spans import Line

READABLE_US_MAX = 400
ANSWER_US = (500, 4_000)
GAPS_MIN, GAPS_KEPT = 5, 101


def controls(clocks: HostClocks, scenario: Scenario, rng: random.Random, trace: Trace) -> Iterator[Line]:
    """The fields of the events of the log, in its order, as the reader writes them."""
    looks = list(_looks(scenario, rng))
    seen_at_us = 0
    silence = _Silence(scenario.idle_us)
    for write in trace.log:
        stamp = clocks.stamp(write.writer, write.at_us)
        events = [*(silence.ended_by(write, stamp) if scenario.controllers else ()), *_told(write, stamp)]
        if scenario.clocks is None:
            for told in events:
                seen = write.at_us // 1000 * 1000 + 999 + rng.randint(0, 20_000)
                yield told | {"stamped_by": None, "seen_at_us": seen}
            continue
        # What was decided later cannot be read earlier.
        index = bisect_left(looks, write.at_us + rng.randint(0, READABLE_US_MAX))
        if index >= len(looks):
            return
        seen_at_us = max(seen_at_us, looks[index] + rng.randint(*ANSWER_US))
        for told in events:
            yield told | {"seen_at_us": seen_at_us, "unseen_at_us": looks[index - 1] if index else None}


def _told(write: Write, stamp_us: int) -> Iterator[Line]:
    if write.event is not None:
        yield write.event | {"position": str(write.position)} | _stamped(write.writer, stamp_us, stamp_us)


def _stamped(writer: str, since_us: int, until_us: int) -> Line:
    return {"started_at_us": since_us, "ended_at_us": until_us + 999, "stamped_by": writer}


@dataclass(slots=True)
class _Silence:
    """When the controller last wrote, by its own clock, and how often it does when it has nothing to say."""

    slack_us: int
    last: Write | None = None
    last_us: int = 0
    last_idle_us: int | None = None
    gaps_us: list[int] = field(default_factory=list)

    def ended_by(self, write: Write, stamp_us: int) -> Iterator[Line]:
        """What is told of the writer before, where it had fallen silent."""
        before, before_us = self.last, self.last_us
        self.last, self.last_us = write, stamp_us
        is_other = before is not None and write.epoch != before.epoch
        limit = self._limit()
        if before is not None and limit is not None and (is_other or stamp_us - before_us > limit):
            until = before_us + min(limit, max(self.gaps_us))
            told = {"broker": before.writer, "term": before.epoch, "position": str(write.position)}
            yield {"event": ControlEvent.CONTROLLER_SILENT} | told | _stamped(before.writer, before_us, until)
            if not is_other:
                yield {"event": ControlEvent.CONTROLLER_RESUMED} | told | _stamped(write.writer, stamp_us, stamp_us)
        if is_other:
            self.last_idle_us = None
        if write.event is None:
            self._idle(stamp_us)

    def _limit(self) -> int | None:
        return None if len(self.gaps_us) < GAPS_MIN else int(2 * statistics.median(self.gaps_us)) + self.slack_us

    def _idle(self, stamp_us: int) -> None:
        if self.last_idle_us is not None and stamp_us > self.last_idle_us:
            gap, limit = stamp_us - self.last_idle_us, self._limit()
            if limit is None or gap <= limit:
                self.gaps_us = [*self.gaps_us, gap][-GAPS_KEPT:]
        self.last_idle_us = stamp_us


def _looks(scenario: Scenario, rng: random.Random) -> Iterator[int]:
    """When the log is read; for the first time before anything happens."""
    yield 0
    every = scenario.clocks.read_every_us if scenario.clocks else 50_000
    at_us = 0
    while at_us < scenario.end_us + 2 * every:
        at_us += rng.randint(every // 2, every)
        yield at_us
