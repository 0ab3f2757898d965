"""What other tools report wrongly, one test each, named after the mistake: the same evidence, and what Lastack makes of it.

Each was measured or read in the source of a tool that is in use: KMinion's end-to-end probe, kafka_exporter, Prometheus with the rules
of a mixin, Xinfra, OpenChaos, Kates. Scenes are those of `tests/scenes.py`: a letter a probe, 100 ms apart.
"""

import socket
import threading
from pathlib import Path

import pytest

from pipelines.brokers.base import AskFailed, MetricSample
from pipelines.collect.metrics import Poller
from pipelines.domain.data_loss import LOST, NOT_STORED, PRESENT
from pipelines.domain.observations import Outcome
from pipelines.domain.spans import Decided
from pipelines.domain.windows import ACKS_ALL_STALLED, LEADER_UNAVAILABLE
from pipelines.exporter import Exporter
from pipelines.serving import Serving
from pipelines.settings import Home
from tests import lakehouses, stories
from tests.collect.test_metrics import config, sample
from tests.scenes import Scene, decided, lasting_ms, ms, stream, us
from tests.serving.test_exporter import NOW_US, fill, samples

UP, DOWN = "G" * 40, "X" * 60


def killed_leader() -> Scene:
    """Broker 2 leads w/0 and dies at 4,000 ms; 3 is elected at 9,900 ms and serves from 10,000 ms on."""
    scene = Scene().stream("w/0", "write", (UP, "2"), (DOWN, "2"), (UP, "3"))
    return scene.changed("w/0", 9_900, ("2", "3"), ("123", "13")).fenced("2", 9_900)


# --- outages ----------------------------------------------------------------------------------------------------------


def test_an_outage_hidden_by_client_retries_is_an_outage() -> None:
    """KMinion's victim-led partition: nothing failed, 64 acknowledgements came after more than 5 s; the count of failures was 0."""
    waited = [one._replace(outcome="UNKNOWN", decided_at_us=one.issued_at_us + 1_000_000) for one in decided("H" * 60, begin_ms=4_000)]
    probes = [*decided(UP), *(one._replace(sequence=one.sequence + 40) for one in waited)]
    probes += [one._replace(sequence=one.sequence + 100) for one in decided(UP, begin_ms=10_000)]
    scene = Scene().add_probes("w/0", "write", probes)
    scene.late("w/0", "write", (40, 99), (40, 99), 10_050)  # every one of them was acknowledged in the end

    (found,) = scene.derived().outages
    assert lasting_ms(found.outage.rto) == (9_900 - 5_000, 10_002 - 3_900)


def test_one_partitions_success_does_not_end_anothers_outage() -> None:
    """Kates and OpenChaos: the first acknowledgement of any partition ends the one outage that they know of."""
    scene = Scene()
    scene.stream("w/0", "write", (UP, "2"), (DOWN, "2"), (UP, "3"))
    scene.stream("w/1", "write", (UP, "1"), ("X" * 15, "1"), ("G" * 85, "1"))

    ends = {one.stream.shard: ms(one.outage.end) for one in scene.derived().outages}
    assert ends == {"0": (9_900, 10_002), "1": (5_400, 5_502)}


def test_an_outage_that_has_not_ended_is_not_zero() -> None:
    """OpenChaos: without a success after the fault there is no RTO in its result."""
    (found,) = Scene().stream("w/0", "write", (UP + DOWN, "2")).derived().outages

    assert found.outage.is_open
    assert lasting_ms(found.outage.rto) == (9_900 - 4_001, None)


def test_flapping_within_two_seconds_is_not_dropped() -> None:
    """OpenChaos drops an outage that begins less than 2 s after the last one ended."""
    found = Scene().stream("w/0", "write", (UP + "X" * 25 + "G" * 15 + "X" * 25 + UP, "1")).derived().outages
    assert [ms(one.outage.start) for one in found] == [(3_900, 4_001), (7_900, 8_001)]

    (flapping,) = Scene().stream("w/0", "write", (UP + "X" * 5 + "G" * 3 + "X" * 5 + UP, "1")).derived().outages
    assert (flapping.outage.flaps, flapping.outage.bad_probes) == (1, 10)


def test_a_restarted_prober_loses_no_evidence() -> None:
    """KMinion keeps what it sent in memory: after a restart nothing of it is ever looked for again."""
    scene = Scene()
    for boot, begin in (("first", 0), ("second", 6_000)):
        probes = [one._replace(position=one.sequence + begin // 100, leader="1", term=1) for one in decided("G" * 50, begin_ms=begin)]
        scene.add_probes("w/0", "write", probes, boot_id=boot)
    scene.read_back("w/0", "write", 20_000, 110, (0, 49, 60), boot="second")

    (lost,) = [one for one in scene.derived().losses if one.verdict == LOST]
    assert (lost.boot_id, lost.records.low, lost.records.high) == ("first", 50, 50)


def test_under_replication_that_begins_when_writes_resume_is_not_the_outage() -> None:
    """UnderReplicatedPartitions turns positive when the ISR shrinks, which is what lets acks=all writes go on."""
    scene = Scene()
    scene.stream("w/1", "write", ("G" * 40, "2"), ("X" * 60, "2"), ("G" * 40, "3"))
    scene.stream("d/0", "durable_write", ("G" * 40 + "H" * 59 + "G" * 41, "1"))
    scene.changed("w/1", 9_900, ("2", "3"), ("123", "13"))
    scene.changed("d/0", 9_900, ("1", "1"), ("123", "13"), term=1).fenced("2", 9_900)
    derivation = scene.derived()

    (outage,) = [one for one in derivation.outages if one.stream.kind == "durable_write"]
    (out,) = [one for one in derivation.out_of_sync if one.partition == outage.stream.partition]
    assert (outage.outage.start.high or 0) < us(5_100), "the outage begins when the broker dies"
    assert (out.start.low or 0) >= us(9_900), "the ISR shrinks when it is over"
    assert {one.window for one, _ in derivation.windows} == {LEADER_UNAVAILABLE, ACKS_ALL_STALLED}


# --- losses -----------------------------------------------------------------------------------------------------------


def acked(scene: Scene, first: int, count: int, position: int, *, leader: str = "1", term: int = 1) -> Scene:
    """Acknowledged records of w/0, one after the other; the first of them has a sequence and a position."""
    issued = us(first * 100)
    probes = [
        Decided(first + n, issued + n * 100_000, issued + n * 100_000 + 2_000, "ACKED", leader=leader, term=term, position=position + n)
        for n in range(count)
    ]
    return scene.add_probes("w/0", "write", probes)


def test_an_indeterminate_send_that_is_read_later_is_neither_lost_nor_duplicated() -> None:
    """Counting sends against reads calls it one of the two."""
    scene = acked(Scene(), 0, 10, 0)
    scene.add_probes("w/0", "write", [one._replace(sequence=one.sequence + 10) for one in decided("HHH", begin_ms=1_000)])
    acked(scene, 13, 30, 13)
    scene.read_back("w/0", "write", 20_000, 43, (0, 42, 0))

    assert {one.verdict for one in scene.derived().losses} <= {PRESENT}


def test_late_is_not_lost() -> None:
    """KMinion books a record that is not back within 20 s as lost: 162 of them, all of which were in the log."""
    scene = Scene().stream("w/0", "write", (UP, "1"), ("H" * 300, "1"), (UP, "1"))
    scene.late("w/0", "write", (40, 339), (40, 339), 34_050)
    scene.read_back("w/0", "write", 60_000, 380, (0, 339, 0), (340, 379, 340))

    assert [(one.verdict, one.records.high) for one in scene.derived().losses if one.verdict == LOST] == []
    assert any(one.verdict == PRESENT for one in scene.derived().losses)


def test_producing_that_goes_on_after_the_fault_does_not_make_the_rpo_zero() -> None:
    """Kates: fault minus last acknowledged send, at least 0; whoever produces on after the fault has lost nothing, it says."""
    scene = killed_leader()
    # 20 to 39 are gone with the old leader; the new one has stored 100 to 139 where they had been.
    scene.read_back("w/0", "write", 60_000, 60, (0, 19, 0), (100, 139, 20))

    (lost,) = [one for one in scene.derived().losses if one.verdict == LOST]
    assert (lost.records.low, lost.records.high) == (20, 20)
    assert lasting_ms(lost.span) == (3_900 - 2_002, 4_001 - 1_900)


def test_records_that_were_read_and_then_truncated_are_lost_all_the_same() -> None:
    """KMinion forgets a record once it has consumed it: 841 acknowledged, 841 received, 754 left, and 4 said to be lost."""
    scene = killed_leader()
    scene.read_back("w/0", "write", 3_990, 39, (0, 38, 0))  # all of them were there
    scene.read_back("w/0", "write", 60_000, 60, (0, 19, 0), (100, 139, 20))

    assert sum(one.records.low or 0 for one in scene.derived().losses if one.verdict == LOST) == 20


class TestASequenceNumberThatAClientUsedTwice:
    """KMinion with franz-go: after its deadline it used sequence numbers again, the broker took the records for repetitions and
    acknowledged them at the positions of others; booked as lost, while nothing had been lost by the broker."""

    def scene(self, *, leader: str = "1", term: int = 1) -> Scene:
        """10 to 13 time out at the client and are stored; 14 to 17 are acknowledged where these are, and stored nowhere."""
        scene = acked(Scene(), 0, 10, 0)
        hung = [one._replace(sequence=one.sequence + 10, leader="1", term=1) for one in decided("HHHH", begin_ms=1_000)]
        scene.add_probes("w/0", "write", hung)
        acked(scene, 14, 4, 10, leader=leader, term=term)
        acked(scene, 18, 30, 14, leader=leader, term=term)
        return scene.read_back("w/0", "write", 20_000, 44, (0, 13, 0), (18, 47, 14))

    def test_what_it_swallowed_is_the_clients_and_not_lost_by_the_broker(self) -> None:
        found = [one for one in self.scene().derived().losses if one.verdict != PRESENT]

        assert [(one.verdict, one.reason, one.first_sequence, one.last_sequence, one.acked_records) for one in found] == [
            (NOT_STORED, "sequence_reused", 14, 17, 4)
        ]
        assert (found[0].records.high, found[0].span.high) == (0, 0)

    def test_where_another_leader_or_epoch_acknowledged_it_the_log_may_have_been_cut_in_between_and_it_is_lost(self) -> None:
        for scene in (self.scene(leader="2", term=2), self.scene(term=3)):
            assert [(one.verdict, one.records.low) for one in scene.derived().losses if one.verdict != PRESENT] == [(LOST, 4)]

    def test_a_position_that_was_given_again_to_a_later_record_swallows_nothing(self) -> None:
        """Truncated, and written over: the record that is there now is the later one."""
        scene = acked(acked(Scene(), 0, 20, 0), 20, 30, 10)
        scene.read_back("w/0", "write", 20_000, 40, (0, 9, 0), (20, 49, 10))

        assert [(one.verdict, one.records.low) for one in scene.derived().losses if one.verdict != PRESENT] == [(LOST, 10)]


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    return made


def test_averages_are_not_averaged(home: Home) -> None:
    """Xinfra exports the unweighted mean over partitions: one that was measured for a minute counts as much as one measured all day."""
    columns = {
        "system": "kafka",
        "cluster_id": "c",
        "resource": "w",
        "kind": "write",
        "lane": "raw",
        "prober_id": "p",
        "rule_version": "1",
    }
    columns |= {"unmeasured_ms": 0.0, "outages": 1, "coverage_ratio": 1.0}
    day = lakehouses.instant(NOW_US)
    assert day is not None
    rows = [
        # All day, a tenth of it down; and one minute, all of it down: 0.5 on average, 0.8994 of what was measured.
        columns
        | {"shard": shard, "day": day.date(), "observed_from_at": day, "observed_to_at": day, "measured_ms": measured}
        | {"down_ms_min": down, "down_ms_max": down, "availability_ratio_min": 1 - down / measured}
        | {"availability_ratio_max": 1 - down / measured}
        for shard, measured, down in (("0", 86_400_000.0, 8_640_000.0), ("1", 60_000.0, 60_000.0))
    ]
    lakehouses.write_table(home, "gold.availability", rows)
    with Serving(home, lambda: NOW_US).snapshot() as snapshot:
        (found,) = snapshot.rows("availability", day=day.date())

    served = 1 - (8_640_000 + 60_000) / (86_400_000 + 60_000)
    assert found["availability_ratio_min"] == pytest.approx(served)
    assert found["availability_ratio_min"] != pytest.approx((0.9 + 0.0) / 2, abs=0.1)
    assert (found["worst_shard"], found["worst_ratio_min"]) == ("1", 0.0)


def test_of_the_outages_of_an_incident_the_worst_and_the_median_are_shown_and_no_mean(home: Home) -> None:
    stories.killed_leader(NOW_US - 600_000_000).write(home)
    with Serving(home, lambda: NOW_US).snapshot() as snapshot:
        (incident,) = snapshot.rows("last_incidents")
        outages = snapshot.rows("incident_outages", incident_id=incident["incident_id"], limit=10_000)
        told = snapshot.rows("incident_rto", incident_id=incident["incident_id"])

    for row in told:
        of_kind = [
            one["rto_ms_min"]
            for one in outages
            if (one["kind"], one["lane"], one["evidence"] == "inferred") == (row["kind"], row["lane"], row["is_inferred"])
        ]
        assert row["worst_ms_min"] == max(of_kind)
        assert row["median_ms_min"] in of_kind, "an outage that there was, not a mean of some"


# --- a hung broker ----------------------------------------------------------------------------------------------------


def test_a_hung_broker_never_hangs_our_metrics(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """KMinion and kafka_exporter ask every broker while they are scraped: with one that is stopped it takes 13 to 15 s."""
    fill(home)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("/metrics opened a connection")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=True)
    monkeypatch.setattr(socket, "create_connection", refuse)
    body, _ = Exporter(Serving(home, lambda: NOW_US)).metrics("")

    assert b"lastack_open_outages" in body
    with pytest.raises(AssertionError, match="opened a connection"):
        socket.create_connection(("192.0.2.1", 9092))
    assert samples(home)


class Hung:
    """A broker's agent that takes a question and never answers, until the test lets it go."""

    address = "hung:7777"

    def __init__(self) -> None:
        self.was_asked, self.lets_go = threading.Event(), threading.Event()

    def poll(self, timeout_seconds: float) -> MetricSample:
        self.was_asked.set()
        assert self.lets_go.wait(60)
        raise AskFailed("no answer", "TIMED_OUT", Outcome.UNKNOWN)


class Answering:
    """A broker's agent that answers, and knows when it has been asked often enough."""

    address = "well:7777"

    def __init__(self, often: int) -> None:
        self.left, self.is_enough = often, threading.Event()

    def poll(self, timeout_seconds: float) -> MetricSample:
        self.left -= 1
        if self.left <= 0:
            self.is_enough.set()
        return sample()


def test_the_poll_of_a_hung_broker_does_not_delay_those_of_the_others(tmp_path: Path) -> None:
    hung, well, stop = Hung(), Answering(5), threading.Event()
    told = config(tmp_path, period_ms=100)
    with told.open_spool("metrics") as spool:
        threads = [threading.Thread(target=Poller(source, spool, told).run, args=(stop,)) for source in (hung, well)]
        for thread in threads:
            thread.start()
        assert hung.was_asked.wait(60)
        assert well.is_enough.wait(60), "the other broker was polled again and again"
        assert not hung.lets_go.is_set(), "while the first poll of the hung one was still waiting"
        stop.set()
        hung.lets_go.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def test_a_killed_leader_is_told_with_its_cause() -> None:
    """The scene that the losses above are made of is a failover, and not something else."""
    (found,) = [one for one in killed_leader().derived().outages if one.stream == stream("w/0", "write")]

    assert (found.recovery.cause, found.recovery.broker) == ("leader_failed", "2")
