"""Figures are pure: what is certain is solid, what is not is striped, what does not apply is not there."""

import itertools

import pytest

from dashboards import figures, palette, words
from dashboards.data import worst_by_service, zero_of
from dashboards.figures import drawing, phases, replication, rto
from pipelines.domain import clock
from tests import stories

AT_US = 1_795_000_000_000_000


def rows_of(story, table="gold.outages"):
    return story.tables[table]


@pytest.fixture(scope="module")
def killed():
    return stories.killed_leader(AT_US)


@pytest.fixture(scope="module")
def opened():
    return stories.open_incident(AT_US, 12.0)


def one(story, kind, lane, shard):
    return next(row for row in rows_of(story) if (row["kind"], row["lane"], row["shard"]) == (kind, lane, str(shard)))


def traces(figure, kind):
    return [trace for trace in figure.data if trace.type == kind]


def texts(figure):
    return [annotation.text for annotation in figure.layout.annotations]


# --- phases -----------------------------------------------------------------------------------------------------------


def test_phases_are_ordered_and_never_overlap_where_they_are_certain(killed):
    for row in rows_of(killed):
        solid = [bar for bar in phases.phase_bars(row, zero_of(rows_of(killed))) if bar.stripe is None]
        assert all(first.right <= second.left + 1e-9 for first, second in itertools.pairwise(solid))


def test_certain_and_uncertain_pieces_cover_an_outage_from_its_first_to_its_last_bound(killed):
    zero = zero_of(rows_of(killed))
    for row in rows_of(killed):
        bars = phases.phase_bars(row, zero)
        assert min(bar.left for bar in bars) == drawing.seconds(row["started_at_min"], zero)
        assert max(bar.right for bar in bars) == drawing.seconds(row["ended_at_max"], zero)


def test_a_followers_partition_has_no_election_and_none_is_drawn(killed):
    row = one(killed, "durable_write", "raw", 0)
    assert row["election_ms_min"] is None
    names = {bar.name.split()[0] for bar in phases.phase_bars(row, zero_of(rows_of(killed))) if bar.stripe is None}
    assert names == {"detection", "first"}


def test_a_led_partition_has_all_phases(killed):
    row = one(killed, "write", "raw", 1)
    hovers = " ".join(bar.hover for bar in phases.phase_bars(row, zero_of(rows_of(killed))))
    assert all(mark.word in hovers for mark in palette.PHASES.values() if mark.word != "election")


def test_a_boundary_is_striped_in_the_colours_of_both_its_phases(killed):
    row = one(killed, "write", "raw", 1)
    striped = [bar for bar in phases.phase_bars(row, zero_of(rows_of(killed))) if bar.stripe not in (None, bar.colour)]
    assert (palette.PHASES["propagation"].colour, palette.PHASES["first_write"].colour) in {(bar.stripe, bar.colour) for bar in striped}


def test_phases_that_nobody_knows_are_one_piece_that_says_so(opened):
    row = rows_of(opened)[0]
    bars = phases.phase_bars(row, zero_of(rows_of(opened)))
    assert {bar.name for bar in bars} == {phases.NOT_TOLD_APART}


def test_the_waterfall_says_each_rto_with_its_bounds(killed):
    outages = worst_by_service(rows_of(killed))
    figure = figures.waterfall(outages, zero_of(rows_of(killed)), palette.LIGHT)
    for row in outages:
        assert words.duration_range(row["rto_ms_min"], row["rto_ms_max"]) in texts(figure)


def test_the_time_after_a_long_detection_is_shown_enlarged(killed):
    figure = figures.waterfall(worst_by_service(rows_of(killed)), zero_of(rows_of(killed)), palette.LIGHT)
    left, right = figure.layout.xaxis2.range
    assert 8.5 < left < 9.1
    assert right < 12


def test_an_open_outage_ends_in_an_arrow_and_has_no_enlargement(opened):
    figure = figures.waterfall(worst_by_service(rows_of(opened)), zero_of(rows_of(opened)), palette.DARK)
    assert any(text.startswith("▶ at least") and "(open)" in text for text in texts(figure))
    assert "xaxis2" not in figure.layout


def test_a_waterfall_of_nothing_is_still_a_figure():
    assert figures.waterfall([], clock.EPOCH, palette.LIGHT).layout.height > 0


# --- rto --------------------------------------------------------------------------------------------------------------


def test_every_outage_is_an_interval_from_minimum_to_maximum(killed):
    figure = figures.rto_by_kind(rows_of(killed), palette.LIGHT)
    drawn = {
        (round(base, 6), round(base + width, 6))
        for trace in traces(figure, "bar")
        for base, width in zip(trace.base, trace.x, strict=True)
    }
    expected = {(round(row["rto_ms_min"] / 1000, 6), round(row["rto_ms_max"] / 1000, 6)) for row in rows_of(killed)}
    assert drawn == expected


def test_an_outage_without_a_maximum_is_an_arrow_at_its_minimum(opened):
    figure = figures.rto_by_kind(rows_of(opened), palette.LIGHT)
    arrows = [x for trace in traces(figure, "scatter") for x in trace.x]
    assert sorted(arrows) == sorted(row["rto_ms_min"] / 1000 for row in rows_of(opened))
    assert all(len(trace.x) == 0 for trace in traces(figure, "bar"))


def test_of_many_outages_an_even_choice_with_both_ends_is_shown():
    chosen = drawing.evenly(list(range(1000)), 24)
    assert (len(chosen), chosen[0], chosen[-1]) == (24, 0, 999)
    assert drawing.evenly([1, 2], 24) == [1, 2]


def test_a_timeline_of_a_thousand_outages_has_as_many_rows_as_can_be_read(killed):
    many = [row | {"shard": str(number)} for number, row in enumerate(rows_of(killed) * 60)]
    figure = figures.partitions_timeline(many, zero_of(many), palette.LIGHT)
    assert len(figure.layout.yaxis.categoryarray) == rto.MAX_ROWS


def test_an_outage_that_was_there_before_anybody_looked_has_no_striped_start(killed):
    row = rows_of(killed)[0] | {"started_at_min": None}
    bars = rto.outage_bars(row, row["started_at_max"])
    assert [bar.stripe is None for bar in bars] == [True, False]


def test_names_from_the_cluster_are_escaped(killed):
    row = rows_of(killed)[0] | {"resource": "<a href='x'>", "shard": "0"}
    text = figures.partitions_timeline([row], zero_of([row]), palette.LIGHT).to_json()
    assert "<a href" not in text
    assert "&lt;a href" in text


@pytest.mark.parametrize("theme", palette.THEMES.values(), ids=lambda theme: theme.name)
def test_text_has_the_colour_of_the_theme_and_a_refresh_keeps_the_zoom(killed, theme):
    figure = figures.partitions_timeline(rows_of(killed), zero_of(rows_of(killed)), theme)
    assert figure.layout.font.color == theme.text
    assert figure.layout.uirevision == "kept"


# --- replication ------------------------------------------------------------------------------------------------------


def replication_figure(story, now=None):
    absences, events = story.tables.get("silver.isr_windows", []), story.tables["silver.events"]
    return figures.replication_timeline(absences, events, zero_of(rows_of(story)), palette.LIGHT, now)


def test_brokers_come_first_then_the_partitions_whose_leader_changed_then_the_rest_by_topic(killed):
    names = list(replication_figure(killed).layout.yaxis.categoryarray)
    assert names[:2] == ["broker 2", "broker 3"]
    assert names[2] == "lastack-canary-client / 1"
    assert "orders: 4 other partitions" in names
    assert names.index("payments / 1") < names.index("lastack-canary-client: 4 other partitions")


def test_each_leader_change_is_marked_with_both_leaders(killed):
    figure = replication_figure(killed)
    marks = next(trace for trace in figure.data if trace.name == "leader changed")
    assert len(marks.x) == 11
    assert {text.strip() for text in marks.text} == {"leader 2 → 3"}


def test_a_fenced_broker_is_a_bar_until_it_is_unfenced_and_says_from_how_many_isrs_it_is_missing(killed):
    bars = replication._broker_bars(
        "2", killed.tables["silver.isr_windows"], killed.tables["silver.events"], clock.instant(AT_US), 40.0
    )
    fenced = next(bar for bar in bars if bar.name == "fenced")
    assert (round(fenced.left, 3), round(fenced.right, 3)) == (9.052, 35.2)
    assert "33 partitions" in fenced.hover


def test_a_replica_that_is_still_out_reaches_to_the_end_of_the_axis():
    story = stories.unclean_election(AT_US)
    figure = replication_figure(story, clock.instant(AT_US + 60_000_000))
    ends = [
        base + width
        for trace in traces(figure, "bar")
        if trace.base is not None
        for base, width in zip(trace.base, trace.x, strict=True)
    ]
    assert max(ends) == pytest.approx(60.05, abs=0.01)


def test_a_thousand_partitions_share_rows_and_bars(killed):
    absences = [
        row | {"shard": str(shard), "resource": "orders"} for shard in range(1000) for row in killed.tables["silver.isr_windows"][:1]
    ]
    events = [one for one in killed.tables["silver.events"] if one["event"] != "partition_changed"]
    figure = figures.replication_timeline(absences, events, zero_of(rows_of(killed)), palette.LIGHT)
    assert "orders: 1,000 other partitions" in figure.layout.yaxis.categoryarray
    assert sum(len(trace.x) for trace in traces(figure, "bar")) < 300
