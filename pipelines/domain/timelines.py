"""By whose clock did something happen? What several observers saw, told on the timeline of one of them at a time.

Instants of two clocks have no order. The rule: clocks that one observer read one after the other, and those of one boot of one host
(as our own names of clocks say), are one *timeline*: they were set from the same wall clock. Whoever reads another clock has a timeline
of its own, and what happened to a prober is derived on that prober's timeline. What others saw (decisions of the control plane, what
clients were told, read-backs) is moved there: by the least and by the most that brokers which both have seen prove the two clocks to be
apart, so that an instant becomes the span that holds it. What nothing can move is not evidence there; probes are never moved, since a
bound needs them exactly.

The main timeline is the one that most streams are probed on; windows of partitions, of the ISR and of controllers stand on it.

Worked example: a control plane that is read by clock a, a prober with clock b, and b - a proven to be in [7_199_998, 7_200_003] ms. An
election in [8_050, 8_051] ms of a is one in [7_208_048, 7_208_054] ms of b.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pipelines.domain.facts import Facts, Partition
from pipelines.domain.intervals import Bounds, hull
from pipelines.domain.observations import Control, LeaderSeen, Observation, PartitionMetrics, ReadBack

RULE_VERSION = "timeline-2"

OF_HOST = re.compile("[0-9a-f]{8}-[0-9a-f]{8}")
"""The name of an anchor (`clock.Anchor`): the boot of the host, and the anchor itself."""

Seen = TypeVar("Seen", LeaderSeen, ReadBack, Control)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Clocks that can be compared with each other without an error term."""

    clock_ids: frozenset[str]

    def apart(self, facts: Facts, clock_id: str) -> Bounds | None:
        """What is to be added to an instant of a clock to have it on this timeline; None where nothing says."""
        if clock_id in self.clock_ids:
            return Bounds.exactly(0)
        found = hull(by for own in sorted(self.clock_ids) if (by := facts.clocks.between(own, clock_id)) is not None)
        return found if found is not None and found.low is not None and found.high is not None else None


def timelines(facts: Facts) -> list[Timeline]:
    """Every timeline, the main one first."""
    probed = Counter(runs[-1].clock_id for runs in facts.probes.values())
    if len(probed) <= 1 and all(one.clock_id in probed for one in _others(facts)):
        return [Timeline(frozenset(probed))]
    members: dict[str, set[str]] = {}
    for clock_ids in _together(facts):
        whole = set(clock_ids).union(*(members.get(one, set()) for one in clock_ids))
        for one in whole:
            members[one] = whole
    found = {frozenset(whole) for whole in members.values()}
    return [Timeline(whole) for whole in sorted(found, key=lambda whole: (-sum(probed[one] for one in whole), sorted(whole)))]


def told_on(facts: Facts, timeline: Timeline) -> Facts:
    """The facts as they are told on one timeline: its own probes, and what everybody else saw, moved there."""
    apart: dict[str, Bounds | None] = {}

    def by(clock_id: str) -> Bounds | None:
        if clock_id not in apart:
            apart[clock_id] = timeline.apart(facts, clock_id)
        return apart[clock_id]

    own = {stream: runs for stream, runs in facts.probes.items() if runs[-1].clock_id in timeline.clock_ids}
    told = replace(
        facts,
        probes=own,
        late_acks={stream: acks for stream, acks in facts.late_acks.items() if stream in own},
        controls=[_decided(one, away) for one in facts.controls if (away := by(one.clock_id)) is not None],
        leader_seen=[moved(one, away) for one in facts.leader_seen if (away := by(one.clock_id)) is not None],
        readbacks=[moved(one, away) for one in facts.readbacks if (away := by(one.clock_id)) is not None],
        epoch_ends=[one for one in facts.epoch_ends if one.clock_id in timeline.clock_ids],
        partition_events={},
        broker_events={},
        told={},
        answers={},
        ends={},
        under_min_isr=_on_clocks(facts, timeline),
    )
    told.index()
    return told


def _on_clocks(facts: Facts, timeline: Timeline) -> dict[Partition, list[PartitionMetrics]]:
    own = {where: [look for look in looks if look.clock_id in timeline.clock_ids] for where, looks in facts.under_min_isr.items()}
    return {where: looks for where, looks in own.items() if looks}


def moved(one: Seen, away: Bounds) -> Seen:
    """A record whose span holds what it held, on a clock that is so far away."""
    return replace(one, started_at_us=one.started_at_us + (away.low or 0), ended_at_us=one.ended_at_us + (away.high or 0))


def shifted(at: Bounds, away: Bounds) -> Bounds:
    """An instant on a clock that is so far away."""
    low = None if at.low is None or away.low is None else at.low + away.low
    return Bounds(low, None if at.high is None or away.high is None else at.high + away.high)


def _decided(one: Control, away: Bounds) -> Control:
    there = moved(one, away)
    unseen = None if one.unseen_at_us is None else one.unseen_at_us + (away.low or 0)
    return replace(there, seen_at_us=one.seen_at_us + (away.high or 0), unseen_at_us=unseen)


def _others(facts: Facts) -> Iterator[Observation]:
    yield from facts.controls
    yield from facts.leader_seen
    yield from facts.readbacks
    yield from facts.epoch_ends


def _together(facts: Facts) -> Iterator[Sequence[str]]:
    """Clocks that belong together: by who read them, and by the host and boot that they are named after."""
    by_observer: dict[str, set[str]] = defaultdict(set)
    for stream, runs in facts.probes.items():
        by_observer[stream.prober_id].update(run.clock_id for run in runs)
    for one in _others(facts):
        by_observer[one.prober_id].add(one.clock_id)
    yield from map(sorted, by_observer.values())
    by_host: dict[str, set[str]] = defaultdict(set)
    for clock_id in _flat(by_observer.values()):
        # Only names of our own making say so: `clock-1` and `clock-2` may be read on two hosts.
        by_host[clock_id.partition("-")[0] if OF_HOST.fullmatch(clock_id) else clock_id].add(clock_id)
    yield from map(sorted, by_host.values())


def _flat(sets: Iterable[set[str]]) -> Iterator[str]:
    for one in sets:
        yield from one
