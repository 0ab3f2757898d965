"""From probes to outage windows: each rule as a timeline, and what must hold for every timeline.

Timelines are those of `tests.scenes`: one letter a probe, 100 ms apart, lambda 1 s, so g is 1.1 s. A good is answered after 2 ms.
"""

import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.observations import Probes
from pipelines.domain.spans import SpanBuilder
from pipelines.domain.unavailability import Outage, Watching, current, longest_runs, outages, step
from tests.scenes import LAMBDA_MS, PERIOD_MS, Scene, decided, lasting_ms, ms, runs_of
from tests.strategies import cuts, single_probes, timelines

LONG = 40
"""Probes of an outage that lasts more than 2g."""


def found(timeline: str) -> list[Outage]:
    return list(outages(runs_of(decided(timeline))))


def only(timeline: str) -> Outage:
    (one,) = found(timeline)
    return one


Ms = tuple[float | None, float | None]


@pytest.mark.parametrize(
    ("timeline", "start", "end", "rto"),
    [
        pytest.param("G" + "R" * 90 + "G", (0, 101), (9000, 9102), (8899, 9102), id="refusals, the worked example"),
        pytest.param("GG" + "H" * LONG + "G", (100, 1200), (4100, 4202), (2900, 4102), id="hangs: min q is a lambda after the first"),
        pytest.param("GG" + "HR" * 20 + "G", (100, 301), (4100, 4202), (3799, 4102), id="a refusal after a hang decides earlier"),
        pytest.param("GL" + "R" * LONG + "GG", (0, 201), (4100, 4202), (3899, 4202), id="a good in flight at the first bad is not S"),
        pytest.param("GG" + "R" * LONG + "LG", (100, 201), (4100, 5100), (3899, 5000), id="T ends it when it is answered"),
        pytest.param("GG" + "R" * 3 + "GG", (100, 201), (400, 502), (199, 402), id="shorter than 2g, refused: as exact"),
        pytest.param("GG" + "R" * LONG, (100, 201), (4100, None), (3899, None), id="no T: open, no maximum"),
        pytest.param("R" * LONG + "G", (None, 1), (3900, 4002), (3899, None), id="no S: there before we looked, no maximum"),
        pytest.param("H" * 3, (None, 1000), (200, None), (0, None), id="a certain length is never negative"),
        pytest.param("GG" + "V" * 5 + "R" * LONG + "G", (100, 701), (4600, 4702), (3899, 4602), id="blind before it: an earlier start"),
        pytest.param("GG" + "R" * LONG + "V" * 5 + "G", (100, 201), (4100, 4702), (3899, 4602), id="blind behind it: a later end"),
    ],
)
def test_the_bounds_of_an_outage(timeline: str, start: Ms, end: Ms, rto: Ms) -> None:
    one = only(timeline)

    assert (ms(one.start), ms(one.end), lasting_ms(one.rto)) == (start, end, rto)
    assert one.is_open == (end[1] is None)


@pytest.mark.parametrize("timeline", ["", "G", "G" * 50, "V" * 50, "GLGLLLG", "GGVVVGG", "....GG"])
def test_goods_and_voids_are_no_outage(timeline: str) -> None:
    assert found(timeline) == []


def test_a_late_acknowledgement_is_bad_and_decided_at_lambda() -> None:
    """The record says UNKNOWN at lambda; that it came in the end is another record and no matter of this fold."""
    assert ms(only("GG" + "H" * LONG + "G").start) == (100, 200 + LAMBDA_MS)


def test_a_blind_gap_longer_than_g_cuts_an_outage_into_measured_pieces() -> None:
    one = only("GG" + "R" * 20 + "V" * 30 + "R" * 10 + "GG")

    assert [piece.length_us // 1000 for piece in one.pieces] == [1899, 899]
    assert lasting_ms(one.rto) == (1899, 6102), "the minimum is the longest piece, the maximum spans the gap"
    assert one.downtime_us_min == 2_798_000, "the downtime's minimum is their sum"
    assert one.void_probes == 30


def test_a_blind_gap_no_longer_than_g_cuts_nothing() -> None:
    assert len(only("GG" + "R" * 20 + "V" * 10 + "R" * 20 + "GG").pieces) == 1


def test_probes_that_were_never_issued_are_a_gap_like_void_ones() -> None:
    assert len(only("GG" + "R" * 20 + "." * 30 + "R" * 10 + "GG").pieces) == 2


def test_goods_between_bads_that_are_at_most_g_apart_are_flapping() -> None:
    one = only("GG" + "R" * 20 + "GGG" + "R" * 20 + "GGG" + "R" * 20 + "GG")

    assert (one.flaps, len(one.pieces), one.bad_probes) == (2, 3, 60)
    assert lasting_ms(one.rto) == (1899, 6702), "each flap cuts a piece; what is certain is the longest"


def test_bads_more_than_g_apart_are_two_outages_when_a_good_between_them_proves_it() -> None:
    first, second = found("GG" + "R" * 30 + "G" * 12 + "R" * 30 + "GG")

    assert (ms(first.end), ms(second.start)) == ((3100, 3202), (4300, 4401))


def test_bads_more_than_g_apart_are_one_outage_while_no_good_proves_that_it_was_over() -> None:
    """The only good between them was issued before the first one hung for good: it may have been served before the outage."""
    one = only("GGH" + "G" + "." * 20 + "H" * LONG + "GG")

    assert one.flaps == 1
    assert ms(one.start) == (100, 1200)
    assert len(one.pieces) == 2


def test_an_end_is_never_proven_by_a_good_issued_before_the_earliest_decision() -> None:
    """A hang begins at 250 ms: the probe of 200 ms is lost with it, the one of 210 is not, and then the prober is blind."""
    one = only("GGHG" + "V" * 40 + "G" * 12)

    assert ms(one.end) == (200, 4402)


def test_in_an_outage_shorter_than_2g_the_end_is_proven_only_after_the_last_decision() -> None:
    one = only("GGHGGGGGGGGGGGGGG")

    assert ms(one.end) == (200, 1202), "a single slow probe among goods: it was bad at some time up to its lambda"
    assert lasting_ms(one.rto) == (0, 1102)


def test_an_outage_is_settled_only_when_no_later_bad_can_prolong_it() -> None:
    runs = runs_of(decided("GG" + "R" * 30 + "G" * 12))
    state = Watching()
    for run in runs[:2]:
        state, settled = step(state, run)
        assert settled == ()
    early = runs_of(decided("GG" + "R" * 30 + "G" * 11))[-1]
    late = runs[-1]

    assert step(state, early)[1] == (), "its last good is g after the last bad: a bad may follow within g"
    (one,) = step(state, late)[1]
    assert not one.is_open


def test_the_counts_of_an_outage_are_those_of_its_probes() -> None:
    one = only("GG" + "R" * 10 + "X" * 5 + "H" * 20 + "V" * 2 + "R" * 3 + "GG")

    assert (one.bad_probes, one.rejected_probes, one.answered_probes, one.void_probes) == (38, 18, 13, 2)
    assert one.codes == ("NOT_LEADER_OR_FOLLOWER", "_TRANSPORT", "_MSG_TIMED_OUT")


def test_who_refused_the_first_bad_probe_is_known() -> None:
    runs = runs_of(decided("GG" + "R" * 30 + "GG", leader="2"))

    assert next(outages(runs)).refused_by == "2"
    assert only("GG" + "H" * 30 + "RG").refused_by is None


def test_leader_and_epoch_before_and_after_are_those_of_s_and_t() -> None:
    scene = Scene().stream("t/0", "leader", ("GG" + "H" * 30, "2"), ("GG", "3"))
    one = next(outages(scene.facts().probes.popitem()[1]))

    assert (one.before and one.before.leader, one.after and one.after.leader) == ("2", "3")


# --- the prober's own life --------------------------------------------------------------------------------------------


def test_a_restarted_prober_loses_no_evidence() -> None:
    """It stops in the middle of an outage and comes back before its end."""
    before = decided("GG" + "R" * 20)
    after = [probe._replace(sequence=n) for n, probe in enumerate(decided("." * 60 + "R" * 10 + "GG"))]
    scene = Scene().add_probes("t/0", "write", before, boot_id="one").add_probes("t/0", "write", after, boot_id="two")
    (one,) = outages(next(iter(scene.facts().probes.values())))

    assert (ms(one.start), ms(one.end)) == ((100, 201), (6900, 7002))
    assert len(one.pieces) == 2


def test_another_clock_cuts_an_outage_and_bounds_nothing_across() -> None:
    before, after = decided("GG" + "R" * 20), decided("." * 60 + "R" * 20 + "GG")
    scene = Scene().add_probes("t/0", "write", before, boot_id="one", clock_id="a")
    scene.add_probes("t/0", "write", after, boot_id="two", clock_id="b")
    first, second = outages(next(iter(scene.facts().probes.values())))

    assert first.is_cut
    assert not first.is_open
    assert first.rto.high is None
    assert second.before is None, "the goods of the other clock do not bound it"


def test_runs_of_a_clock_that_was_set_back_stay_together() -> None:
    """The second run of the prober has a clock that is an hour behind: by its numbers it was first."""
    hour = 3_600_000_000
    later = decided("GG" + "R" * 30 + "G" * 12)
    back = [probe._replace(issued_at_us=probe.issued_at_us - hour, decided_at_us=probe.decided_at_us - hour) for probe in later]
    scene = Scene().add_probes("t/0", "write", later, boot_id="one", clock_id="a")
    scene.add_probes("t/0", "write", back, boot_id="two", clock_id="b")
    both = list(outages(next(iter(scene.facts().probes.values()))))

    assert [lasting_ms(one.rto) for one in both] == [(2899, 3102), (2899, 3102)]


def test_a_run_of_several_goods_that_ends_in_flight_still_gives_a_near_s() -> None:
    """Written by a collector that does not cut its runs where ours does: 50 goods, one of them slow, then refusals."""
    goods, bads = runs_of(decided("G" * 49 + "L")), runs_of(decided("." * 50 + "R" * 30 + "GG"))
    whole = _joined(goods)
    (one,) = outages([whole, *bads])

    assert ms(one.start) == (4000, 5001), "the last one that its longest latency of 900 ms proves to be answered"


def _joined(runs: list[Probes]) -> Probes:
    first, last = runs[0], runs[-1]
    end = {name: getattr(last, name) for name in ("last_sequence", "last_issued_at_us", "last_decided_at_us", "ended_at_us")}
    return replace(first, count=50, latency_us_max=last.latency_us_max, **end)


# --- what holds for every timeline ------------------------------------------------------------------------------------


@given(st.one_of(timelines(), single_probes()), st.data())
def test_any_split_of_a_history_into_parts_gives_the_same_windows(timeline: str, data: st.DataObject) -> None:
    runs = runs_of(decided(timeline))
    edges = [0, *data.draw(cuts(len(runs))), len(runs)]
    state = Watching()
    settled: list[Outage] = []
    for begin, end in pairwise(edges):
        state = pickle.loads(pickle.dumps(state))  # what a restart keeps
        for run in runs[begin:end]:
            state, more = step(state, run)
            settled += more
    rest = [] if (one := current(state)) is None else [one]

    assert settled + rest == list(outages(runs))


@given(timelines(), st.sets(st.integers(0, 250), max_size=8))
def test_a_run_that_is_folded_while_it_grows_gives_the_same_windows(timeline: str, flush_after: set[int]) -> None:
    """As the fast lane does: an open line is folded on top of the settled state, and again when it has grown."""
    lines = written_with_flushes(timeline, flush_after)
    settled, tentative = Watching(), Watching()
    over: list[Outage] = []
    for line in lines:
        tentative, more = step(settled, line)
        if not line.is_open:
            settled = tentative
            over += more
    rest = [] if (one := current(tentative)) is None else [one]

    assert over + rest == list(outages(longest_runs(lines)))


def written_with_flushes(timeline: str, flush_after: set[int]) -> list[Probes]:
    builder = SpanBuilder(resource="t", shard="0", kind="write", lane="raw", period_us=PERIOD_MS * 1000, lambda_us=LAMBDA_MS * 1000)
    lines = []
    for index, probe in enumerate(decided(timeline)):
        lines += builder.add(probe)
        if index in flush_after:
            lines += builder.flush()
    scene = Scene()
    for line in lines + builder.close():
        scene.add(Probes, "canary", **line)
    return [one for one in scene.observations if isinstance(one, Probes)]


@given(st.one_of(timelines(), single_probes()))
def test_windows_of_a_stream_never_overlap_and_bounds_are_ordered(timeline: str) -> None:
    windows = found(timeline)

    for one in windows:
        assert one.start.high is not None
        assert one.start.low is None or one.start.low < one.start.high
        assert one.end.low is not None
        assert one.end.high is None or one.start.high <= one.end.high
        assert one.rto.low is not None
        assert 0 <= one.rto.low <= one.downtime_us_min
        assert one.rto.high is None or one.downtime_us_min <= one.rto.high
        assert one.void_probes >= 0
        assert one.flaps < len(one.pieces)
    for earlier, later in pairwise(windows):
        assert earlier.end.high is not None, "only the last can be open"
        assert earlier.end.low is not None
        assert later.start.low is not None
        assert earlier.end.low < later.start.low, "what is certainly down before ends before what may be down later begins"
        assert later.end.high is None or earlier.end.high < later.end.high


@given(single_probes())
def test_every_bad_probe_is_in_one_outage(timeline: str) -> None:
    windows = found(timeline)

    assert sum(one.bad_probes for one in windows) == sum(letter in "RNXH" for letter in timeline)
    assert sum(one.rejected_probes for one in windows) == sum(letter in "RNX" for letter in timeline)


@given(timelines())
def test_whether_a_refusal_was_answered_or_a_hang_changes_no_window_but_only_its_bounds(timeline: str) -> None:
    refused, hung = found(timeline.replace("H", "X")), found(timeline.replace("X", "H").replace("R", "H"))

    assert sum(one.bad_probes for one in refused) == sum(one.bad_probes for one in hung)
    assert len(hung) <= len(refused)
