"""Which committed records are gone from the users' partitions, to which nobody writes for us?

The rule: the old epoch ends in the new leader's log below the highest high watermark that had been seen in it (`EpochEnd`). Watermarks
are sampled: the first lost record was committed within a sample of `lost_started_at`, the last one within a sample of `lost_ended_at`,
which bounds the span from below where the samples were answered; from above, nothing was committed after the start of the window in
which the partition had no leader. What several watchers say of the same records, or one that asked again, is one loss: the most that
any of them proves.

Worked example: the watermark was seen at 150, and epoch 4 ends at 50 in the log of the leader of epoch 5: 100 records or more are lost.
"""

from collections import defaultdict
from collections.abc import Iterable

from pipelines.domain.data_loss import EPOCH_END, LOST, Loss
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.goods import is_good
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ControlEvent, EpochEnd, Kind, Lane
from pipelines.domain.sequences import number
from pipelines.domain.windows import LEADER_UNAVAILABLE, PartitionWindow


def committed_losses(facts: Facts, windows: Iterable[PartitionWindow], proofs: Iterable[EpochEnd]) -> list[Loss]:
    """One finding for each of the proofs that was seen by the facts' own clocks; `windows` are those of all partitions."""
    own = {(one.prober_id, one.boot_id, one.seq) for one in facts.epoch_ends}
    leaderless = [one for one in windows if one.window == LEADER_UNAVAILABLE]
    return [_committed_loss(facts, leaderless, one) for one in proofs if (one.prober_id, one.boot_id, one.seq) in own]


def proofs_of_loss(facts: Facts) -> list[EpochEnd]:
    """The ends of epochs that prove a loss: of what several watchers say of the same records, or one that asked again, the most."""
    found: dict[tuple[str, str, int, int], list[EpochEnd]] = defaultdict(list)
    losing = (one for one in facts.epoch_ends if one.lost_records > 0)
    for one in sorted(losing, key=lambda each: (-each.lost_records, each.ended_at_us, each.prober_id, each.boot_id, each.seq)):
        of_epoch = found[one.resource, one.shard, one.term, _deletions_by(facts, one)]
        if not any(_overlap(one, other) for other in of_epoch):
            of_epoch.append(one)
    return [one for of_epoch in found.values() for one in of_epoch]


def _overlap(one: EpochEnd, other: EpochEnd) -> bool:
    positions = (one.end_position, other.high_watermark_max, other.end_position, one.high_watermark_max)
    begin, other_end, other_begin, end = map(number, positions)
    if begin is None or end is None or other_begin is None or other_end is None:
        return True
    return begin < other_end and other_begin < end


def _deletions_by(facts: Facts, one: EpochEnd) -> int:
    """How often the topic had been deleted when an epoch's end was asked for: with each, epochs and positions begin anew."""
    events = facts.partition_events.get(Partition(one.resource, one.shard), ())
    return sum(event.event == ControlEvent.PARTITION_REMOVED and event.started_at_us <= one.ended_at_us for event in events)


def _committed_loss(facts: Facts, windows: list[PartitionWindow], one: EpochEnd) -> Loss:
    """Committed records of a partition that we do not write to: the sampled high watermarks bound number and span."""
    stream = Stream(one.resource, one.shard, Kind.DURABLE_WRITE, Lane.WATCH, one.prober_id)
    last = number(one.high_watermark_max)
    # Epochs begin anew with a topic that was made anew: of the windows that ended in this one the last that had begun by then.
    of_epoch = [each for each in windows if each.partition == stream.partition and each.term_after == one.new_term]
    begun = [each for each in of_epoch if each.start.low is None or each.start.low <= one.ended_at_us]
    window = max(begun, key=lambda each: each.start.high or 0, default=None)
    return Loss(
        stream=stream,
        boot_id=one.boot_id,
        verdict=LOST,
        evidence=EPOCH_END,
        records=Bounds(one.lost_records, None),
        span=_committed_span(facts, window, one),
        acked_records=one.lost_records,
        acked_from_us=one.lost_started_at_us,
        acked_to_us=one.lost_ended_at_us,
        first_position=number(one.end_position),
        last_position=None if last is None else last - 1,
        outage=None,
        checked_at_us=one.ended_at_us,
        window=window,
    )


def _committed_span(facts: Facts, window: PartitionWindow | None, one: EpochEnd) -> Bounds:
    if one.lost_started_at_us is None or one.lost_ended_at_us is None:
        return Bounds(0, None)
    watched = Stream(one.resource, one.shard, Kind.LEADER, Lane.WATCH, one.prober_id)
    begin, until = one.lost_started_at_us, one.lost_ended_at_us
    runs = [run for run in facts.probes.get(watched, ()) if run.last_issued_at_us >= begin and run.started_at_us <= until]
    apart = max((run.period_us + run.lambda_us for run in runs), default=0)
    # Every sample between the two was answered: so none of them is further from the next than a period and an answer.
    is_sampled = bool(runs) and all(is_good(run) for run in runs)
    low = max(0, until - begin - 2 * apart) if is_sampled else 0
    end = window.start.high if window is not None else None
    return Bounds(low, None if end is None else max(low, end - begin))
