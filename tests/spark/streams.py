"""Running the stream in the session of the tests, and what it leaves in its tables."""

import threading
from typing import Any

from pipelines.lakehouse import Lakehouse
from pipelines.stream import Options, Stream

DERIVED = (
    "silver.outage_windows", "silver.partition_windows", "silver.isr_windows", "silver.losses", "silver.events",
    "gold.outages", "gold.losses", "gold.incidents", "gold.availability",
)  # fmt: skip


def run_stream(lakehouse: Lakehouse, **options: Any) -> None:
    """Takes in what is in the landing, as a stream that is told to stop does, and stops."""
    stopping = threading.Event()
    stopping.set()
    Stream(lakehouse.spark, lakehouse.home, Options(trigger_seconds=0, **options), None).run(stopping)


def contents(lakehouse: Lakehouse) -> dict[str, list[str]]:
    """Every derived table, its rows as text."""
    return {table: sorted(str(row) for row in lakehouse.read(table).collect()) for table in DERIVED}
