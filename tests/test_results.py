"""The result of a measurement says what gold says: for people with bounds that hold, for machines under the promised keys."""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pipelines.errors import LastackError
from pipelines.results import Results, interval
from pipelines.settings import Home
from tests import lakehouses, stories

AT_US = 1_795_000_000_000_000
SINCE = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=AT_US - 3_600_000_000)

OUTAGE_KEYS = {
    "cluster", "topic", "partition", "kind", "lane", "evidence", "started_at_min", "started_at_max", "ended_at_min", "ended_at_max",
    "rto_ms_min", "rto_ms_max", "is_open", "phases",
}  # fmt: skip
LOSS_KEYS = {"cluster", "topic", "partition", "kind", "lane", "records_min", "records_max", "rpo_ms_min", "rpo_ms_max", "verdict"}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def results(home: Home, story: stories.Story | None = None) -> Results:
    if story is not None:
        story.write(home)
        lakehouses.availability(home, AT_US)
    return Results(home, lakehouses.CLUSTER, SINCE)


def shown(found: Results, width: int = 200, *, is_terminal: bool = False) -> str:
    out = io.StringIO()
    found.show(Console(file=out, width=width, force_terminal=is_terminal, no_color=True, highlight=False))
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def cells(text: str, name: str) -> list[list[str]]:
    """The cells of the lines that begin with a name, whatever lines the table has between them."""
    lines = (line.replace("│", "  ").strip() for line in text.splitlines())
    return [re.split(r"\s{2,}", line) for line in lines if line.startswith(name)]


# --- intervals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (8_900.0, 9_100.0, "8.90-9.10 s"),
        (8_909.9, 9_100.1, "8.90-9.11 s"),
        (3.9, 40.1, "3-41 ms"),
        (0.0, 0.999, "0-1 ms"),
        (0.0, 0.0, "0"),
        (0.0, 104.0, "0-104 ms"),
        (999.9, 1_000.0, "0.99-1.00 s"),
        (4_299.9, None, "at least 4.29 s"),
        (None, None, "-"),
    ],
)
def test_an_interval_is_rounded_outwards_and_what_does_not_apply_is_a_dash(low: float | None, high: float | None, text: str) -> None:
    assert interval(low, high) == text


def test_what_is_open_says_so() -> None:
    assert interval(4_200.0, None, is_open=True) == "at least 4.20 s (open)"


@given(st.integers(0, 10**10), st.integers(0, 10**10))
def test_what_is_shown_always_holds_what_was_measured(low_us: int, width_us: int) -> None:
    low, high = low_us / 1000, (low_us + width_us) / 1000
    text = interval(low, high)
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
    scale = 1000.0 if text.endswith(" s") else 1.0
    tolerance = 1e-6 * scale
    assert numbers[0] * scale <= low + tolerance
    assert numbers[-1] * scale >= high - tolerance
    assert numbers[-1] * scale - numbers[0] * scale <= high - low + 2 * (10 if scale > 1 else 1) + tolerance


# --- for machines -------------------------------------------------------------------------------------------------------


def test_the_document_has_every_promised_key_of_every_outage_loss_and_partition(home: Home) -> None:
    document = results(home, stories.killed_leader(AT_US - 600_000_000)).document()
    assert len(document["outages"]) == 19
    assert all(one.keys() >= OUTAGE_KEYS for one in document["outages"])
    assert all(one.keys() >= LOSS_KEYS for one in document["losses"])
    assert document["losses"]
    assert all(one.keys() >= {"cluster", "topic", "partition", "kind", "lane", "coverage_ratio"} for one in document["coverage"])
    everything = [*document["outages"], *document["losses"], *document["coverage"]]
    assert {one["cluster"] for one in everything} == {lakehouses.CLUSTER}
    assert {type(one["partition"]) for one in everything} == {int}
    assert {one["lane"] for one in document["outages"]} >= {"raw", "client", "read", "watch"}
    assert {one["kind"] for one in document["outages"]} >= {"write", "durable_write", "read", "leader"}


def test_an_outage_of_the_document_is_its_row_of_gold(home: Home) -> None:
    story = stories.killed_leader(AT_US - 600_000_000)
    document = results(home, story).document()
    rows = {row["outage_id"]: row for row in story.tables["gold.outages"]}
    for one in document["outages"]:
        row = rows[one["outage_id"]]
        assert (one["rto_ms_min"], one["rto_ms_max"], one["is_open"]) == (row["rto_ms_min"], row["rto_ms_max"], row["is_open"])
        assert datetime.fromisoformat(one["started_at_max"]) == row["started_at_max"]
        assert INSTANT.fullmatch(one["started_at_max"])
        phases = {phase["phase"]: (phase["ms_min"], phase["ms_max"]) for phase in one["phases"]}
        for name in ("detection", "election", "propagation", "first_write"):
            expected = (row[f"{name}_ms_min"], row[f"{name}_ms_max"])
            assert phases.get(name, (None, None)) == expected


def test_a_phase_that_does_not_apply_is_left_out_and_never_0(home: Home) -> None:
    document = results(home, stories.killed_leader(AT_US - 600_000_000)).document()
    follower = next(one for one in document["outages"] if one["cause"] == "isr_member_dead")
    assert [phase["phase"] for phase in follower["phases"]] == ["detection", "first_write"]


def test_while_an_outage_is_open_it_has_no_longest_duration(home: Home) -> None:
    document = results(home, stories.open_incident(AT_US - 60_000_000, 42.0)).document()
    assert {(one["is_open"], one["rto_ms_max"], one["ended_at_max"]) for one in document["outages"]} == {(True, None, None)}


def test_a_measurement_that_found_nothing_is_a_document_too(home: Home) -> None:
    document = results(home).document()
    assert (document["outages"], document["losses"], document["coverage"]) == ([], [], [])
    assert document["measured_to_at"] is None


def test_what_was_before_the_measurement_is_not_in_it(home: Home) -> None:
    assert results(home, stories.killed_leader(AT_US - 7_200_000_000)).document()["outages"] == []


def test_the_document_is_written_whole_or_not_at_all(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(home, stories.killed_leader(AT_US - 600_000_000))
    path = tmp_path / "out.json"
    path.write_text("earlier")

    def broken(_: Any) -> None:
        raise RuntimeError("half way")

    monkeypatch.setattr(Results, "_loss", broken)
    with pytest.raises(TypeError):
        found.write(path)
    assert path.read_text() == "earlier"
    monkeypatch.undo()
    found.write(path)
    assert json.loads(path.read_text()) == found.document()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["home", "out.json"]


def test_a_file_that_cannot_be_written_is_said_in_one_line(home: Home, tmp_path: Path) -> None:
    with pytest.raises(LastackError, match=r"cannot be written to .*missing/out\.json: No such file or directory; name a file"):
        results(home).write(tmp_path / "missing" / "out.json")


# --- for people ---------------------------------------------------------------------------------------------------------


def test_the_table_shows_every_partition_with_bounds_phases_loss_and_verdict(home: Home) -> None:
    text = shown(results(home, stories.killed_leader(AT_US - 600_000_000)), width=220)
    (led,) = cells(text, "lastack-canary-write/1")
    assert led[:3] == ["lastack-canary-write/1", "write", "raw"]
    assert [bool(re.fullmatch(r"\d+\.\d\d-\d+\.\d\d s|\d+-\d+ ms", cell)) for cell in led[3:8]] == [True] * 5
    assert led[8:] == ["0", "0-104 ms", "PRESENT"]
    (follower,) = cells(text, "lastack-canary-durable/0")
    assert follower[5:7] == ["-", "-"]


@pytest.mark.parametrize("width", [60, 80, 120, 240])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_figure_is_cut_however_narrow_it_is_shown(home: Home, width: int, is_terminal: bool) -> None:
    found = results(home, stories.killed_leader(AT_US - 600_000_000))
    wide = shown(found, 240)
    text = shown(found, width, is_terminal=is_terminal)
    assert "…" not in text
    for name in ("lastack-canary-write/1", "lastack-canary-client/5", "orders/1"):
        figures = {cell for row in cells(text, name) for cell in row}
        assert figures == {cell for row in cells(wide, name) for cell in row}


def test_a_name_that_looks_like_markup_is_shown_as_it_is(home: Home) -> None:
    story = stories.Story(AT_US - 600_000_000, "i")
    story.outage("[red]q[/]", 0, "write", "raw", (0.0, 0.1), (9.0, 9.1), ("unknown", None, None, None, None))
    assert "[red]q[/]/0" in shown(results(home, story))


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["PRESENT", "LOST", "UNCHECKABLE"], "LOST: at least 0 acknowledged records are gone, in 1 runs."),
        (["PRESENT", "STRANDED", "UNCHECKABLE"], "STRANDED: 9000 acknowledged records"),
        (["PRESENT", "UNCHECKABLE"], "UNCHECKABLE: 9000 acknowledged records"),
        (["PRESENT", "DELETED_BY_POLICY"], "DELETED_BY_POLICY: 9000 acknowledged records"),
        (["PRESENT"], "PRESENT: all 9000 acknowledged records"),
        ([], "No acknowledged record was in question"),
    ],
)
def test_the_verdict_is_the_worst_that_is_known(home: Home, verdicts: list[str], said: str) -> None:
    story = stories.Story(AT_US - 600_000_000, "i")
    for verdict in verdicts:
        story.loss("t", 0, "write", "raw", verdict, None)
    assert said in shown(results(home, story))


def test_data_that_was_not_read_back_is_never_called_present(home: Home) -> None:
    story = stories.open_incident(AT_US - 60_000_000, 42.0)
    story.loss("t", 0, "write", "raw", "PRESENT", None)
    text = shown(results(home, story))
    assert "UNCHECKED: 4 outages of lanes that write have not been read back." in text
    assert "PRESENT:" not in text
    assert not results(home).is_read_back or all(row["is_open"] for row in results(home).outages)


def test_an_unclean_election_says_how_much_is_gone(home: Home) -> None:
    text = shown(results(home, stories.unclean_election(AT_US - 600_000_000)))
    assert "LOST: at least 397 acknowledged records are gone, in 1 runs." in text
    assert cells(text, "lastack-canary-write/1")[0][-3:] == ["397", "19.80-20.11 s", "LOST"]


def test_coverage_is_cut_and_never_rounded_up_to_all(home: Home) -> None:
    found = results(home)
    found.coverage = [{"coverage_ratio": 0.999_999_9}]
    assert "Measured: 99.999 % of the time or more" in shown(found)
    found.coverage = []
    assert "Nothing was measured." in shown(found)


# --- the controller, several probers, findings, reasons -----------------------------------------------------------------

CONTROLLER_KEYS = {
    "cluster", "window_id", "incident_id", "started_at_min", "started_at_max", "ended_at_min", "ended_at_max", "rto_ms_min",
    "rto_ms_max", "is_open", "cause", "controller_before", "controller_after", "partitions_waiting", "rule_version",
}  # fmt: skip
FINDING_KEYS = {
    "cluster", "finding_id", "incident_id", "finding", "subject", "topic", "partition", "started_at", "ended_at", "said",
    "control_plane", "metrics", "clients", "evidence", "rule_version",
}  # fmt: skip


def test_a_controller_outage_is_no_outage_of_a_partition(home: Home) -> None:
    found = results(home, stories.killed_leader(AT_US - 600_000_000))
    document = found.document()
    (controller,) = document["controller_outages"]
    assert controller.keys() == CONTROLLER_KEYS
    assert (controller["controller_before"], controller["controller_after"]) == ("2", "3")
    assert INSTANT.fullmatch(controller["started_at_max"])
    assert "controller" not in {one["kind"] for one in document["outages"]}
    text = shown(found)
    assert "(controller)" not in text
    assert "No controller for 1.98-2.14 s: controller 2 failed; another one had to be elected; 29 partitions waited for it." in text


def test_findings_are_in_the_document_with_what_everybody_said(home: Home) -> None:
    found = results(home, stories.killed_leader(AT_US - 600_000_000))
    (finding,) = found.document()["findings"]
    assert finding.keys() == FINDING_KEYS
    assert (finding["finding"], finding["topic"], finding["partition"]) == ("isr_shrinks_uncounted", None, None)
    assert finding["metrics"] == "IsrShrinksPerSec rose by 0 on 2 brokers"
    assert "Disagrees: ISR shrinks by the controller are in no broker's metric: the controller took replicas out" in shown(found)


def test_why_partitions_were_out_is_said_below_the_table(home: Home) -> None:
    text = shown(results(home, stories.killed_leader(AT_US - 600_000_000)))
    assert "Why, 11 outages: leader 2 failed; another one had to be elected." in text
    assert "Why, 8 outages: acks=all writes waited for dead ISR member 2, until it was out of the ISR" in text


def test_what_one_prober_alone_saw_is_apart_from_the_services_outages(home: Home) -> None:
    found = results(home, stories.prober_cut_off(AT_US - 600_000_000))
    text = shown(found)
    assert f"No outage of cluster {lakehouses.CLUSTER} was measured." in text
    assert "What one prober alone was not served: no outages of the service" in text
    (row,) = cells(text, "lastack-canary-write/1")
    assert row[3:] == ["canary-2", "21.05-21.26 s", "canary-1, canary-3"]
    assert {one["view"] for one in found.document()["outages"]} == {"alone"}


def test_where_several_probers_look_it_is_said_how_many_saw_it(home: Home) -> None:
    text = shown(results(home, stories.three_probers(AT_US - 600_000_000)))
    assert [row[-1] for row in cells(text, "lastack-canary-write/1")] == ["3 of 3"] * 3
    assert [row[-1] for row in cells(text, "lastack-canary-write/4")] == ["2 of 3, disputed"] * 2
    assert "seen by" not in shown(results(home.__class__(home.path / "other"), stories.killed_leader(AT_US - 600_000_000)))


def test_stranded_records_have_their_reason(home: Home) -> None:
    found = results(home, stories.stranded(AT_US - 60_000_000))
    text = " ".join(shown(found).split())
    assert "the partition has no leader, so nobody can read it; a replica that may hold them, and may still be elected, is down" in text
    assert {one["verdict"]: one["reason"] for one in found.document()["losses"]}["UNCHECKABLE"] == "below_log_start"
    assert "No controller for a time that has not been seen to end, since" in text
    assert "controller 2 failed, and no other has been elected yet; 1 partition waited for it." in text
