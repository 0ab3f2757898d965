"""How does Spark carry the derivation? A region of bronze in, rows of every silver table out, one group a cluster.

A *region* is everything of a cluster from some instant on. It begins at the earliest span that is not settled yet, so that no window
crosses its border. The rows of a region replace whatever silver held for it: they are a pure function of bronze, so a replayed
micro-batch, a line that came late or a line that came twice gives the same tables (DECISIONS.md, 2).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipelines.bronze import SEEN_FROM_US, SEEN_TO_US
from pipelines.domain.clock import microseconds
from pipelines.domain.data_loss import acked_runs
from pipelines.domain.derivation import Derivation, derive
from pipelines.domain.facts import Facts
from pipelines.domain.landing import from_row
from pipelines.domain.observations import (
    Blind,
    BrokerMetrics,
    ClockSeen,
    Control,
    EpochEnd,
    Fault,
    LateAcks,
    LeaderSeen,
    PartitionMetrics,
    Probes,
    ReadBack,
)
from pipelines.domain.replication import OutOfSync
from pipelines.domain.sequences import number
from pipelines.silver import TABLES, isr_windows
from pipelines.silver.base import Row, instant

MARGIN_US = 90_000_000
"""Facts from so long before a region are read, too: the last good probe before an outage stands in a run that ended there."""

RELEVANT = tuple(
    one.record for one in (Probes, LateAcks, Control, LeaderSeen, EpochEnd, ReadBack, Fault, Blind, BrokerMetrics, ClockSeen)
)
"""Records that windows, losses and events are made of."""

POSITIONS = "positions"
"""Beside silver's rows: the first acknowledged position of every canary partition in the region, where a read-back begins."""


def is_under_min_isr() -> Column:
    """Whether a line is a look at a leader that refuses acks=all; of all the looks at replicas only these say something of windows."""
    return f.coalesce((f.col("record") == PartitionMetrics.record) & f.col("is_under_min_isr"), f.lit(False))


OUTPUT = "table STRING, row STRING"


@dataclass(slots=True)
class Region:
    """What was derived for a region: the rows of each table, and where read-backs of it begin."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {table.name: [] for table in TABLES})
    positions: list[Row] = field(default_factory=list)


def region(
    observations: DataFrame,
    from_us: int,
    clusters: list[str],
    seeds: dict[str, list[OutOfSync]],
    margin_us: int = MARGIN_US,
    until_us: int | None = None,
) -> Region:
    """Derives every silver row of the region that begins at `from_us` (microseconds since the epoch) of some clusters, and ends at
    `until_us`, if it has an end."""
    facts = observations.where(
        (f.col("day") >= f.to_date(f.timestamp_micros(f.lit(from_us - margin_us))))
        & (f.expr(SEEN_TO_US) >= from_us - margin_us)
        & f.col("cluster_id").isin(*clusters)
        & (f.col("record").isin(*RELEVANT) | is_under_min_isr())
    )
    if until_us is not None:
        facts = facts.where(f.expr(SEEN_FROM_US) < until_us)
    derived = facts.groupBy("cluster_id").applyInArrow(_deriver(from_us, seeds), OUTPUT)
    found = Region()
    for table, row in derived.collect():
        values = json.loads(row, object_hook=_instants)
        (found.positions if table == POSITIONS else found.rows[table]).append(values)
    return found


def _deriver(from_us: int, seeds: dict[str, list[OutOfSync]]) -> Callable[[pa.Table], pa.Table]:
    def derive_cluster(observations: pa.Table) -> pa.Table:
        facts = Facts.of(from_row(row) for row in observations.to_pylist(maps_as_pydicts="strict"))
        reopened = seeds.get(facts.cluster_id, [])
        rows = _rows(derive(facts, reopened), from_us, reopened)
        out = [(name, json.dumps(row, default=_encoded)) for name, row in rows]
        return pa.table({"table": [name for name, _ in out], "row": [row for _, row in out]}, schema=ARROW)

    return derive_cluster


ARROW = pa.schema([("table", pa.string()), ("row", pa.string())])


def _rows(derivation: Derivation, from_us: int, reopened: list[OutOfSync]) -> Iterator[tuple[str, Row]]:
    """Rows of the region: those that begin in it, and the reopened spans out of the ISR, which began before it."""
    carried = {one.window_id for one in reopened}
    for table in TABLES:
        for row in table.rows(derivation):
            is_carried = table.name == isr_windows.TABLE and row["window_id"] in carried
            if microseconds(row[table.column]) >= from_us or is_carried:
                yield table.name, row
    yield from ((POSITIONS, row) for row in _positions(derivation))


def _positions(derivation: Derivation) -> Iterator[Row]:
    """The first acknowledged position of every canary partition, or where an old epoch ended, if that is lower."""
    firsts: dict[tuple[str, str, str | None], int] = defaultdict(lambda: 2**62)
    for stream, runs in derivation.facts.probes.items():
        for run in acked_runs(runs, derivation.facts.late_acks.get(stream, ())):
            if stream.lane in ("raw", "client"):
                key = (stream.resource, stream.shard, run.topic_id)
                firsts[key] = min(firsts[key], run.first_position)
    for one in derivation.facts.epoch_ends:
        end = number(one.end_position)
        for key in firsts if end is not None else ():
            if key[:2] == (one.resource, one.shard):
                firsts[key] = min(firsts[key], end or 0)
    for (resource, shard, topic_id), position in firsts.items():
        place = {"cluster_id": derivation.facts.cluster_id, "resource": resource, "shard": shard, "topic_id": topic_id}
        yield place | {"position": position}


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"at_us": microseconds(value)}
    raise TypeError(f"a derived row holds {type(value).__name__}, which no table can store")


def _instants(value: dict[str, Any]) -> Any:
    if set(value) == {"at_us"}:
        return instant(value["at_us"])
    return value
