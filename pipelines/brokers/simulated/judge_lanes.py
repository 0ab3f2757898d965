"""Does the truth of every lane lie within the outages that are reported of it?

The rule: each reported outage claims one span that was not served (or some, where it says so: flapping, or the prober was blind). The
span's begin lies in its start bounds, its end in its end bounds, its length in its RTO bounds; what it says of the fencing and of the
election was decided within these bounds. Every span that (H) allows to be seen, and that the prober was there to see, is claimed by
exactly one outage. All of it on the prober's own clock.

Example: a span [10.000, 19.200] s and an outage with start [9.9, 10.05], end [19.15, 19.27]: it holds, and is 0.27 s wide.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judgement import NEVER, Judgement, name_of, shown, told, touched
from pipelines.brokers.simulated.reading import READABLE_US_MAX
from pipelines.brokers.simulated.reported import LaneOutage, Reported
from pipelines.brokers.simulated.service import Down
from pipelines.domain.facts import Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ControlEvent, Lane


def judge_lanes(history: History, reported: Reported, found: Judgement) -> None:
    """Holds every outage against its lane."""
    by_stream: dict[Stream, list[LaneOutage]] = {}
    for one in reported.outages:
        by_stream.setdefault(one.stream, []).append(one)
        found.causes[one.cause] += 1
    for stream in history.truth.lanes:
        _Lane(history, stream, spans_of(history, stream), by_stream.get(stream, []), found).judge()


def spans_of(history: History, stream: Stream) -> list[Down]:
    """The truth of a lane on the clock of its prober."""
    off = history.truth.clocks.of_prober(stream.prober_id)
    return [
        Down(one.begin_us + off, None if one.end_us is None else one.end_us + off, one.is_long) for one in history.truth.lanes[stream]
    ]


def is_blind(history: History, stream: Stream, begin_us: int, end_us: int | None) -> bool:
    """Whether the prober of a lane did not look around a span, which is given on its clock, or its notes of it are lost."""
    scenario, off = history.scenario, history.truth.clocks.of_prober(stream.prober_id)
    around = 2 * (scenario.watch_gap_us if stream.lane == Lane.WATCH else scenario.gap_us)
    begin, end = begin_us - off - around, (end_us - off if end_us is not None else NEVER) + around
    edges = [(-NEVER, around), (scenario.end_us - around, NEVER)]
    return any(low < end and begin < high for low, high in [*history.truth.blind[stream.prober_id], *edges])


@dataclass(slots=True)
class _Lane:
    history: History
    stream: Stream
    downs: list[Down]
    reported: list[LaneOutage]
    found: Judgement

    def judge(self) -> None:
        claimed: Counter[Down] = Counter()
        for one in self.reported:
            self.found.outages += 1
            claims = self._claims(one)
            if not claims:
                near = touched(self.downs, one.start, one.end)
                self._violated(f"outage {shown(one.start, one.end)} claims nothing; near it are {told(near)}")
            claimed.update(claims)
            self._judge_boundaries(one, claims)
            self._measure(one, claims)
        for down in self.downs:
            self.found.spans += 1
            if claimed[down] > 1:
                self._violated(f"span {told([down])} is claimed by {claimed[down]} outages")
            if not claimed[down] and down.is_long and not self._is_blind(down):
                self._violated(f"span {told([down])} is missed")
        self._judge_order()

    def _claims(self, one: LaneOutage) -> list[Down]:
        """The spans that the outage is about: one that fits, or neighbours together where the outage says that it is not sure."""
        near = touched(self.downs, one.start, one.end)
        fitting = [down for down in near if _fits(one, [down])]
        if fitting:
            return fitting[:1]
        is_unsure = one.flaps or one.is_in_pieces or one.void_probes or not all(down.is_long for down in near)
        if is_unsure or any(self._is_blind(down) for down in near):
            for first in range(len(near)):
                for last in range(len(near) - 1, first, -1):
                    if _fits(one, near[first : last + 1]):
                        return near[first : last + 1]
        return []

    def _measure(self, one: LaneOutage, claims: list[Down]) -> None:
        if one.flaps:
            self.found.flapping += 1
        if len(claims) != 1 or not claims[0].is_long or self._is_blind(claims[0]) or one.rto.high is None:
            return
        how = "refused" if one.rejected_probes == one.bad_probes else "hung"
        width = one.rto.high - (one.rto.low or 0)
        allowed = 2 * one.period_us + 20_000 + (2 * one.lambda_us if how == "hung" else 0)
        self.found.widths.setdefault((self.stream.kind, how), []).append((width, allowed))

    def _judge_order(self) -> None:
        for earlier, later in pairwise(self.reported):
            is_ordered = (
                (earlier.end.low or 0) < (later.start.high or 0)
                and (later.start.low is None or later.start.low >= (earlier.end.low or 0))
                and earlier.end.high is not None
                and earlier.end.high <= (later.end.high or NEVER)
            )
            if not is_ordered:
                self._violated(f"outages overlap: {shown(earlier.start, earlier.end)} and {shown(later.start, later.end)}")

    def _is_blind(self, down: Down) -> bool:
        return is_blind(self.history, self.stream, down.begin_us, down.end_us)

    def _judge_boundaries(self, one: LaneOutage, claims: list[Down]) -> None:
        """What is said to have been decided within the outage was."""
        off = self.history.truth.clocks.of_prober(self.stream.prober_id)
        trace = self.history.truth.trace
        events = [event for event in trace.controls if event["event"] == ControlEvent.BROKER_FENCED and event["broker"] == one.broker]
        if one.fenced is not None and not any(_decided(one.fenced, event["decided_us"] + off) for event in events):
            self._violated(f"broker {one.broker} is said to be fenced in {one.fenced}, which it was not")
        if one.elected is not None and claims:
            # A move in order may be decided before it is felt: from the first instant on, another leader is named.
            begin = claims[0].begin_us
            versions = trace.versions[self.stream.partition][1:]
            at = [one.decided_us + off for one in versions if one.leader is not None]
            if not any(_decided(one.elected, instant) or _decided(one.elected, max(begin, instant)) for instant in at):
                self._violated(f"a leader is said to be elected in {one.elected}, and was at {at}")

    def _violated(self, text: str) -> None:
        self.found.violations.append(f"seed {self.history.seed}: {'/'.join(name_of(self.stream))}: {text}")


def _fits(one: LaneOutage, downs: Sequence[Down]) -> bool:
    begin, end = downs[0].begin_us, downs[-1].end_us
    if not one.start.holds(begin) or not one.end.holds(NEVER if end is None else end):
        return False
    if end is None:
        return one.is_open
    lengths = [down.end_us - down.begin_us for down in downs if down.end_us is not None]
    # Between spans that are not long the service may have run unseen, for less than (H) asks for.
    is_exact = all(down.is_long for down in downs)
    longest, total = (max(lengths), sum(lengths)) if is_exact else (end - begin, end - begin)
    is_within = (one.rto.low or 0) <= longest and (one.rto.high is None or end - begin <= one.rto.high)
    return is_within and one.downtime_us_min <= total


def _decided(bounds: Bounds, at_us: int) -> bool:
    """A decision takes from being written to being readable; where only readings bound it, they bound its end."""
    return bounds.holds(at_us) or bounds.holds(at_us + READABLE_US_MAX)
