"""Every figure of a page leads to the rows that prove it, and the arithmetic that is shown is the row's."""

import json
import re
from datetime import timedelta
from urllib.parse import unquote

import pytest

from dashboards.pages.incident import PAGE as INCIDENT
from dashboards.pages.overview import PAGE as OVERVIEW
from dashboards.pages.proof import PAGE
from dashboards.proofs import formulas
from dashboards.proofs.book import PROOFS, proof_of
from pipelines.serving import Serving
from tests import lakehouses, stories
from tests.dashboards.conftest import NOW_US

KILLED = "20261121-031702-5d41a0"
STORIES = (stories.killed_leader, stories.unclean_election, stories.prober_cut_off, stories.three_probers, stories.stranded)


@pytest.fixture
def whole(home):
    """Every story in one home, a day's availability, a minute's exposure."""
    told = [story(NOW_US - 3_600_000_000 * (number + 1)) for number, story in enumerate(STORIES)]
    for story in told:
        story.write(home)
    stories.exposure(home, NOW_US)
    lakehouses.availability(home, NOW_US)
    lakehouses.live(home, NOW_US)
    lakehouses.progress(home, NOW_US)
    return home, told


def links(page):
    """The proofs that a page leads to."""
    return set(re.findall(r'/proof/([^"\\)\]]+)', page.json()))


def the_outage(story, **wanted):
    return next(row for row in story.tables["gold.outages"] if all(row[name] == value for name, value in wanted.items()))


def page_of(home, seen, *parts):
    return seen(home, PAGE, figure="/".join(parts))


def test_every_link_of_every_page_leads_to_a_proof(whole, seen):
    home, told = whole
    found = links(seen(home, OVERVIEW))
    for story in told:
        found |= links(seen(home, INCIDENT, incident_id=story.incident_id))
    with Serving(home, lambda: NOW_US).snapshot() as snapshot:
        dead = [one for one in found if proof_of(snapshot, one) is None]
    assert dead == []
    assert {one.partition("/")[0] for one in found} == set(PROOFS)


def test_a_proof_leads_to_further_proofs_and_none_is_dead(whole, seen):
    home, _ = whole
    first = [f"partitions/{KILLED}", f"losses/{KILLED}"]
    further = set().union(*(links(page_of(home, seen, *one.split("/"))) for one in first))
    assert len(further) > 30
    with Serving(home, lambda: NOW_US).snapshot() as snapshot:
        assert [one for one in further if proof_of(snapshot, one) is None] == []


def test_the_rto_is_shown_as_the_difference_of_the_rows_own_instants(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    said = page_of(home, seen, "outage", row["outage_id"]).panel("formula")
    start, end = (f"{row[name]:%H:%M:%S}.{row[name].microsecond:06d}" for name in ("started_at_min", "ended_at_max"))
    lasted = f"{(row['ended_at_max'] - row['started_at_min']) / timedelta(milliseconds=1):.3f}"
    assert f"RTO max r(T) - i(S) {end.removesuffix('000')} - {start.removesuffix('000')} = {lasted} ms" in said


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_every_formula_gives_the_rows_own_figure(whole, number):
    _, told = whole
    pairs = (("detection", "start", "fenced"), ("election", "fenced", "elected"), ("propagation", "elected", "known"))
    checked = 0
    for row in told[number].tables["gold.outages"]:
        for phase, begin, end in pairs:
            for bound, other in (("min", "max"), ("max", "min")):
                value = row.get(f"{phase}_ms_{bound}")
                if value is not None:
                    assert formulas.computed(row, (end, bound), (begin, other)) == pytest.approx(value, abs=0.002)
                    checked += 1
        notes = [step.note for step in formulas.rto(row, formulas.NAMES["probe"])]
        assert not any(note and note.startswith(("the longest piece", "the row says")) for note in notes)
    assert checked > 0 or number in (2, 4)


def test_a_minimum_that_goods_have_cut_says_so():
    (least, _) = formulas.rto(
        {
            "started_at_min": lakehouses.instant(0),
            "started_at_max": lakehouses.instant(100_000),
            "ended_at_min": lakehouses.instant(9_100_000),
            "ended_at_max": lakehouses.instant(9_200_000),
            "rto_ms_min": 4_000.0,
            "rto_ms_max": 9_200.0,
            "is_open": False,
        },
        formulas.NAMES["probe"],
    )
    assert least.result == "4000 ms"
    assert "the longest piece in which nothing contradicts it, 4000 ms: short served runs" in least.note
    assert "9000 ms" in least.note


def test_the_lines_of_the_four_probes_are_found_by_their_names(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    said = page_of(home, seen, "outage", row["outage_id"]).panel("below")
    (window,) = [one for one in told[0].tables["silver.outage_windows"] if one["outage_id"] == row["outage_id"]]
    at = {name: f"{row[name]:%H:%M:%S}.{row[name].microsecond:06d}" for name in ("started_at_min", "ended_at_max", "started_at_max")}
    assert f"S: last good before it 7f3c/999 {at['started_at_min']}" in said
    assert "B1: first bad 7f3c/1000" in said
    assert f"Bn: last bad {window['last_bad_probe']} " in said
    assert re.search(rf"T: first good after it {window['first_good_probe']} \S+ {at['ended_at_max']} ACKED 3 canary-1 7f3c \d+", said)
    assert re.search(rf"min q, {at['started_at_max']}, is earliest_decided_at_us of line 7f3c, seq \d+", said)


def test_decisions_have_position_clock_and_the_bound_that_placed_them(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    said = page_of(home, seen, "outage", row["outage_id"]).panel("below")
    assert "broker fenced: 2" in said
    assert "host 3" in said
    assert " 4711 metadata_fetch control-1 / 7f3c / " in said
    assert "3 host-a append_time" in said
    assert "-1.2 to 3.4 ms 57 0" in said


def test_an_inferred_outage_names_the_rows_that_it_follows_from(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="orders", shard="1", lane="watch")
    page = page_of(home, seen, "outage", row["outage_id"])
    assert "No probe asked for this" in page.panel("below")
    assert f"silver.partition_windows.proof of {row['outage_id']}" in page.panel("below")
    assert "metadata log offset 4710" in page.panel("below")
    assert "silver.partition_windows" in page.panel("rows")


def test_bronze_of_other_partitions_lanes_and_times_is_not_asked_for(whole):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    with Serving(home, lambda: NOW_US).snapshot() as snapshot:
        proof = proof_of(snapshot, f"outage/{row['outage_id']}")
    runs = next(one for one in proof.listings if one.title.startswith("All runs"))
    assert len(runs.rows) == 3


def test_a_line_that_is_gone_is_said_to_be_gone(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    for path in home.table("bronze.observations").rglob("*"):
        if path.is_file():
            path.unlink()
    said = page_of(home, seen, "outage", row["outage_id"])
    assert "its line is not in bronze any more, or not yet" in said.panel("below")
    assert "RTO max" in said.panel("formula")


def test_what_has_no_last_good_says_that_nothing_bounds_it(home, seen):
    story = stories.Story(NOW_US - 60_000_000, "i")
    outage_id = story.outage("t", 0, "write", "raw", (None, 0.1), (9.0, 9.1), ("unknown", None, None, None, None))
    story.incident()
    story.write(home)
    page = page_of(home, seen, "outage", outage_id)
    assert "RTO max r(T) - i(S)" in page.panel("formula")
    assert "= nothing bounds it there is no i(S)" in page.panel("formula")
    assert "S: last good before it none was seen" in page.panel("below")


def test_the_worst_rto_is_the_longest_outage_of_the_service_by_its_name(whole, seen):
    home, told = whole
    page = page_of(home, seen, "worst", KILLED)
    worst = the_outage(told[0], resource="lastack-canary-client", shard="1")
    assert f"max of rto_ms_min 19 outages; {worst['outage_id']} = {worst['rto_ms_min']:g} ms" in page.panel("formula")
    assert "(controller)" not in page.panel("below")


def test_an_exposure_leads_to_what_each_follower_was_behind(whole, seen):
    home, _ = whole
    page = page_of(home, seen, "exposure", lakehouses.CLUSTER, "orders", "1")
    assert "lag of the worst in-sync follower" in page.panel("formula")
    assert "3 yes 812 records" in page.panel("below")
    assert "2 yes 40 records" in page.panel("below")


@pytest.mark.parametrize(
    "address", ["", "outage", "outage/none", "nothing/x", "service/x/y", "availability/a/b/c/no-day", "worst/none"]
)
def test_an_address_that_names_no_figure_says_so(whole, seen, address):
    home, _ = whole
    page = seen(home, PAGE, figure=address)
    assert "No such figure" in json.dumps(page.values["proof-absent.children"])
    assert page.values["proof-present.style"] == {"display": "none"}


def test_names_with_slashes_are_names(whole):
    from dashboards import components

    address = components.proof_href("exposure", "a/b", "persistent://t", "0").removeprefix("/proof/")
    assert [unquote(one) for one in address.split("/")] == ["exposure", "a/b", "persistent://t", "0"]
