"""What is summed up over time, and which part of it has to be summed up again?

The rule: availability follows from the probes of a day, lag, exposure and clock bounds from the lines of a minute. What comes in
touches the days and minutes that it speaks of, however late it comes: those are summed up again, at a pace of their own, and replace
what was there. Minutes are looked at LAG_US further back, where the last lines before them lie; not further back than what is
compacted: of a run there only the last form is left, and no minute before it.

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
MINUTE_US = 60 * MICROSECONDS
LAG_US = 10 * MINUTE_US
SLICE_US = 360 * MINUTE_US
"""So much is summed up by the minute at once: what comes of it passes through this process."""
UNSETTLED_PATIENCE = 2
"""So many times longer sums wait while a region is unsettled: an incident's gold must not wait for them."""

BY_MINUTE = ((gold.LAG, PartitionMetrics.record), (gold.EXPOSURE, Probes.record), (gold.CLOCKS, ClockSeen.record))
"""Each table that is summed up by the minute, with the record of bronze that it reads, in the order in which they need each other."""


def touched() -> tuple[Column, Column]:
    """Of a group of lines: `days`, the first and the last UTC day of each run of probes, and `minutes_from_us`, the first instant that
    what is summed up by the minute needs."""
    is_good = f.col("reason").isNull()
    of_run = f.struct(_day_of(f.col("started_at_us")), _day_of(f.col("last_issued_at_us") + f.col("period_us")))
    is_by_minute = f.col("record").isin(*(record for _, record in BY_MINUTE))
    return (
        f.collect_set(f.when(is_good & (f.col("record") == Probes.record), of_run)).alias("days"),
        f.min(f.when(is_good & is_by_minute, f.col("ended_at_us"))).alias("minutes_from_us"),
    )


class Sums:
    """The sums of one installation. Not for several threads."""

    def __init__(self, lakehouse: Lakehouse, every_seconds: float) -> None:
        self._lakehouse = lakehouse
        self._every_seconds = every_seconds
        self._made_at = 0.0
        self._days: set[date] = set()
        self._last_day: date | None = None
        self._from_us: int | None = None
        self._compacted_us = 0

    def remember(self) -> None:
        """Finds again, after a restart, how far the sums had come, and what has come in since."""
        now = datetime.now(tz=UTC)
        self._last_day = self._newest(gold.AVAILABILITY, "day", now.date())
        newest = [found for table, _ in BY_MINUTE if (found := self._newest(table, "minute_at", now)) is not None]
        done_us = int(min(newest).timestamp()) * MICROSECONDS if newest else 0
        self._compacted_us = closed_hour(done_us)
        lines = self._lakehouse.read(bronze.OBSERVATIONS).withColumn("reason", f.lit(None).cast("string"))
        if self._last_day is not None:
            lines = lines.where(f.col("day") >= f.lit(self._last_day))
        self.take(lines.agg(*touched()).collect())
        if newest and self._from_us is not None:
            self._from_us = max(self._from_us, done_us)

    def take(self, taken: Iterable[Row]) -> None:
        """Takes what new lines touch, as `touched` says it."""
        for one in taken:
            for first, last in one["days"]:
                # That a run goes on is told again and again: the days before have been summed up with what was told of it by then.
                begin = first if self._last_day is None or last < self._last_day else max(first, self._last_day)
                self._days.update(begin + timedelta(days=number) for number in range((last - begin).days + 1))
            since = one["minutes_from_us"]
            if since is not None:
                self._from_us = since if self._from_us is None else min(self._from_us, since)

    def is_due(self, *, is_settled: bool) -> bool:
        """Whether it is time: sums can wait, longer while something is unsettled."""
        patience = 1 if is_settled else UNSETTLED_PATIENCE
        return time.monotonic() - self._made_at >= self._every_seconds * patience

    def make(self, newest_us: int) -> None:
        """Sums up what was touched. `newest_us`: the newest instant in bronze that is not in the future."""
        self._made_at = time.monotonic()
        for first, last in _spans(self._days):
            self._availability(first, last)
        if self._days:
            latest = datetime.now(tz=UTC).date()
            self._last_day = max((day for day in self._days if day <= latest), default=self._last_day)
            self._days.clear()
        if self._from_us is not None:
            begin = max(min(self._from_us, newest_us) - LAG_US, self._compacted_us)
            self._minutes(begin - begin % MINUTE_US, newest_us)
            self._from_us = None

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

    def _minutes(self, begin_us: int, newest_us: int) -> None:
        for from_us in range(begin_us, max(newest_us, begin_us + 1), SLICE_US):
            to_us = from_us + SLICE_US
            is_last = to_us >= newest_us
            for table, record in BY_MINUTE:
                lines = self._lakehouse.read(bronze.OBSERVATIONS).where(
                    (f.col("record") == record)
                    & (f.col("day") >= f.lit(_day(from_us - LAG_US)))
                    & (f.col("ended_at_us") >= from_us - LAG_US)
                )
                # What a line of the next minutes shows bounds the last ones of these.
                lines = lines if is_last else lines.where(f.col("started_at_us") < to_us + LAG_US)
                lines.createOrReplaceTempView(f"bronze_{record}")
                spark, delta = (
                    " AND ".join([f"minute_at >= {at(from_us)}", *([] if is_last else [f"minute_at < {at(to_us)}"])])
                    for at in (instant_sql, instant_literal)
                )
                self._replace(table, spark, delta)

    def _replace(self, table: str, where: str, replaced: str) -> None:
        """Replaces rows of a table; `replaced` says for delta-rs what `where` says for Spark."""
        for other in (outage_windows.TABLE, gold.OUTAGES, gold.LAG):
            self._lakehouse.read(other).createOrReplaceTempView(gold.view_name(other))
        frame = gold.selected(self._lakehouse.spark.sql(gold.query(table)), self._lakehouse.schema(table)).where(where)
        self._lakehouse.replace(table, frame.toArrow(), replaced)


def _spans(days: set[date]) -> Iterator[tuple[date, date]]:
    """The first and the last of each run of days."""
    ordered = sorted(days)
    begins = [day for day in ordered if day - timedelta(days=1) not in days]
    ends = [day for day in ordered if day + timedelta(days=1) not in days]
    return zip(begins, ends, strict=True)


def _day_of(instant_us: Column) -> Column:
    return f.to_date(f.timestamp_micros(instant_us))


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / MICROSECONDS, UTC).date()


def _begin_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * MICROSECONDS
