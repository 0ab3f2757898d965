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
from dashboards.proofs.data import _behind_the_end
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
    lakehouses.refused(home, NOW_US)
    return home, told


def links(page):
    """The proofs that a page leads to."""
    return set(re.findall(r'/proof/([^"\\)\]]+)', page.json()))


def links_of(proof):
    """The proofs that a proof leads to."""
    cells = [cell for one in proof.listings for row in one.rows for cell in row]
    return {href.removeprefix("/proof/") for cell in cells if (href := getattr(cell, "href", "")).startswith("/proof/")}


def unproven(component, is_proven=False):
    """Texts of a page's tree with a count, a ratio or a duration in them that no link to a proof is around."""
    if isinstance(component, dict):
        props = component.get("props", {})
        is_link = component.get("type") == "Link" and str(props.get("href", "")).startswith(("/proof/", "/incidents/"))
        yield from unproven(props.get("children"), is_proven or is_link)
    elif isinstance(component, list):
        for one in component:
            yield from unproven(one, is_proven)
    elif isinstance(component, (str, int, float)) and not is_proven and FIGURE.search(str(component)):
        yield str(component)


FIGURE = re.compile(
    r"\d[\d,.]*(?:\s*[\N{EN DASH}-]\s*[\d.,]+)?\s*(?:ms|s|min|h|%|records?|partitions?|outages?|findings?|lines?|streams?)\b"
    r"|^\s*[\d,]+\s*$|\d%"
)


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
        further = {one for each in found for one in links_of(proof_of(snapshot, each))}
        dead += [one for one in further if proof_of(snapshot, one) is None]
    assert dead == []
    assert {one.partition("/")[0] for one in found | further} == set(PROOFS)


MAY_STAND = (
    "ago", "No outage", "streams are probed", "Acknowledged to acks=1", "batch", "newest event", "between two of them", "in sum",
    "24 hours", "a minute apart", "The first", "never", "measured since", "control plane took", "Shown by", "stood alone",
    "last checked", "waiting in",
)  # fmt: skip
"""Texts that are no figures: how old something is, rules, words of a finding whose link stands beside it."""


@pytest.mark.parametrize("panel", ["clusters", "exposure", "incidents", "availability", "findings"])
def test_every_figure_of_the_overview_is_a_link_to_its_proof(whole, seen, panel):
    home, _ = whole
    page = seen(home, OVERVIEW)
    bare = list(unproven(page.values[f"overview-{panel}-body.children"]))
    assert [one for one in bare if not any(word in one for word in MAY_STAND)] == []


@pytest.mark.parametrize("panel", ["header", "losses", "views", "controllers"])
@pytest.mark.parametrize("number", range(len(STORIES)))
def test_every_figure_of_an_incident_is_a_link_to_its_proof(whole, seen, panel, number):
    home, told = whole
    page = seen(home, INCIDENT, incident_id=told[number].incident_id)
    bare = list(unproven(page.values[f"incident-{panel}-body.children"]))
    assert [one for one in bare if not any(word in one for word in MAY_STAND)] == []


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
    probed = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    assert f"outage/{probed['outage_id']}" in links(page), "what was probed on the same broker leads to its own proof"
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


def test_an_exposure_names_the_looks_that_its_lag_was_interpolated_from(whole, seen):
    """Follower 3 had 1812: the leader had 1000 at second 10 and 3000 at second 20, so 1812 at 14.06; looked at 1.73 s later."""
    home, _ = whole
    said = page_of(home, seen, "exposure", lakehouses.CLUSTER, "orders", "1").panel("below")
    minute = lakehouses.instant(NOW_US - NOW_US % 60_000_000)
    at = {second: f"{minute + timedelta(seconds=second):%H:%M:%S.%f}" for second in (10, 14.06, 15.79, 20)}
    look = f"3 {at[15.79]} 1812 812; 812 metrics-1 / 7f3c / 900003 1: 1000 at {at[10]} metrics-1 / 7f3c / 900000 1: 3000 at {at[20]}"
    assert f"{look} metrics-1 / 7f3c / 900001 {at[14.06]} 1730.000 ms" in said
    assert "watch-1 / 7f3c / 900005" in said
    assert "1, 2, 3 60 ACKED" in said


def test_an_exposure_whose_lines_are_gone_says_so(whole, seen):
    home, _ = whole
    said = page_of(home, seen, "exposure", lakehouses.CLUSTER, "payments", "0").panel("below")
    assert "No look at a follower in this minute: its line is not in bronze any more, or not yet." in said


def test_a_loss_names_the_records_that_bound_it_and_their_lines(whole, seen):
    home, told = whole
    (row,) = [one for one in told[1].tables["silver.losses"] if one["verdict"] == "LOST"]
    page = page_of(home, seen, "loss", row["loss_id"])
    at = {name: f"{row[name]:%H:%M:%S.%f}" for name in row if name.endswith("_at") and row[name] is not None}
    below = page.panel("below")
    assert f"K: last retained before 7f3c/99 {at['retained_before_at']}" in below
    assert re.search(rf"l1: first of them 7f3c/100 \S+ {at['first_acked_at']} 1320 in time 2 canary-1 / 7f3c / \d+ 0 to 496", below)
    assert f"lm: last of them 7f3c/496 {at['last_issued_at']}" in below
    assert re.search(rf"next retained 7f3c/5000 \S+ {at['retained_after_at']}", below)
    formula = page.panel("formula")
    assert f"max(0, i(lm) - r(l1)) {shown(row['last_issued_at'])} - {shown(row['first_acked_at'])} = 19802 ms" in formula
    assert f"i(K) {shown(row['lost_until_at'])} - {shown(row['retained_before_at'])} = 20104 ms" in formula
    assert "no less than" not in formula


@pytest.mark.parametrize(("last", "says"), [("980", False), ("1095", True)])
def test_a_loss_beyond_the_end_of_the_log_says_why_it_is_one(last, says):
    row = {"verdict": "LOST", "last_position": last}
    note = _behind_the_end(row, [{"record": "epoch_end", "to_position": None}, {"record": "readback", "to_position": "981"}])

    assert (note is not None and "records up to 1095" in note) is says


def shown(at):
    """An instant as formulas show it."""
    return f"{at:%H:%M:%S.%f}".removesuffix("000")


def test_a_loss_whose_lines_are_gone_says_so_and_one_of_an_older_rule_names_none(whole, seen):
    home, told = whole
    lost = next(one for one in told[1].tables["silver.losses"] if one["verdict"] == "LOST")
    older = next(one for one in told[0].tables["silver.losses"])
    assert "The row names none: it was made by an older rule." in page_of(home, seen, "loss", older["loss_id"]).panel("below")
    for path in home.table("bronze.observations").rglob("*"):
        if path.is_file():
            path.unlink()
    said = page_of(home, seen, "loss", lost["loss_id"]).panel("below")
    assert "K: last retained before 7f3c/99 its line is not in bronze any more, or not yet" in said


def test_a_boundary_leads_to_its_event_the_clock_bound_that_placed_it_and_the_line_that_this_rests_on(whole, seen):
    home, told = whole
    row = the_outage(told[0], resource="lastack-canary-write", shard="1", lane="raw")
    said = page_of(home, seen, "outage", row["outage_id"]).panel("below")
    assert re.search(
        rf"fenced \S+ {row['fenced_by']} broker fenced: 2 \S+ host 3 -1.2 to 3.4 ms, append_time canary-1 / 7f3c / \d+", said
    )
    assert row["elected_by"] in said
    assert row["known_by"] in said
    (used,) = re.findall(r"fenced \S+ \S+ broker fenced: 2 \S+ host 3 \S+ to \S+ ms, append_time (canary-1 / 7f3c / \d+)", said)
    assert f"{used} clock 3 host-a" in said


def test_time_in_which_a_prober_stood_alone_is_shown_as_unmeasured_and_proven(home, seen):
    story = stories.prober_cut_off(NOW_US - 600_000_000)
    story.write(home)
    lakehouses.availability(home, NOW_US, down_ms=0.0)
    lakehouses.availability(home, NOW_US, down_ms=0.0, prober_id="canary-2", alone_ms=21_000.0)
    lakehouses.live(home, NOW_US)
    lakehouses.progress(home, NOW_US)
    overview = seen(home, OVERVIEW)
    body = json.dumps(overview.values["overview-availability-body.children"], ensure_ascii=False)
    assert "2 min 06 s of it while a prober was proven alone" in body
    assert "1 prober of 2 stood alone" in overview.panel("availability")
    day = f"{lakehouses.instant(NOW_US):%Y-%m-%d}"
    page = page_of(home, seen, "availability", lakehouses.CLUSTER, "write", "raw", day)
    assert "of the unmeasured, 126000 ms in which a prober was proven alone" in page.panel("formula")
    assert "availability min (measured - down max) / measured" in page.panel("formula")
    assert "= 100" in page.panel("formula")
    assert page.panel("below").count("unmeasured: the prober was alone") == 3
    one = page_of(home, seen, "measured", lakehouses.CLUSTER, "canary-2", "lastack-canary-write", "1", "write", "raw", day)
    assert one.panel("below").count("unmeasured: the prober was alone") == 1
    assert "REJECTED _TIMED_OUT" in one.panel("below")


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
