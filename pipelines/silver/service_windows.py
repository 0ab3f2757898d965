"""silver.service_windows: the spans in which a partition was down for every prober that looked."""

from collections.abc import Iterator

from pipelines.domain.derivation import Derivation
from pipelines.domain.intervals import Bounds
from pipelines.domain.names import identity, outage_id
from pipelines.domain.views import RULE_VERSION
from pipelines.silver.base import Row, cluster, incident, lasting, span

TABLE = "silver.service_windows"
COLUMN = "started_at_max"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per window."""
    facts = derivation.facts
    for one in derivation.service_windows:
        resource, shard, kind, lane = one.key
        proof = [outage_id(facts.cluster_id, stream, outage) for stream, outage in one.proof]
        yield {
            **cluster(facts),
            "window_id": identity(facts.cluster_id, *one.key, *proof),
            "resource": resource,
            "shard": shard,
            "kind": kind,
            "lane": lane,
            **span(one.start, one.end),
            **lasting("rto", one.rto),
            "is_open": one.is_open,
            "probers": list(one.probers),
            "proof": proof,
            "clock_id": one.clock_id,
            "clocks_apart": [_apart(one.clock_id, *moved) for moved in one.apart],
            **incident(derivation, one.start, one.end, min(one.probers)),
            "rule_version": RULE_VERSION,
        }


def _apart(clock_id: str, prober_id: str, own_id: str, by: Bounds) -> str:
    low, high = (None if one is None else f"{one / 1000:.3f}" for one in (by.low, by.high))
    return f"{prober_id}: {low} to {high} ms were added to have what clock {own_id} shows by clock {clock_id}"
