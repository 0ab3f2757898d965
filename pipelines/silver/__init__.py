"""Which rows does each silver table hold? One module a table, each a pure function of the derivation of one cluster.

A module names its TABLE and the COLUMN of event time by which a region of the table is replaced, and has
`rows(derivation) -> Iterator[dict]`, one dict a row under the names of its DDL. The stream carries them (`pipelines.stream`);
nothing here knows of Spark. `TABLES` is the list: a new derived signal is a new module in it.
"""

from pipelines.silver import (
    controller_windows,
    events,
    findings,
    isr_windows,
    losses,
    outage_windows,
    partition_windows,
    service_windows,
)
from pipelines.silver.base import SilverTable

TABLES: tuple[SilverTable, ...] = (
    SilverTable(outage_windows.TABLE, outage_windows.COLUMN, outage_windows.rows),
    SilverTable(partition_windows.TABLE, partition_windows.COLUMN, partition_windows.rows),
    SilverTable(controller_windows.TABLE, controller_windows.COLUMN, controller_windows.rows),
    SilverTable(service_windows.TABLE, service_windows.COLUMN, service_windows.rows),
    SilverTable(isr_windows.TABLE, isr_windows.COLUMN, isr_windows.rows),
    SilverTable(losses.TABLE, losses.COLUMN, losses.rows),
    SilverTable(findings.TABLE, findings.COLUMN, findings.rows),
    SilverTable(events.TABLE, events.COLUMN, events.rows),
)
