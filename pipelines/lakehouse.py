"""Where are the tables, and how are they read and written? The only module that knows a SparkSession.

The rule: sql/ddl/<layer>/<table>.sql is the only source of a schema. A table is made from it when it is not there, and an existing
one must have exactly its columns. Writes come in two kinds, both of which may be repeated without effect: an append that carries a
transaction number (a replayed micro-batch appends nothing twice), and the replacement of a region of a table by what has been
derived for that region.

Bronze is appended to by Spark, in parallel and however large. What is derived for a region is at hand in the driver, some hundred
rows: it is committed by delta-rs, which takes 15 ms for what Spark's replaceWhere does in 850 (DECISIONS.md). Each table has one of
the two for a writer, and both speak the same Delta protocol.

Example: `lakehouse.replace("gold.outages", rows, f"cluster_id = 'c' AND started_at_max >= {instant_literal(at_us)}")`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from delta.tables import DeltaTable
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pipelines import jars
from pipelines.ddl import arrow_schema
from pipelines.errors import LakehouseError
from pipelines.java import find_java
from pipelines.resources import resource
from pipelines.settings import Home

LINE_BYTES_MAX = 32 * 1024 * 1024
SESSION: dict[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Batches are tiny: every task, plan and log replay that is not needed is latency.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    # Generating and compiling code for each query costs more than running it over some hundred rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "50",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # The second compiler would take a core for minutes to gain what these batches never repay; one collector thread is enough.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    # A longer line of the landing is skipped: held at once, a line of 100 MB takes a JVM of 1 GB with it, and every other line.
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": str(LINE_BYTES_MAX),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What a small local session needs; a cluster's own spark-defaults may override by being given to `session`."""


STOP_SECONDS = 30


@contextmanager
def session(
    home: Home,
    *,
    master: str = "local[2]",
    memory: str = "1g",
    extra: dict[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> Iterator[SparkSession]:
    """The one SparkSession of this process, stopped at the end.

    `pass_fds` are file descriptors that the JVM inherits: a lock held through one of them is held until the JVM, too, is gone.
    Raises UsageError where there is no Java that Spark runs on.
    """
    temporary = home.stream / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    options = SESSION | {
        "spark.jars": ",".join(str(path) for path in jars.ensure("spark").paths),
        "spark.sql.warehouse.dir": str(home.lakehouse),
        "spark.driver.memory": memory,
        "spark.local.dir": str(temporary),
    }
    options |= extra or {}
    options["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={resource('conf', 'spark', 'log4j2.properties').as_uri()}"
    arguments = shlex.join(word for key, value in options.items() for word in ("--conf", f"{key}={value}"))
    os.environ |= {
        "PYSPARK_SUBMIT_ARGS": f"--master {master} {arguments} pyspark-shell",
        # Workers unpickle our functions: they need this environment, not the system's.
        "PYSPARK_PYTHON": sys.executable,
        # A Java that Spark does not run on, or another Spark, may be what this shell is set up for.
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    gateway = launch_gateway(popen_kwargs={"pass_fds": pass_fds})  # type: ignore[no-untyped-call]
    try:
        spark = SparkSession(SparkContext(gateway=gateway))
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        _end(gateway)


def _end(gateway: Any) -> None:
    """Ends the JVM, and forgets it, so that this process may start another one."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = None  # noqa: SLF001 - pyspark keeps it for the next context, and has no other way to let it go
    SparkContext._jvm = None  # noqa: SLF001


class Lakehouse:
    """The tables below one folder, by name `layer.table`."""

    def __init__(self, spark: SparkSession, home: Home) -> None:
        self.spark = spark
        self.home = home
        self._schemas: dict[str, StructType] = {}

    def path(self, table: str) -> str:
        """The folder of a table."""
        return str(self.home.table(table))

    def create(self, tables: Iterable[str]) -> None:
        """Makes the tables that are not there, and checks the columns of those that are.

        What was observed is kept over a new version: columns that may be NULL are added to bronze. Raises LakehouseError where a table
        has other columns than its DDL.
        """
        for table in tables:
            folder = Path(self.path(table))
            if not any((folder / "_delta_log").glob("*.json")):
                self.spark.sql(ddl(table, folder))
            missing, others = self._differences(table)
            if missing and not others and table.startswith("bronze.") and all(one.nullable for one in missing):
                added = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in missing)
                self.spark.sql(f"ALTER TABLE delta.`{folder}` ADD COLUMNS ({added})")
            elif missing or others:
                names = [f"{one.name} is missing" for one in missing] + [f"{name} is other than declared" for name in others]
                raise LakehouseError(
                    f"{table} at {folder} does not have the columns of its DDL: {', '.join(names)}; it was made by another version:"
                    f" derive it again with `lastack rebuild --from bronze --home {self.home.path}`"
                )

    def remove_others(self, tables: Iterable[str]) -> list[str]:
        """Removes tables whose columns are not those of their DDL; returns their names. For what can be derived again only."""
        removed = []
        for table in tables:
            folder = Path(self.path(table))
            if any((folder / "_delta_log").glob("*.json")) and any(self._differences(table)):
                shutil.rmtree(folder)
                removed.append(table)
        return removed

    def _differences(self, table: str) -> tuple[list[StructField], list[str]]:
        """Columns of the DDL that a table lacks, and the names of those that are unknown or of another type."""
        expected = {one.name: one for one in self._declared(table)}
        found = {one.name: one for one in self.spark.read.format("delta").load(self.path(table)).schema}
        missing = [one for name, one in expected.items() if name not in found]
        return missing, [name for name, one in found.items() if name not in expected or one.dataType != expected[name].dataType]

    def schema(self, table: str) -> StructType:
        """The columns of a table, as its DDL declares them."""
        if table not in self._schemas:
            self._schemas[table] = self._declared(table)
        return self._schemas[table]

    def read(self, table: str) -> DataFrame:
        """The table as it is now."""
        return self.spark.read.format("delta").load(self.path(table))

    def rows(self, table: str, rows: list[dict[str, Any]]) -> DataFrame:
        """Rows, given as dicts under the table's column names, as a data frame of the table's schema."""
        schema = self.schema(table)
        ordered = [tuple(row[one.name] for one in schema) for row in rows]
        return self.spark.createDataFrame(ordered, schema)

    def append(self, table: str, frame: DataFrame, *, application: str, version: int) -> None:
        """Appends once: the same (application, version) again does nothing."""
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", application).option("txnVersion", version).save(self.path(table))

    def is_there(self, table: str) -> bool:
        """Whether the table was made."""
        return deltalake.DeltaTable.is_deltatable(self.path(table))

    def at_hand(self, table: str, where: pc.Expression | None = None, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """The few rows of a table for which `where` holds, without a job; instants are aware and UTC."""
        rows: list[dict[str, Any]] = deltalake.DeltaTable(self.path(table)).to_pyarrow_table(columns=columns, filters=where).to_pylist()
        return rows

    def replace(self, table: str, rows: pa.Table, where: str) -> None:
        """Replaces the rows for which `where` (delta-rs' SQL) holds by `rows`, all of which must fulfil it, in one commit.

        Where there is nothing to put and nothing to remove there is no commit.
        """
        known = deltalake.DeltaTable(self.path(table))
        if rows.num_rows:
            deltalake.write_deltalake(known, rows.cast(arrow_schema(table)), mode="overwrite", predicate=where)
        else:
            known.delete(where)

    def vacuum(self, table: str, hours: int) -> None:
        """Deletes the files that no version of the last hours needs."""
        # Delta's own least is a week, for writers that take that long; the only writer here is this process.
        known = deltalake.DeltaTable(self.path(table))
        known.vacuum(hours, dry_run=False, enforce_retention_duration=False)

    def delete(self, table: str, where: str) -> None:
        """Deletes the rows for which `where` holds."""
        DeltaTable.forPath(self.spark, self.path(table)).delete(where)

    def _declared(self, table: str) -> StructType:
        body = ddl_text(table)
        columns = body.partition("(\n")[2].partition("\n)\n")[0]
        return cast("StructType", StructType.fromDDL(columns))


def ddl_text(table: str) -> str:
    """The DDL file of a table."""
    layer, name = table.split(".")
    return resource("sql", "ddl", layer, f"{name}.sql").read_text()


def ddl(table: str, folder: Path) -> str:
    """The statement that makes a table in a folder."""
    text = re.sub(rf"\b{re.escape(table)}\b", f"delta.`{folder}`", ddl_text(table), count=0)
    return text.strip().rstrip(";")


def instant_sql(at_us: int) -> str:
    """An instant in microseconds since the epoch as an expression of Spark's SQL."""
    return f"timestamp_micros({at_us})"


def instant_literal(at_us: int) -> str:
    """The same for `Lakehouse.replace`."""
    return f"""arrow_cast({at_us}, 'Timestamp(Microsecond, Some("UTC"))')"""
