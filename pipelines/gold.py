"""How do gold's tables follow from silver? One SELECT a table in sql/gold, run over the region that has changed.

The files read views named after their inputs (`silver_outage_windows` for silver.outage_windows), so that the same text derives a
region from rows that are at hand and the whole table from the lakehouse.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pipelines.resources import resource

OUTAGES = "gold.outages"
LOSSES = "gold.losses"
INCIDENTS = "gold.incidents"
AVAILABILITY = "gold.availability"
LAG = "silver.replication_lag"
EXPOSURE = "silver.exposure"
CLOCKS = "silver.clock_bounds"

REGIONAL: tuple[tuple[str, str], ...] = ((LOSSES, "checked_at"), (OUTAGES, "started_at_max"), (INCIDENTS, "started_at_max"))
"""Tables that follow from a region of silver, in the order in which they need each other, with their column of event time."""


def query(table: str) -> str:
    """The SELECT of a table that follows from others by SQL."""
    layer, name = table.split(".")
    return resource("sql", layer, f"{name}.sql").read_text()


def view_name(table: str) -> str:
    """The name of the view by which gold's SQL reads a table."""
    return table.replace(".", "_")


def selected(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame's columns in the order and with the types of the table's DDL."""
    return frame.select(*(frame[field.name].cast(field.dataType).alias(field.name) for field in schema))
