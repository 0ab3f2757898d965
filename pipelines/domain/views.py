"""Was the service down, or only out of one prober's sight? What several probers of one partition say together.

An outage is what one prober was not served. The rule: another prober *looked* when it has valid probes within the span that the
outage may have lasted, it *saw it* when it has an outage that touches that span, and it *contradicts* it when one of its own probes was
served, from issue to answer, while the first one was certainly not. An outage is

- *confirmed*: others saw it, and nobody contradicts;
- *disputed*: others saw it, and somebody contradicts: the service was reachable from some places only;
- *alone*: others looked, and none saw it;
- *single*: nobody else looked.

The service was down where it was down for every prober that looked. What each of them was not served, D_p, holds what the service did
not serve and whatever lies between the two, so the service-side span is the intersection of all D_p: it starts in [max low, max high]
of their starts and ends in [min low, min high] of their ends, and it lasted at least as long as the longest stretch in which all of
them were certainly not served. Instants of another prober's clock are moved to the first one's, as far as brokers that both saw prove
how far the two are apart; where nothing does, it counts as not having looked.

Worked example, in ms: a saw an outage from [0, 100] to [9000, 9100], b from [40, 140] to [8950, 9050]: the service was down from
[40, 140] to [8950, 9050], at least 8810 and at most 9010. Had b been served throughout, a would be alone, and the service not down.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.observations import Lane, Outcome, Probes
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import was_served

RULE_VERSION = "service-3"

Key = tuple[str, str, str, str]
"""Resource, shard, kind and lane: what several probers may ask for."""

Pieces = tuple[tuple[int, int], ...]
"""Stretches in which somebody was certainly not served, in order of time."""


class Agreement(StrEnum):
    """What the other probers say of an outage."""

    CONFIRMED = "confirmed"
    DISPUTED = "disputed"
    ALONE = "alone"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class View:
    """What the other probers say of an outage, and who."""

    agreement: Agreement
    seen_by: tuple[str, ...] = ()
    unseen_by: tuple[str, ...] = ()
    contradicted_by: tuple[str, ...] = ()

    @property
    def is_proven_alone(self) -> bool:
        """The service served others in the middle of it: whatever kept this prober from it was on its own side."""
        return self.agreement == Agreement.ALONE and bool(self.contradicted_by)


SINGLE = View(Agreement.SINGLE)


@dataclass(frozen=True, slots=True)
class ServiceWindow:
    """A span in which the service was down for every prober that looked. `proof` names each one's outage."""

    key: Key
    start: Bounds
    end: Bounds
    pieces: Pieces
    proof: tuple[tuple[Stream, Outage], ...]
    probers: tuple[str, ...]
    clock_id: str
    """The clock by which its instants are given."""
    apart: tuple[tuple[str, str, Bounds], ...] = ()
    """Each prober whose clock is another, that clock, and what was added to its instants."""

    @property
    def rto(self) -> Bounds:
        """How long it lasted, in microseconds."""
        low = max((end - begin for begin, end in self.pieces), default=0)
        whole = duration(self.start, self.end).high
        longest = [one.rto.high for _, one in self.proof if one.rto.high is not None]
        high = min([*longest, *([] if whole is None else [whole])], default=None)
        return Bounds(low, None if high is None else max(low, high))

    @property
    def is_open(self) -> bool:
        """No prober that looked has seen it end."""
        return all(one.is_open for _, one in self.proof)


def views(facts: Facts, outages: Mapping[Stream, list[Outage]]) -> dict[tuple[Stream, int], View]:
    """What others say of each outage, by its stream and first bad probe; where nobody else probes a partition there is no entry."""
    found: dict[tuple[Stream, int], View] = {}
    for streams in _probed_by_several(facts).values():
        for stream in streams:
            for outage in outages.get(stream, ()):
                others = [one for one in streams if one != stream]
                found[stream, outage.first_bad_issued_us] = _view(facts, outages, stream, outage, others)
    return found


def service_windows(facts: Facts, outages: Mapping[Stream, list[Outage]]) -> Iterator[ServiceWindow]:
    """The service-side spans of every partition that several probers ask for."""
    for key, streams in sorted(_probed_by_several(facts).items()):
        found: list[ServiceWindow] = []
        for number, stream in enumerate(streams):
            own = [_window(facts, key, stream, outage, streams[0]) for outage in outages.get(stream, ())]
            mine = [one for one in own if one is not None]
            before = streams[:number]
            # What it saw alone so far is the service's as far as nobody before it looked.
            alone = [
                one
                for one in mine
                if not any(_touch(other.start, other.end, one.start, one.end) for other in found)
                and not any(_looked(facts, other, one, streams[0]) for other in before)
            ]
            found = [*alone, *(both for one in found for both in _narrowed(facts, one, stream, mine, streams[0]))]
        yield from sorted(found, key=lambda one: (one.start.high or 0, one.end.low or 0))


def _probed_by_several(facts: Facts) -> dict[Key, list[Stream]]:
    found: dict[Key, list[Stream]] = defaultdict(list)
    for stream in facts.probes:
        # What applications live through is each one's own: retries and caches differ.
        if stream.lane != Lane.CLIENT:
            found[stream.resource, stream.shard, stream.kind, stream.lane].append(stream)
    return {key: sorted(streams) for key, streams in found.items() if len(streams) > 1}


def _view(facts: Facts, outages: Mapping[Stream, list[Outage]], stream: Stream, outage: Outage, others: list[Stream]) -> View:
    seen: list[str] = []
    unseen: list[str] = []
    against: list[str] = []
    for other in others:
        apart = _apart(facts, stream, other)
        if apart is None:
            continue
        start, end = _moved(outage.start, apart), _moved(outage.end, apart)
        if any(_touch(one.start, one.end, start, end) for one in outages.get(other, ())):
            seen.append(other.prober_id)
        elif _has_looked(facts.probes[other], start, end):
            unseen.append(other.prober_id)
        if was_served(facts.probes[other], start, end):
            against.append(other.prober_id)
    return View(_agreement(seen, unseen, against), tuple(seen), tuple(unseen), tuple(against))


def _agreement(seen: list[str], unseen: list[str], against: list[str]) -> Agreement:
    if seen:
        return Agreement.DISPUTED if against else Agreement.CONFIRMED
    return Agreement.ALONE if unseen else Agreement.SINGLE


# --- the intersection -------------------------------------------------------------------------------------------------


def _window(facts: Facts, key: Key, stream: Stream, outage: Outage, first: Stream) -> ServiceWindow | None:
    """One prober's outage as a window by the clock of the first prober; None where nobody knows how far its own is from that."""
    apart = _apart(facts, stream, first)
    if apart is None or apart.low is None or apart.high is None:
        return None
    certain = ((one.earliest_decided_us + apart.high, one.last_issued_us + apart.low) for one in outage.pieces)
    pieces = tuple((begin, end) for begin, end in certain if end > begin)
    start, end = _moved(outage.start, apart), _moved(outage.end, apart)
    clock_id, own_id = facts.probes[first][-1].clock_id, facts.probes[stream][-1].clock_id
    moved = () if own_id == clock_id else ((stream.prober_id, own_id, apart),)
    return ServiceWindow(key, start, end, pieces, ((stream, outage),), (stream.prober_id,), clock_id, moved)


def _narrowed(facts: Facts, one: ServiceWindow, stream: Stream, own: list[ServiceWindow], first: Stream) -> Iterator[ServiceWindow]:
    """What is left of a window when another prober is heard: nothing, where it looked and was served."""
    touching = [other for other in own if _touch(other.start, other.end, one.start, one.end)]
    if not touching:
        if not _looked(facts, stream, one, first):
            yield one
        return
    for other in touching:
        end = _earlier(one.end, other.end)
        yield ServiceWindow(
            one.key,
            one.start.later_of(other.start),
            end,
            _common(one.pieces, other.pieces),
            (*one.proof, *other.proof),
            (*one.probers, *other.probers),
            one.clock_id,
            (*one.apart, *other.apart),
        )


def _earlier(one: Bounds, other: Bounds) -> Bounds:
    low = None if one.low is None or other.low is None else min(one.low, other.low)
    high = min((at for at in (one.high, other.high) if at is not None), default=None)
    return Bounds(low, high)


def _common(pieces: Pieces, others: Pieces) -> Pieces:
    both = ((max(a, c), min(b, d)) for a, b in pieces for c, d in others)
    return tuple((begin, end) for begin, end in both if end > begin)


# --- who looked -------------------------------------------------------------------------------------------------------


def _looked(facts: Facts, stream: Stream, window: ServiceWindow, first: Stream) -> bool:
    apart = _apart(facts, first, stream)
    return apart is not None and _has_looked(facts.probes[stream], _moved(window.start, apart), _moved(window.end, apart))


def _has_looked(runs: list[Probes], start: Bounds, end: Bounds) -> bool:
    """Whether a valid probe was issued while the span certainly lasted, or, where that is less than a period, while it may have."""
    begin, until = start.high, end.low
    if begin is None or until is None or until - begin < max((run.period_us for run in runs), default=0):
        begin, until = start.low, end.high
    return any(
        run.outcome != Outcome.VOID
        and (until is None or run.started_at_us <= until)
        and (begin is None or run.last_issued_at_us >= begin)
        for run in runs
    )


def _touch(start: Bounds, end: Bounds, other_start: Bounds, other_end: Bounds) -> bool:
    begins = start.low is None or other_end.high is None or start.low <= other_end.high
    goes_on = end.high is None or other_start.low is None or other_start.low <= end.high
    return begins and goes_on


# --- clocks -----------------------------------------------------------------------------------------------------------


def _apart(facts: Facts, stream: Stream, other: Stream) -> Bounds | None:
    """The clock of `other` minus that of `stream`."""
    return facts.clocks.between(facts.probes[other][-1].clock_id, facts.probes[stream][-1].clock_id)


def _moved(at: Bounds, by: Bounds) -> Bounds:
    low = None if at.low is None or by.low is None else at.low + by.low
    return Bounds(low, None if at.high is None or by.high is None else at.high + by.high)
