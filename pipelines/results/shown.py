"""How is a measurement shown on a terminal? Tables whose figures are never cut, and under them a few sentences: why, and what it means.

The rule: what one prober alone was not served is no outage of the service and stands in a table of its own; the controller's outage
is a sentence of its own. Where only one prober looked, no column says who saw it. A narrow terminal gets each table in two halves.

Example: 3 probers of 3 saw it: `3 of 3`; two did and the third was served meanwhile: `2 of 3, disputed`.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from pipelines import why

PHASES = ("detection", "election", "propagation", "first_write")
PLACE = ("topic/partition", "kind", "lane")
SEEN = "seen by"
COLUMNS = (*PLACE, "RTO", "detection", "election", "propagation", "first write", "lost", "RPO", "data")
WITHOUT_PHASES = (*PLACE, "RTO", "lost", "RPO", "data")
PHASES_ONLY = (*PLACE, "detection", "election", "propagation", "first write")
ALONE = (*PLACE, "prober", "RTO", "served meanwhile")
VERDICTS = {
    "LOST": "[bold red]LOST[/]: at least {lost} acknowledged records are gone, in {runs} runs.",
    "STRANDED": "[bold yellow]STRANDED[/]: {acked} acknowledged records cannot be read now: {why}.",
    "UNCHECKABLE": "[bold yellow]UNCHECKABLE[/]: {acked} acknowledged records: {why}; nobody can say more.",
    "UNCHECKED": "[bold yellow]UNCHECKED[/]: {unchecked} outages of lanes that write have not been read back.",
    "NOT_STORED": "NOT_STORED: {acked} acknowledged records were never stored: the client had used their sequence numbers twice.",
    "DELETED_BY_POLICY": "DELETED_BY_POLICY: {acked} acknowledged records were deleted as configured; none was lost: {why}.",
    "PRESENT": "[bold green]PRESENT[/]: all {acked} acknowledged records around the outages were read back; none is gone.",
}
"""What is said of the data, the worst first; the first that applies is said."""

WATCH_ROWS_MAX = 12
REASONS_MAX = 5
FINDINGS_MAX = 8
WIDEST = 1_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a measurement found, as rows of the datasets `measured_*`."""

    cluster_id: str
    outages: Sequence[Row]
    losses: Sequence[Row]
    controllers: Sequence[Row]
    findings: Sequence[Row]
    coverage: Sequence[Row]


def show(console: Console, found: Found) -> None:
    """Prints the tables, and in a few lines what they mean."""
    alone = [row for row in found.outages if row["cause"] == "prober_alone"]
    service = [row for row in found.outages if row["cause"] != "prober_alone"]
    probed = [row for row in service if row["lane"] != "watch"]
    watched = [row for row in service if row["lane"] == "watch"]
    if not service:
        console.print(f"No outage of cluster {escape(found.cluster_id)} was measured.")
    if probed:
        _print_table(console, "What our probes were not served", probed)
    if watched:
        shown = sorted(watched, key=lambda row: -row["rto_ms_min"])[:WATCH_ROWS_MAX]
        _print_table(console, f"Partitions that are only watched, the worst {len(shown)} of {len(watched)} spans", shown)
    if alone:
        _print_whole(console, _table("What one prober alone was not served: no outages of the service", alone, ALONE))
    for sentence in (*_reasons(service), *map(_controller, found.controllers), *_findings(found.findings)):
        console.print(sentence)
    console.print(_verdict(found))
    console.print(_coverage(found.coverage))


# --- sentences --------------------------------------------------------------------------------------------------------


def _reasons(outages: Sequence[Row]) -> list[str]:
    """Why partitions were out, most outages first."""
    counts = Counter(why.outage(row) for row in outages)
    lines = [f"Why, {_plural(count, 'outage')}: {escape(reason)}." for reason, count in counts.most_common(REASONS_MAX)]
    rest = len(counts) - REASONS_MAX
    return [*lines, f"{rest} more reasons are in the JSON document."] if rest > 0 else lines


def _controller(row: Row) -> str:
    lasted = interval(row["duration_ms_min"], row["duration_ms_max"], is_open=row["is_open"])
    if row["is_open"]:
        # Its minimum is what was proven, which may be 0: since when says more.
        lasted = f"a time that has not been seen to end, since {row['started_at_max']:%H:%M:%S} UTC"
    waited = f"{_plural(row['partitions_waiting'], 'partition')} waited for it" if row["partitions_waiting"] else "no partition waited"
    return f"No controller for {lasted}: {escape(why.outage(row))}; {waited}."


def _findings(findings: Sequence[Row]) -> list[str]:
    """What disagrees: each kind once, with the first that was said."""
    kinds: dict[str, list[Row]] = {}
    for row in findings:
        kinds.setdefault(row["finding"], []).append(row)
    lines = []
    for name, rows in list(kinds.items())[:FINDINGS_MAX]:
        more = f" ({len(rows)} times)" if len(rows) > 1 else ""
        lines.append(f"[yellow]Disagrees[/]: {why.finding(name)}{more}: {escape(rows[0]['said'])}.")
    return lines


def _verdict(found: Found) -> str:
    """One sentence on the data, the worst that is known: what is not decided is never called present."""
    unchecked = sum(1 for row in found.outages if row["loss_verdict"] == "UNCHECKED" and row["lane"] in ("raw", "client"))
    for verdict, sentence in VERDICTS.items():
        rows = [row for row in found.losses if row["verdict"] == verdict]
        if rows or (verdict == "UNCHECKED" and unchecked):
            reasons = dict.fromkeys(why.loss(row["reason"]) or "nobody said why" for row in rows)
            return sentence.format(
                runs=len(rows),
                lost=sum(row["records_min"] for row in rows),
                acked=sum(row["acked_records"] for row in rows),
                unchecked=unchecked,
                why="; ".join(reasons),
            )
    return "No acknowledged record was in question: no lane that writes had an outage."


def _coverage(coverage: Sequence[Row]) -> str:
    ratios = [row["coverage_ratio"] for row in coverage if row["coverage_ratio"] is not None]
    if not ratios:
        return "Nothing was measured."
    return f"Measured: {_percent(min(ratios))} of the time or more, on each of {len(ratios)} streams; the rest is unmeasured, not up."


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_table(console: Console, title: str, rows: Sequence[Row]) -> None:
    """A table whose figures are never cut: a narrow terminal gets it in two halves, a file as wide as it is."""
    seen = (SEEN,) if any(row["view"] not in (None, "single") for row in rows) else ()
    table = _table(title, rows, (*COLUMNS, *seen))
    if _width(console, table) <= console.width or not console.is_terminal:
        _print_whole(console, table)
    else:
        for columns in (WITHOUT_PHASES, (*PHASES_ONLY, *seen)):
            _print_whole(console, _table(title, rows, columns))


def _print_whole(console: Console, table: Table) -> None:
    """Prints a table as wide as it is, for rich shrinks what is wider than the console until figures are gone."""
    width = console.width
    console.width = max(width, _width(console, table))
    console.print(table, crop=False)
    console.width = width


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum


def _table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> Table:
    table = Table(title=escape(title), title_justify="left", header_style="bold", pad_edge=False)
    cells = [[CELLS[name](row) for name in columns] for row in rows]
    for number, name in enumerate(columns):
        # A figure that is cut is a wrong figure: no column may become narrower than what stands in it.
        widest = max(len(name), *(len(of_row[number]) for of_row in cells))
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True, min_width=widest)
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


def _seen(row: Row) -> str:
    """How many of the probers that looked saw it; a dash where it is inferred."""
    if row["view"] is None:
        return "-"
    looked = {row["prober_id"], *(name for column in ("seen_by", "unseen_by", "contradicted_by") for name in row[column] or ())}
    disputed = ", disputed" if row["view"] == "disputed" else ""
    return f"{len(row['seen_by'] or ()) + 1} of {len(looked)}{disputed}"


CELLS: dict[str, Callable[[Row], str]] = {
    "topic/partition": lambda row: f"{row['resource']}/{row['shard']}",
    "kind": lambda row: str(row["kind"]),
    "lane": lambda row: str(row["lane"]),
    "prober": lambda row: str(row["prober_id"]),
    "RTO": lambda row: interval(row["rto_ms_min"], row["rto_ms_max"], is_open=row["is_open"]),
    **{name.replace("_", " "): _phase(name) for name in PHASES},
    "lost": _records,
    "RPO": lambda row: interval(row["rpo_ms_min"], row["rpo_ms_max"]),
    "data": lambda row: str(row["loss_verdict"]) if _has_data(row) else "-",
    SEEN: _seen,
    "served meanwhile": lambda row: ", ".join(row["contradicted_by"] or ()) or "-",
}
"""What stands in each column."""

LEFT = frozenset((*PLACE, "data", "prober", SEEN, "served meanwhile"))


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(ratio: float) -> str:
    # Cut, not rounded: 99.9996 % must never show as 100 %.
    return f"{int(ratio * 100_000) / 1000:.3f} %"
