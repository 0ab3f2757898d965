"""silver.losses: what became of acknowledged records, by read-backs and by the ends of old epochs."""

from collections.abc import Iterator

from pipelines.domain.data_loss import RULE_VERSION, Around, Loss, Record
from pipelines.domain.derivation import Derivation
from pipelines.domain.intervals import Bounds
from pipelines.domain.names import identity, outage_id
from pipelines.silver.base import Row, cluster, instant, lasting, shard
from pipelines.silver.partition_windows import window_id

TABLE = "silver.losses"
COLUMN = "checked_at"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per finding."""
    facts = derivation.facts
    for one in derivation.losses:
        belongs_to = outage_id(facts.cluster_id, one.stream, one.outage) if one.outage else None
        if one.window is not None:
            belongs_to = window_id(facts.cluster_id, one.window)
        yield {
            **cluster(facts),
            **shard(one.stream.partition),
            "kind": one.stream.kind,
            "lane": one.stream.lane,
            "loss_id": _loss_id(facts.cluster_id, one, belongs_to),
            "verdict": one.verdict,
            "evidence": one.evidence,
            "reason": one.reason,
            "records_min": one.records.low,
            "records_max": one.records.high,
            **lasting("rpo", one.span),
            "acked_records": one.acked_records,
            "acked_from_at": instant(one.acked_from_us),
            "acked_to_at": instant(one.acked_to_us),
            "first_position": None if one.first_position is None else str(one.first_position),
            "last_position": None if one.last_position is None else str(one.last_position),
            "boot_id": one.boot_id,
            **_around(one.around),
            "outage_id": belongs_to,
            "checked_at": instant(one.checked_at_us),
            "incident_id": _incident(derivation, one),
            "rule_version": RULE_VERSION,
        }


def _around(found: Around | None) -> Row:
    one = found or Around()
    return {
        "retained_before": _name(one.before),
        "retained_before_at": instant(one.before.issued_us) if one.before else None,
        "first_record": _name(one.first),
        "first_acked_at": instant(one.first.acked_by_us) if one.first else None,
        "last_record": _name(one.last),
        "last_issued_at": instant(one.last.issued_us) if one.last else None,
        "retained_after": _name(one.after),
        "retained_after_at": instant(one.after.acked_by_us) if one.after else None,
        "lost_until_at": instant(one.until_us),
    }


def _name(one: Record | None) -> str | None:
    return None if one is None else f"{one.boot_id}/{one.sequence}"


def _loss_id(cluster_id: str, one: Loss, belongs_to: str | None) -> str:
    names = (one.stream.resource, one.stream.shard, one.stream.kind, one.stream.lane, one.boot_id, one.verdict)
    return identity(cluster_id, *names, belongs_to, one.acked_from_us, one.first_position)


def _incident(derivation: Derivation, one: Loss) -> str | None:
    prober_id = one.stream.prober_id
    if one.outage is not None:
        return derivation.incident_of(prober_id, one.outage.start, one.outage.end)
    if one.window is not None:
        return derivation.incident_of(prober_id, one.window.start, one.window.end)
    begin, end = one.acked_from_us, one.acked_to_us
    if begin is None or end is None:
        return None
    return derivation.incident_of(prober_id, Bounds(begin, begin), Bounds(end, end))
