# ruff: noqa: RUF001 - ranges are written with an en dash
import pytest

from dashboards.pages.incident import PAGE
from pipelines import ddl
from tests import lakehouses, stories
from tests.dashboards.conftest import NOW_US, Seen

KILLED, UNCLEAN, OPEN = "20261121-031702-5d41a0", "20261121-024009-5d41a0", "20261121-041203-5d41a0"
ALONE, THREE, STRANDED = "20261121-050112-5d41a0", "20261121-060501-5d41a0", "20261121-070009-5d41a0"
PANELS = ("header", "phases", "rto", "partitions", "losses", "controllers", "views", "findings", "replication", "evidence")


@pytest.fixture(scope="module")
def killed(measured_once):
    """The page of the kill, for those who only look."""
    return Seen(measured_once, PAGE, incident_id=KILLED)


@pytest.fixture
def refreshed(measured_once):
    """The same, for those who refresh it."""
    return Seen(measured_once, PAGE, incident_id=KILLED)


def with_open(home, now_us=NOW_US):
    story = stories.open_incident(NOW_US - 15_000_000, 9.0)
    story.write(home)
    lakehouses.live(home, now_us, streams={"up": 20, "down": 4, "unmeasured": 0}, open=stories.live_open(story, now_us))
    return story


def test_the_header_says_what_when_how_long_and_what_was_lost(killed):
    said = killed.panel("header")
    assert "Broker 2 was not serving ● Over: served again" in said
    assert "Worst RTO 10.68–10.90 s proven on lastack-canary-client / 1, durable write · stock client" in said
    assert "Partitions hit 19 16 probed, 3 inferred · 19 outages" in said
    assert "Acknowledged data ● Nothing lost" in said
    assert "RPO 0 records" in said
    assert "(UTC)" in said
    assert "11 partitions: leader 2 failed; another one had to be elected" in said
    waited = "acks=all writes waited for dead ISR member 2, until it was out of the ISR; acks=1 writes went on"
    assert f"8 partitions: {waited}" in said


def test_lost_records_and_their_span_are_said_with_bounds(measured, seen):
    page = seen(measured, PAGE, incident_id=UNCLEAN)
    assert "397 records lost" in page.panel("header")
    assert "RPO 19.80–20.11 s" in page.panel("header")
    assert "Lost lastack-canary-write / 1 write · no retries 397 records 19.80–20.11 s 1,717 1320–1716" in page.panel("losses")


def test_a_phase_that_does_not_apply_is_said_never_zero(killed):
    rows = {(row["service"], row["partition"]): row for row in killed.rows("partitions", "partitions")}
    follower = rows["durable write · no retries", "0"]
    assert (follower["election"], follower["propagation"]) == ("does not apply", "does not apply")
    assert follower["detection"].endswith(" s")
    assert rows["write · no retries", "1"]["election"] == "0–1 ms"


def test_every_figure_and_grid_is_there(killed):
    assert killed.is_shown("phases", "waterfall")
    assert killed.is_shown("rto", "intervals")
    assert killed.is_shown("partitions", "timeline")
    assert killed.is_shown("replication", "timeline")
    assert len(killed.rows("partitions", "partitions")) == 19


def test_the_grid_says_leaders_flaps_and_evidence(killed):
    rows = killed.rows("partitions", "partitions")
    assert {row["leader"] for row in rows} == {"2 → 3", "1 → 1", "3 → 3"}
    assert [row["flaps"] for row in rows if row["flaps"]] == [2]
    assert {row["evidence"] for row in rows} == {"probed", "read_probed", "inferred"}


def test_acknowledged_records_that_are_there_are_counted(killed):
    said = killed.panel("losses")
    assert "198,055 acknowledged records in 22 partitions were read again and are there" in said
    assert "late is not lost" in said


@pytest.mark.parametrize(
    ("grid", "table", "rows"),
    [
        ("events", "silver.events", 95),
        ("windows", "silver.outage_windows", 16),
        ("inferred", "silver.partition_windows", 3),
        ("controllers", "silver.controller_windows", 1),
        ("isr", "silver.isr_windows", 33),
        ("losses", "silver.losses", 22),
        ("findings", "silver.findings", 1),
    ],
)
def test_evidence_is_the_rows_of_silver_as_they_are(killed, grid, table, rows):
    found = killed.rows("evidence", grid)
    assert len(found) == rows
    assert {one.name for one in ddl.columns(table)} <= set(found[0])
    assert table in killed.panel("evidence")


def test_an_open_incident_is_live_and_nothing_about_it_is_a_point(measured, seen):
    with_open(measured)
    page = seen(measured, PAGE, incident_id=OPEN)
    said = page.panel("header")
    assert "Open" in said
    assert "at least 13.92 s (open)" in said
    assert "live figures are provisional" in said
    assert "Not read back yet" in said
    assert "RPO not known" in said
    assert "not yet" in page.panel("phases")
    assert {row["ended"] for row in page.rows("partitions", "partitions")} == {"open"}


def test_an_open_incident_goes_on_from_refresh_to_refresh(measured, seen):
    story = with_open(measured)
    page = seen(measured, PAGE, incident_id=OPEN)
    page.now_us = NOW_US + 4_000_000
    live = stories.live_open(story, page.now_us)
    lakehouses.live(measured, page.now_us, streams={"up": 20, "down": 4, "unmeasured": 0}, open=live)
    page.refresh()
    assert "at least 17.92 s (open)" in page.panel("header")
    assert "incident-phases-waterfall.figure" in page.changed


def test_an_outage_that_a_prober_saw_ending_is_over_before_the_tables_say_so(measured, seen):
    story = with_open(measured)
    ended = [
        one | {"ended_at_min_us": NOW_US - 2_000_000, "ended_at_max_us": NOW_US - 1_900_000, "rto_ms_max": 14_000.0}
        for one in stories.live_open(story, NOW_US)
    ]
    lakehouses.live(measured, NOW_US, recent=ended)
    page = seen(measured, PAGE, incident_id=OPEN)
    assert "Over: served again" in page.panel("header")
    assert "13.92–14.00 s" in page.panel("header")


def test_an_incident_that_is_over_costs_nothing_while_its_tables_rest(refreshed):
    before = dict(refreshed.values)
    refreshed.now_us += 2_000_000
    refreshed.refresh()
    assert refreshed.changed == set()
    assert refreshed.values == before


def test_a_switch_of_colours_draws_figures_anew_and_nothing_else(refreshed):
    refreshed.scheme = "dark"
    refreshed.refresh()
    assert {name.rpartition(".")[2] for name in refreshed.changed} == {"figure"}


def test_an_unknown_incident_is_said_and_looked_for_again(measured, seen):
    page = seen(measured, PAGE, incident_id=OPEN)
    assert "No such incident" in " ".join(page.json().split())
    assert "this page looks again by itself" in page.json()
    assert page.values["incident-present.style"] == {"display": "none"}
    with_open(measured)
    page.refresh()
    assert page.values["incident-present.style"] == {}
    assert "at least" in page.panel("header")


def test_without_a_stream_an_unknown_incident_is_not_promised(home, seen):
    assert "The stream is not running, so nothing new can appear here." in seen(home, PAGE, incident_id="x").json()


@pytest.mark.parametrize(
    ("table", "broken"),
    [
        ("silver.isr_windows", {"replication"}),
        ("silver.events", {"replication"}),
        ("gold.losses", {"header", "losses"}),
        ("silver.losses", set()),
        ("silver.findings", {"findings"}),
        ("silver.controller_windows", {"controllers"}),
    ],
)
def test_a_damaged_table_breaks_only_the_panels_that_need_it(measured, seen, table, broken):
    (measured.table(table) / "_delta_log" / f"{0:020d}.json").write_text("{")
    page = seen(measured, PAGE, incident_id=KILLED)
    assert {name for name in PANELS if "This panel has no data." in page.panel(name)} == broken
    if table.startswith("silver."):
        assert f"table {table} cannot be read" in page.panel("evidence")
        assert len(page.rows("evidence", "windows")) == 16


def test_a_panel_that_failed_heals_with_its_table(measured, seen):
    log = measured.table("silver.isr_windows") / "_delta_log" / f"{0:020d}.json"
    good = log.read_text()
    log.write_text("{")
    page = seen(measured, PAGE, incident_id=KILLED)
    assert not page.is_shown("replication", "timeline")
    log.write_text(good)
    page.refresh()
    assert page.is_shown("replication", "timeline")


def test_names_from_a_cluster_stay_text(home, seen):
    story = stories.Story(NOW_US - 60_000_000, KILLED)
    story.outage("<b>x</b>", 0, "write", "raw", (0.0, 0.1), (5.0, 5.1), ("leader_failed", "<i>2</i>", None, None, None))
    story.incident()
    story.write(home)
    page = seen(home, PAGE, incident_id=KILLED)
    figures = [value for name, value in page.values.items() if name.endswith(".figure")]
    assert all("<b>x" not in str(figure) and "<i>2" not in str(figure) for figure in figures)


# --- the controller, several probers, findings, verdicts -----------------------------------------------------------------


def test_a_controller_outage_is_said_by_itself_and_is_in_no_figure_of_a_partition(killed):
    said = killed.panel("controllers")
    assert "controller 2 failed; another one had to be elected" in said
    assert "1.98–2.14 s" in said
    assert "2 → 3" in said
    assert "apart from it: 1 controller outage" in killed.panel("header")
    assert "controller" not in killed.panel("rto") + killed.panel("phases")
    assert "(controller)" not in {row["topic"] for row in killed.rows("partitions", "partitions")}


def test_the_partitions_that_waited_for_a_controller_are_named(killed):
    said = killed.panel("controllers")
    assert "29 partitions" in said
    assert "orders / 1, 4; payments / 1" in said


def test_what_one_prober_alone_saw_is_no_outage_of_the_service(home, seen):
    stories.prober_cut_off(NOW_US - 600_000_000).write(home)
    page = seen(home, PAGE, incident_id=ALONE)
    header = page.panel("header")
    assert "One prober alone was not served" in header
    assert "Worst RTO none the service was not down: one prober alone was not served" in header
    assert "Partitions hit 0" in header
    assert "not counted: 3 outages that 1 prober saw alone" in header
    assert "The service was not down for everybody" in page.panel("rto")
    assert not page.is_shown("rto", "intervals")
    assert "canary-2 alone: served meanwhile: canary-1, canary-3" in page.panel("views")
    assert "21.05–21.26 s" in page.panel("views")
    assert "One prober was cut off: the service served others (3)" in page.panel("findings")


def test_several_probers_say_together_who_saw_it(home, seen):
    stories.three_probers(NOW_US - 600_000_000).write(home)
    page = seen(home, PAGE, incident_id=THREE)
    said = page.panel("views")
    assert "3 confirmed" in said
    assert "2 disputed" in said
    assert "lastack-canary-write / 1" in said
    assert "canary-1, canary-2, canary-3" in said
    assert "seen by 2 of 3 probers; served meanwhile: canary-3" in said
    rows = page.rows("partitions", "partitions")
    assert "seen by 3 of 3 probers, contradicted by none" in {row["seen"] for row in rows}


def test_one_prober_only_is_said_to_be_one(killed):
    assert "Only canary-1 looked." in killed.panel("views")


def test_a_finding_says_who_said_what_and_what_to_make_of_it(killed):
    said = killed.panel("findings")
    assert "ISR shrinks by the controller are in no broker's metric" in said
    assert "alert on under-replicated partitions" in said
    assert "control plane says 33 replicas left their ISR: 33 fenced" in said
    assert "metrics says IsrShrinksPerSec rose by 0 on 2 brokers" in said
    assert "isr window i1, isr window i2" in said


def test_every_verdict_has_its_reason_and_only_lost_has_lost_records(home, seen):
    stories.stranded(NOW_US - 60_000_000).write(home)
    said = seen(home, PAGE, incident_id=STRANDED).panel("losses")
    assert "Stranded the partition has no leader, so nobody can read it" in said
    assert "a replica that may hold them, and may still be elected, is down" in said
    assert "Cannot be checked they lie below the start of the log" in said
    assert "Deleted by policy the topic was deleted, or made anew lastack-canary-write / 3 write · no retries none lost" in said
    assert "0 records" not in said


def test_an_open_controller_outage_and_under_min_isr_are_said_as_they_are(home, seen):
    stories.stranded(NOW_US - 60_000_000).write(home)
    page = seen(home, PAGE, incident_id=STRANDED)
    assert "controller 2 failed, and no other has been elected yet" in page.panel("controllers")
    assert "still none" in page.panel("controllers")
    header = page.panel("header")
    assert "under min ISR: fewer in-sync replicas than min.insync.replicas, so acks=all is refused; acks=1 goes on" in header
    assert "leader 2 failed, and no other has been elected yet" in header
    assert "RPO not known" in header


def test_who_was_out_of_the_isr_is_said_with_the_cause(killed):
    assert "broker 2 ■ fenced 33" in killed.panel("replication")
