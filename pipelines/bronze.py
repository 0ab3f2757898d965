"""Which lines of the landing are observations, and which go to the quarantine with what reason?

The rule: a line is good when it is a JSON object of a known format and record, every required field is there, every field has its
type, fixed words are of their vocabulary, the span does not end before it starts, and counts agree with sequences. This is
`pipelines.domain.landing.decode`, said natively for Spark: one pass, no Python worker. A test holds the two against each other.

A bad line never stops the stream. It goes to bronze.quarantine with its reason; that table is bounded, the newest lines are kept.
"""

import dataclasses
import typing
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from pipelines.domain.landing import VOCABULARY, WHOLE
from pipelines.domain.observations import FORMAT, RECORDS, FoundRun
from pipelines.lakehouse import Lakehouse, instant_sql

OBSERVATIONS = "bronze.observations"
QUARANTINE = "bronze.quarantine"
ADDED = ("day", "ingested_at")
"""Columns that bronze adds to the landing's own."""

LINE_LIMIT = 4_000
QUARANTINE_ROWS_MAX = 10_000


def parsed(lines: DataFrame, schema: StructType) -> DataFrame:
    """Lines (columns `value`, `file`, `landed_at`) with every column of the observations' `schema`, and `reason` (NULL: good)."""
    landed = [field for field in schema if field.name not in ADDED]
    fields = [StructField("format", LongType()), *(StructField(one.name, one.dataType) for one in landed), CORRUPT]
    body = f.from_json("value", StructType(fields), {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT.name})
    rows = lines.withColumn("body", body).select("value", "file", "landed_at", "body.*")
    rows = rows.withColumn("reason", _reason())
    for one in landed:
        if isinstance(one.dataType, BooleanType) and one.name in DEFAULT_FALSE:
            rows = rows.withColumn(one.name, f.when(f.col("record").isin(*DEFAULT_FALSE[one.name]), f.coalesce(one.name, f.lit(False))))
    day = f.when(f.col("reason").isNull(), f.to_date(f.timestamp_micros("ended_at_us")))
    return rows.withColumn("ingested_at", f.current_timestamp()).withColumn("day", day)


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


def _reason() -> Column:
    """The first thing that is wrong with a row, NULL when nothing is."""
    record = f.col("record")
    known = [_missing(name) for name in RECORDS]
    checks: list[Column] = [
        f.when(
            f.col("_corrupt").isNotNull() | record.isNull() & f.col("format").isNull(),
            f.lit("not a JSON object with fields of the right types"),
        ),
        f.when(
            f.col("format").isNull() | (f.col("format") != FORMAT),
            f.concat(f.lit("format is "), _text("format"), f.lit(f", this reader knows {FORMAT}")),
        ),
        f.when(
            record.isNull() | ~record.isin(*RECORDS),
            f.concat(f.lit("record is "), _text("record"), f.lit(f", expected one of {', '.join(RECORDS)}")),
        ),
        *known,
        *(_outside(name, words) for name, words in VOCABULARY.items()),
        *(_too_large(name) for name in sorted(WHOLE_NUMBERS)),
        f.when(f.exists("runs", _has_too_large), f.concat(record, f.lit(".runs hold a number that is not of 53 bits"))),
        f.when(f.col("ended_at_us") < f.col("started_at_us"), f.concat(record, f.lit(" ends before it starts"))),
        f.when(f.col("count") < 1, f.concat(record, f.lit(".count is below 1"))),
        f.when(
            f.try_subtract(f.col("last_sequence"), f.col("first_sequence")) != f.col("count") - 1,
            f.concat(record, f.lit(" has sequences that do not agree with its count")),
        ),
    ]
    return f.coalesce(*checks)


def _missing(record: str) -> Column:
    required = [one.name for one in dataclasses.fields(RECORDS[record]) if one.default is dataclasses.MISSING]
    absent = f.concat_ws(", ", *(f.when(f.col(name).isNull(), f.lit(name)) for name in required))
    anything = reduce(lambda left, right: left | right, (f.col(name).isNull() for name in required))
    return f.when((f.col("record") == record) & anything, f.concat(f.lit(f"{record} misses "), absent))


def _outside(name: str, words: frozenset[str]) -> Column:
    return f.when(
        f.col(name).isNotNull() & ~f.col(name).isin(*sorted(words)),
        f.concat(f.lit(f"{name} is "), _text(name), f.lit(f", expected one of {', '.join(sorted(words))}")),
    )


def _too_large(name: str) -> Column:
    # Sums of such numbers would not fit into 64 bits, and in Spark that is an error that ends the query.
    text = f.concat(f.lit(f"{name} is "), _text(name), f.lit(", expected a whole number of 53 bits"))
    return f.when(~f.col(name).between(WHOLE.start, WHOLE.stop - 1), text)


def _has_too_large(run: Column) -> Column:
    numbers = [one.name for one in dataclasses.fields(FoundRun) if one.name != "boot_id"]
    return reduce(lambda left, right: left | right, (~run[name].between(WHOLE.start, WHOLE.stop - 1) for name in numbers))


def _text(name: str) -> Column:
    return f.coalesce(f.col(name).cast("string"), f.lit("missing"))


def bound_quarantine(lakehouse: Lakehouse) -> None:
    """Keeps the newest lines of the quarantine: a collector gone mad must not fill the disk with its nonsense."""
    newest = lakehouse.read(QUARANTINE).select(f.unix_micros("ingested_at").alias("at_us")).orderBy(f.col("at_us").desc())
    rows, oldest_us = newest.limit(QUARANTINE_ROWS_MAX + 1).agg(f.count("*"), f.min("at_us")).collect()[0]
    if rows > QUARANTINE_ROWS_MAX:
        lakehouse.delete(QUARANTINE, f"ingested_at <= {instant_sql(oldest_us)}")
