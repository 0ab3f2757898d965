"""When had a cluster no controller that could decide, and what waited for it? An outage of its own: writes go on, elections wait.

The rule: a controller that is there writes now and then, also when it has nothing to say. A window begins where it fell silent
(between its last write and the end of the pause that it usually makes; where it is known to have stopped serving as a broker, with
that; in ZooKeeper mode at some time before its session ended), and ends with the first decision of the next one, or of itself. A
controller that was replaced without a silence that anybody saw, since nothing says how often it writes, was gone for at most the time
since its last decision, and perhaps not at all.

The cause is read from what became of the old controller: *controller_failed* when it was absent as a broker, or another one took over
while it said nothing; *controller_moved* when it had said that it shuts down; *controller_silent* when it resumed by itself.

Partitions *waited* when their window without a serving leader, or with writes that waited for a dead replica, was under way while there
was no controller, and ended after it.

Worked example, in ms: controller 2 wrote last at 7_900 and usually pauses for 500; it was absent from [8_000, 8_050]; controller 3
writes its first record at 10_100: no controller from [8_000, 8_050] to [10_100, 10_100.999], so for 2_050 to 2_101.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipelines.domain.brokers import Absence, is_leaving
from pipelines.domain.facts import Facts
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.names import identity
from pipelines.domain.observations import Control, ControlEvent, ControlSourceName
from pipelines.domain.windows import PartitionWindow, at

RULE_VERSION = "controller-2"

CONTROLLER_FAILED = "controller_failed"
CONTROLLER_MOVED = "controller_moved"
CONTROLLER_SILENT = "controller_silent"

ENDS = frozenset({ControlEvent.CONTROLLER_CHANGED, ControlEvent.CONTROLLER_RESUMED})
OWN = ENDS | {ControlEvent.CONTROLLER_SILENT}


@dataclass(frozen=True, slots=True)
class ControllerWindow:
    """A span without an active controller. `waited` are the windows of partitions that ended only after it."""

    window_id: str
    cause: str
    start: Bounds
    end: Bounds
    controller_before: str | None
    controller_after: str | None
    term_before: int | None
    term_after: int | None
    proof: tuple[str, ...]
    waited: tuple[PartitionWindow, ...]

    @property
    def is_open(self) -> bool:
        """Nobody has decided anything since."""
        return self.end.high is None

    @property
    def length(self) -> Bounds:
        """How long it lasted, in microseconds."""
        return duration(self.start, self.end)


def controller_windows(
    facts: Facts, broker_absences: Sequence[Absence], windows: Iterable[PartitionWindow]
) -> Iterator[ControllerWindow]:
    """Every window of the cluster, in order of time."""
    partitions = list(windows)
    silent: Control | None = None
    before: Control | None = None
    for event in facts.controls:
        if event.event == ControlEvent.CONTROLLER_SILENT:
            silent = event
        elif event.event in ENDS and _is_end(event):
            since = None if before is None else min(before.started_at_us, event.ended_at_us)
            fell = at(silent) if silent is not None else Bounds(since, event.ended_at_us)
            if event.previous_leader is not None or silent is not None:
                yield _window(facts, broker_absences, partitions, fell, event, silent)
            silent = None
        before = event
    if silent is not None:
        yield _open(facts, broker_absences, partitions, silent)


def _is_end(event: Control) -> bool:
    """A controller is named, or the old one writes again; that none is named only says that the old one is gone."""
    return event.event == ControlEvent.CONTROLLER_RESUMED or event.leader is not None


def _window(
    facts: Facts, absences: Sequence[Absence], partitions: list[PartitionWindow], fell: Bounds, end: Control, silent: Control | None
) -> ControllerWindow:
    old = end.broker if end.event == ControlEvent.CONTROLLER_RESUMED else end.previous_leader
    new = end.broker if end.event == ControlEvent.CONTROLLER_RESUMED else end.leader
    absence = _absence(absences, old, fell, at(end))
    start = _start(fell, at(end), absence, is_alive_until=_proves_life(silent or end))
    return ControllerWindow(
        _name(facts, silent, end),
        _cause(facts, old, new, end, absence, is_silent=silent is not None),
        start,
        at(end),
        old,
        new,
        silent.term if silent is not None else None,
        end.term,
        _proof(silent, end, absence),
        tuple(_waited(partitions, start, at(end))),
    )


def _open(facts: Facts, absences: Sequence[Absence], partitions: list[PartitionWindow], silent: Control) -> ControllerWindow:
    since = at(silent)
    absence = _absence(absences, silent.broker, since, Bounds(since.low, None))
    start = _start(since, Bounds(since.low, None), absence, is_alive_until=_proves_life(silent))
    cause = CONTROLLER_FAILED if absence else CONTROLLER_SILENT
    end = Bounds(start.high, None)
    waited = tuple(_waited(partitions, start, end))
    return ControllerWindow(
        _name(facts, silent, None), cause, start, end, silent.broker, None, silent.term, None, _proof(silent, None, absence), waited
    )


def _start(fell: Bounds, end: Bounds, absence: Absence | None, *, is_alive_until: bool) -> Bounds:
    """It fell silent before it wrote again, and, where it stopped as a whole, then."""
    if not is_alive_until:
        fell = Bounds(None, fell.high)
    start = fell.intersection(Bounds(None, end.high)) or Bounds(fell.low, None)
    if absence is not None:
        start = start.intersection(absence.start) or start
    return start


def _proves_life(event: Control | None) -> bool:
    """Whether an event says until when the controller was there: its last write does, a session that outlives it does not."""
    return event is None or event.source != ControlSourceName.ZOOKEEPER


def _absence(absences: Sequence[Absence], broker: str | None, fell: Bounds, end: Bounds) -> Absence | None:
    span = Bounds(fell.low, end.high)
    return next((one for one in absences if one.broker == broker and _touches(one, span)), None)


def _touches(absence: Absence, span: Bounds) -> bool:
    begins = span.high is None or absence.start.low is None or absence.start.low <= span.high
    goes_on = absence.end.high is None or span.low is None or span.low <= absence.end.high
    return begins and goes_on


def _cause(facts: Facts, old: str | None, new: str | None, end: Control, absence: Absence | None, *, is_silent: bool) -> str:
    if is_leaving(facts, old, end.ended_at_us):
        return CONTROLLER_MOVED
    if absence is not None or (is_silent and new != old):
        return CONTROLLER_FAILED
    return CONTROLLER_SILENT if new == old else CONTROLLER_MOVED


def _waited(partitions: Iterable[PartitionWindow], start: Bounds, end: Bounds) -> Iterator[PartitionWindow]:
    for one in partitions:
        begins = one.start.low is None or end.high is None or one.start.low <= end.high
        ends_later = one.end.high is None or end.low is None or one.end.high >= end.low
        # By what is possible: where clocks bound an end coarsely, its earliest instant may lie before its own start.
        was_under_way = one.end.high is None or start.low is None or one.end.high >= start.low
        if begins and ends_later and was_under_way:
            yield one


def _name(facts: Facts, silent: Control | None, end: Control | None) -> str:
    first = silent if silent is not None else end
    begin = None if first is None else first.position if first.position is not None else first.started_at_us
    return identity(facts.cluster_id, "controller", begin)


def _proof(silent: Control | None, end: Control | None, absence: Absence | None) -> tuple[str, ...]:
    rows = [f"{one.event} at metadata log offset {one.position or '-'}" for one in (silent, end) if one is not None]
    return (*rows, *(absence.rows if absence else ()))
