"""When did a partition refuse acks=all writes because too few replicas were in sync? For *every* partition, the users' too.

The rule: below min.insync.replicas a leader takes acks=1 and refuses acks=all. How many replicas are in sync the control plane says;
how many are too few nobody tells us but the leader itself, by its metrics: `is_under_min_isr` beside `in_sync_replicas`. So where a
leader was seen to be under with n of them in sync, its topic is under with n or fewer. A window begins between the change that left
so few and the first look at the leader that says so, and ends between the change that brought back more and the first answer beside
metadata that shows them, and one more period, or the first of our own acks=all writes that is acknowledged again. Where no leader's
metrics are read, nothing is claimed.

Worked example, in ms: at 4_000 the ISR of u1 becomes (1); its leader's metrics, asked for at 4_310, say under min ISR with 1 in sync;
at 31_000 the ISR becomes (1, 2), which clients are told at 31_400: acks=all refused from [4_000, 6_310] to [31_000, 32_400]."""

from collections.abc import Iterator

from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import Control, Kind, PartitionMetrics
from pipelines.domain.unavailability import Outage
from pipelines.domain.windows import UNDER_MIN_ISR, PartitionWindow, at, at_latest, by_partition, evidence_of, first_seen, proof_of

LOOK_US = 2_000_000
"""A look that takes longer than this has failed (see `collect.metrics`)."""


def min_isr_windows(facts: Facts, outages: dict[Stream, list[Outage]]) -> Iterator[PartitionWindow]:
    """The windows of every partition, partition by partition. `outages` are those of all streams of the cluster."""
    durable = by_partition(outages, [Kind.DURABLE_WRITE])
    for partition, looks in sorted(facts.under_min_isr.items()):
        too_few = max(look.in_sync_replicas or 0 for look in looks)
        for shrink, growth in _spans(facts, partition, too_few):
            begun = _first_look(looks, shrink, growth)
            if begun is None:
                continue  # its leader was not looked at meanwhile
            last = max(look.ended_at_us for look in looks if look.started_at_us + LOOK_US >= begun)
            end = Bounds(max(begun, last), None) if growth is None else _end(facts, partition, growth, too_few)
            found = first_seen(durable.get(partition, []), begun, begun)
            if growth is not None:
                end = at_latest(end, found[1] if found else None)
            yield PartitionWindow(
                UNDER_MIN_ISR,
                partition,
                evidence_of(found),
                None,
                Bounds(shrink.started_at_us, begun),
                end,
                shrink.leader,
                growth.leader if growth is not None else None,
                shrink.term,
                growth.term if growth is not None else None,
                proof_of(None, shrink, growth),
                found[1] if found else None,
            )


def _spans(facts: Facts, partition: Partition, too_few: int) -> Iterator[tuple[Control, Control | None]]:
    """The change that left too few in sync with a leader, and the one that ended that, or took the leader away."""
    shrink: Control | None = None
    for event in facts.partition_events.get(partition, ()):
        is_under = event.leader is not None and event.isr is not None and len(event.isr) <= too_few
        if is_under and shrink is None:
            shrink = event
        elif not is_under and shrink is not None:
            yield shrink, event
            shrink = None
    if shrink is not None:
        yield shrink, None


def _first_look(looks: list[PartitionMetrics], shrink: Control, growth: Control | None) -> int | None:
    """By when the leader had said so: a run of looks is known to have begun with a look that took no longer than it may."""
    begun = (look.started_at_us + LOOK_US for look in looks if growth is None or look.started_at_us <= growth.ended_at_us)
    return min((at_us for at_us in begun if at_us >= shrink.ended_at_us), default=None)


def _end(facts: Facts, partition: Partition, growth: Control, too_few: int) -> Bounds:
    if growth.leader is None:
        return at(growth)
    shown = [
        run.first_decided_at_us + max(0, run.period_us)
        for run in facts.answers.get(partition, ())
        if is_good(run) and run.isr is not None and len(run.isr) > too_few and run.first_decided_at_us >= growth.started_at_us
    ]
    return Bounds(growth.started_at_us, min(shown, default=None))
