"""The tree is tidy: what no linter knows about, but a newcomer relies on."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LONGEST_MODULE_LINES = 500
BINARY = {".png", ".jpg", ".gif", ".ico", ".woff", ".woff2", ".parquet", ".bin"}

# Written so that the patterns do not match themselves.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root|tmp)/\w")
REGISTRY = re.compile(
    r"(?:py)pi\.org|files\.python(?:hosted)\.org|re(?:po)1?\.maven\.(?:org|apache)|maven\.apache\.org/maven2"
    r"|(?:deb|security)\.(?:debian)\.org|registry\.(?:npm)js\.org|(?:static\.)crates\.io|proxy\.(?:golang)\.org"
    r"|https?://\S+/(?:simple|maven2|pool)(?:/|\b)"
)
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b|not " r"implemented")
SLEEPS_OR_SKIPS = re.compile(r"time\.sl" r"eep\(|pytest\.(?:sk" r"ip|importorsk" r"ip|xf" r"ail)|mark\.(?:sk" r"ip|xf" r"ail)")


def tracked(*patterns):
    """The files under version control, as paths below the repository; those that were just removed are left out."""
    answer = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [Path(name) for name in answer.stdout.split("\0") if name and (REPOSITORY / name).is_file()]


def lines_of(path):
    return [] if path.suffix in BINARY else (REPOSITORY / path).read_text().splitlines()


def hits(pattern, paths):
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(lines_of(path), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_path_of_one_machine():
    assert hits(MACHINE_PATH, tracked()) == []


def test_no_file_names_a_package_registry():
    assert hits(REGISTRY, tracked()) == []


def test_nothing_is_left_unfinished():
    assert hits(UNFINISHED, tracked("*.py", "*.sql", "*.toml", "Makefile", ".ci/run")) == []


def test_no_test_sleeps_is_skipped_or_is_expected_to_fail():
    assert hits(SLEEPS_OR_SKIPS, tracked("tests/*.py")) == []


@pytest.mark.parametrize("pattern", ["*.py", "*.sql"])
def test_no_module_is_too_long_to_read(pattern):
    lengths = {str(path): len(lines_of(path)) for path in tracked(pattern)}
    assert {path: length for path, length in lengths.items() if length > LONGEST_MODULE_LINES} == {}


def test_every_sql_file_says_first_what_one_row_is():
    assert [str(path) for path in tracked("sql/*.sql") if not (lines_of(path) or [""])[0].startswith("-- ")] == []


def test_every_lock_of_jars_is_one_that_the_cache_knows():
    from pipelines.jars import SETS

    assert {path.stem for path in tracked("conf/jars/*.lock")} == set(SETS)


def test_all_configuration_of_tools_is_in_pyproject():
    others = {"setup.cfg", "setup.py", "tox.ini", "pytest.ini", "mypy.ini", ".flake8", "ruff.toml", ".isort.cfg"}
    assert [str(path) for path in tracked() if path.name in others] == []


def test_every_folder_of_tests_is_found_by_its_kind():
    files = [path for path in tracked("tests/*.py") if "def test_" in (REPOSITORY / path).read_text()]
    assert [str(path) for path in files if not path.name.startswith("test_")] == []


def test_every_table_says_how_it_is_made():
    from pipelines.bronze import OBSERVATIONS, QUARANTINE
    from pipelines.ddl import table_names
    from pipelines.silver import TABLES

    derived = {table.name for table in TABLES}
    selected = {f"{path.parent.name}.{path.stem}" for path in tracked("sql/gold/*.sql", "sql/silver/*.sql")}
    assert derived & selected == set()
    assert derived | selected | {OBSERVATIONS, QUARANTINE} == set(table_names())


def test_every_silver_module_is_in_the_list_of_tables():
    from pipelines.silver import TABLES

    modules = {path.stem for path in tracked("pipelines/silver/*.py")} - {"__init__", "base"}
    assert {f"silver.{name}" for name in modules} == {table.name for table in TABLES}


def test_bronze_has_the_columns_of_the_landings_records_their_words_and_nothing_else():
    import dataclasses

    from pipelines.bronze import ADDED, OBSERVATIONS
    from pipelines.ddl import columns
    from pipelines.domain.observations import RECORDS

    meanings = {"record": {"which record of the landing format the row is"}}
    for kind in RECORDS.values():
        for field in dataclasses.fields(kind):
            meanings.setdefault(field.name, set()).add(field.metadata["says"])
    found = {column.name: column for column in columns(OBSERVATIONS)}
    assert found.keys() == meanings.keys() | set(ADDED)
    # A span's two ends mean something else in each record; their column says where to look.
    said = {name: found[name].comment for name in meanings.keys() - {"started_at_us", "ended_at_us"}}
    assert {name: text for name, text in said.items() if text not in meanings[name]} == {}


def test_a_column_of_bronze_is_required_where_every_record_requires_the_field():
    import dataclasses

    from pipelines.bronze import ADDED, OBSERVATIONS
    from pipelines.ddl import columns
    from pipelines.domain.observations import RECORDS

    required = [{one.name for one in dataclasses.fields(kind) if one.default is dataclasses.MISSING} for kind in RECORDS.values()]
    expected = set.intersection(*required) | {"record"} | set(ADDED)
    assert {column.name for column in columns(OBSERVATIONS) if not column.is_nullable} == expected


def test_every_select_names_the_columns_of_its_table():
    from pipelines.ddl import columns

    for path in tracked("sql/gold/*.sql", "sql/silver/*.sql"):
        text = (REPOSITORY / path).read_text()
        last = text[text.rindex("\nSELECT\n") if "\nSELECT\n" in text else 0 :]
        missing = [one.name for one in columns(f"{path.parent.name}.{path.stem}") if not re.search(rf"\b{one.name}\b", last)]
        assert (str(path), missing) == (str(path), [])
