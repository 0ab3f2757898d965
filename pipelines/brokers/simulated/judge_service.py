"""Is what several probers say together true of the service?

The rule: the service was down where it was down for every prober that looked, the intersection of what each of them was not served.
Every service window claims one such intersection, or says that there may have been none; no prober that looked and was served
throughout is left out of it; every intersection that all of them were there to see is claimed by exactly one window. An outage that
nobody else had is never confirmed, and one of a prober that was cut off alone is said to be its own.

Example: one prober was not served in [10, 19) s, another in [12, 21) s: the service was down in [12, 19) s. Windows stand on the clock
of the first of the probers.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import product

from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judge_lanes import is_blind
from pipelines.brokers.simulated.judgement import NEVER, Judgement, shown, told, touched
from pipelines.brokers.simulated.reported import LaneOutage, Reported, ServiceSpan
from pipelines.brokers.simulated.service import Down
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import Lane
from pipelines.domain.phases import PROBER_ALONE
from pipelines.domain.views import Agreement, Key


def judge_service(history: History, facts: Facts, reported: Reported, found: Judgement) -> None:
    """Holds every service window and every view against the truth of all probers."""
    by_key: dict[Key, list[Stream]] = {}
    for stream in sorted(history.truth.lanes):
        if stream.lane != Lane.WATCH:
            by_key.setdefault((stream.resource, stream.shard, stream.kind, stream.lane), []).append(stream)
    windows: dict[Key, list[ServiceSpan]] = {key: [] for key in by_key}
    for window in reported.services:
        windows[window.key].append(window)
    for key, streams in by_key.items():
        if len(streams) > 1:
            found.service_windows += len(windows[key])
            _Several(history, facts, reported, found, streams).judge(windows[key])


@dataclass(slots=True)
class _Several:
    history: History
    facts: Facts
    reported: Reported
    found: Judgement
    streams: list[Stream]

    def judge(self, windows: list[ServiceSpan]) -> None:
        """All that is said of one partition and lane."""
        claimed: Counter[Down] = Counter()
        for window in windows:
            claims = self._claims(window)
            claimed.update(claims)
            self._judge_left_out(window)
        if all(self._apart(stream) is not None for stream in self.streams):
            for down in _intersection([self._truth(stream) for stream in self.streams]):
                self.found.spans += 1
                is_seen = not any(is_blind(self.history, one, *self._own(one, down)) for one in self.streams)
                if down.is_long and is_seen and claimed[down] != 1:
                    self._violated(f"the service was down in {told([down])}, which {claimed[down]} service windows claim")
        for one in self.reported.outages:
            if one.stream in self.streams:
                self._judge_view(one)

    def _claims(self, window: ServiceSpan) -> list[Down]:
        """The intersection that a window is about; its bounds must hold it, unless it may have had no length at all."""
        probers = [one for one in self.streams if one.prober_id in window.probers]
        spans = _intersection([self._truth(one) for one in probers])
        near = touched(spans, window.start, window.end)
        for down in near:
            if _holds(window, down):
                return [down]
        for first in range(len(near)):
            for last in range(len(near) - 1, first, -1):
                whole = Down(near[first].begin_us, near[last].end_us, False)
                is_unsure = self._is_unsure(probers, whole)
                if (
                    is_unsure
                    and window.start.holds(whole.begin_us)
                    and window.end.holds(NEVER if whole.end_us is None else whole.end_us)
                ):
                    return near[first : last + 1]
        merged = _intersection([self._merged(one) for one in probers])
        if any(self._is_unsure(probers, one) and _holds(window, one) for one in touched(merged, window.start, window.end)):
            return near
        if window.rto.low or not self._may_be_nothing(window):
            self._violated(
                f"service window {shown(window.start, window.end)} of {window.probers} claims nothing; near it are {told(near)}"
            )
        return []

    def _merged(self, one: Stream) -> list[Down]:
        """What a prober was not served, where pauses that are shorter than (H) asks for part nothing."""
        found: list[Down] = []
        for down in self._truth(one):
            last = found[-1].end_us if found else None
            if last is not None and down.begin_us - last < 2 * self.history.scenario.gap_us:
                found[-1] = Down(found[-1].begin_us, down.end_us, False)
            else:
                found.append(down)
        return found

    def _may_be_nothing(self, window: ServiceSpan) -> bool:
        """Outages that follow each other, or overlap by less than can be told, may have nothing in common."""
        return window.end.low is None or window.start.high is None or window.end.low <= window.start.high

    def _is_unsure(self, probers: list[Stream], whole: Down) -> bool:
        """Whether (H) is broken for one of the probers around a span, or one of them was blind: nobody can tell pieces apart then."""
        for one in probers:
            inside = touched(self._truth(one), Bounds.exactly(whole.begin_us), Bounds(whole.end_us, whole.end_us))
            if not all(down.is_long for down in inside) or is_blind(self.history, one, *self._own(one, whole)):
                return True
        return False

    def _judge_left_out(self, window: ServiceSpan) -> None:
        """Nobody who looked was served throughout."""
        for one in self.streams:
            apart = self._apart(one)
            if one.prober_id in window.probers or apart is None or window.start.low is None or window.end.high is None:
                continue
            widest = Down(window.start.low, window.end.high, False)
            if not is_blind(self.history, one, *self._own(one, widest)):
                near = touched(self._truth(one), window.start, window.end)
                text = f"service window {shown(window.start, window.end)} of {window.probers} leaves {one.prober_id} out, who looked"
                self._violated(f"{text}, and was not served in {told(near)}")

    def _judge_view(self, one: LaneOutage) -> None:
        """Who saw it did, and who did not was served."""
        others = [other for other in self.streams if other != one.stream and self._apart(other) is not None]
        if self._apart(one.stream) is None or not others:
            if one.agreement != Agreement.SINGLE:
                self._violated(f"outage {shown(one.start, one.end)}: {one.agreement}, and nobody can be compared")
            return
        off = self.history.truth.clocks.of_prober(one.stream.prober_id)
        start, end = _by(one.start, -off), _by(one.end, -off)
        saw = [other for other in others if touched(self._truth(other), *self._padded(start, end, one.stream, other))]
        self.found.views[one.agreement] += 1
        if not saw and one.agreement in (Agreement.CONFIRMED, Agreement.DISPUTED):
            self._violated(f"outage {shown(start, end)} of {one.stream.prober_id} is {one.agreement}, and nobody else had it")
        if saw or any(is_blind(self.history, other, *self._own(other, _widest(start, end))) for other in others):
            return
        if one.agreement != Agreement.ALONE:
            self._violated(f"outage {shown(start, end)} of {one.stream.prober_id} is {one.agreement}, and all others were served")
        is_told = any(
            finding.finding == "prober_alone" and finding.subject == one.stream.prober_id and finding.partition == one.stream.partition
            for finding in self.reported.doubts
        )
        if not is_told or (one.is_contradicted and one.cause != PROBER_ALONE):
            self._violated(f"outage {shown(start, end)} of {one.stream.prober_id} alone is told as {one.cause}")

    def _padded(self, start: Bounds, end: Bounds, stream: Stream, other: Stream) -> tuple[Bounds, Bounds]:
        """What is near by the clocks, which may be off by what nobody can tell, and by what probes can tell."""
        apart = [self._apart(one) or Bounds.exactly(0) for one in (stream, other)]
        pad = sum((one.high or 0) - (one.low or 0) for one in apart) + 2 * self.history.scenario.gap_us
        return start.widened(pad), end.widened(pad)

    def _truth(self, stream: Stream) -> list[Down]:
        return self.history.truth.lanes[stream]

    def _own(self, stream: Stream, down: Down) -> tuple[int, int | None]:
        """A span on the clock of one prober."""
        off = self.history.truth.clocks.of_prober(stream.prober_id)
        return down.begin_us + off, None if down.end_us is None else down.end_us + off

    def _apart(self, stream: Stream) -> Bounds | None:
        """How far a prober's clock is off the first one's, as far as the evidence says; it must hold the truth."""
        clocks = self.history.truth.clocks
        first, own = clocks.clock_id(self.streams[0].prober_id), clocks.clock_id(stream.prober_id)
        apart = self.facts.clocks.between(own, first)
        if apart is not None and not apart.holds(clocks.of_prober(stream.prober_id)):
            self._violated(f"the clock of {stream.prober_id} is off by {clocks.of_prober(stream.prober_id)}, said is {apart}")
        return apart

    def _violated(self, text: str) -> None:
        one = self.streams[0]
        self.found.violations.append(f"seed {self.history.seed}: {one.resource}/{one.shard}/{one.kind}/{one.lane}: {text}")


def _intersection(lanes: list[list[Down]]) -> list[Down]:
    """The spans that all lanes have in common; long where all that they are made of are."""
    common = lanes[0]
    for other in lanes[1:]:
        both = []
        for a, b in product(common, other):
            begin, end = max(a.begin_us, b.begin_us), min(NEVER if one.end_us is None else one.end_us for one in (a, b))
            if begin < end:
                both.append(Down(begin, None if end == NEVER else end, a.is_long and b.is_long))
        common = both
    return common


def _holds(window: ServiceSpan, down: Down) -> bool:
    end = NEVER if down.end_us is None else down.end_us
    if not window.start.holds(down.begin_us) or not window.end.holds(end):
        return False
    return window.is_open if down.end_us is None else window.rto.holds(end - down.begin_us)


def _by(bounds: Bounds, off: int) -> Bounds:
    return Bounds(None if bounds.low is None else bounds.low + off, None if bounds.high is None else bounds.high + off)


def _widest(start: Bounds, end: Bounds) -> Down:
    return Down(-NEVER if start.low is None else start.low, end.high, False)
