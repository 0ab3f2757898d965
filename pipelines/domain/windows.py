"""What is a window of a partition? A span, with bounds, in which one thing was missing: its leader, or an acknowledgement by all.

`leadership` finds the spans without a serving leader, `stalls` those in which acks=all writes waited for a dead or slow replica,
`isolation` those in which they waited because their leader was cut off from its followers, `min_isr` those in which they were refused.
All hold for every partition, the users' too, and all say what they rest on: `proof` names rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipelines.domain.brokers import Absence, touches
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.goods import GoodRun, is_good
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.observations import Control, ControlSourceName, Kind, Lane, Probes
from pipelines.domain.unavailability import Outage

LEADER_UNAVAILABLE = "leader_unavailable"
ACKS_ALL_STALLED = "acks_all_stalled"
UNDER_MIN_ISR = "under_min_isr"


@dataclass(frozen=True, slots=True)
class PartitionWindow:
    """A span in which a partition had no serving leader, or in which its acks=all writes waited for a dead replica."""

    window: str
    partition: Partition
    evidence: str
    broker: str | None
    start: Bounds
    end: Bounds
    leader_before: str | None
    leader_after: str | None
    term_before: int | None
    term_after: int | None
    proof: tuple[str, ...]
    seen: Outage | None

    @property
    def is_open(self) -> bool:
        """Its end is not known yet."""
        return self.end.high is None

    @property
    def length(self) -> Bounds:
        """How long it lasted, in microseconds."""
        return duration(self.start, self.end)


Seen = tuple[str, Outage]
"""The kind of a probe, and an outage that was seen by it."""


def by_partition(outages: Mapping[Stream, list[Outage]], kinds: Iterable[str]) -> dict[Partition, list[Seen]]:
    """The outages of some kinds that were seen without retries, by partition; those of dense probes first."""
    wanted = frozenset(kinds)
    found: dict[Partition, list[Seen]] = {}
    for stream, of_stream in outages.items():
        if stream.kind in wanted and stream.lane != Lane.CLIENT and of_stream:
            found.setdefault(stream.partition, []).extend((stream.kind, outage) for outage in of_stream)
    for seen in found.values():
        seen.sort(key=lambda one: (one[1].gap_us, one[1].first_bad_issued_us, one[0]))
    return found


def first_seen(seen: Iterable[Seen], begin_us: int, end_us: int) -> Seen | None:
    """The first of the outages that may hold in a span of time."""
    begin, end = Bounds.exactly(begin_us), Bounds.exactly(max(begin_us, end_us))
    return next((one for one in seen if touches(one[1], begin, end)), None)


def seen_in(seen: Iterable[Seen], absence: Absence) -> Seen | None:
    """The first of the outages that may hold while a broker was certainly absent."""
    begin = absence.start.high if absence.start.high is not None else 0
    return first_seen(seen, begin, absence.end.low if absence.end.low is not None else begin)


def evidence_of(seen: Seen | None) -> str:
    """How a window is known: by writing to the partition, by asking its leader or reading from it, or by inference."""
    if seen is None:
        return "inferred"
    return "probed" if seen[0] in (Kind.WRITE, Kind.DURABLE_WRITE) else "read_probed"


def was_served(runs: Iterable[Probes], start: Bounds, end: Bounds) -> bool:
    """Whether a good probe among the runs contradicts that nothing was served from `start` to `end`."""
    if start.high is None or end.low is None:
        return False
    for run in runs:
        if is_good(run):
            good = GoodRun.of(run).first_issued_from(start.high)
            if good is not None and good.resolved_us < end.low:
                return True
    return False


def at_latest(end: Bounds, seen: Outage | None) -> Bounds:
    """The end, not later than acknowledgements came again; it may well be earlier: something else may have held them up, too."""
    if seen is None or seen.end.high is None:
        return end
    return end.intersection(Bounds(None, seen.end.high)) or end


def at(event: Control) -> Bounds:
    """When an event was decided."""
    return Bounds(event.started_at_us, event.ended_at_us)


def proof_of(absence: Absence | None, *changes: Control | None) -> tuple[str, ...]:
    """The rows that a window rests on."""
    offsets = (f"{_place(one)} {one.position}" for one in changes if one and one.position is not None)
    return (*(absence.rows if absence else ()), *offsets)


def _place(change: Control) -> str:
    return "zxid" if change.source == ControlSourceName.ZOOKEEPER else "metadata log offset"
