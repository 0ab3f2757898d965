"""Is what is said of the controller true: when there was none, and what waited for it?

The rule: every window without a controller claims one span in which nobody could decide; its bounds hold the span. A window that may
have had no length at all (a controller that was replaced, or whose clock was set, and that nobody saw to be silent) need claim nothing.
Every span that was longer than a pause which anybody would notice is claimed by exactly one window. A partition that had no serving
leader when a controller was there again is among those that waited.

Example: no controller in [10.000, 12.031) s, and a window from [9.9, 10.05] to [12.031, 12.032]: it holds.
"""

from bisect import bisect_left
from collections import Counter

from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judgement import NEVER, Judgement, shown, told, touched
from pipelines.brokers.simulated.quorum import Write
from pipelines.brokers.simulated.reading import ANSWER_US, READABLE_US_MAX
from pipelines.brokers.simulated.reported import Reported, WithoutController
from pipelines.brokers.simulated.service import Down

IDLE_PAUSES_NOTICED = 5
WRITES_KNOWN = 12
"""So often a controller has to have written before anybody knows how often it does."""


def judge_controllers(history: History, reported: Reported, found: Judgement) -> None:
    """Holds every window of the controller against the truth."""
    spans = [Down(begin, end, is_long=True) for begin, end in history.truth.trace.without_controller]
    claimed: Counter[Down] = Counter()
    for window in reported.controllers:
        found.controller_windows += 1
        near = [one for one in touched(spans, window.start, window.end) if _holds(window, one)]
        # Where the clock is bounded coarsely, a window may be about any of several pauses: the first that no other claims.
        near.sort(key=lambda down: (claimed[down] > 0, down.begin_us))
        claimed.update(near[:1])
        if not near and window.length.low:
            text = f"{window.cause} {shown(window.start, window.end)} claims nothing; near it are {told(spans)}"
            found.violations.append(f"seed {history.seed}: controller: {text}")
        if near:
            _judge_waiting(history, window, near[0], found)
    for down in spans if history.scenario.has_control_plane else ():
        found.spans += 1
        if claimed[down] != 1 and _is_seen(history, down):
            found.violations.append(f"seed {history.seed}: controller: {told([down])} is claimed by {claimed[down]} windows")


def _holds(window: WithoutController, down: Down) -> bool:
    if not window.start.holds(down.begin_us):
        return False
    if down.end_us is None:
        return window.is_open
    # What is read bounds when it was readable, which is a moment after it was written.
    return window.end.holds(down.end_us) or window.end.holds(down.end_us + READABLE_US_MAX)


def _is_seen(history: History, down: Down) -> bool:
    """Whether it lasted for longer than an idle controller is silent, and its end has been read."""
    scenario = history.scenario
    looks = scenario.clocks.read_every_us if scenario.clocks else 50_000
    if down.end_us is None or down.end_us + looks + ANSWER_US[1] > scenario.end_us:
        return False
    log, noticed = history.truth.trace.log, IDLE_PAUSES_NOTICED * scenario.idle_us
    index = bisect_left(log, down.begin_us, key=lambda one: one.at_us)
    writes = sum(one.event is None for one in log[:index])
    return writes >= WRITES_KNOWN and down.end_us - down.begin_us > noticed and _shows(history, log[index - 1], log[index:], noticed)


def _shows(history: History, last: Write, later: list[Write], noticed_us: int) -> bool:
    """Whether the log itself shows the pause: not where the one witness, the clock of the writer, was set back just then."""
    if not later or later[0].epoch != last.epoch:
        return True
    stamps = [history.truth.clocks.stamp(one.writer, one.at_us) for one in (last, later[0])]
    return stamps[1] - stamps[0] > noticed_us


def _judge_waiting(history: History, window: WithoutController, down: Down, found: Judgement) -> None:
    end = NEVER if down.end_us is None else down.end_us
    waiting = set()
    limit = history.scenario.end_us - 2 * history.scenario.watch_gap_us
    for partition, spans in history.truth.leaderless.items():
        missing = [
            one
            for one in spans
            if one.is_long and one.begin_us < end and one.end_us is not None and end + READABLE_US_MAX < one.end_us < limit
        ]
        if missing:
            waiting.add(partition)
        if missing and window.waited is not None and partition not in window.waited:
            text = f"{partition.resource}/{partition.shard} waited in {told(missing)}, and is not among those that did"
            found.violations.append(f"seed {history.seed}: controller {shown(window.start, window.end)}: {text}")
    if len(waiting) > window.waiting:
        text = f"{len(waiting)} partitions waited, {window.waiting} are told"
        found.violations.append(f"seed {history.seed}: controller {shown(window.start, window.end)}: {text}")
