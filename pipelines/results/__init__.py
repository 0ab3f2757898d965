"""What did a measurement find, for a terminal and for a machine? Rows of gold, shown; nothing is computed here.

A duration is an interval and is shown as one: `8.90-9.10 s`, or `at least 4.2 s (open)`. What does not apply is shown as a dash,
never as 0. The JSON document is described in docs/measure-json.md.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines import __version__
from pipelines.results.shown import Found, interval, show
from pipelines.serving import Serving, Snapshot
from pipelines.settings import Home
from pipelines.workplace import write_result

__all__ = ["Results", "interval"]

PHASES = ("detection", "election", "propagation", "first_write")

Row = dict[str, Any]


class Results:
    """What gold says of one cluster since an instant (UTC), read at one version of each table."""

    def __init__(self, home: Home, cluster_id: str, since: datetime) -> None:
        self.cluster_id = cluster_id
        self.since = since
        with Serving(home).snapshot() as snapshot:
            everything = self._rows(snapshot, "measured_outages")
            self.controllers = self._rows(snapshot, "measured_controllers")
            self.findings = self._rows(snapshot, "measured_findings")
            self.losses = self._rows(snapshot, "measured_losses")
            self.coverage = self._rows(snapshot, "measured_coverage")
        # The controller's outage is not a partition's: it has rows of its own.
        self.outages = [row for row in everything if row["kind"] != "controller"]

    def _rows(self, snapshot: Snapshot, dataset: str) -> list[Row]:
        return [dict(row) for row in snapshot.rows(dataset, cluster_id=self.cluster_id, since=self.since)]

    @property
    def is_read_back(self) -> bool:
        """Every closed outage of a lane that writes has a verdict on its data."""
        written = [row for row in self.outages if row["lane"] in ("raw", "client") and row["kind"] in ("write", "durable_write")]
        return all(row["loss_verdict"] != "UNCHECKED" for row in written if not row["is_open"])

    def document(self) -> Row:
        """The whole as one JSON document."""
        return {
            "format": 1,
            "lastack": __version__,
            "cluster": self.cluster_id,
            "measured_from_at": _text(self.since),
            "measured_to_at": _text(max((row["observed_to_at"] for row in self.coverage), default=None)),
            "outages": [self._outage(row) for row in self.outages],
            "losses": [self._loss(row) for row in self.losses],
            "controller_outages": [self._controller(row) for row in self.controllers],
            "findings": [self._finding(row) for row in self.findings],
            "coverage": [self._covered(row) for row in self.coverage],
        }

    def write(self, path: Path) -> None:
        """Writes the document, whole or not at all. Raises LastackError when it cannot be written."""
        write_result(path, json.dumps(self.document(), indent=2, allow_nan=False) + "\n")

    def _outage(self, row: Row) -> Row:
        phases = [
            {"phase": name, "ms_min": row[f"{name}_ms_min"], "ms_max": row[f"{name}_ms_max"]}
            for name in PHASES
            if row[f"{name}_ms_min"] is not None or row[f"{name}_ms_max"] is not None
        ]
        return self._place(row) | {
            "outage_id": row["outage_id"],
            "incident_id": row["incident_id"],
            "prober": row["prober_id"],
            "evidence": row["evidence"],
            **{name: _text(row[name]) for name in ("started_at_min", "started_at_max", "ended_at_min", "ended_at_max")},
            "rto_ms_min": row["rto_ms_min"],
            "rto_ms_max": row["rto_ms_max"],
            "downtime_ms_min": row["downtime_ms_min"],
            "is_open": row["is_open"],
            "flaps": row["flaps"],
            "cause": row["cause"],
            "broker": row["broker"],
            "view": row["view"],
            "seen_by": list(row["seen_by"] or []),
            "unseen_by": list(row["unseen_by"] or []),
            "contradicted_by": list(row["contradicted_by"] or []),
            "leader_before": row["leader_before"],
            "leader_after": row["leader_after"],
            "codes": list(row["codes"] or []),
            "phases": phases,
            "loss_verdict": row["loss_verdict"],
            "rule_version": row["rule_version"],
        }

    def _loss(self, row: Row) -> Row:
        return self._place(row) | {
            "loss_id": row["loss_id"],
            "outage_id": row["outage_id"],
            "incident_id": row["incident_id"],
            "verdict": row["verdict"],
            "reason": row["reason"],
            "evidence": row["evidence"],
            "records_min": row["records_min"],
            "records_max": row["records_max"],
            "rpo_ms_min": row["rpo_ms_min"],
            "rpo_ms_max": row["rpo_ms_max"],
            "acked_records": row["acked_records"],
            "first_position": row["first_position"],
            "last_position": row["last_position"],
            "checked_at": _text(row["checked_at"]),
            "rule_version": row["rule_version"],
        }

    def _controller(self, row: Row) -> Row:
        return {
            "cluster": self.cluster_id,
            "window_id": row["window_id"],
            "incident_id": row["incident_id"],
            **{name: _text(row[name]) for name in ("started_at_min", "started_at_max", "ended_at_min", "ended_at_max")},
            "rto_ms_min": row["duration_ms_min"],
            "rto_ms_max": row["duration_ms_max"],
            "is_open": row["is_open"],
            "cause": row["cause"],
            "controller_before": row["controller_before"],
            "controller_after": row["controller_after"],
            "partitions_waiting": row["partitions_waiting"],
            "rule_version": row["rule_version"],
        }

    def _finding(self, row: Row) -> Row:
        shard = row["shard"]
        return {
            "cluster": self.cluster_id,
            "finding_id": row["finding_id"],
            "incident_id": row["incident_id"],
            "finding": row["finding"],
            "subject": row["subject"],
            "topic": row["resource"],
            "partition": int(shard) if str(shard).isdigit() else shard,
            "started_at": _text(row["started_at"]),
            "ended_at": _text(row["ended_at"]),
            "said": row["said"],
            "control_plane": row["control_plane"],
            "metrics": row["metrics"],
            "clients": row["clients"],
            "evidence": list(row["evidence"] or []),
            "rule_version": row["rule_version"],
        }

    def _covered(self, row: Row) -> Row:
        return self._place(row) | {
            "prober": row["prober_id"],
            "observed_from_at": _text(row["observed_from_at"]),
            "observed_to_at": _text(row["observed_to_at"]),
            "coverage_ratio": row["coverage_ratio"],
        }

    def _place(self, row: Row) -> Row:
        shard = row["shard"]
        partition = int(shard) if str(shard).isdigit() else shard
        return {"cluster": self.cluster_id, "topic": row["resource"], "partition": partition, "kind": row["kind"], "lane": row["lane"]}

    def show(self, console: Console) -> None:
        """Prints the tables, and in a few lines what they mean."""
        show(console, Found(self.cluster_id, self.outages, self.losses, self.controllers, self.findings, self.coverage))


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
