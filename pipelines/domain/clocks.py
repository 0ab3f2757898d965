"""How far is another host's clock off ours, and when by our clock did something happen that its clock has stamped?

Nothing that a host says of its own clock is believed. What bounds it from outside is a stamp that must have been made between a
question of ours and its answer: a record's LogAppendTime between send and acknowledgement, an agent's response time between request
and response, a znode's mtime between the last look that did not show it and the first that does. `offset` is the host's clock minus
ours, in microseconds; an instant t by our clock is t + offset by theirs.

The rule: at an instant the offset lies in what was proven last before it, and in what is proven first after it, each widened by
`DRIFT` times the time between (a clock that is slewed changes its rate by at most 500 parts in a million: the limit of NTP). Where the
two contradict each other the clock was stepped in between, at an unknown instant: both are possible. What is more than an hour away
proves nothing: the clock is *unbounded*.

An event stamped s by a host's clock happened at s - offset by ours, not after it was seen, and not before an earlier event of the same
log. Where the clock is unbounded the stamp says nothing, and neither does one that contradicts when the source was read: then the event
became readable after the source had last been read without it, and before it was seen. A silence of the controller is told by the
write that ended it: it began after whatever the log holds before that, and nothing more is known without its writer's clock.

Worked example: an acknowledgement, sent at 1_000_000 and received at 1_004_000, carries 8_203_000: the clock is [7_199_000, 7_203_999]
us ahead. An event that it stamped 9_300_000 to 9_300_999 happened in [2_096_001, 2_101_999] by ours.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pipelines.domain.intervals import Bounds, hull, known
from pipelines.domain.observations import ClockSeen, Control, ControlEvent, ControlSourceName, Lane, Probes

RULE_VERSION = "clock-3"

APPEND_TIME = "append_time"
RESPONSE_TIME = "response_time"
READ_TIME = "read_time"
METHODS = (APPEND_TIME, RESPONSE_TIME, READ_TIME)
DRIFT = 500e-6
FAR_US = 3_600_000_000
PAIRED_US, PAIRED_MAX = 120_000_000, 20
MILLISECOND_US = 1000
WINDOW_US = 10_000_000
"""The bounds in a run of probes hold for its last ten seconds (see `spans`)."""
UNCOMMITTED_US = 30_000_000
"""What was decided can be read once a majority has it. A leader without one resigns within seconds (Kafka: twice the quorum's
fetch timeout of 2 s), so a stamp of so long before the source was last read without it is another clock's."""
SILENT_US_MAX = 30 * 86_400_000_000
"""A controller that was silent for longer than a month was not seen to be one."""
SKEWED_US = 1_000_000
"""From so much on a clock that is off is worth telling: logs, retention and tokens suffer before Lastack does."""


@dataclass(frozen=True, slots=True)
class ClockBound:
    """Between two instants of clock `clock_id` the clock of `host` was within `offset` of it."""

    host: str
    clock_id: str
    begin_us: int
    end_us: int
    offset: Bounds
    method: str
    lines: tuple[str, ...] = field(default=(), compare=False)
    """The lines that it rests on."""

    def at(self, at_us: int) -> Bounds:
        """What it proves of another instant."""
        away = max(0, self.begin_us - at_us, at_us - self.end_us)
        return self.offset.widened(int(away * DRIFT))


@dataclass(frozen=True, slots=True)
class ClockUsed:
    """What placed an event that a host stamped: the offset of its clock, and the lines that give one of its two ends."""

    host: str
    clock_id: str
    method: str
    offset: Bounds
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A host's clock was set: by how much, and between which instants of ours."""

    host: str
    clock_id: str
    by: Bounds
    begin_us: int
    end_us: int
    method: str


@dataclass(slots=True)
class Clocks:
    """What is known of the hosts' clocks, in order of time. Made by `Clocks.of`."""

    _series: dict[tuple[str, str, str], list[ClockBound]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[Probes], seen: Iterable[ClockSeen], controls: Iterable[Control] = ()) -> "Clocks":
        """From probes that carry the leader's stamps, from what collectors found out, and from znodes, which are stamped as they become
        readable."""
        series: dict[tuple[str, str, str], list[ClockBound]] = defaultdict(list)
        for one in (*_of_runs(runs), *_of_seen(seen), *_of_znodes(controls)):
            series[one.host, one.clock_id, one.method].append(one)
        for key, of_host in series.items():
            of_host.sort(key=lambda one: (one.begin_us, one.end_us, one.offset.low or 0))
            if key[2] == READ_TIME:
                series[key] = _agreed(of_host)
        return cls(dict(sorted(series.items())))

    @property
    def hosts(self) -> list[tuple[str, str]]:
        """Every (host, our clock) of which something is known."""
        return sorted({(host, clock_id) for host, clock_id, _ in self._series})

    def bounds(self) -> Iterator[ClockBound]:
        """Everything that is known, host by host."""
        for of_host in self._series.values():
            yield from of_host

    def offsets(self, host: str, clock_id: str, at_us: int) -> list[Bounds]:
        """What a host's clock minus ours may be at an instant of ours: one statement, two where it was stepped, none where nothing
        bounds it. The finer method speaks where it knows something."""
        for method in METHODS:
            found = _proven(self._series.get((host, clock_id, method), []), at_us)
            if found:
                return found
        return []

    def offset(self, host: str, clock_id: str, at_us: int) -> Bounds | None:
        """The same as one interval; None where nothing bounds it."""
        return hull(self.offsets(host, clock_id, at_us))

    def used(self, host: str, clock_id: str, at_us: int) -> ClockUsed | None:
        """The same, and what it rests on: what widens neither end is not named."""
        for method in METHODS:
            of_host = self._series.get((host, clock_id, method), [])
            whole = hull(_proven(of_host, at_us))
            if whole is not None:
                telling = [one for one in _near(of_host, at_us) if _gives(one.at(at_us), whole)]
                return ClockUsed(host, clock_id, method, whole, tuple(sorted({line for one in telling for line in one.lines})))
        return None

    def between(self, clock_id: str, other_id: str) -> Bounds | None:
        """One of our own clocks minus another, at any time: by the hosts whose clocks both have seen; None where nothing bounds it.

        Both are monotonic clocks that were anchored once: their difference stays what it is, but for drift. Two statements belong
        together when the host showed about the same time in both, whatever the two clocks showed.
        """
        if clock_id == other_id:
            return Bounds.exactly(0)
        found: Bounds | None = None
        for (host, theirs, _), of_host in self._series.items():
            if theirs != other_id:
                continue
            known_to_us = [one for key, of in self._series.items() if key[:2] == (host, clock_id) for one in of]
            ours = sorted(((_shown(one), one) for one in known_to_us), key=lambda pair: pair[0])
            for one in of_host[-PAIRED_MAX:]:
                index = bisect_right(ours, _shown(one), key=lambda pair: pair[0])
                for shown, mine in ours[max(0, index - 1) : index + 1]:
                    away = abs(shown - _shown(one))
                    if away <= PAIRED_US:
                        # host - other = o, host - clock = c: clock - other = o - c.
                        told = _difference(one.offset, mine.offset).widened(int(away * DRIFT))
                        found = told if found is None else found.intersection(told) or found.hull(told)
        return found

    def steps(self) -> Iterator[ClockStep]:
        """Every step of a clock that two neighbouring bounds prove."""
        for (host, clock_id, method), of_host in self._series.items():
            for before, after in pairwise(of_host):
                reach = before.at(after.begin_us)
                if after.offset.intersection(reach) is None:
                    yield ClockStep(host, clock_id, _difference(after.offset, reach), before.end_us, after.begin_us, method)


def clock_bound(run: Probes) -> ClockBound | None:
    """What the acknowledgements of a run prove of the leader's clock; None where they carry no stamps."""
    low, high = run.clock_offset_us_min, run.clock_offset_us_max
    # What the client sends again and again may have been stamped by another leader than it was first sent to.
    if run.leader is None or run.lane == Lane.CLIENT or low is None or high is None or low > high:
        return None
    begin = max(run.started_at_us, run.last_issued_at_us - WINDOW_US)
    return ClockBound(run.leader, run.clock_id, begin, run.ended_at_us, Bounds(low, high), APPEND_TIME, _line(run))


def placed(controls: list[Control], clocks: Clocks) -> list[Control]:
    """Events in the order of their log, with the instants at which they happened by the collector's own clock."""
    found: list[Control] = []
    # Within one log what comes later was not decided earlier: each one bounds its neighbours.
    low = None
    for event in _without_steps(controls):
        one = _placed(event, clocks, low)
        if one.stamped_by is not None and one.position is not None:
            low = max(known(low, one.started_at_us))
            one = replace(one, started_at_us=min(low, one.ended_at_us))
        found.append(one)
    high = None
    for index in reversed(range(len(found))):
        one = found[index]
        if one.stamped_by is not None and one.position is not None:
            high = min(known(high, one.ended_at_us))
            found[index] = replace(one, ended_at_us=max(high, one.started_at_us))
    return found


def _without_steps(controls: list[Control]) -> Iterator[Control]:
    """Without silences that are none: a controller's clock that is set forward between two of its writes makes them look far apart."""
    before: Control | None = None
    silent: Control | None = None
    for one in controls:
        is_resumed = one.event == ControlEvent.CONTROLLER_RESUMED
        if silent is not None and is_resumed and before is None and silent.stamped_by == one.stamped_by is not None:
            # Nothing says how long ago it wrote but the two stamps, and its clock may have been set between them.
            silent = replace(silent, ended_at_us=max(silent.ended_at_us, one.started_at_us))
        if silent is not None and not (is_resumed and _is_too_long(silent, one, before)):
            yield silent
            silent, before = None, silent
        if one.event == ControlEvent.CONTROLLER_SILENT:
            silent = one
        elif silent is not None:
            silent, before = None, one
        else:
            yield one
            before = one
    if silent is not None:
        yield silent


def _is_too_long(silent: Control, resumed: Control, before: Control | None) -> bool:
    """Whether a silence is longer than what passed, by our own clock, since the source was read without the event before it."""
    if before is None or before.unseen_at_us is None or silent.stamped_by is None or silent.stamped_by != resumed.stamped_by:
        return False
    return resumed.started_at_us - silent.ended_at_us > resumed.seen_at_us - before.unseen_at_us + UNCOMMITTED_US


def _placed(one: Control, clocks: Clocks, low: int | None) -> Control:
    """`low` is an instant before which it did not happen: that of the event before it in the log."""
    if one.stamped_by is None:
        return one
    offsets = clocks.offsets(one.stamped_by, one.clock_id, one.seen_at_us)
    if one.event == ControlEvent.CONTROLLER_SILENT:
        since = None if low is None else min(low, one.seen_at_us)
    else:
        since = None if one.unseen_at_us is None else min(one.unseen_at_us - UNCOMMITTED_US, one.seen_at_us)
    allowed = Bounds(since, one.seen_at_us)
    at = hull(placed for offset in offsets if (placed := _by_our_clock(one, offset).intersection(allowed)) is not None)
    if at is not None and at.low is not None and at.high is not None:
        return replace(one, started_at_us=at.low, ended_at_us=at.high)
    if one.event == ControlEvent.CONTROLLER_SILENT:
        return replace(one, started_at_us=one.seen_at_us - SILENT_US_MAX if since is None else since, ended_at_us=one.seen_at_us)
    # Its stamp says nothing. A collector that did not say when it looked last leaves the stamp as the only other hint, unless that lies
    # ahead of the instant at which it was seen: then nothing but the event before it says since when it can have happened.
    since = one.unseen_at_us if one.unseen_at_us is not None else one.started_at_us
    if since > one.seen_at_us:
        since = one.seen_at_us - SILENT_US_MAX if low is None else low
    return replace(one, started_at_us=min(since, one.seen_at_us), ended_at_us=one.seen_at_us)


def _by_our_clock(one: Control, offset: Bounds) -> Bounds:
    low = None if offset.high is None else one.started_at_us - offset.high
    return Bounds(low, None if offset.low is None else one.ended_at_us - offset.low)


def _shown(one: ClockBound) -> int:
    """What the host's clock showed, about."""
    return one.end_us + (one.offset.low or 0)


def _difference(one: Bounds, other: Bounds) -> Bounds:
    low = None if one.low is None or other.high is None else one.low - other.high
    return Bounds(low, None if one.high is None or other.low is None else one.high - other.low)


def _line(one: Probes | ClockSeen | Control) -> tuple[str, ...]:
    return (f"{one.prober_id} / {one.boot_id} / {one.seq}",)


def _near(of_host: list[ClockBound], at_us: int) -> list[ClockBound]:
    index = bisect_right(of_host, at_us, key=lambda one: one.begin_us)
    return [one for one in of_host[max(0, index - 1) : index + 1] if one.begin_us - FAR_US <= at_us <= one.end_us + FAR_US]


def _gives(offset: Bounds, whole: Bounds) -> bool:
    return offset.low == whole.low or offset.high == whole.high


def _proven(of_host: list[ClockBound], at_us: int) -> list[Bounds]:
    near = _near(of_host, at_us)
    if len(near) < 2:
        return [one.at(at_us) for one in near]
    before, after = near
    agreed = before.at(at_us).intersection(after.at(at_us))
    return [agreed] if agreed else [before.at(at_us), after.at(at_us)]


def _of_runs(runs: Iterable[Probes]) -> Iterator[ClockBound]:
    for run in runs:
        found = clock_bound(run)
        if found is not None:
            yield found


def _of_znodes(controls: Iterable[Control]) -> Iterator[ClockBound]:
    """A znode was not there when it was last read, and was when it was seen: it was stamped in between."""
    for one in controls:
        is_exact = one.ended_at_us - one.started_at_us < MILLISECOND_US
        if one.source == ControlSourceName.ZOOKEEPER and one.stamped_by is not None and one.unseen_at_us is not None and is_exact:
            low, high = one.started_at_us - one.seen_at_us, one.ended_at_us - one.unseen_at_us
            if low <= high:
                yield ClockBound(
                    one.stamped_by, one.clock_id, one.unseen_at_us, one.seen_at_us, Bounds(low, high), READ_TIME, _line(one)
                )


def _agreed(of_host: list[ClockBound]) -> list[ClockBound]:
    """Neighbours within ten seconds that do not contradict each other, as one statement."""
    found: list[ClockBound] = []
    for one in of_host:
        last = found[-1] if found else None
        both = last.offset.intersection(one.offset) if last and one.end_us - last.begin_us <= WINDOW_US else None
        if last is not None and both is not None:
            lines = [line for each in (last, one) if _gives(each.offset, both) for line in each.lines]
            found[-1] = replace(last, end_us=max(last.end_us, one.end_us), offset=both, lines=tuple(lines))
        else:
            found.append(one)
    return found


def _of_seen(seen: Iterable[ClockSeen]) -> Iterator[ClockBound]:
    for one in seen:
        if one.clock_offset_us_min <= one.clock_offset_us_max:
            offset = Bounds(one.clock_offset_us_min, one.clock_offset_us_max)
            yield ClockBound(one.host, one.clock_id, one.started_at_us, one.ended_at_us, offset, one.method, _line(one))
