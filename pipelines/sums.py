"""What is summed up over time, and which part of it has to be summed up again?

The rule: availability follows from the probes of a day, lag, exposure and clock bounds from the lines of a minute. What comes in
touches the days and the stretches of minutes that it speaks of, however late it comes: those are summed up again, at a pace of their
own, and replace what was there. The stretches before and behind belong to what a line touches, since a lag in time is interpolated
between looks. What is compacted is left as it is: of a run there only the last form is left, and no minute before it.

Example: a stream that was stopped for three hours takes their lines in within minutes. It sums up all minutes of the three hours, and
the day; it finds by gold itself how far the sums had come before.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as f

from pipelines import bronze, gold
from pipelines.compaction import closed_hour
from pipelines.domain.observations import ClockSeen, PartitionMetrics, Probes
from pipelines.lakehouse import Lakehouse, instant_literal, instant_sql
from pipelines.silver import outage_windows

MICROSECONDS = 1_000_000
STRETCH_US = 300 * MICROSECONDS
"""Minutes are summed up in stretches of this length."""
STRETCHES_AT_ONCE = 72
"""So many at most: what comes of them passes through this process."""
UNSETTLED_PATIENCE = 2
"""So many times longer sums wait while a region is unsettled: an incident's gold must not wait for them."""

BY_MINUTE = ((gold.LAG, PartitionMetrics.record), (gold.EXPOSURE, Probes.record), (gold.CLOCKS, ClockSeen.record))
"""Each table that is summed up by the minute, with the record of bronze that it reads, in the order in which they need each other."""


def touched() -> tuple[Column, Column]:
    """Of a group of lines: `days`, the first and the last UTC day of each run of probes, and `stretches`, by number those in which
    lines end that are summed up by the minute."""
    is_good = f.col("reason").isNull()
    of_run = f.struct(_day_of(f.col("started_at_us")), _day_of(f.col("last_issued_at_us") + f.col("period_us")))
    is_by_minute = f.col("record").isin(*(record for _, record in BY_MINUTE))
    return (
        f.collect_set(f.when(is_good & (f.col("record") == Probes.record), of_run)).alias("days"),
        f.collect_set(f.when(is_good & is_by_minute, f.floor(f.col("ended_at_us") / STRETCH_US))).alias("stretches"),
    )


class Sums:
    """The sums of one installation. Not for several threads."""

    def __init__(self, lakehouse: Lakehouse, every_seconds: float) -> None:
        self._lakehouse = lakehouse
        self._every_seconds = every_seconds
        self._made_at = 0.0
        self._days: set[int] = set()
        self._last_day: int | None = None
        self._stretches: set[int] = set()
        self._compacted_us = 0

    def remember(self) -> None:
        """Finds again, after a restart, how far the sums had come, and what has come in since."""
        now = datetime.now(tz=UTC)
        last_day: date | None = self._newest(gold.AVAILABILITY, "day", now.date())
        self._last_day = None if last_day is None else last_day.toordinal()
        newest = [self._newest(table, "minute_at", now) for table, _ in BY_MINUTE]
        reached = [0 if one is None else int(one.timestamp()) * MICROSECONDS for one in newest]
        self._compacted_us = closed_hour(max(reached))
        lines = self._lakehouse.read(bronze.OBSERVATIONS).withColumn("reason", f.lit(None).cast("string"))
        if last_day is not None:
            lines = lines.where(f.col("day") >= f.lit(last_day))
        self.take(lines.agg(*touched()).collect())
        # A table that was made anew is filled again as far back as it can be.
        since = max(min(reached), self._compacted_us) // STRETCH_US
        self._stretches = {one for one in self._stretches if one >= since}

    def take(self, taken: Iterable[Row]) -> None:
        """Takes what new lines touch, as `touched` says it."""
        for one in taken:
            for begin, end in one["days"]:
                first, last = begin.toordinal(), end.toordinal()
                # That a run goes on is told again and again: days before yesterday have been summed up with what was told by then.
                is_late = self._last_day is None or last < self._last_day
                self._days.update(range(first if is_late else max(first, (self._last_day or 0) - 1), last + 1))
            self._stretches.update(one["stretches"])

    def is_due(self, *, is_settled: bool) -> bool:
        """Whether it is time: sums can wait, longer while something is unsettled."""
        patience = 1 if is_settled else UNSETTLED_PATIENCE
        return time.monotonic() - self._made_at >= self._every_seconds * patience

    def make(self) -> None:
        """Sums up what was touched."""
        self._made_at = time.monotonic()
        for first, last in _spans(self._days):
            self._availability(date.fromordinal(first), date.fromordinal(last))
        today = datetime.now(tz=UTC).date().toordinal()
        self._last_day = max((day for day in self._days if day <= today), default=self._last_day)
        self._days.clear()
        around = {one + step for one in self._stretches for step in (-1, 0, 1)}
        for first, last in _spans(around):
            for begin in range(first, last + 1, STRETCHES_AT_ONCE):
                end = min(begin + STRETCHES_AT_ONCE, last + 1)
                self._minutes(max(begin * STRETCH_US, self._compacted_us), end * STRETCH_US)
        self._stretches.clear()

    def compacted(self, newest_us: int) -> None:
        """Hears that bronze was compacted as far as `newest_us` allowed."""
        self._compacted_us = closed_hour(newest_us)

    def _newest(self, table: str, column: str, latest: Any) -> Any:
        return self._lakehouse.read(table).where(f.col(column) <= f.lit(latest)).agg(f.max(column)).collect()[0][0]

    def _availability(self, first: date, last: date) -> None:
        until_us = _begin_us(last + timedelta(days=1))
        lines = self._lakehouse.read(bronze.OBSERVATIONS).where(f.col("record") == Probes.record)
        lines.where((f.col("day") >= f.lit(first)) & (f.col("started_at_us") < until_us)).createOrReplaceTempView("bronze_probes")
        where = f"day >= DATE '{first}' AND day <= DATE '{last}'"
        self._replace(gold.AVAILABILITY, where, where)

    def _minutes(self, from_us: int, to_us: int) -> None:
        if from_us >= to_us:
            return
        spark, delta = (f"minute_at >= {at(from_us)} AND minute_at < {at(to_us)}" for at in (instant_sql, instant_literal))
        # What lines of the stretches next to them show bounds the first and the last of these minutes.
        since_us, until_us = max(0, from_us - 2 * STRETCH_US), to_us + 2 * STRETCH_US
        for table, record in BY_MINUTE:
            lines = self._lakehouse.read(bronze.OBSERVATIONS).where(
                (f.col("record") == record)
                & (f.col("day") >= f.lit(_day(since_us)))
                & (f.col("ended_at_us") >= since_us)
                & (f.col("started_at_us") < until_us)
            )
            lines.createOrReplaceTempView(f"bronze_{record}")
            self._replace(table, spark, delta)

    def _replace(self, table: str, where: str, replaced: str) -> None:
        """Replaces rows of a table; `replaced` says for delta-rs what `where` says for Spark."""
        for other in (outage_windows.TABLE, gold.OUTAGES, gold.LAG):
            self._lakehouse.read(other).createOrReplaceTempView(gold.view_name(other))
        frame = gold.selected(self._lakehouse.spark.sql(gold.query(table)), self._lakehouse.schema(table)).where(where)
        self._lakehouse.replace(table, frame.toArrow(), replaced)


def _spans(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of numbers."""
    ordered = sorted(numbers)
    begins = [one for one in ordered if one - 1 not in numbers]
    ends = [one for one in ordered if one + 1 not in numbers]
    return zip(begins, ends, strict=True)


def _day_of(instant_us: Column) -> Column:
    return f.to_date(f.timestamp_micros(instant_us))


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / MICROSECONDS, UTC).date()


def _begin_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * MICROSECONDS
