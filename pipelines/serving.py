"""What do the tables, the live files and the stream say, for those who read without Spark? The only read door outside it.

The rule: a request opens one `Snapshot`, and within it each table is read at one version only, the one that was newest when the
request first asked for it: a page never mixes versions. Datasets are files, sql/serve/<dataset>.sql, run by DuckDB over Arrow
over deltalake. Three answers are told apart: a table that nobody has written yet is empty; one that cannot be read is a
`LakehouseError` that names it; everything else is rows. Results are kept while no table that they came from has a new version,
so a page that refreshes over a lakehouse at rest costs a few `stat` calls.

Live files and the stream's progress are read here too. They are replaced whole by their writers, so what is read is whole.

Example: with gold.incidents at version 12, `snapshot.rows("incidents", limit=5)` twice in a request gives the same five rows,
whatever the stream commits in between; the next request sees version 13.
"""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from pipelines import ddl
from pipelines.domain.health import LiveView, StreamProgress
from pipelines.errors import DamagedFile, LakehouseError
from pipelines.resources import resource
from pipelines.settings import Home

Row = dict[str, Any]
"""One row of a dataset under the column names of its SQL: instants are aware datetimes in UTC, lists are lists."""

T = TypeVar("T")

RESULTS_KEPT = 128
DUCKDB_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MB",
    # Nothing here may fetch anything: what a query needs is built in, or the query is wrong.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

_TABLE = re.compile(rf"\b({'|'.join(ddl.LAYERS)})\.([a-z_]+)\b")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True)
class Dataset:
    """One file of sql/serve: its statement, and the tables that it reads."""

    name: str
    sql: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table at one version; `version` is None and `data` is empty while nobody has written it."""

    version: int | None
    data: pads.Dataset


@dataclass(frozen=True, slots=True)
class Live:
    """The fast lane's files: what could be read, and one sentence for each that could not."""

    views: tuple[LiveView, ...]
    damaged: tuple[str, ...]


class Serving:
    """The tables of one home, for many requests at a time. Holds no file open and no state but what it can read again."""

    def __init__(self, home: Home, clock: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self.home = home
        self.now_us = clock
        self._lock = threading.Lock()
        self._pinned: dict[str, tuple[tuple[int, int], Pinned]] = {}
        self._results: OrderedDict[tuple[Any, ...], tuple[Row, ...]] = OrderedDict()

    def snapshot(self) -> "Snapshot":
        """What one request reads; use it as a context manager."""
        return Snapshot(self, self.now_us())

    def pin(self, table: str) -> Pinned:
        """The newest version of a table. Raises LakehouseError where there is a table and it cannot be read."""
        log = self.home.table(table) / "_delta_log"
        try:
            stat = log.stat()
        except FileNotFoundError:
            return Pinned(None, pads.dataset(ddl.arrow_schema(table).empty_table()))
        except OSError as error:
            raise LakehouseError(f"table {table} cannot be read: {error}") from error
        # A commit is a new file in the log, and a table made anew is another folder: the same stamp is the same version.
        stamp = (stat.st_ino, stat.st_mtime_ns)
        with self._lock:
            known = self._pinned.get(table)
        if known and known[0] == stamp:
            return known[1]
        pinned = self._open(table)
        with self._lock:
            self._pinned[table] = (stamp, pinned)
        return pinned

    def kept(self, key: tuple[Any, ...]) -> tuple[Row, ...] | None:
        """The result of a dataset at certain versions, where it is still known."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def keep(self, key: tuple[Any, ...], rows: tuple[Row, ...]) -> None:
        """Remembers a result, and forgets the one that was not asked for the longest."""
        with self._lock:
            self._results[key] = rows
            while len(self._results) > RESULTS_KEPT:
                self._results.popitem(last=False)

    def _open(self, table: str) -> Pinned:
        try:
            delta = DeltaTable(str(self.home.table(table)))
            return Pinned(delta.version(), delta.to_pyarrow_dataset())
        except TableNotFoundError:
            # The folder is there and no commit yet: the writer is about to make the table.
            return Pinned(None, pads.dataset(ddl.arrow_schema(table).empty_table()))
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise LakehouseError(
                f"table {table} cannot be read: {_first_line(error)}; if it stays so, its log is damaged: restore the folder, "
                "or move it away and derive it again"
            ) from error


class Snapshot:
    """One request's view of the lakehouse: one version of each table, and one present, `now_us` (microseconds, UTC)."""

    def __init__(self, serving: Serving, now_us: int) -> None:
        self.now_us = now_us
        self._serving = serving
        self._pinned: dict[str, Pinned] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def home(self) -> Home:
        """The home that is read."""
        return self._serving.home

    def version(self, table: str) -> int | None:
        """The version at which this request reads the table; None: nothing was written yet."""
        return self._pin(table).version

    def rows(self, dataset: str, **parameters: Any) -> tuple[Row, ...]:
        """The rows of sql/serve/<dataset>.sql. Do not change them: another request may be given the same ones.

        Raises:
            LakehouseError: a table that the dataset reads is there and cannot be read, or lacks a column.
        """
        wanted = dataset_of(dataset)
        pinned = {table: self._pin(table) for table in wanted.tables}
        versions = tuple((table, str(self.home.table(table)), one.version) for table, one in pinned.items())
        key = (dataset, _hashable(parameters), versions)
        known = self._serving.kept(key)
        if known is not None:
            return known
        rows = self._run(wanted, pinned, parameters)
        self._serving.keep(key, rows)
        return rows

    def row(self, dataset: str, **parameters: Any) -> Row | None:
        """The only row of a dataset; None where it has none."""
        return next(iter(self.rows(dataset, **parameters)), None)

    def whole(self, table: str, cluster_id: str) -> list[Row]:
        """Every row of a table, `layer.table`, of one cluster, in no order; none where nobody has written it. For those who check us:
        a table of a long life has more rows than a page should ask for."""
        pinned = self._pin(table)
        try:
            return [dict(row) for row in pinned.data.to_table(filter=pads.field("cluster_id") == cluster_id).to_pylist()]
        except (OSError, pa.ArrowException) as error:
            raise LakehouseError(f"table {table} cannot be read: {_first_line(error)}") from error

    def live(self) -> Live:
        """What every prober last said, read once a request: all parts of a page speak of the same moment."""
        if self._live is None:
            self._live = self._read_live()
        return self._live

    def _read_live(self) -> Live:
        views: list[LiveView] = []
        damaged: list[str] = []
        for path in sorted(self.home.live.glob("[!.]*.json")):
            try:
                view = read_json(path, LiveView.parse)
            except DamagedFile as error:
                damaged.append(str(error))
                continue
            if view is not None:
                views.append(view)
        return Live(tuple(views), tuple(damaged))

    def progress(self) -> StreamProgress | None:
        """What the stream last said; None: it never ran here. Raises DamagedFile."""
        return read_json(self.home.stream / "progress.json", StreamProgress.parse)

    def _pin(self, table: str) -> Pinned:
        if table not in self._pinned:
            self._pinned[table] = self._serving.pin(table)
        return self._pinned[table]

    def _run(self, dataset: Dataset, pinned: Mapping[str, Pinned], parameters: Mapping[str, Any]) -> tuple[Row, ...]:
        connection = self._connected()
        tables = " and ".join(dataset.tables)
        try:
            for table, one in pinned.items():
                layer, name = table.split(".")
                connection.register(f"{layer}_{name}", one.data)
                connection.execute(f"CREATE OR REPLACE VIEW {layer}.{name} AS SELECT * FROM {layer}_{name}")  # noqa: S608 - our names
            for name, value in parameters.items():
                connection.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
            # Aggregates over Arrow end in Python: datasets are small by their LIMIT or their grain.
            return tuple(connection.sql(dataset.sql).to_arrow_table().to_pylist())
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            raise LakehouseError(
                f"{tables}: not as sql/serve/{dataset.name}.sql needs it: {_first_line(error)}; it was written by another version"
            ) from error
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            raise LakehouseError(
                f"{tables} cannot be read: {_first_line(error)}; if it stays so, a data file is missing or damaged"
            ) from error

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = duckdb.connect(config=DUCKDB_CONFIG)
            self._connection.execute("SET TimeZone = 'UTC'")
            for layer in ddl.LAYERS:
                self._connection.execute(f"CREATE SCHEMA {layer}")
        return self._connection


@cache
def dataset_of(name: str) -> Dataset:
    """The dataset of a file in sql/serve. Raises LakehouseError where there is no such file."""
    path = resource("sql", "serve", f"{name}.sql")
    if not path.is_file():
        raise LakehouseError(f"there is no dataset {name}: sql/serve/{name}.sql is missing")
    sql = path.read_text(encoding="utf-8")
    found = _TABLE.findall(_COMMENT.sub("", sql))
    return Dataset(name, sql, tuple(dict.fromkeys(f"{layer}.{table}" for layer, table in found)))


def read_json(path: Path, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
    """A small file that is replaced whole, parsed; None where there is none. Raises DamagedFile."""
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, OSError) as error:
        said = f"no {error}" if isinstance(error, KeyError) else _first_line(error)
        name = f"{path.parent.name}/{path.name}"
        raise DamagedFile(f"{name} cannot be read: {said}; its writer replaces it when it runs") from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _hashable(parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(parameters.items()))
