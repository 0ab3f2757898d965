"""silver.controller_windows: the spans in which a cluster had no controller that could decide."""

from collections.abc import Iterator

from pipelines.domain.controllers import RULE_VERSION
from pipelines.domain.derivation import Derivation
from pipelines.silver.base import Row, cluster, incident, lasting, span

TABLE = "silver.controller_windows"
COLUMN = "started_at_max"


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per window."""
    for one in derivation.controllers:
        yield {
            **cluster(derivation.facts),
            "window_id": one.window_id,
            **span(one.start, one.end),
            **lasting("duration", one.length),
            "is_open": one.is_open,
            "controller_before": one.controller_before,
            "controller_after": one.controller_after,
            "term_before": one.term_before,
            "term_after": one.term_after,
            "cause": one.cause,
            "partitions_waiting": len({window.partition for window in one.waited}),
            "proof": list(one.proof),
            **incident(derivation, one.start, one.end),
            "rule_version": RULE_VERSION,
        }
