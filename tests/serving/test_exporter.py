import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.exporter import Exporter
from pipelines.serving import Serving
from pipelines.settings import Home
from tests import lakehouses, stories

NOW_US = 1_795_000_000_000_000


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.create()
    return home


def exporter_of(home):
    return Exporter(Serving(home, lambda: NOW_US))


def samples(home):
    body, _ = exporter_of(home).metrics("")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def values(home, name):
    return [value for key, value in samples(home).items() if key[0] == name]


def fill(home):
    stories.killed_leader(NOW_US - 3_600_000_000).write(home)
    stories.unclean_election(NOW_US - 7_200_000_000).write(home)
    lakehouses.availability(home, NOW_US)
    lakehouses.live(home, NOW_US - 300_000)
    lakehouses.progress(home, NOW_US - 2_000_000)


def test_an_empty_home_has_no_figure_that_nobody_measured(home):
    found = samples(home)
    names = {key[0] for key in found}
    assert names == {"lastack_build_info", "lastack_part_readable", "lastack_stream_state"}
    assert found["lastack_stream_state", ("state", "absent")] == 1


def test_a_cluster_that_is_measured_has_its_figures(home):
    fill(home)
    assert values(home, "lastack_cluster_unmeasured") == [0]
    assert values(home, "lastack_open_outages") == [0]
    assert sorted(values(home, "lastack_streams")) == [0, 0, 24]
    assert values(home, "lastack_prober_written_timestamp_seconds") == [pytest.approx(NOW_US / 1e6 - 0.3)]
    assert values(home, "lastack_incidents") == [2]
    assert values(home, "lastack_stream_lag_seconds") == [pytest.approx(5.1)]


def test_bounds_of_the_last_incident_are_two_gauges(home):
    fill(home)
    low, high = (value for key, value in samples(home).items() if key[0] == "lastack_last_incident_rto_seconds")
    assert 9 < low < high < 12


def test_lost_records_are_counted_by_bound(home):
    fill(home)
    assert values(home, "lastack_lost_records") == [397, 397]


def test_a_stale_prober_takes_its_figures_with_it_and_says_unmeasured(home):
    fill(home)
    lakehouses.live(home, NOW_US - 60_000_000)
    found = samples(home)
    names = {key[0] for key in found}
    assert "lastack_open_outages" not in names
    assert "lastack_streams" not in names
    assert values(home, "lastack_cluster_unmeasured") == [1]
    assert values(home, "lastack_prober_written_timestamp_seconds") == [pytest.approx(NOW_US / 1e6 - 60)]


def test_an_open_outage_is_counted_and_has_a_proven_minimum(home):
    fill(home)
    story = stories.open_incident(NOW_US - 15_000_000, 12.0)
    lakehouses.live(home, NOW_US, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, NOW_US))
    assert values(home, "lastack_open_outages") == [4]
    assert all(13 < value < 15 for value in values(home, "lastack_open_outage_longest_seconds"))


def test_an_open_incident_has_no_maximum(home):
    stories.open_incident(NOW_US - 15_000_000, 12.0).write(home)
    found = {key: value for key, value in samples(home).items() if key[0] == "lastack_last_incident_rto_seconds"}
    assert [dict(key[1:])["bound"] for key in found] == ["min"]
    assert values(home, "lastack_last_incident_open") == [1]


def test_a_part_that_cannot_be_read_is_said_and_the_others_are_there(home):
    fill(home)
    for path in home.table("gold.incidents").glob("*.parquet"):
        path.unlink()
    found = samples(home)
    assert found["lastack_part_readable", ("part", "incidents")] == 0
    assert found["lastack_part_readable", ("part", "rto")] == 1
    assert ("lastack_incidents",) not in {key[:1] for key in found}


def test_openmetrics_is_answered_where_it_is_asked_for(home):
    body, content_type = exporter_of(home).metrics("application/openmetrics-text; version=1.0.0")
    assert "openmetrics-text" in content_type
    assert body.endswith(b"# EOF\n")


def test_every_metric_is_ours_has_a_meaning_and_a_base_unit(home):
    fill(home)
    body, _ = exporter_of(home).metrics("")
    families = list(text_string_to_metric_families(body.decode()))
    assert len(families) > 15
    assert [one.name for one in families if not one.name.startswith("lastack_") or not one.documentation] == []
    assert [one.name for one in families if one.name.endswith(("_ms", "_us", "_percent", "_minutes"))] == []


def test_a_lakehouse_that_can_be_read_is_healthy_before_and_after_its_first_rows(home):
    assert exporter_of(home).unhealthy() is None
    fill(home)
    assert exporter_of(home).unhealthy() is None


def test_no_home_and_a_damaged_table_are_unhealthy_in_one_line(home, tmp_path):
    assert "does not exist" in exporter_of(Home(tmp_path / "nothing")).unhealthy()
    fill(home)
    (home.table("gold.losses") / "_delta_log" / f"{0:020d}.json").write_text("{")
    reason = exporter_of(home).unhealthy()
    assert reason.startswith("table gold.losses cannot be read")
    assert "\n" not in reason


def test_a_controller_outage_is_open_or_over_and_absent_where_nobody_looked(home):
    assert values(home, "lastack_controller_outage_open") == []
    fill(home)
    assert values(home, "lastack_controller_outage_open") == [0]
    assert values(home, "lastack_controller_outage_seconds") == [pytest.approx(1.98), pytest.approx(2.133999)]
    stories.stranded(NOW_US - 60_000_000).write(home)
    assert values(home, "lastack_controller_outage_open") == [1]
    assert len(values(home, "lastack_controller_outage_seconds")) == 1


def test_while_the_stream_does_not_run_nobody_says_that_there_is_a_controller(home):
    fill(home)
    lakehouses.progress(home, NOW_US - 90_000_000)
    assert values(home, "lastack_controller_outage_open") == []


def test_findings_of_a_day_are_counted_by_kind(home):
    fill(home)
    stories.prober_cut_off(NOW_US - 600_000_000).write(home)
    stories.prober_cut_off(NOW_US - 2 * 86_400_000_000, "20261119-000000-000000").write(home)
    found = {dict(key[1:])["finding"]: value for key, value in samples(home).items() if key[0] == "lastack_findings"}
    assert found == {"prober_alone": 3, "isr_shrinks_uncounted": 1}


def test_exposure_is_a_series_a_topic_and_unknown_is_absent_and_never_0(home):
    fill(home)
    stories.exposure(home, NOW_US)
    found = samples(home)

    def of(name):
        return {dict(key[1:])["topic"]: value for key, value in found.items() if key[0] == name}

    assert of("lastack_exposed_records") == {"orders": 812}
    assert of("lastack_exposed_seconds") == {"orders": pytest.approx(1.73)}
    assert of("lastack_exposure_unknown_partitions") == {"orders": 1, "payments": 1}


def test_an_old_exposure_is_no_exposure_now(home):
    fill(home)
    stories.exposure(home, NOW_US - 3_600_000_000)
    assert values(home, "lastack_exposed_records") == []


def test_what_one_prober_alone_saw_is_in_no_histogram(home):
    stories.prober_cut_off(NOW_US - 600_000_000).write(home)
    assert values(home, "lastack_outage_rto_seconds_count") == []
