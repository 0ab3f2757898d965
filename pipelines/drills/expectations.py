"""What must the tables say of this drill? An expectation is a table, a selector of rows, and claims about them.

The rule: an expectation names a table of silver or gold (or `witnesses`, the truth itself), says by columns which of its rows are
meant (`where`), how many there must be (`rows`; one or more where nothing is said), of which partitions there must be one
(`partitions`), what each of them must say (`each`), and, where modes differ, in which of them (`in`). Tables and columns are those of
sql/ddl, so a new table needs no word here, and a misspelt column is an error before anything starts. `topic` and `partition` are the
columns `resource` and `shard`.

A claim about `x` is about the column x, or the interval [x_min, x_max] where there are two: `{min, max}` holds where it lies within.
`known` and `null` say whether there is a value. A list is one of. The name of a role stands for its broker. `since: kill` in `where`
keeps rows that can have begun after that action (or role) was done, `before: kill` those that began before.

Example:
    - outages:
        where: {topic: lastack-canary-durable, lane: raw, since: kill}
        partitions: with victim in the ISR
        each: {rto_ms: {min: 5000, max: 30000}, cause: [leader_failed, isr_member_dead]}
    - losses: {where: {verdict: LOST}, rows: 0}
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pipelines import ddl
from pipelines.drills.claims import Claim, claim
from pipelines.drills.history import Act, History, Row
from pipelines.drills.marked import Value
from pipelines.drills.records import MODES

WITNESSES = "witnesses"
WITNESS_COLUMNS = ("resource", "shard", "acks", "acked", "gone", "gone_span_ms", "longest_silence_ms", "consumed_and_gone")
ALIASES = {"topic": "resource", "partition": "shard"}
INSTANTS = ("started_at_max", "happened_at_max", "checked_at", "minute_at", "observed_to_at")
SINCE, BEFORE = "since", "before"
KNOWN, NULL = "known", "null"
PARTITIONS = {
    "led by ROLE": "the partitions that it led",
    "followed by ROLE": "those that it followed in sync",
    "with ROLE in the ISR": "both",
    "all": "every partition of the topic",
}
LAYERS = ("gold", "silver")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation; `where` and `each` are by column, `rows` is (least, most)."""

    file: str
    line: int
    table: str
    where: Mapping[str, Any] = field(default_factory=dict)
    each: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[int, int | None] = (1, None)
    partitions: str | None = None
    since: str | None = None
    before: str | None = None
    modes: tuple[str, ...] = ()
    """The modes in which it is expected; none: in all."""

    @property
    def name(self) -> str:
        """The expectation as the claim that it is."""
        parts = [f"{name}={_shown(value)}" for name, value in self.where.items()]
        parts += [f"{word} {label}" for word, label in ((SINCE, self.since), (BEFORE, self.before)) if label]
        return f"{self.table.rpartition('.')[2]} ({', '.join(parts) or 'all'}), line {self.line}"

    @property
    def wanted(self) -> str:
        """What is expected, in words."""
        least, most = self.rows
        count = f"{least} rows or more" if most is None else f"{least} rows" if least == most else f"{least} to {most} rows"
        parts = [count, f"one for each partition {self.partitions}" if self.partitions else ""]
        parts += [f"{name} {_shown(value)}" for name, value in self.each.items()]
        return ", ".join(part for part in parts if part)


# --- reading it -------------------------------------------------------------------------------------------------------


def read_expectation(value: Value, roles: set[str], labels: set[str]) -> Expectation:
    """An expectation of a drill's file. `labels` are the actions and roles that `since` and `before` may name."""
    tables = _tables()
    outer = value.fields(tables)
    if len(outer.found) != 1:
        raise value.error("an expectation is about one table")
    name, body = next(iter(outer))
    table, columns = tables[name]
    found = body.fields(("where", "each", "rows", "partitions", "in"))
    where = _columns(found["where"], columns, {SINCE, BEFORE}) if "where" in found else {}
    bounds = {word: where.pop(word).one_of(labels) for word in (SINCE, BEFORE) if word in where}
    partitions = found.get("partitions", Value.text, None)
    if partitions is not None:
        _check_partitions(found["partitions"], partitions, roles)
    return Expectation(
        value.file,
        value.node.start_mark.line + 1,
        table,
        {column: one.plain() for column, one in where.items()},
        {column: _claim_of(one) for column, one in (_columns(found["each"], columns, set()) if "each" in found else {}).items()},
        found.get("rows", _count, (1, None)),
        partitions,
        bounds.get(SINCE),
        bounds.get(BEFORE),
        found.get("in", lambda one: tuple(each.one_of(MODES) for each in one.items()), ()),
    )


def _tables() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each table by its short name, with its whole name and columns."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {WITNESSES: (WITNESSES, WITNESS_COLUMNS)}
    for layer in LAYERS:
        for table in ddl.table_names():
            if table.startswith(f"{layer}.") and (short := table.partition(".")[2]) not in found:
                found[short] = (table, tuple(column.name for column in ddl.columns(table)))
            if table.startswith(f"{layer}."):
                found[table] = (table, tuple(column.name for column in ddl.columns(table)))
    return found


def _columns(value: Value, columns: tuple[str, ...], more: set[str]) -> dict[str, Value]:
    """The columns that a mapping names; a pair is named without its _min and _max."""
    pairs = {name.removesuffix("_min") for name in columns if name.endswith("_min") and f"{name[:-4]}_max" in columns}
    allowed = set(columns) | pairs | more | {alias for alias, column in ALIASES.items() if column in columns}
    return {ALIASES.get(name, name): one for name, one in value.fields(allowed)}


def _claim_of(value: Value) -> Any:
    plain = value.plain()
    if isinstance(plain, dict):
        found = value.fields(("min", "max"))
        _check_range(value, *(found.get(name, lambda one: one.number(-math.inf), None) for name in ("min", "max")))
    return plain


def _check_range(value: Value, least: float | None, most: float | None) -> None:
    if least is not None and most is not None and least > most:
        raise value.error(f"nothing lies within {{min: {least:g}, max: {most:g}}}")


def _count(value: Value) -> tuple[int, int | None]:
    if isinstance(value.plain(), dict):
        found = value.fields(("min", "max"))
        least, most = found.get("min", Value.whole, 0), found.get("max", Value.whole, None)
        _check_range(value, least, most)
        return least, most
    exactly = value.whole()
    return exactly, exactly


def _check_partitions(value: Value, text: str, roles: set[str]) -> None:
    for form in PARTITIONS:
        before, _, after = form.partition("ROLE")
        if text == form or ("ROLE" in form and text.startswith(before) and text.endswith(after)):
            role = text[len(before) : len(text) - len(after)] if "ROLE" in form else None
            if role is not None and role not in roles:
                raise value.error(f"{role!r} is no role of this drill ({', '.join(sorted(roles)) or 'there is none'})")
            return
    raise value.error(f"{text!r} says no partitions; one of {', '.join(PARTITIONS)}")


# --- judging it -------------------------------------------------------------------------------------------------------


def judge(expectation: Expectation, history: History) -> Claim:
    """Whether the history meets an expectation."""
    rows = [row for row in _rows(history, expectation.table) if _is_meant(expectation, row, history)]
    wrong = []
    least, most = expectation.rows
    if len(rows) < least or (most is not None and len(rows) > most):
        shown = "; ".join(_row(row) for row in rows[:2])
        wrong.append(f"{len(rows)} rows{': ' + shown if shown else ''}")
    wrong += _missing(expectation, rows, history)
    for row in rows:
        wrong += [
            f"{_row(row)}: {problem}" for name, value in expectation.each.items() if (problem := _problem(row, name, value, history))
        ]
    return claim(expectation.name, expectation.wanted, wrong, f"{len(rows)} rows{_ranges(expectation, rows)}")


def _rows(history: History, table: str) -> list[Row]:
    return list(_witness_rows(history)) if table == WITNESSES else history.rows(table)


def _witness_rows(history: History) -> Iterator[Row]:
    """The truth: one row per witness and partition."""
    for witness in history.witnesses:
        gone = witness.gone()
        for partition in sorted({ack.partition for ack in witness.acked}):
            times = sorted(ack.at_ms for ack in witness.acked if ack.partition == partition)
            missing = gone.get(partition, [])
            yield {
                "resource": witness.topic,
                "shard": str(partition),
                "acks": witness.acks,
                "acked": len(times),
                "gone": len(missing),
                "gone_span_ms": missing[-1].at_ms - missing[0].at_ms if missing else 0,
                "consumed_and_gone": len(witness.consumed_and_gone().get(partition, ())),
                "longest_silence_ms": max((b - a for a, b in pairwise(times)), default=0),
            }


def _is_meant(expectation: Expectation, row: Row, history: History) -> bool:
    for name, value in expectation.where.items():
        if _problem(row, name, value, history):
            return False
    at = next((row[name] for name in INSTANTS if row.get(name) is not None), None)
    since, before = _act(history, expectation.since), _act(history, expectation.before)
    if since is not None and (at is None or at < since.before_at_us):
        return False
    return not (before is not None and (at is None or at >= before.before_at_us))


def _act(history: History, label: str | None) -> Act | None:
    """The first action of that name, or that gave that role."""
    return None if label is None else next((act for act in history.acts if label in (act.action, act.label)), None)


def _missing(expectation: Expectation, rows: list[Row], history: History) -> list[str]:
    if expectation.partitions is None:
        return []
    have = {(row["resource"], row["shard"]) for row in rows}
    wanted = sorted(_partitions(expectation, history))
    if not wanted:
        return [f"no partition is {expectation.partitions}"]
    return [f"no row of {topic}/{partition}" for topic, partition in wanted if (topic, partition) not in have]


def _partitions(expectation: Expectation, history: History) -> set[tuple[str, str]]:
    topics = expectation.where.get("resource")
    wanted = set(topics) if isinstance(topics, list) else {topics}
    words = str(expectation.partitions)
    found: set[tuple[str, str]] = set()
    for act in history.acts:
        role = next((name for name, nodes in history.roles.items() if act.target in nodes and name in words.split()), None)
        if words == "all":
            found |= {(name.rpartition("/")[0], name.rpartition("/")[2]) for name in act.placement}
        elif role is not None:
            found |= (
                act.led() if words.startswith("led") else act.followed() if words.startswith("followed") else act.led() | act.followed()
            )
        if found:
            break
    return {one for one in found if one[0] in wanted}


def _problem(row: Row, name: str, wanted: Any, history: History) -> str | None:
    """What speaks against a claim about a column; None where nothing does."""
    is_pair = name not in row
    low, high = (row.get(f"{name}_min"), row.get(f"{name}_max")) if is_pair else (row[name], row[name])
    shown = f"{name} is {_interval(low, high) if is_pair else low}"
    if wanted == KNOWN:
        return f"{name} is not known" if high is None else None
    if wanted in (NULL, None):
        return shown if low is not None or high is not None else None
    if isinstance(wanted, dict):
        if "min" in wanted and (low is None or low < wanted["min"]):
            return f"{shown}, not {wanted['min']} or more"
        if "max" in wanted and (high is None or high > wanted["max"]):
            return f"{shown}, not {wanted['max']} or less"
        return None
    allowed = {one for each in (wanted if isinstance(wanted, list) else [wanted]) for one in _meant(each, history)}
    values = set(low) if isinstance(low, list) else {low}
    return None if values & allowed else shown


def _meant(value: Any, history: History) -> list[Any]:
    """What a word of a claim stands for: a role's brokers, or itself."""
    if isinstance(value, str) and value in history.roles:
        return list(history.roles[value])
    return [value, str(value)] if isinstance(value, int) and not isinstance(value, bool) else [value]


def _interval(low: Any, high: Any) -> str:
    return f"[{_number(low)}, {_number(high)}]"


def _number(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _row(row: Row) -> str:
    named = [
        str(row[name]) for name in ("kind", "lane", "verdict", "replica", "event", "finding", "cause") if row.get(name) is not None
    ]
    place = f"{row.get('resource')}/{row.get('shard')}" if row.get("resource") else "the cluster"
    return " ".join([place, *named])


def _ranges(expectation: Expectation, rows: list[Row]) -> str:
    """The range of each claimed interval over all rows, for the report."""
    found = []
    for name in expectation.each:
        pairs = [(row[f"{name}_min"], row[f"{name}_max"]) for row in rows if f"{name}_min" in row and row[f"{name}_min"] is not None]
        highs = [high for _, high in pairs if high is not None]
        if pairs and len(highs) == len(pairs):
            found.append(f"{name} {_interval(min(low for low, _ in pairs), max(highs))}")
    return f", {', '.join(found)}" if found else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"within [{value.get('min', '..')}, {value.get('max', '..')}]"
    return "|".join(map(str, value)) if isinstance(value, list) else str(value)
