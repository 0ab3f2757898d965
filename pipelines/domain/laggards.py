"""Which follower was so slow that acks=all writes waited for it, until its leaders dropped it from the ISR?

A follower that lives and cannot keep up (a thin link, a sick disk) holds up every acks=all write of the partitions that it follows,
until it has been behind for replica.lag.time.max.ms: longer than a dead one does. It is not absent: it serves what it leads. The rule:
a broker *lagged* when its leaders dropped it from ISRs by themselves (cause lagging, see `replication`) and every acks=all stream that
we probe and that needed it was not served when that happened, while nobody was absent. It lagged from within the hull of the bounds of
those outages. What follows for other partitions, `stalls` says: for those that dropped it, too.

Worked example, in ms: acks=all writes of c0, led by 1, and of c1, led by 2, stop in [90, 160]; both have the ISR (1, 2, 3). 1 drops 3
from the ISR of c0 at 9050, 2 from that of c1 at 9400, and from u0's at 9500: 3 lagged from [90, 160] on, and acks=all writes of u0
waited for it.
"""

from collections.abc import Iterator, Sequence

from pipelines.domain.brokers import Absence, Proof, needs, row_name, touches
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.intervals import Bounds, hull, known
from pipelines.domain.replication import OutOfSync, out_of_sync
from pipelines.domain.unavailability import Outage

LAGGING = "lagging"
TOGETHER_US = 60_000_000
"""Leaders look at their followers every half of replica.lag.time.max.ms (30 s by default), each on its own: drops of one straggler lie
no farther apart than this."""


def laggards(facts: Facts, outages: dict[Stream, list[Outage]], broker_absences: Sequence[Absence]) -> list[Absence]:
    """Every span in which a follower held up acks=all writes, in order of time. `outages` are those of all streams of the cluster."""
    durable = {stream: outages.get(stream, []) for stream in facts.probes if stream.waits_for_all}
    if not any(durable.values()):
        return []  # as it is nearly always: nobody waited for anybody
    found = []
    drops: dict[str, list[OutOfSync]] = {}
    for one in out_of_sync(facts):
        if one.cause == LAGGING:
            drops.setdefault(one.replica, []).append(one)
    for broker, of_broker in drops.items():
        for together in _together(of_broker):
            lagging = _laggard(facts, durable, broker, together)
            if lagging is not None and not any(one.covers(lagging.start) for one in broker_absences):
                found.append(lagging)
    return sorted(found, key=lambda one: (one.start.high or 0, one.broker))


def _together(drops: list[OutOfSync]) -> Iterator[list[OutOfSync]]:
    """Drops of one broker that lie close to each other; they come in order of time."""
    group: list[OutOfSync] = []
    for one in drops:
        if group and (one.start.low or 0) - (group[-1].start.high or 0) > TOGETHER_US:
            yield group
            group = []
        group.append(one)
    yield group


def _laggard(facts: Facts, durable: dict[Stream, list[Outage]], broker: str, drops: list[OutOfSync]) -> Absence | None:
    proof: list[Proof] = []
    dropped = {one.partition: one.start for one in drops}
    for stream, of_stream in durable.items():
        at = dropped.get(stream.partition)
        held = None if at is None else next((one for one in of_stream if _is_within(one, at)), None)
        if held is not None:
            proof.append((stream, held))
    start = hull(outage.start for _, outage in proof)
    if start is None or start.high is None:
        return None
    proven = {stream for stream, _ in proof}
    # One that needed it and was served is proof of the contrary.
    if any(stream not in proven and needs(facts, stream, broker, start.high) for stream in durable):
        return None
    rows = tuple(row_name(stream, outage) for stream, outage in proof)
    last = drops[-1].start
    low = max(known(start.high, last.low))
    return Absence(broker, start, Bounds(low, max(low, last.high or low)), tuple(proof), rows, None, is_slow=True)


def _is_within(outage: Outage, at: Bounds) -> bool:
    """Whether an outage had certainly begun when something happened, and was not over before."""
    return at.high is not None and outage.first_bad_issued_us <= at.high and touches(outage, at, at)
