import pytest

from dashboards.pages.overview import PAGE
from tests import lakehouses, stories
from tests.dashboards.conftest import NOW_US


def test_before_anything_ran_the_page_says_what_is_missing(home, seen):
    page = seen(home, PAGE)
    assert "No cluster is known yet." in page.panel("clusters")
    assert "No incident recorded yet. Nothing has been measured yet: no prober has run here." in page.panel("incidents")
    assert "Not known." in page.panel("open")
    assert "no live file: start a collector" in page.panel("freshness")


def test_a_served_cluster_without_incidents_says_since_when_anything_would_have_been_seen(home, seen):
    lakehouses.availability(home, NOW_US, down_ms=0.0)
    lakehouses.live(home, NOW_US)
    lakehouses.progress(home, NOW_US)
    page = seen(home, PAGE)
    assert "Serving 24 streams are served." in page.panel("clusters")
    assert "No incident recorded yet. The canary has been measuring since 2026-11-18 00:03:00 UTC." in page.panel("incidents")
    assert "No outage is open." in page.panel("open")
    assert "banners" not in page.panel("banners")


def test_the_last_incidents_have_bounds_verdicts_and_links(measured, seen):
    page = seen(measured, PAGE)
    said = page.panel("incidents")
    assert "20261121-031702-5d41a0" in said
    assert "10.68–10.90 s" in said  # noqa: RUF001
    assert "Nothing lost" in said
    assert "Lost: 397 records" in said
    assert "19.80–20.11 s" in said  # noqa: RUF001
    assert "/incidents/20261121-031702-5d41a0" in page.json()


def test_availability_and_coverage_are_said_apart_and_never_as_everything(measured, seen):
    said = seen(measured, PAGE).panel("availability")
    assert "99.9" in said
    assert "100 %" not in said
    assert "lastack-canary-write / 1" in said


def test_an_open_outage_is_live_provisional_and_linked_as_soon_as_the_tables_have_it(measured, seen):
    story = stories.open_incident(NOW_US - 15_000_000, 9.0)
    lakehouses.live(measured, NOW_US, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, NOW_US))
    page = seen(measured, PAGE)
    assert "Outage open 4 of 24 streams are not served." in page.panel("clusters")
    assert "at least 13.92 s" in page.panel("open")
    assert "not in the tables yet" in page.panel("open")
    assert "live, provisional" in page.panel("open")
    story.write(measured)
    page.refresh()
    assert "20261121-041203-5d41a0" in page.panel("open")
    assert "not in the tables yet" not in page.panel("open")


def test_an_open_incident_shows_what_the_prober_knows_better_than_the_tables(measured, seen):
    story = stories.open_incident(NOW_US - 15_000_000, 9.0)
    story.write(measured)
    lakehouses.live(measured, NOW_US, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, NOW_US))
    assert "at least 13.9" in seen(measured, PAGE).panel("incidents")


def test_an_outage_that_the_tables_have_open_and_the_prober_saw_ending_is_not_open(measured, seen):
    stories.open_incident(NOW_US - 15_000_000, 9.0).write(measured)
    assert "No outage is open." in seen(measured, PAGE).panel("open")


def test_without_a_prober_open_outages_of_the_tables_are_shown_as_of_then(measured, seen):
    stories.open_incident(NOW_US - 15_000_000, 9.0).write(measured)
    (measured.live / "canary-1.json").unlink()
    said = seen(measured, PAGE).panel("open")
    assert "not known now" in said
    assert "tables, as of 5 s ago" in said


def test_a_silent_prober_makes_the_cluster_stale_and_its_open_outages_past(measured, seen):
    story = stories.open_incident(NOW_US - 75_000_000, 9.0)
    then = NOW_US - 60_000_000
    lakehouses.live(measured, then, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, then))
    page = seen(measured, PAGE)
    assert "Stale" in page.panel("clusters")
    assert "its streams: not known now" in page.panel("clusters")
    assert "Nobody is measuring. Cluster" in page.panel("banners")
    assert "last seen 1 min 00 s ago" in page.panel("open")
    assert "not known now" in page.panel("open")


@pytest.mark.parametrize(
    ("live", "said"),
    [
        ({"state": "blind", "blind_since_us": NOW_US - 9_000_000}, "prober canary-1 is blind"),
        ({"streams": {"up": 20, "down": 0, "unmeasured": 4}}, "4 of 24 streams are unmeasured"),
    ],
)
def test_unmeasured_is_never_green(measured, seen, live, said):
    lakehouses.live(measured, NOW_US, **live)
    page = seen(measured, PAGE)
    card = page.panel("clusters")
    assert "Unmeasured" in card
    assert said.lower() in card.lower()
    assert '"data-state": "unmeasured"' in page.json()
    assert "Not known for every cluster." in page.panel("open")


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({"written_at_us": NOW_US - 90_000_000}, "The tables stand still. The stream has not written for 1 min 30 s."),
        ({"state": "failed", "error": "the disk is full"}, "The stream has failed."),
        ({"state": "stopped"}, "The stream is stopped."),
    ],
)
def test_a_stream_that_does_not_run_is_said_across_the_page(measured, seen, progress, said):
    lakehouses.progress(measured, NOW_US - 2_000_000, **progress)
    page = seen(measured, PAGE)
    assert said in page.panel("banners")
    assert "10.68" in page.panel("incidents")


def test_a_starting_stream_is_no_alarm(measured, seen):
    lakehouses.progress(measured, NOW_US - 30_000_000, state="starting", batch_id=None, batch_ms=None)
    page = seen(measured, PAGE)
    assert page.panel("banners") == ""
    assert "Starting" in page.panel("freshness")


def test_a_damaged_live_file_is_said_and_blanks_nothing(measured, seen):
    (measured.live / "other.json").write_text("{")
    page = seen(measured, PAGE)
    assert "Damaged. live/other.json cannot be read" in page.panel("banners")
    assert "Serving" in page.panel("clusters")


def test_a_damaged_table_is_an_error_in_its_own_panels_only(measured, seen):
    (measured.table("gold.incidents") / "_delta_log" / f"{0:020d}.json").write_text("{")
    page = seen(measured, PAGE)
    assert "This panel has no data. table gold.incidents cannot be read" in page.panel("incidents")
    assert "Serving" in page.panel("clusters")
    assert "99.9" in page.panel("availability")


@pytest.mark.parametrize("table", ["gold.availability", "gold.outages", "bronze.quarantine"])
def test_what_probers_say_needs_no_table(measured, seen, table):
    lakehouses.write_table(measured, "bronze.quarantine", [])
    story = stories.open_incident(NOW_US - 15_000_000, 9.0)
    lakehouses.live(measured, NOW_US, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, NOW_US))
    (measured.table(table) / "_delta_log" / f"{0:020d}.json").write_text("{")
    page = seen(measured, PAGE)
    assert "Outage open 4 of 24 streams are not served." in page.panel("clusters")
    assert "at least 13.92 s" in page.panel("open")
    assert "Measuring" in page.panel("freshness")
    assert f"table {table} cannot be read" in " ".join(page.panel(name) for name in ("banners", "open", "freshness"))


def test_refused_lines_are_counted_and_the_newest_reason_is_shown(measured, seen):
    row = {
        "line_id": "a",
        "file": "x.jsonl",
        "reason": "no field started_at_us",
        "line": "{}",
        "ingested_at": lakehouses.instant(NOW_US),
    }
    lakehouses.write_table(measured, "bronze.quarantine", [row])
    said = seen(measured, PAGE).panel("freshness")
    assert "1 line" in said
    assert "newest: no field started_at_us" in said


# --- what stands at risk ------------------------------------------------------------------------------------------------


def test_exposure_is_said_with_records_time_and_the_reason_where_nobody_knows(measured, seen):
    stories.exposure(measured, NOW_US)
    page = seen(measured, PAGE)
    said = page.panel("exposure")
    assert "1 exposed" in said
    assert "2 not known" in said
    assert "1 with nothing to lose" in said
    assert "orders / 1 1; 1, 2, 3 40–812 records 0.00–1.73 s" in said  # noqa: RUF001
    assert "orders / 2 3; 3 not known not known no other replica is in sync" in said
    assert said.index("orders / 2") < said.index("orders / 1")
    assert "payments / 0 not known not known not known clients' view of its ISR was not watched" in said
    assert f"/proof/exposure/{lakehouses.CLUSTER}/orders/1" in page.json()


def test_an_exposure_of_an_hour_ago_is_not_known_now(measured, seen):
    stories.exposure(measured, NOW_US - 3_600_000_000)
    said = seen(measured, PAGE).panel("exposure")
    assert "Not known: nothing of the last 5 minutes is in the tables." in said
    assert "with nothing to lose" not in said


def test_an_open_controller_outage_is_said_above_the_open_outages_and_is_none_of_them(measured, seen):
    stories.stranded(NOW_US - 60_000_000).write(measured)
    said = seen(measured, PAGE).panel("open")
    assert f"No controller. Cluster {lakehouses.CLUSTER} since" in said
    assert "controller 2 failed, and no other has been elected yet. 1 partition waiting" in said
    assert "(controller) / 0" not in said
    assert "No outage is open." not in said


def test_a_controller_outage_that_is_over_is_no_alarm(measured, seen):
    assert "No controller" not in seen(measured, PAGE).panel("open")


def test_findings_of_the_last_day_are_counted_by_kind(measured, seen):
    stories.prober_cut_off(NOW_US - 600_000_000).write(measured)
    said = seen(measured, PAGE).panel("findings")
    assert "One prober was cut off: the service served others 3" in said
    assert "ISR shrinks by the controller are in no broker's metric 1" in said


def test_nothing_compared_is_not_nothing_in_doubt(home, seen):
    assert seen(home, PAGE).panel("findings") == "Not known. The stream has not compared anything yet."


def test_an_incident_that_one_prober_alone_saw_has_no_rto_of_the_service(measured, seen):
    stories.prober_cut_off(NOW_US - 600_000_000).write(measured)
    said = seen(measured, PAGE).panel("incidents")
    assert "One prober alone was not served" in said
    assert "One prober alone was not served 0 " in said
    assert "none of the service" in said
