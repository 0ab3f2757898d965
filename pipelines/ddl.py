"""Which columns does a table have, of which type, and what do they mean?

The rule: `sql/ddl/<layer>/<table>.sql` is the only source of schemas. Spark runs these files; whoever must know a table without
Spark (an empty result before the first write, the explanation of a column on a page, a test's table) reads them here. One column
a line, `name TYPE [NOT NULL] COMMENT '...'`: a line that is not of that form is an error, never a column that is missed.

Example: `columns("gold.outages")[0]` is `Column("outage_id", "STRING", is_nullable=False, comment="identity of ...")`.
"""

import re
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from pipelines.errors import LakehouseError
from pipelines.resources import resource

LAYERS = ("bronze", "silver", "gold")

_COLUMN = re.compile(r"`?(\w+)`?\s+(.+?)(\s+NOT NULL)?\s+COMMENT\s+'((?:[^']|'')*)',?")
_SCALARS = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as its DDL says."""

    name: str
    type: str
    is_nullable: bool
    comment: str


@cache
def table_names() -> tuple[str, ...]:
    """Every table that has a DDL file, as `layer.table`, in order."""
    return tuple(f"{layer}.{path.stem}" for layer in LAYERS for path in sorted(resource("sql", "ddl", layer).glob("*.sql")))


@cache
def columns(table: str) -> tuple[Column, ...]:
    """The columns of `layer.table`, in order. Raises LakehouseError where there is no such DDL, or a line cannot be read."""
    layer, name = table.split(".")
    path = resource("sql", "ddl", layer, f"{name}.sql")
    if not path.is_file():
        raise LakehouseError(f"table {table}: there is no sql/ddl/{layer}/{name}.sql; known are {', '.join(table_names())}")
    body = path.read_text(encoding="utf-8").partition("(\n")[2].partition("\n)\n")[0]
    return tuple(_column(table, line.strip()) for line in body.splitlines())


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of `layer.table`, instants in microseconds UTC."""
    return pa.schema(
        [pa.field(one.name, _arrow_type(table, one.type), nullable=one.is_nullable) for one in columns(table)],
    )


def _column(table: str, line: str) -> Column:
    match = _COLUMN.fullmatch(line)
    if match is None:
        raise LakehouseError(f"table {table}: its DDL has the line {line!r}; expected: name TYPE [NOT NULL] COMMENT '...'")
    name, type_, not_null, comment = match.groups()
    return Column(name, type_, not_null is None, comment.replace("''", "'"))


def _arrow_type(table: str, text: str) -> pa.DataType:
    outer, _, inner = (part.strip() for part in text.partition("<"))
    if not inner and outer in _SCALARS:
        return _SCALARS[outer]
    parts = _split(inner[:-1])
    if outer == "ARRAY":
        return pa.list_(_arrow_type(table, parts[0]))
    if outer == "MAP":
        return pa.map_(_arrow_type(table, parts[0]), _arrow_type(table, parts[1]))
    if outer == "STRUCT":
        named = [part.partition(":") for part in parts]
        return pa.struct([(name.strip(), _arrow_type(table, type_)) for name, _, type_ in named])
    raise LakehouseError(f"table {table}: its DDL has the type {text!r}, which has no Arrow type here; add it to pipelines/ddl.py")


def _split(text: str) -> list[str]:
    """Cuts at the commas that are not inside angle brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts
