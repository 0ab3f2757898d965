"""Since when was a broker not serving? From the partitions that we probe to the broker that leads them.

The control plane notices a dead broker seconds late, and a broker that is hung may never be noticed at all. Our own probes of the
partitions that it led saw it at once. The rule: a broker is *absent* from the moment that the probed partitions led by it stopped
being served, when either the controller fenced it while they were not served, or every one of them stopped. Only writes with
acks=1, reads and leader answers count: an acks=all write can also wait for somebody else.

The absence begins within the hull of the bounds that those partitions give. It ends for a reader of this module when they are
served by the same broker again; whether another broker took over is the partition's matter, not the broker's.

Worked example, in ms: broker 2 led p0 and p4. Outages start in [100, 160] and [90, 150]. The absence starts in [90, 160].
"""

from collections import defaultdict
from dataclasses import dataclass

from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds, hull
from pipelines.domain.observations import ControlEvent, Kind, Lane
from pipelines.domain.unavailability import Outage, is_good

PROVING_KINDS = frozenset({Kind.WRITE, Kind.READ, Kind.LEADER})


@dataclass(frozen=True, slots=True)
class Absence:
    """A broker that was not serving, and the outages that prove it."""

    broker: str
    start: Bounds
    end: Bounds
    proof: tuple[tuple[Stream, Outage], ...]
    fenced: Bounds | None

    def covers(self, instant: Bounds) -> bool:
        """Whether the instant may lie within the absence."""
        begins = self.start.low is None or instant.high is None or self.start.low <= instant.high
        goes_on = self.end.high is None or instant.low is None or instant.low <= self.end.high
        return begins and goes_on


def absences(facts: Facts, outages: dict[Stream, list[Outage]]) -> list[Absence]:
    """Every absence of every broker, in order of time."""
    led = _led_outages(outages)
    found = []
    for broker, proofs in sorted(led.items()):
        fenced = _fencings(facts, broker)
        for group in _overlapping(proofs):
            start = hull(outage.start for _, outage in group)
            end = _end(group)
            if start is None:
                continue
            fencing = next((at for at in fenced if _may_follow(at, start) and _may_precede(at, end)), None)
            if fencing or _all_stopped(facts, broker, group):
                found.append(Absence(broker, start, end, tuple(group), fencing))
    return sorted(found, key=lambda one: (one.start.high or 0, one.broker))


def _led_outages(outages: dict[Stream, list[Outage]]) -> dict[str, list[tuple[Stream, Outage]]]:
    led: dict[str, list[tuple[Stream, Outage]]] = defaultdict(list)
    for stream, of_stream in outages.items():
        if stream.kind in PROVING_KINDS and stream.lane != Lane.CLIENT:
            for outage in of_stream:
                if outage.before and outage.before.leader:
                    led[outage.before.leader].append((stream, outage))
    return led


def _overlapping(proofs: list[tuple[Stream, Outage]]) -> list[list[tuple[Stream, Outage]]]:
    """Groups of outages of which each one's possible span touches the group's."""
    groups: list[list[tuple[Stream, Outage]]] = []
    reach: int | None = 0
    for proof in sorted(proofs, key=lambda one: one[1].earliest_decided_us):
        outage = proof[1]
        low = outage.start.low if outage.start.low is not None else outage.earliest_decided_us
        if not groups or (reach is not None and low > reach):
            groups.append([])
            reach = outage.end.high
        else:
            reach = None if reach is None or outage.end.high is None else max(reach, outage.end.high)
        groups[-1].append(proof)
    return groups


def _end(group: list[tuple[Stream, Outage]]) -> Bounds:
    """When the broker itself served again: known only from partitions that it leads again; else open."""
    back = [outage.end for _, outage in group if outage.after and outage.before and outage.after.leader == outage.before.leader]
    low = min(outage.end.low for _, outage in group if outage.end.low is not None)
    whole = hull(back)
    return whole if whole is not None else Bounds(low, None)


def _fencings(facts: Facts, broker: str) -> list[Bounds]:
    return [
        Bounds(one.started_at_us, one.ended_at_us)
        for one in facts.controls
        if one.event == ControlEvent.BROKER_FENCED and one.broker == broker
    ]


def _may_follow(instant: Bounds, start: Bounds) -> bool:
    return start.low is None or instant.high is None or start.low <= instant.high


def _may_precede(instant: Bounds, end: Bounds) -> bool:
    return end.high is None or instant.low is None or instant.low <= end.high


def _all_stopped(facts: Facts, broker: str, group: list[tuple[Stream, Outage]]) -> bool:
    """Whether every probed stream that the broker served just before is in the group."""
    since = min(outage.start.low for _, outage in group if outage.start.low is not None) if group else 0
    stopped = {stream for stream, _ in group}
    for stream, runs in facts.probes.items():
        if stream.kind not in PROVING_KINDS or stream.lane == Lane.CLIENT or stream in stopped:
            continue
        served = [run for run in runs if is_good(run) and run.started_at_us <= since <= run.last_decided_at_us + run.period_us]
        if any(run.leader == broker for run in served):
            return False
    return True
