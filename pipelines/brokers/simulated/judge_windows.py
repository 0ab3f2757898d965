"""Does the truth of every partition lie within the windows that are reported of it?

The rule: a window is held against the truth of the partition, of what the watch was served, or of what anybody was served (clients that
are cut off at the same time cannot know that there is a leader), whichever it claims; every span
without a serving leader, and every wait for a dead replica, that somebody could see is claimed by exactly one window. A wait for one
that is only slow need not be claimed.

Example: a partition without a serving leader in [10, 18.91) s, and a window from [9.9, 10.1] to [18.9, 19.3]: it holds.
"""

from collections import Counter

from pipelines.brokers.simulated.history import History, Truth
from pipelines.brokers.simulated.judgement import NEVER, Judgement, shown, told, touched
from pipelines.brokers.simulated.reported import Reported, Window
from pipelines.brokers.simulated.service import Down
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.observations import Kind, Lane
from pipelines.domain.windows import ACKS_ALL_STALLED


def judge_windows(history: History, reported: Reported, found: Judgement) -> None:
    """Holds every window against its partition."""
    claimed: Counter[tuple[str, Partition, str | None, Down]] = Counter()
    for window in reported.windows:
        found.windows += 1
        candidates = _candidates(history.truth, window)
        fits = {down for downs in candidates for down in _fitting(window, downs)}
        if not fits:
            near = touched((down for downs in candidates for down in downs), window.start, window.end)
            name = f"seed {history.seed}: {window.partition.resource}/{window.partition.shard}: {window.window}"
            text = f"{window.evidence} by {window.broker} {shown(window.start, window.end)} claims nothing"
            found.violations.append(f"{name} {text}; near it are {told(near)}")
        for down in fits:
            claimed[window.window, window.partition, _waited_for(window), down] += 1
    for (partition, broker, name), downs in _expected(history).items():
        for down in downs:
            found.spans += 1
            times = claimed[name, partition, broker, down]
            if times != 1:
                text = f"{name} by {broker} {told([down])} is claimed by {times} windows"
                found.violations.append(f"seed {history.seed}: {partition.resource}/{partition.shard}: {text}")


def _waited_for(window: Window) -> str | None:
    return window.broker if window.window == ACKS_ALL_STALLED else None


def _candidates(truth: Truth, window: Window) -> list[list[Down]]:
    if window.window == ACKS_ALL_STALLED:
        waited = window.partition, str(window.broker)
        return [truth.stalled.get(waited, []), truth.unfollowed.get(waited, [])]
    watched = Stream(window.partition.resource, window.partition.shard, Kind.LEADER, Lane.WATCH, "watch")
    return [truth.leaderless[window.partition], truth.lanes[watched], truth.served_nobody[window.partition]]


def _fitting(window: Window, downs: list[Down]) -> list[Down]:
    """The spans that a window is about: one, or several with less between them than (H) lets anyone see."""
    near = touched(downs, window.start, window.end)
    for down in near:
        if window.start.holds(down.begin_us) and _ends(window, down):
            return [down]
    if any(down.is_long for down in near):
        return []
    runs = (near[first : last + 1] for first in range(len(near)) for last in range(len(near) - 1, first, -1))
    return next((run for run in runs if window.start.holds(run[0].begin_us) and _ends(window, run[-1])), [])


def _ends(window: Window, down: Down) -> bool:
    return window.end.holds(NEVER if down.end_us is None else down.end_us)


def _expected(history: History) -> dict[tuple[Partition, str | None, str], list[Down]]:
    """The spans that must be reported: those that (H) lets a watch see, and stalls for brokers that somebody could miss."""
    limit = history.scenario.end_us - 2 * history.scenario.watch_gap_us
    expected: dict[tuple[Partition, str | None, str], list[Down]] = {}
    for partition, downs in history.truth.leaderless.items():
        expected[partition, None, "leader_unavailable"] = [
            down for down in downs if down.is_long and down.end_us is not None and down.end_us < limit
        ]
    for (partition, broker), downs in history.truth.stalled.items():
        expected[partition, broker, ACKS_ALL_STALLED] = [
            down
            for down in downs
            if down.is_long and down.end_us is not None and down.end_us < limit and _leads(history, broker, down.begin_us)
        ]
    return expected


def _leads(history: History, broker: str, at_us: int) -> bool:
    trace = history.truth.trace
    return any(trace.current(partition, at_us).leader == broker for partition in trace.replicas)
