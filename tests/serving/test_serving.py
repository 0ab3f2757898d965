import datetime
import json

import pytest

from pipelines.domain.health import StreamState
from pipelines.errors import DamagedFile, LakehouseError
from pipelines.resources import resource
from pipelines.serving import Serving, dataset_of
from pipelines.settings import Home
from tests import lakehouses, stories

NOW_US = 1_795_000_000_000_000
PARAMETERS = {
    "limit": 100,
    "incident_id": "none",
    "outage_ids": ["none"],
    "day": datetime.date(2026, 11, 21),
    "buckets": [1.0, 10.0],
    "cluster_id": "none",
    "since": datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC),
    "from_at": datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC),
    "to_at": datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC),
    "day_from": datetime.date(2026, 11, 20),
    "day_to": datetime.date(2026, 11, 22),
    "from_us": NOW_US - 3_600_000_000,
    "to_us": NOW_US,
    **dict.fromkeys(("outage_id", "window_id", "loss_id", "finding_id", "resource", "shard", "kind", "lane", "prober_id"), "none"),
    "hosts": ["none"],
    "event_ids": ["none"],
}
DATASETS = sorted(path.stem for path in resource("sql", "serve").glob("*.sql"))


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


@pytest.fixture
def killed(home):
    stories.killed_leader(NOW_US - 600_000_000).write(home)
    lakehouses.availability(home, NOW_US)
    return home


def serving_of(home):
    return Serving(home, lambda: NOW_US)


def wanted(dataset):
    sql = dataset_of(dataset).sql
    return {name: value for name, value in PARAMETERS.items() if f"'{name}'" in sql}


@pytest.mark.parametrize("dataset", DATASETS)
def test_before_anything_is_written_every_dataset_is_empty_or_counts_nothing(home, dataset):
    with serving_of(home).snapshot() as snapshot:
        rows = snapshot.rows(dataset, **wanted(dataset))
    assert rows == () or rows == ({"quarantined_lines": 0, "newest_at": None, "newest_reason": None},)


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_dataset_runs_over_a_written_lakehouse(killed, dataset):
    with serving_of(killed).snapshot() as snapshot:
        snapshot.rows(dataset, **wanted(dataset))


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_dataset_says_which_tables_it_reads(dataset):
    assert dataset_of(dataset).tables


def test_a_folder_without_a_commit_is_a_table_that_nobody_wrote_yet(home):
    (home.table("gold.incidents") / "_delta_log").mkdir(parents=True)
    with serving_of(home).snapshot() as snapshot:
        assert snapshot.rows("incidents", limit=5) == ()
        assert snapshot.version("gold.incidents") is None


def test_one_request_reads_one_version_whatever_is_committed_meanwhile(killed):
    serving = serving_of(killed)
    with serving.snapshot() as snapshot:
        before = snapshot.rows("incidents", limit=5)
        version = snapshot.version("gold.incidents")
        stories.unclean_election(NOW_US - 900_000_000).write(killed)
        assert snapshot.version("gold.incidents") == version
        assert snapshot.rows("incidents", limit=50) == before
        assert len(snapshot.rows("incident", incident_id=before[0]["incident_id"])) == 1
    with serving.snapshot() as later:
        assert later.version("gold.incidents") == version + 1
        assert len(later.rows("incidents", limit=50)) == 2


def test_a_result_is_read_once_while_its_tables_stay_the_same(killed):
    serving = serving_of(killed)
    with serving.snapshot() as first, serving.snapshot() as second:
        assert first.rows("incidents", limit=5) is second.rows("incidents", limit=5)
        assert first.rows("incidents", limit=5) is not second.rows("incidents", limit=6)


def test_a_damaged_log_is_an_error_that_names_the_table_and_touches_no_other(killed):
    log = killed.table("gold.incidents") / "_delta_log" / f"{0:020d}.json"
    log.write_text('{"commitInfo": {"trunc')
    with serving_of(killed).snapshot() as snapshot:
        with pytest.raises(LakehouseError, match=r"gold\.incidents cannot be read"):
            snapshot.rows("incidents", limit=5)
        assert len(snapshot.rows("loss_totals")) == 1


def test_a_missing_data_file_is_an_error_that_names_the_table(killed):
    for path in killed.table("gold.incidents").glob("*.parquet"):
        path.unlink()
    with serving_of(killed).snapshot() as snapshot, pytest.raises(LakehouseError, match=r"gold\.incidents cannot be read"):
        snapshot.rows("incidents", limit=5)


def test_a_table_of_another_version_is_named_with_the_dataset_that_needs_more(home):
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(home.table("gold.incidents")), pa.table({"incident_id": ["a"]}))
    with serving_of(home).snapshot() as snapshot, pytest.raises(LakehouseError, match=r"gold\.incidents: not as sql/serve"):
        snapshot.rows("incidents", limit=5)


def test_a_table_that_is_made_anew_is_read_anew(killed, tmp_path):
    serving = serving_of(killed)
    with serving.snapshot() as snapshot:
        assert len(snapshot.rows("incidents", limit=5)) == 1
    killed.table("gold.incidents").rename(tmp_path / "away")
    with serving.snapshot() as snapshot:
        assert snapshot.rows("incidents", limit=5) == ()


def test_instants_come_as_utc(killed):
    with serving_of(killed).snapshot() as snapshot:
        began = snapshot.rows("incidents", limit=1)[0]["started_at_max"]
    assert began.utcoffset() == datetime.timedelta(0)


def test_a_dataset_that_does_not_exist_is_named(home):
    with serving_of(home).snapshot() as snapshot, pytest.raises(LakehouseError, match="no dataset nothing"):
        snapshot.rows("nothing")


def test_the_median_of_outages_that_nothing_bounds_has_no_maximum(home):
    stories.open_incident(NOW_US - 20_000_000, 12.0).write(home)
    with serving_of(home).snapshot() as snapshot:
        rows = snapshot.rows("incident_rto", incident_id="20261121-041203-5d41a0")
    assert {(row["worst_ms_max"], row["median_ms_max"], row["least_ms_max"]) for row in rows} == {(None, None, None)}
    assert all(row["open_outages"] == 2 for row in rows)


def test_availability_is_weighted_over_partitions_and_names_the_worst(killed):
    day = datetime.datetime.fromtimestamp(NOW_US / 1e6, tz=datetime.UTC).date()
    with serving_of(killed).snapshot() as snapshot:
        rows = {(row["kind"], row["lane"]): row for row in snapshot.rows("availability", day=day)}
    write = rows["write", "raw"]
    assert write["partitions"] == 6
    assert write["worst_shard"] in {"1", "4"}
    assert write["worst_ratio_min"] < write["availability_ratio_min"] <= write["availability_ratio_max"] < 1
    assert 0.98 < write["coverage_ratio"] < 1


def test_histogram_buckets_are_cumulative_and_leave_open_outages_out(killed):
    stories.open_incident(NOW_US - 20_000_000, 12.0).write(killed)
    with serving_of(killed).snapshot() as snapshot:
        rows = snapshot.rows("outage_histogram", buckets=[1.0, 10.0, 60.0])
    raw = [row for row in rows if (row["kind"], row["lane"], row["bound"]) == ("durable_write", "raw", "max")]
    assert [row["outages_in_bucket"] for row in raw] == [0, 6, 6]
    assert {row["outages"] for row in raw} == {6}


# --- live files and progress ------------------------------------------------------------------------------------------


def test_without_live_files_there_is_no_view(home):
    with serving_of(home).snapshot() as snapshot:
        assert snapshot.live().views == ()
        assert snapshot.progress() is None


def test_a_live_file_becomes_a_view_and_parts_of_files_do_not(home):
    lakehouses.live(home, NOW_US)
    (home.live / ".canary-1.json.part").write_text("{")
    (home.live / "canary-1.part").write_text("{")
    with serving_of(home).snapshot() as snapshot:
        live = snapshot.live()
    assert [view.prober_id for view in live.views] == ["canary-1"]
    assert live.damaged == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "Expecting"), ("[]", "not a JSON object"), ('{"format": 2}', "format 2, expected 1"), ('{"format": 1}', "no 'streams'")],
)
def test_a_live_file_that_is_not_one_is_named_and_the_others_are_read(home, content, said):
    lakehouses.live(home, NOW_US)
    (home.live / "broken.json").write_text(content)
    with serving_of(home).snapshot() as snapshot:
        live = snapshot.live()
    assert len(live.views) == 1
    assert live.damaged[0].startswith("live/broken.json cannot be read")
    assert said in live.damaged[0]


def test_the_streams_progress_is_read_also_before_its_first_batch(home):
    lakehouses.write_json(
        home.stream / "progress.json",
        {"format": 1, "batch_id": None, "error": None, "started_at_us": 1, "written_at_us": 2, "state": "starting"},
    )
    with serving_of(home).snapshot() as snapshot:
        progress = snapshot.progress()
    assert progress is not None
    assert progress.state == StreamState.STARTING
    assert progress.batch_ms is None


def test_a_damaged_progress_is_an_error(home):
    home.stream.mkdir(parents=True)
    (home.stream / "progress.json").write_text(json.dumps({"format": 1, "state": "dancing"}))
    with serving_of(home).snapshot() as snapshot, pytest.raises(DamagedFile, match=r"stream/progress\.json"):
        snapshot.progress()
