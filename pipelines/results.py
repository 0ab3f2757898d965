"""What did a measurement find, for a terminal and for a machine? Rows of gold, shown; nothing is computed here.

A duration is an interval and is shown as one: `8.90-9.10 s`, or `at least 4.2 s (open)`. What does not apply is shown as a dash,
never as 0. The JSON document is described in docs/measure-json.md.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from pipelines import __version__
from pipelines.errors import LastackError
from pipelines.serving import Serving, Snapshot
from pipelines.settings import Home

PHASES = ("detection", "election", "propagation", "first_write")
PLACE = ("topic/partition", "kind", "lane")
COLUMNS = (*PLACE, "RTO", "detection", "election", "propagation", "first write", "lost", "RPO", "data")
WITHOUT_PHASES = (*PLACE, "RTO", "lost", "RPO", "data")
PHASES_ONLY = (*PLACE, "detection", "election", "propagation", "first write")
VERDICTS = {
    "LOST": "[bold red]LOST[/]: at least {lost} acknowledged records are gone, in {runs} runs.",
    "STRANDED": "[bold yellow]STRANDED[/]: {acked} acknowledged records are absent while a replica that may hold them is down.",
    "UNCHECKABLE": "[bold yellow]UNCHECKABLE[/]: {acked} acknowledged records are below the log's start; nobody can say more.",
    "UNCHECKED": "[bold yellow]UNCHECKED[/]: {unchecked} outages of lanes that write have not been read back.",
    "DELETED_BY_POLICY": "DELETED_BY_POLICY: {acked} acknowledged records were deleted as configured; none was lost.",
    "PRESENT": "[bold green]PRESENT[/]: all {acked} acknowledged records around the outages were read back; none is gone.",
}
"""What is said of the data, the worst first; the first that applies is said."""

WATCH_ROWS_MAX = 12
WIDEST = 1_000

Row = dict[str, Any]


class Results:
    """What gold says of one cluster since an instant (UTC), read at one version of each table."""

    def __init__(self, home: Home, cluster_id: str, since: datetime) -> None:
        self.cluster_id = cluster_id
        self.since = since
        with Serving(home).snapshot() as snapshot:
            self.outages = self._rows(snapshot, "measured_outages")
            self.losses = self._rows(snapshot, "measured_losses")
            self.coverage = self._rows(snapshot, "measured_coverage")

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
            "coverage": [self._covered(row) for row in self.coverage],
        }

    def write(self, path: Path) -> None:
        """Writes the document, whole or not at all. Raises LastackError when it cannot be written."""
        part = path.with_name(f".{path.name}.part")
        text = json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise LastackError(
                f"the result cannot be written to {path}: {error.strerror}; name a file in a folder that is there"
            ) from error

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

    # --- for people ---------------------------------------------------------------------------------------------------

    def show(self, console: Console) -> None:
        """Prints the table, and in a few lines what it means."""
        probed = [row for row in self.outages if row["lane"] != "watch"]
        watched = [row for row in self.outages if row["lane"] == "watch"]
        if not self.outages:
            console.print(f"No outage of cluster {escape(self.cluster_id)} was measured.")
        if probed:
            _print_table(console, "What our probes were not served", probed)
        if watched:
            shown = sorted(watched, key=lambda row: -row["rto_ms_min"])[:WATCH_ROWS_MAX]
            _print_table(console, f"Partitions that are only watched, the worst {len(shown)} of {len(watched)} spans", shown)
        console.print(self._verdict())
        console.print(self._coverage())

    def _verdict(self) -> str:
        """One sentence on the data, the worst that is known: what is not decided is never called present."""
        unchecked = sum(1 for row in self.outages if row["loss_verdict"] == "UNCHECKED" and row["lane"] in ("raw", "client"))
        for verdict, sentence in VERDICTS.items():
            rows = [row for row in self.losses if row["verdict"] == verdict]
            if rows or (verdict == "UNCHECKED" and unchecked):
                return sentence.format(
                    runs=len(rows),
                    lost=sum(row["records_min"] for row in rows),
                    acked=sum(row["acked_records"] for row in rows),
                    unchecked=unchecked,
                )
        return "No acknowledged record was in question: no lane that writes had an outage."

    def _coverage(self) -> str:
        ratios = [row["coverage_ratio"] for row in self.coverage if row["coverage_ratio"] is not None]
        if not ratios:
            return "Nothing was measured."
        return (
            f"Measured: {_percent(min(ratios))} of the time or more, on each of {len(ratios)} streams; the rest is unmeasured, not up."
        )


def _print_table(console: Console, title: str, rows: list[Row]) -> None:
    """A table whose figures are never cut: a narrow terminal gets it in two halves, a file as wide as it is."""
    table = _table(title, rows, COLUMNS)
    if _width(console, table) <= console.width or not console.is_terminal:
        _print_whole(console, table)
    else:
        for columns in (WITHOUT_PHASES, PHASES_ONLY):
            _print_whole(console, _table(title, rows, columns))


def _print_whole(console: Console, table: Table) -> None:
    """Prints a table as wide as it is, for rich shrinks what is wider than the console until figures are gone."""
    width = console.width
    console.width = max(width, _width(console, table))
    console.print(table, crop=False)
    console.width = width


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum


def _table(title: str, rows: list[Row], columns: tuple[str, ...]) -> Table:
    table = Table(title=escape(title), title_justify="left", header_style="bold", pad_edge=False)
    cells = [[CELLS[name](row) for name in columns] for row in rows]
    for number, name in enumerate(columns):
        # A figure that is cut is a wrong figure: no column may become narrower than what stands in it.
        widest = max(len(name), *(len(of_row[number]) for of_row in cells))
        table.add_column(name, justify="left" if name in (*PLACE, "data") else "right", no_wrap=True, min_width=widest)
    for of_row in cells:
        table.add_row(*map(escape, of_row))
    return table


def interval(low_ms: float | None, high_ms: float | None, *, is_open: bool = False) -> str:
    """A duration with its bounds: `8.90-9.10 s`, below a second `3-41 ms`; a dash where it does not apply or is not known.

    The lower bound is rounded down and the upper one up, so that what is shown holds whatever is true.
    """
    if low_ms is None:
        return "-"
    if high_ms is None:
        return f"at least {_down(low_ms / 1000, 2):.2f} s" + (" (open)" if is_open else "")
    if high_ms == 0:
        return "0"
    if high_ms < 1000:
        return f"{_down(low_ms, 0):.0f}-{_up(high_ms, 0):.0f} ms"
    return f"{_down(low_ms / 1000, 2):.2f}-{_up(high_ms / 1000, 2):.2f} s"


def _down(value: float, digits: int) -> float:
    # What a float adds to an exact millisecond (9.1 s is 9.09999...) must not cost a digit.
    return float(math.floor(value * 10**digits + 1e-6)) / float(10**digits)


def _up(value: float, digits: int) -> float:
    return float(math.ceil(value * 10**digits - 1e-6)) / float(10**digits)


def _records(row: Row) -> str:
    if row["lost_records_min"] is None:
        return "-"
    if row["lost_records_max"] is None:
        return f"at least {row['lost_records_min']}"
    if row["lost_records_min"] == row["lost_records_max"]:
        return str(row["lost_records_min"])
    return f"{row['lost_records_min']}-{row['lost_records_max']}"


def _phase(name: str) -> Callable[[Row], str]:
    return lambda row: interval(row[f"{name}_ms_min"], row[f"{name}_ms_max"])


def _has_data(row: Row) -> bool:
    """Whether the row is of something whose data can be checked: reads, and stalls that are only inferred, are not."""
    return row["kind"] != "read" and not (row["lane"] == "watch" and row["kind"] == "durable_write")


CELLS: dict[str, Callable[[Row], str]] = {
    "topic/partition": lambda row: f"{row['resource']}/{row['shard']}",
    "kind": lambda row: str(row["kind"]),
    "lane": lambda row: str(row["lane"]),
    "RTO": lambda row: interval(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"]),
    **{name.replace("_", " "): _phase(name) for name in PHASES},
    "lost": _records,
    "RPO": lambda row: interval(row["rpo_ms_min"], row["rpo_ms_max"]),
    "data": lambda row: str(row["loss_verdict"]) if _has_data(row) else "-",
}
"""What stands in each column."""


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _percent(ratio: float) -> str:
    # Cut, not rounded: 99.9996 % must never show as 100 %.
    return f"{int(ratio * 100_000) / 1000:.3f} %"
