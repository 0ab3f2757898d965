"""silver.findings: where control plane, metrics, clients and clocks disagree, and which rows show it."""

from collections.abc import Iterator

from pipelines.domain.derivation import Derivation
from pipelines.domain.findings import RULE_VERSION
from pipelines.domain.incidents import incident_of
from pipelines.domain.intervals import Bounds
from pipelines.silver.base import Row, cluster, instant

TABLE = "silver.findings"
COLUMN = "ended_at"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per finding."""
    for one in derivation.findings:
        yield {
            **cluster(derivation.facts),
            "finding_id": one.finding_id,
            "finding": one.finding,
            "subject": one.subject,
            "resource": one.partition.resource if one.partition else None,
            "shard": one.partition.shard if one.partition else None,
            "started_at": instant(one.started_us),
            "ended_at": instant(one.ended_us),
            "said": one.said,
            "control_plane": one.control_plane,
            "metrics": one.metrics,
            "clients": one.clients,
            "evidence": list(one.evidence),
            "incident_id": incident_of(derivation.incidents, Bounds.exactly(one.started_us), Bounds.exactly(one.ended_us)),
            "rule_version": RULE_VERSION,
        }
