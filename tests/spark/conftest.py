"""One Spark session for all tests of this folder: starting it costs more than any of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.ddl import table_names
from pipelines.lakehouse import Lakehouse, session
from pipelines.settings import Home
from tests.spark.histories import kill_of_broker_2, land
from tests.spark.streams import run_stream

DEAREST = ("test_crash.py", "test_compaction.py", "test_truth.py")
"""What takes minutes begins first, so that no worker is left with it when the others are done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: DEAREST.index(item.path.name) if item.path.name in DEAREST else len(DEAREST))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = Home(tmp_path_factory.mktemp("spark"))
    home.create()
    with session(home) as spark:
        yield spark


@pytest.fixture(scope="session")
def empty_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table, made once: twelve commits are the dearest part of an empty lakehouse, and a copy of them is as good."""
    home = Home(tmp_path_factory.mktemp("tables"))
    home.create()
    Lakehouse(spark, home).create(table_names())
    return home.lakehouse


@pytest.fixture(scope="session")
def killed(spark: SparkSession, empty_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """The tables of the history of a kill, and two bad lines, derived once for the tests that only look at them."""
    lakehouse = fresh_lakehouse(spark, empty_tables, tmp_path_factory.mktemp("killed") / "home")
    land(["garbage", *kill_of_broker_2().lines(), '{"format":9}'], lakehouse.home.landing, "all")
    run_stream(lakehouse)
    return lakehouse


@pytest.fixture
def lakehouse(spark: SparkSession, empty_tables: Path, tmp_path: Path) -> Lakehouse:
    return fresh_lakehouse(spark, empty_tables, tmp_path / "home")


def fresh_lakehouse(spark: SparkSession, empty_tables: Path, path: Path) -> Lakehouse:
    home = Home(path)
    home.create()
    shutil.copytree(empty_tables, home.lakehouse, dirs_exist_ok=True)
    return Lakehouse(spark, home)
