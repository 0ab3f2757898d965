"""Which lines of the landing are observations, and which go to the quarantine with what reason?

The rule: a line is good when it is a JSON object of a known format and record, every required field is there, every field has its
type, fixed words are of their vocabulary, the span does not end before it starts, and counts agree with sequences. This is
`pipelines.domain.landing.decode`, said natively for Spark: one pass, no Python worker. A test holds the two against each other.

A bad line never stops the stream. It goes to bronze.quarantine with its reason; that table is bounded, the newest lines are kept.
"""

import dataclasses
import typing
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pipelines.domain.landing import LENGTH_MAX, VOCABULARY, WHOLE
from pipelines.domain.observations import FORMAT, RECORDS, FoundRun
from pipelines.lakehouse import Lakehouse, instant_sql

OBSERVATIONS = "bronze.observations"
QUARANTINE = "bronze.quarantine"
ADDED = ("day", "ingested_at")
"""Columns that bronze adds to the landing's own."""

LINE_LIMIT = 4_000
QUOTED_LIMIT = 100
QUARANTINE_ROWS_MAX = 10_000


def parsed(lines: DataFrame, schema: StructType) -> DataFrame:
    """Lines (columns `value`, `file`, `landed_at`) with every column of the observations' `schema`, and `reason` (NULL: good)."""
    landed = [field for field in schema if field.name not in ADDED]
    fields = StructType([StructField("format", LongType()), *(StructField(one.name, one.dataType) for one in landed), CORRUPT])
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT.name}')"
    # Cut before anything is made of it: a line without end would be kept, parsed and quoted, and take the whole JVM with it.
    cut = f"IF(length(value) > {LENGTH_MAX}, substring(value, 1, {LINE_LIMIT}), value) AS value"
    rows = lines.selectExpr(cut, f"IF(length(value) > {LENGTH_MAX}, length(value), NULL) AS too_long", "file", "landed_at")
    rows = rows.selectExpr("value", "too_long", "file", "landed_at", f"from_json(value, '{fields.toDDL()}', {options}) AS body")
    rows = rows.selectExpr("value", "too_long", "file", "landed_at", "body.*").selectExpr("*", f"{REASON} AS reason")
    return rows.selectExpr(
        "value",
        "file",
        "landed_at",
        "reason",
        *(_default_false(one.name) if one.name in DEFAULT_FALSE else one.name for one in landed),
        "current_timestamp() AS ingested_at",
        f"IF(reason IS NULL, to_date(timestamp_micros({SEEN_TO_US})), NULL) AS day",
    )


def good(rows: DataFrame, schema: StructType) -> DataFrame:
    """The good lines, with the columns of the observations' schema in order."""
    return rows.where("reason IS NULL").select(*(field.name for field in schema))


def bad(rows: DataFrame, schema: StructType) -> DataFrame:
    """The bad lines, with the columns of the quarantine's schema in order."""
    quarantined = rows.where("reason IS NOT NULL").select(
        f.sha2(f.concat_ws("\n", "file", "value"), 256).alias("line_id"),
        "file",
        "reason",
        f.substring("value", 1, LINE_LIMIT).alias("line"),
        "ingested_at",
    )
    return quarantined.dropDuplicates(["line_id"]).select(*(field.name for field in schema))


SEEN_FROM_US = "IF(stamped_by IS NULL, started_at_us, coalesce(unseen_at_us, seen_at_us))"
SEEN_TO_US = "IF(stamped_by IS NULL, ended_at_us, seen_at_us)"
"""The span of a line by the collector's own clock: what another host's clock has stamped may lie hours away, on another day."""

CORRUPT = StructField("_corrupt", StringType())

DEFAULT_FALSE: dict[str, list[str]] = {}
for _kind in RECORDS.values():
    for _field in dataclasses.fields(_kind):
        if _field.default is False:
            DEFAULT_FALSE.setdefault(_field.name, []).append(_kind.record)
"""Boolean fields that may be left out and are false then, and the records that have them."""

WHOLE_NUMBERS = frozenset(
    name for kind in RECORDS.values() for name, hint in typing.get_type_hints(kind).items() if hint in (int, int | None)
)
"""Fields of every record that are whole numbers."""


def _reason() -> str:
    """The first thing that is wrong with a row, NULL when nothing is."""
    checks = [
        _when("too_long IS NOT NULL", f"concat('it has ', too_long, ' characters, expected at most {LENGTH_MAX}')"),
        _when("_corrupt IS NOT NULL OR record IS NULL AND format IS NULL", "'not a JSON object with fields of the right types'"),
        _when(f"format IS NULL OR format != {FORMAT}", f"concat('format is ', {_text('format')}, ', this reader knows {FORMAT}')"),
        _when(
            f"record IS NULL OR record NOT IN ({_quoted(RECORDS)})",
            f"concat('record is ', {_text('record')}, ', expected one of {', '.join(RECORDS)}')",
        ),
        *(_missing(name) for name in RECORDS),
        *(_outside(name, words) for name, words in VOCABULARY.items()),
        *(_too_large(name) for name in sorted(WHOLE_NUMBERS)),
        _when(f"exists(runs, run -> {_has_too_large('run')})", "concat(record, '.runs hold a number that is not of 53 bits')"),
        _when("ended_at_us < started_at_us", "concat(record, ' ends before it starts')"),
        _when("count < 1", "concat(record, '.count is below 1')"),
        _when(
            "try_subtract(last_sequence, first_sequence) != count - 1",
            "concat(record, ' has sequences that do not agree with its count')",
        ),
    ]
    return f"coalesce({', '.join(checks)})"


def _when(condition: str, text: str) -> str:
    return f"CASE WHEN {condition} THEN {text} END"


def _missing(record: str) -> str:
    required = [one.name for one in dataclasses.fields(RECORDS[record]) if one.default is dataclasses.MISSING]
    absent = ", ".join(_when(f"{name} IS NULL", f"'{name}'") for name in required)
    anything = " OR ".join(f"{name} IS NULL" for name in required)
    return _when(f"record = '{record}' AND ({anything})", f"concat('{record} misses ', concat_ws(', ', {absent}))")


def _outside(name: str, words: frozenset[str]) -> str:
    known = sorted(words)
    return _when(f"{name} NOT IN ({_quoted(known)})", f"concat('{name} is ', {_text(name)}, ', expected one of {', '.join(known)}')")


def _too_large(name: str) -> str:
    # Sums of such numbers would not fit into 64 bits, and in Spark that is an error that ends the query.
    return _when(f"NOT {_is_whole(name)}", f"concat('{name} is ', {_text(name)}, ', expected a whole number of 53 bits')")


def _has_too_large(run: str) -> str:
    numbers = [one.name for one in dataclasses.fields(FoundRun) if one.name != "boot_id"]
    return " OR ".join(f"NOT {_is_whole(f'{run}.{name}')}" for name in numbers)


def _is_whole(name: str) -> str:
    return f"{name} BETWEEN {WHOLE.start} AND {WHOLE.stop - 1}"


def _text(name: str) -> str:
    return f"coalesce(substring(CAST({name} AS STRING), 1, {QUOTED_LIMIT}), 'missing')"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _default_false(name: str) -> str:
    return f"CASE WHEN record IN ({_quoted(DEFAULT_FALSE[name])}) THEN coalesce({name}, FALSE) ELSE {name} END AS {name}"


REASON = _reason()
"""As text, for Spark to parse at once: built of column objects, it took the driver two seconds of every batch."""


def bound_quarantine(lakehouse: Lakehouse) -> None:
    """Keeps the newest lines of the quarantine: a collector gone mad must not fill the disk with its nonsense."""
    newest = lakehouse.read(QUARANTINE).select(f.unix_micros("ingested_at").alias("at_us")).orderBy(f.col("at_us").desc())
    rows, oldest_us = newest.limit(QUARANTINE_ROWS_MAX + 1).agg(f.count("*"), f.min("at_us")).collect()[0]
    if rows > QUARANTINE_ROWS_MAX:
        lakehouse.delete(QUARANTINE, f"ingested_at <= {instant_sql(oldest_us)}")
