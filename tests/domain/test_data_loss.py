"""Which acknowledged records are gone, how many, over which span of time, and to which outage that belongs.

A probe of the scene's write lane is acknowledged every 100 ms, 2 ms after its issue, at positions from 0. Sequence n is issued at
n * 100 ms, so without a gap it lies at position n.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.brokers.simulated import simulate
from pipelines.brokers.simulated.hosts import CLOCK_ID
from pipelines.domain.data_loss import DELETED_BY_POLICY, LOST, PRESENT, UNCHECKABLE, Around, Loss, losses
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts
from pipelines.domain.ledger import Ledger, Verdicts, acked_runs
from pipelines.domain.observations import LateAcks, Outcome, Probes
from pipelines.domain.sequences import size
from tests.scenes import Scene, lasting_ms, stream, us
from tests.strategies import SEEDS

HUNG = 40
"""Probes of the outage: sequences 20 to 59."""


def outage() -> Scene:
    """20 goods, an outage of four seconds, 100 goods whose positions follow."""
    return Scene().stream("w/0", "write", ("G" * 20 + "X" * HUNG, "2"), ("G" * 100, "3"))


def refilled(kept: int) -> Scene:
    """The same, but the new leader had only the first `kept` records: the others are gone, their positions given again."""
    scene = Scene()
    for one in outage().observations:
        is_after = isinstance(one, Probes) and one.first_sequence >= 20 + HUNG
        scene.observations.append(_moved(one, 20 - kept) if is_after and isinstance(one, Probes) else one)
    return scene


def _moved(run: Probes, by: int) -> Probes:
    first, last = int(run.first_position or 0) - by, int(run.last_position or 0) - by
    return replace(run, first_position=str(first), last_position=str(last))


def found(scene: Scene, verdict: str | None = None) -> list[Loss]:
    return [one for one in scene.derived().losses if verdict in (None, one.verdict)]


def only(scene: Scene) -> Loss:
    (one,) = found(scene)
    return one


# --- lost -------------------------------------------------------------------------------------------------------------


def two_leaders_at_a_time(*, terms: tuple[int | None, int | None] = (1, 2), read_ms: float = 9_000, end: int = 30) -> Scene:
    """Nobody follows 2 any more; it acknowledges 20 to 59 all the same. 3, elected meanwhile, goes on at position 20 with 60 to 69."""
    scene = Scene()
    scene.stream("w/0", "write", ("G" * 60, "2"), term=terms[0])
    later = Scene().stream("w/0", "write", ("G" * 60, "2"), ("G" * 10, "3"), term=terms[1])
    scene.observations += [replace(_moved(one, 40), seq=99) for one in later.observations if one.first_sequence >= 60]  # type: ignore[attr-defined,arg-type]
    return scene.read_back("w/0", "write", read_ms, end, (0, 19, 0), (60, 69, 20))


def test_what_a_leader_acknowledged_beyond_the_log_of_the_next_one_is_lost_too() -> None:
    """The new log ends at 30, and positions 20 to 59 were given by the old leader: nothing of its term can lie behind 20."""
    one = only(two_leaders_at_a_time())

    assert (one.verdict, one.records.low, one.records.high) == (LOST, 40, 40)
    assert (one.first_sequence, one.last_sequence) == (20, 59)


def test_without_terms_what_lies_beyond_the_log_s_end_may_be_lost() -> None:
    one = only(two_leaders_at_a_time(terms=(None, None)))

    assert (one.verdict, one.records.low, one.records.high, one.span.high) == (LOST, 10, 40, None)


def test_what_was_acknowledged_after_a_read_back_had_begun_is_not_missed_in_it() -> None:
    one = only(two_leaders_at_a_time(read_ms=4_000))

    assert one.records.low < 40


def test_records_acknowledged_and_proven_absent_are_lost() -> None:
    """Sequences 5 to 19 are gone; the first ones of the new leader lie in their place."""
    one = only(refilled(5).read_back("w/0", "write", 20_000, 105, (0, 4, 0), (60, 159, 5)))

    assert (one.verdict, one.records.low, one.records.high) == (LOST, 15, 15)
    assert (one.first_sequence, one.last_sequence, one.first_position, one.last_position) == (5, 19, 5, 19)
    assert lasting_ms(one.span) == (1398, 1601), "[19 - 5 periods less the latency, start max - issue of K]"
    assert one.outage is not None
    assert one.outage.first_bad_issued_us == us(2000)


def names(one: Loss) -> dict[str, str | None]:
    around = one.around or Around()
    of = {"K": around.before, "l1": around.first, "lm": around.last, "next": around.after}
    return {name: None if each is None else f"{each.boot_id}/{each.sequence}" for name, each in of.items()}


def test_a_loss_names_the_records_that_bound_its_span() -> None:
    """5 to 19 are gone: 4 is the last one before them that is there, 60 the first after, and the outage had begun by 2001 ms."""
    one = only(refilled(5).read_back("w/0", "write", 20_000, 105, (0, 4, 0), (60, 159, 5)))

    assert names(one) == {"K": "boot-0/4", "l1": "boot-0/5", "lm": "boot-0/19", "next": "boot-0/60"}
    around = one.around
    assert around is not None
    assert around.before is not None
    assert (around.before.issued_us, around.until_us) == (us(400), us(2001))
    assert around.first is not None
    assert around.last is not None
    assert (around.first.acked_by_us, around.last.issued_us) == (us(502), us(1900))


def test_where_nothing_was_retained_before_a_loss_there_is_no_k() -> None:
    one = only(refilled(0).read_back("w/0", "write", 20_000, 100, (60, 159, 0)))

    assert names(one) == {"K": None, "l1": "boot-0/0", "lm": "boot-0/19", "next": "boot-0/60"}
    assert one.span.high is None


def test_what_is_present_names_its_last_record_as_the_one_that_bounds_what_may_be_gone_unseen() -> None:
    one = only(outage().read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20)))

    assert names(one) == {"K": "boot-0/19", "l1": "boot-0/0", "lm": "boot-0/19", "next": None}
    assert one.around is not None
    assert one.around.until_us == us(2001)


@given(SEEDS)
@settings(max_examples=15)
def test_the_span_of_every_loss_is_the_difference_of_the_instants_of_the_records_that_it_names(seed: int) -> None:
    for one in derive(Facts.of(simulate(seed, incidents=2).observations), []).losses:
        around = one.around
        if one.verdict != LOST or around is None:
            continue
        assert around.first is not None
        assert around.last is not None
        assert (around.first.sequence, around.last.sequence) == (one.first_sequence, one.last_sequence)
        assert one.span.low == max(0, around.last.issued_us - around.first.acked_by_us)
        if one.span.high is not None:
            assert around.before is not None
            assert around.until_us is not None
            assert around.before.issued_us < around.first.issued_us
            assert one.span.high == max(one.span.low, around.until_us - around.before.issued_us)


def test_what_was_lost_before_the_topic_was_deleted_is_lost_and_the_rest_was_deleted() -> None:
    """Sequence 19 is gone with its leader; all others were there when they were read back, and went with the topic, which has no id."""
    scene = refilled(19).read_back("w/0", "write", 20_000, 119, (0, 18, 0), (60, 159, 19))
    scene.control("partition_removed", 21_000, resource="w", shard="0")
    scene.read_back("w/0", "write", 30_000, 200)

    (lost,) = found(scene, LOST)
    assert (lost.first_sequence, lost.last_sequence, lost.records.low) == (19, 19, 1)
    assert {one.verdict for one in found(scene)} == {LOST, DELETED_BY_POLICY}


def test_what_is_present_after_an_outage_is_said_to_be() -> None:
    one = only(outage().read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20)))

    assert (one.verdict, one.records.low, one.records.high, one.acked_records) == (PRESENT, 0, 0, 20)
    assert lasting_ms(one.span) == (0, 101), "a writer that never paused may have lost what it wrote after our last record"


def test_a_proven_clean_election_leaves_no_doubt() -> None:
    scene = outage().changed("w/0", 5000, ("2", "3"), ("123", "13"), is_unclean=False)

    assert lasting_ms(only(scene.read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20))).span) == (0, 0)


def test_one_lost_record_has_no_span_at_least_and_is_lost_all_the_same() -> None:
    one = only(refilled(19).read_back("w/0", "write", 20_000, 119, (0, 18, 0), (60, 159, 19)))

    assert (one.verdict, one.records.low, lasting_ms(one.span)) == (LOST, 1, (0, 201))


def test_late_is_not_lost_and_an_unacknowledged_record_that_is_there_is_no_duplicate() -> None:
    """Sequence 20 was acknowledged late, 21 never; both are in the log."""
    scene = Scene().stream("w/0", "write", ("G" * 20 + "H" * HUNG, "2"), ("G" * 100, "3"))
    scene.late("w/0", "write", (20, 20), (20, 20), 3500)

    assert [one.verdict for one in found(scene.read_back("w/0", "write", 20_000, 122, (0, 21, 0), (60, 159, 22)))] == [PRESENT]


def test_the_last_acknowledgement_of_a_row_need_not_be_that_of_its_last_record() -> None:
    """Sequence 25 is sent again and again, and acknowledged after all others of its outage, and after some that follow."""
    scene = Scene().stream("w/0", "write", ("G" * 20 + "H" * 10, "2"), ("G" * 10, "3"))
    scene.late("w/0", "write", (25, 25), (30, 30), 3_950).read_back("w/0", "write", 9_000, 31, (0, 19, 0), (30, 39, 20), (25, 25, 30))

    row = only(scene)
    assert (row.verdict, row.first_sequence, row.last_sequence) == (PRESENT, 0, 30)
    assert row.acked_to_us == us(3_950)


def test_a_late_acknowledgement_of_a_record_that_is_gone_is_a_loss() -> None:
    """A leader that hung and came back took it before it learned that it had been replaced."""
    scene = Scene().stream("w/0", "write", ("G" * 20 + "H" * HUNG, "2"), ("G" * 100, "3"))
    scene.late("w/0", "write", (20, 22), (20, 22), 9000)
    one = only(scene.read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20)))

    assert (one.verdict, one.records.low) == (LOST, 3)
    assert one.outage is not None


def test_truncated_positions_that_were_filled_again_do_not_hide_a_loss() -> None:
    one = only(refilled(5).read_back("w/0", "write", 20_000, 105, (0, 4, 0), (60, 159, 5)))

    assert one.records.low == 15


def test_records_already_read_and_then_truncated_are_lost_all_the_same() -> None:
    scene = refilled(5).read_back("w/0", "write", 1950, 19, (0, 18, 0))

    assert only(scene.read_back("w/0", "write", 20_000, 105, (0, 4, 0), (60, 159, 5))).records.low == 15


def test_records_that_turn_up_again_are_not_lost() -> None:
    """A read-back that missed them is contradicted by a later one."""
    scene = outage().read_back("w/0", "write", 15_000, 100, (0, 4, 0), (60, 139, 20))

    assert [one.verdict for one in found(scene.read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20)))] == [PRESENT]


def test_what_a_read_back_did_not_reach_is_not_judged() -> None:
    assert found(refilled(5).read_back("w/0", "write", 20_000, 5, (0, 4, 0))) == []


def test_what_was_acknowledged_after_a_read_back_began_cannot_be_missed_in_it() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 50, "2"))

    assert found(scene.read_back("w/0", "write", 2050, 50, (0, 20, 0))) == []


def test_damaged_records_count_as_absent() -> None:
    one = only(outage().read_back("w/0", "write", 20_000, 120, (0, 9, 0), (11, 19, 11), (60, 159, 20)))

    assert (one.verdict, one.records.low, one.first_position) == (LOST, 1, 10)


def test_runs_of_lost_records_are_cut_at_retained_ones() -> None:
    scene = outage().read_back("w/0", "write", 20_000, 120, (0, 4, 0), (10, 14, 10), (60, 159, 20))

    assert [(one.first_sequence, one.last_sequence) for one in found(scene, LOST)] == [(5, 9), (15, 19)]


def test_runs_of_lost_records_are_cut_at_outages_and_each_belongs_to_its_own() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 20 + "X" * 40, "2"), ("G" * 20 + "X" * 40, "3"), ("G" * 100, "1"))
    scene.read_back("w/0", "write", 30_000, 140, (0, 4, 0), (120, 219, 40))

    lost = found(scene, LOST)
    assert [(one.first_sequence, one.last_sequence) for one in lost] == [(5, 19), (60, 79)]
    assert [one.outage and one.outage.first_bad_issued_us for one in lost] == [us(2000), us(8000)]


def test_data_can_be_lost_without_an_outage() -> None:
    one = only(Scene().stream("w/0", "write", ("G" * 100, "2")).read_back("w/0", "write", 20_000, 100, (0, 49, 0), (55, 99, 55)))

    assert (one.verdict, one.records.low, one.outage) == (LOST, 5, None)
    assert lasting_ms(one.span) == (398, 602), "up to the acknowledgement of the next retained record"


def test_an_outage_that_began_after_a_loss_was_noticed_did_not_cause_it() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 60 + "X" * 40, "2"), ("G" * 100, "3"))
    scene.read_back("w/0", "write", 5000, 49, (0, 29, 0), (35, 48, 35))

    assert [one.outage for one in found(scene, LOST)] == [None]


def test_without_a_retained_record_before_it_a_loss_has_no_longest_span() -> None:
    one = only(outage().read_back("w/0", "write", 20_000, 120, (10, 19, 10), (60, 159, 20)))

    assert (one.records.low, one.span.high) == (10, None)


def test_a_record_that_was_lost_without_an_outage_leaves_a_later_outage_its_own_verdict() -> None:
    """Sequence 5 was there when the outage began, and is gone without one; what the outage could lose is all there."""
    scene = outage().read_back("w/0", "write", 700, 7, (0, 4, 0), (6, 6, 6))
    found_ = {
        (one.verdict, one.outage is None)
        for one in found(scene.read_back("w/0", "write", 20_000, 120, (0, 4, 0), (6, 19, 6), (60, 159, 20)))
    }

    assert found_ == {(LOST, True), (PRESENT, False)}


def test_what_no_read_back_has_reached_may_be_lost_with_what_is() -> None:
    """Sequences 5 to 14 are missing; 15 to 19 lay at positions to which the new log had not come when it was read."""
    one = only(refilled(5).read_back("w/0", "write", 7000, 15, (0, 4, 0), (60, 69, 5)))

    assert (one.verdict, one.records.low, one.records.high, one.span.high) == (LOST, 10, 15, None)


# --- neither lost nor known to be there -------------------------------------------------------------------------------


def test_below_the_logs_start_nothing_can_be_said() -> None:
    scene = outage().read_back("w/0", "write", 20_000, 120, (8, 19, 8), (60, 159, 20), log_start=8)
    one = next(one for one in found(scene) if one.verdict == UNCHECKABLE)

    assert ((one.records.low, one.records.high), one.acked_records) == ((0, 8), 8)
    assert found(scene, LOST) == []


def test_what_was_seen_before_retention_took_it_is_present() -> None:
    scene = outage().read_back("w/0", "write", 15_000, 100, (0, 19, 0), (60, 139, 20))
    scene.read_back("w/0", "write", 20_000, 120, (8, 19, 8), (60, 159, 20), log_start=8)

    assert [one.verdict for one in found(scene)] == [PRESENT]


def test_that_nothing_is_lost_takes_a_read_back_that_began_after_the_outage() -> None:
    before = outage().read_back("w/0", "write", 1950, 19, (0, 18, 0))

    assert found(before) == []


def test_an_outage_is_judged_by_what_was_written_since_the_one_before() -> None:
    """The first outage lost records; the second one did not."""
    scene = Scene().stream("w/0", "write", ("G" * 20 + "X" * 40, "2"), ("G" * 20 + "X" * 40, "3"), ("G" * 100, "1"))
    scene.read_back("w/0", "write", 30_000, 140, (0, 4, 0), (60, 79, 20), (120, 219, 40))

    assert {(one.verdict, one.outage and one.outage.first_bad_issued_us) for one in found(scene)} == {
        (LOST, us(2000)),
        (PRESENT, us(8000)),
    }


def test_while_an_outage_is_open_nothing_is_said_of_it() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 20 + "X" * 40, "2"))

    assert found(scene.read_back("w/0", "write", 20_000, 20, (0, 19, 0))) == []


def test_repeated_read_backs_change_nothing() -> None:
    once = refilled(5).read_back("w/0", "write", 20_000, 105, (0, 4, 0), (60, 159, 5))
    again = refilled(5)
    for at in (20_000, 30_000, 40_000):
        again.read_back("w/0", "write", at, 105, (0, 4, 0), (60, 159, 5))

    assert found(again) == found(once)


# --- users' partitions ------------------------------------------------------------------------------------------------


def test_committed_records_of_a_users_partition_are_lost_where_the_old_epoch_ends_below_the_watermark() -> None:
    one = only(Scene().epoch_end("u/0", 9000, watermark=150, end=50))

    assert (one.verdict, one.evidence, one.records.low, one.records.high) == (LOST, "epoch_end", 100, None)
    assert (one.first_position, one.last_position) == (50, 149)
    assert (one.acked_from_us, one.acked_to_us) == (us(4000), us(5000))


def test_an_epoch_that_ends_where_it_was_committed_is_no_loss() -> None:
    assert found(Scene().epoch_end("u/0", 9000, watermark=150, end=150)) == []


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_the_ledger_of_the_worked_example() -> None:
    scene = Scene().stream("w/0", "write", ("G" * 10, "2")).read_back("w/0", "write", 5000, 8, (0, 4, 0))
    facts = scene.facts()
    ledger = Ledger.of("boot-0", acked_runs(facts.probes[stream("w/0", "write")], []))
    verdicts = Verdicts.of(ledger, ledger.sequences, facts.readbacks)

    assert (verdicts.present, verdicts.lost, verdicts.uncheckable) == ([(0, 4)], [(5, 7)], [])


def test_a_sequence_that_was_never_acknowledged_is_not_in_the_ledger() -> None:
    ledger = Ledger.of("boot-0", acked_runs(outage().facts().probes[stream("w/0", "write")], []))

    assert ledger.position(60) == 20
    with pytest.raises(KeyError, match="sequence 20 of run boot-0 was not acknowledged"):
        ledger.run_of(20)


def test_records_of_another_run_of_the_prober_are_other_records() -> None:
    scene = outage().read_back("w/0", "write", 20_000, 120, (0, 19, 0), (60, 159, 20), boot="another")

    assert [(one.verdict, one.records.low) for one in found(scene)] == [(LOST, 20), (LOST, 100)]


# --- what holds for every history -------------------------------------------------------------------------------------


@given(SEEDS, st.data())
@settings(max_examples=15)
def test_an_unknown_send_that_was_refused_or_acknowledged_after_all_loses_nothing_that_is_there(seed: int, data: st.DataObject) -> None:
    """Refused: no finding changes. Acknowledged: it is lost exactly if a read-back proves it absent."""
    history = simulate(seed, incidents=2)
    unknown = [
        one
        for one in history.observations
        # A prober whose clock nothing compares with that of the read-back is not judged.
        if isinstance(one, Probes)
        and one.outcome == Outcome.UNKNOWN
        and one.lane == "raw"
        and not one.is_open
        and one.clock_id == CLOCK_ID
    ]
    if not unknown:
        return
    run = data.draw(st.sampled_from(unknown))
    before = derive(Facts.of(history.observations), [])

    refused = replace(run, outcome=Outcome.REJECTED, code="_TRANSPORT")
    turned = [refused if _is_same_run(one, run) else one for one in history.observations]
    assert _counts(derive(Facts.of(turned), []).losses) == _counts(before.losses)

    sequence = data.draw(st.integers(run.first_sequence, run.last_sequence))
    if any(isinstance(one, LateAcks) and _is_in(one, run, sequence) for one in history.observations):
        return
    last = max((one for one in before.facts.readbacks if _is_of(one, run)), key=lambda one: one.ended_at_us)
    there = [each for each in last.runs if each.boot_id == run.boot_id and each.first_sequence <= sequence <= each.last_sequence]
    position = there[0].first_position + sequence - there[0].first_sequence if there else int(last.log_start_position)
    after = derive(Facts.of([*history.observations, _late(run, sequence, position)]), [])
    assert _lost(after.losses) - _lost(before.losses) == (0 if there else 1)


def _is_same_run(one: object, run: Probes) -> bool:
    names = ("prober_id", "boot_id", "resource", "shard", "kind", "first_sequence")
    return (
        isinstance(one, Probes)
        and all(getattr(one, name) == getattr(run, name) for name in names)
        and one.last_sequence == run.last_sequence
    )


def _is_of(one: object, run: Probes) -> bool:
    return all(getattr(one, name) == getattr(run, name) for name in ("resource", "shard", "kind", "lane"))


def _is_in(one: LateAcks, run: Probes, sequence: int) -> bool:
    return _is_of(one, run) and one.boot_id == run.boot_id and one.first_sequence <= sequence <= one.last_sequence


def _late(run: Probes, sequence: int, position: int) -> LateAcks:
    issued = run.started_at_us + (sequence - run.first_sequence) * run.period_us
    envelope = {name: getattr(run, name) for name in ("system", "cluster_id", "collector", "prober_id", "boot_id", "clock_id")}
    place = {name: getattr(run, name) for name in ("resource", "shard", "kind", "lane")}
    return LateAcks(
        **envelope,
        **place,
        seq=10**9,
        count=1,
        first_sequence=sequence,
        last_sequence=sequence,
        first_position=str(position),
        last_position=str(position),
        started_at_us=issued,
        last_issued_at_us=issued,
        first_decided_at_us=issued + run.lambda_us + 1,
        ended_at_us=issued + run.lambda_us + 1,
    )


def _lost(of: list[Loss]) -> int:
    return sum(one.records.low or 0 for one in of if one.verdict == LOST)


def _counts(of: list[Loss]) -> list[tuple[object, ...]]:
    return sorted((one.stream, one.verdict, one.records.low or 0, one.records.high or 0, one.first_sequence or 0) for one in of)


@given(SEEDS)
@settings(max_examples=15)
def test_every_acknowledged_record_is_in_one_verdict_at_most(seed: int) -> None:
    facts = Facts.of(simulate(seed, incidents=2).observations)

    for of_stream, runs in facts.probes.items():
        acked = acked_runs(runs, facts.late_acks.get(of_stream, ()))
        for boot_id in {run.boot_id for run in acked}:
            ledger = Ledger.of(boot_id, acked)
            verdicts = Verdicts.of(ledger, ledger.sequences, [one for one in facts.readbacks if _is_of(one, runs[0])])
            judged = [*verdicts.present, *verdicts.lost, *verdicts.uncheckable]
            assert size(judged) <= size(ledger.sequences)
            assert all(ledger.run_of(first) and ledger.run_of(last) for first, last in judged)


def test_findings_need_read_backs() -> None:
    facts = outage().facts()

    assert losses(facts, {}) == []
