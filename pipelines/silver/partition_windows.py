"""silver.partition_windows: leader_unavailable and acks_all_stalled of every partition, the users' too."""

from collections.abc import Iterator

from pipelines.domain.derivation import Derivation
from pipelines.domain.leadership import RULE_VERSION
from pipelines.domain.names import identity
from pipelines.domain.observations import Kind
from pipelines.domain.windows import LEADER_UNAVAILABLE, PartitionWindow
from pipelines.silver.base import Row, cluster, incident, lasting, shard, span, why

TABLE = "silver.partition_windows"
COLUMN = "started_at_max"


def window_id(cluster_id: str, one: PartitionWindow) -> str:
    """Names a window for good: what it is, of which partition, and in which epoch it began (or when, if that is not known)."""
    begin = one.term_before if one.term_before is not None else one.start.high
    return identity(cluster_id, one.window, one.partition.resource, one.partition.shard, one.broker, begin, one.start.high)


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per window of each partition."""
    for one, recovery in derivation.windows:
        yield {
            **cluster(derivation.facts),
            **shard(one.partition),
            "window_id": window_id(derivation.facts.cluster_id, one),
            "window": one.window,
            "kind": Kind.LEADER if one.window == LEADER_UNAVAILABLE else Kind.DURABLE_WRITE,
            "evidence": one.evidence,
            **span(one.start, one.end),
            **lasting("duration", one.length),
            "is_open": one.is_open,
            "leader_before": one.leader_before,
            "leader_after": one.leader_after,
            "term_before": one.term_before,
            "term_after": one.term_after,
            **why(recovery),
            "proof": list(one.proof),
            **incident(derivation, one.start, one.end),
            "rule_version": RULE_VERSION,
        }
