"""silver.outage_windows: the spans in which a probed stream was not served, with cause and boundaries."""

from collections.abc import Iterator

from pipelines.domain.bounding import Bounding, bounding
from pipelines.domain.derivation import Derivation, Explained
from pipelines.domain.intervals import Bounds
from pipelines.domain.names import outage_id
from pipelines.domain.observations import Kind
from pipelines.domain.unavailability import RULE_VERSION, Outage
from pipelines.silver.base import Row, cluster, incident, lasting, milliseconds, shard, span, why

TABLE = "silver.outage_windows"
COLUMN = "started_at_max"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per outage of each stream."""
    for one in derivation.outages:
        yield {
            **cluster(derivation.facts),
            **shard(one.stream.partition),
            **_stream(derivation, one),
            **span(one.outage.start, one.outage.end),
            **lasting("rto", one.outage.rto),
            **_counts(one.outage),
            **why(one.recovery),
            "view": str(one.view.agreement),
            "seen_by": list(one.view.seen_by),
            "unseen_by": list(one.view.unseen_by),
            "contradicted_by": list(one.view.contradicted_by),
            **_probes(bounding(derivation.facts.probes[one.stream], one.outage)),
            **lasting("apart", derivation.apart.get(one.stream.prober_id, Bounds(None, None))),
            **incident(derivation, one.outage.start, one.outage.end, one.stream.prober_id),
            "rule_version": RULE_VERSION,
        }


def _stream(derivation: Derivation, one: Explained) -> Row:
    is_write = one.stream.kind in (Kind.WRITE, Kind.DURABLE_WRITE)
    return {
        "outage_id": outage_id(derivation.facts.cluster_id, one.stream, one.outage),
        "kind": one.stream.kind,
        "lane": one.stream.lane,
        "prober_id": one.stream.prober_id,
        "evidence": "probed" if is_write else "read_probed",
        "period_ms": milliseconds(one.period_us),
        "lambda_ms": milliseconds(one.lambda_us),
    }


def _counts(outage: Outage) -> Row:
    before, after = outage.before, outage.after
    return {
        "downtime_ms_min": milliseconds(outage.downtime_us_min),
        "is_open": outage.is_open,
        "bad_probes": outage.bad_probes,
        "rejected_probes": outage.rejected_probes,
        "answered_probes": outage.answered_probes,
        "void_probes": outage.void_probes,
        "flaps": outage.flaps,
        "codes": list(outage.codes),
        "leader_before": before.leader if before else None,
        "leader_after": after.leader if after else None,
        "term_before": before.term if before else None,
        "term_after": after.term if after else None,
    }


def _probes(found: Bounding) -> Row:
    return {
        "clock_id": found.clock_id,
        "last_good_probe": found.last_good,
        "first_bad_probe": found.first_bad,
        "last_bad_probe": found.last_bad,
        "first_good_probe": found.first_good,
    }
