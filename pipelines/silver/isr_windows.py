"""silver.isr_windows: the spans in which a replica was out of the in-sync replicas, and why."""

from collections.abc import Iterator
from typing import Any

from pipelines.domain.clock import microseconds
from pipelines.domain.derivation import Derivation
from pipelines.domain.facts import Partition
from pipelines.domain.intervals import Bounds
from pipelines.domain.replication import RULE_VERSION, OutOfSync
from pipelines.silver.base import Row, cluster, incident, shard, span

TABLE = "silver.isr_windows"
COLUMN = "started_at_max"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per partition, replica and span."""
    facts = derivation.facts
    for one in derivation.out_of_sync:
        yield {
            **cluster(facts),
            **shard(one.partition),
            "window_id": one.window_id,
            "replica": one.replica,
            "cause": one.cause,
            **span(one.start, one.end),
            "is_open": one.is_open,
            "isr_before": list(one.isr_before),
            "isr_after": list(one.isr_after),
            **incident(derivation, one.start, Bounds(one.start.low, one.start.high)),
            "rule_version": RULE_VERSION,
        }


def seed(row: dict[str, Any]) -> OutOfSync:
    """A row of the table, taken back as a span that was open when the facts begin."""
    start = Bounds(microseconds(row["started_at_min"]), microseconds(row["started_at_max"]))
    return OutOfSync(
        row["window_id"],
        Partition(row["resource"], row["shard"]),
        row["replica"],
        row["cause"],
        start,
        Bounds(start.low, None),
        tuple(row["isr_before"]),
        tuple(row["isr_after"]),
    )
