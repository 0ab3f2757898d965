"""The canary and the metrics collector against three real brokers that are killed, terminated and paused, and the canary paused, too.

One history is made, and every claim is held against it: which faults were injected when, by the same clock, is known.
"""

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipelines.brokers.kafka.canary_topics import NEEDED, fit_topics
from pipelines.brokers.kafka.connection import Connection
from pipelines.collect.canary.config import CanaryConfig
from pipelines.collect.canary.identity import Identity, identity
from pipelines.collect.metrics import MetricsConfig
from pipelines.domain.clock import Anchor
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.observations import BrokerMetrics, PartitionMetrics, Probes, Status
from pipelines.domain.unavailability import Outage, outages
from pipelines.errors import UsageError
from pipelines.lab import Lab
from pipelines.lab.node import Fault, Node
from pipelines.processes import Child, spawn, wait_until
from tests.collect.test_spool import landed

pytestmark = pytest.mark.system

RUN_CANARY = "from pipelines.collect.canary.run import run; from pipelines.collect.canary.config import CanaryConfig as Config"
RUN_METRICS = "from pipelines.collect.metrics import run, MetricsConfig as Config"
STARTED_IN_SECONDS = 60.0
SETTLED_IN_SECONDS = 60.0
SECOND_US = 1_000_000
WRITE, DURABLE = "lastack-canary-write", "lastack-canary-durable"


@dataclass
class History:
    """What was done, and what was recorded of it."""

    lab: Lab
    faults: dict[str, Fault] = field(default_factory=dict)
    hit: dict[str, str] = field(default_factory=dict)
    """Fault to the partition that the broker led when it was hit, which is the same in every canary topic."""
    blind: tuple[int, int] = (0, 0)
    canary: list[Any] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    exit_codes: tuple[int, int] = (-1, -1)

    @property
    def facts(self) -> Facts:
        return Facts.of(self.canary)

    def outages(self, fault: str, resource: str, shard: str, kind: str, lane: str = "raw") -> list[Outage]:
        """The outages of a stream that began around a fault, and before the next one."""
        at = self.faults[fault].before_at_us
        until = min([at + 10 * SECOND_US, *(one.before_at_us for one in self.faults.values() if one.before_at_us > at)])
        found = outages(self.facts.probes[Stream(resource, shard, kind, lane, "canary")])
        return [one for one in found if at - SECOND_US < one.earliest_decided_us < until]


def start(name: str, code: str, config: CanaryConfig | MetricsConfig, folder: Path) -> Child:
    command = [sys.executable, "-c", f"import sys; {code}; run(Config.from_json(sys.argv[1]))", config.to_json()]
    return spawn(name, command, folder / f"{name}.log")


def all_good_since(landing: Path, at_us: int) -> Callable[[], bool]:
    """Whether every stream of the canary has been acknowledged after that instant, and has nothing bad after it."""

    def look() -> bool:
        probes = Facts.of(landed(landing)).probes
        if len({(stream.kind, stream.lane) for stream in probes}) < 4:
            return False
        return all(runs[-1].outcome == "ACKED" and runs[-1].last_issued_at_us > at_us for runs in probes.values())

    return look


def clock_at(anchor: Anchor, instant_us: int) -> Callable[[], bool]:
    return lambda: anchor.now_us() >= instant_us


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("canary")
    anchor = Anchor.now()
    landing, metrics_landing = folder / "landing", folder / "metrics"
    landing.mkdir()
    with Lab(anchor=anchor, say=lambda line: None) as lab:
        shared = {"system": "kafka", "cluster_id": lab.cluster_id, "anchor": anchor.text(), "rotate_ms": 200}
        canary_config = CanaryConfig(**shared, prober_id="canary", spool=str(landing), bootstrap=lab.bootstrap, flush_seconds=1.0)
        urls = tuple(f"http://127.0.0.1:{node.ports.jolokia}/jolokia" for node in lab.nodes)
        metrics_config = MetricsConfig(**shared, prober_id="metrics", spool=str(metrics_landing), urls=urls, flush_seconds=3.0)
        canary = start("canary", RUN_CANARY, canary_config, folder)
        metrics = start("metrics", RUN_METRICS, metrics_config, folder)
        made = History(lab)
        try:
            _make(made, lab, anchor, landing, canary)
            made.exit_codes = canary.stop(), metrics.stop()
        finally:
            for child in (canary, metrics):
                child.kill()
        made.canary, made.metrics = landed(landing), landed(metrics_landing)
        yield made


def _make(made: History, lab: Lab, anchor: Anchor, landing: Path, canary: Child) -> None:
    def settled(what: str, seconds: float = SETTLED_IN_SECONDS) -> None:
        since = anchor.now_us()
        wait_until(all_good_since(landing, since + SECOND_US), seconds, f"every stream to be good again after {what}")

    def hit(name: str, do: Callable[[Node], Fault], node: Node) -> None:
        led = next(state for state in lab.admin.partitions(WRITE) if state.leader == node.node_id)
        made.hit[name] = str(led.partition)
        made.faults[name] = do(node)

    def victim() -> Node:
        """A broker that leads a canary partition."""
        leaders = {state.leader for state in lab.admin.partitions(WRITE)}
        return next(node for node in lab.nodes if node.node_id in leaders)

    settled("the start", STARTED_IN_SECONDS)

    began = anchor.now_us()
    canary.send(Signals.SIGSTOP)
    wait_until(clock_at(anchor, began + 3 * SECOND_US), 10, "three seconds of a stopped prober")
    canary.send(Signals.SIGCONT)
    made.blind = began, anchor.now_us()
    settled("the prober's stop")

    for name, do in (("kill", lab.kill), ("terminate", lab.terminate)):
        node = victim()
        hit(name, do, node)
        settled(name)
        lab.start(node)
        lab.wait_until_in_sync()
        settled(f"the restart after {name}")

    node = victim()
    hit("pause", lab.pause, node)
    wait_until(clock_at(anchor, anchor.now_us() + 14 * SECOND_US), 30, "the paused broker to be fenced")
    lab.resume(node)
    settled("pause")


def test_both_end_well(history: History) -> None:
    assert history.exit_codes == (0, 0)
    for records in (history.canary, history.metrics):
        assert [one for one in records if isinstance(one, Status)][-1].state == "stopped"


def test_no_probe_is_missing_and_every_acknowledged_position_is_new(history: History) -> None:
    assert len(history.facts.probes) == 12
    for stream, runs in history.facts.probes.items():
        assert runs[0].first_sequence == 0, stream
        for before, after in itertools.pairwise(runs):
            assert after.first_sequence == before.last_sequence + 1, stream
            assert after.started_at_us == before.last_issued_at_us + after.period_us, stream
        # With acks=1 a dead leader takes acknowledged records with it, and their positions are given again; a stock client that sends
        # again may write a record twice (a run of 192 acknowledgements over 193 positions was seen), which is all its own.
        if (stream.kind, stream.lane) == ("durable_write", "raw"):
            positions = [(int(run.first_position), int(run.last_position)) for run in runs if run.outcome == "ACKED"]
            covered = sorted(positions)
            assert all(one[1] < other[0] for one, other in itertools.pairwise(covered)), stream
            assert all(last - first + 1 == run.count for (first, last), run in zip(positions, _acked(runs), strict=True)), stream


def _acked(runs: list[Probes]) -> list[Probes]:
    return [run for run in runs if run.outcome == "ACKED"]


def test_every_acknowledged_record_is_where_it_was_said_to_be_and_says_whose_it_is(history: History) -> None:
    """Also after a kill, for with acks=all nothing that was acknowledged may be lost."""
    consumer = Consumer({"bootstrap.servers": history.lab.bootstrap, "group.id": "reader", "enable.partition.eof": True})
    streams = [stream for stream in history.facts.probes if stream.resource == DURABLE and stream.lane == "raw"]
    consumer.assign([TopicPartition(stream.resource, int(stream.shard), 0) for stream in streams])
    found: dict[tuple[str, int], Identity | None] = {}
    ended: set[int] = set()
    while len(ended) < len(streams):
        message = consumer.poll(30)
        assert message is not None, "30 s without a record"
        if message.error():
            ended.add(message.partition())
        else:
            found[str(message.partition()), message.offset()] = identity(message.value())
    consumer.close()

    for stream in streams:
        for run in _acked(history.facts.probes[stream]):
            for n in range(run.count):
                expected = Identity(run.boot_id, stream.kind, stream.lane, stream.shard, run.first_sequence + n)
                assert found[stream.shard, int(run.first_position) + n] == expected


def test_a_stopped_prober_was_blind_and_saw_no_outage(history: History) -> None:
    began, ended = history.blind
    (blind,) = [one for one in history.facts.blinds if one.ended_at_us - one.started_at_us > 2 * SECOND_US]
    assert began - SECOND_US < blind.started_at_us < began + SECOND_US
    assert ended - SECOND_US < blind.ended_at_us < ended + SECOND_US

    for stream, runs in history.facts.probes.items():
        inside = [run for run in runs if began + SECOND_US < run.last_issued_at_us and run.started_at_us < ended - SECOND_US]
        assert {run.outcome for run in inside} <= {"VOID", "ACKED"}, stream
        assert "VOID" in {run.outcome for run in inside}, stream


def may_be(outage: Outage, began_us: int) -> bool:
    """Whether the outage can have begun then."""
    return (outage.start.low or 0) <= began_us <= (outage.start.high or began_us)


class TestKill:
    def test_the_partition_that_it_led_is_refused_until_another_leads(self, history: History) -> None:
        fault = history.faults["kill"]
        for resource, kind, lane in ((WRITE, "write", "raw"), (DURABLE, "durable_write", "raw"), (DURABLE, "read", "read")):
            (outage,) = history.outages("kill", resource, history.hit["kill"], kind, lane)
            assert "CONNECTION_REFUSED" in outage.codes
            assert not outage.is_open
            assert (outage.start.low or 0) <= fault.after_at_us
            assert (outage.start.high or 0) >= fault.before_at_us
            assert 5 * SECOND_US < (outage.rto.low or 0) <= (outage.rto.high or 0) < 30 * SECOND_US
            assert (outage.rto.high or 0) - (outage.rto.low or 0) < 2 * SECOND_US, "refusals give tight bounds"

    def test_writes_to_one_copy_go_on_elsewhere(self, history: History) -> None:
        for shard in {"0", "1", "2"} - {history.hit["kill"]}:
            assert history.outages("kill", WRITE, shard, "write") == []

    def test_writes_to_all_copies_wait_everywhere_for_the_dead_one(self, history: History) -> None:
        for shard in {"0", "1", "2"} - {history.hit["kill"]}:
            (outage,) = history.outages("kill", DURABLE, shard, "durable_write")
            assert "TIMED_OUT" in outage.codes
            assert (outage.rto.high or 0) > 5 * SECOND_US

    def test_the_stock_client_delivers_late_and_loses_nothing(self, history: History) -> None:
        late = [one for stream, found in history.facts.late_acks.items() if stream.lane == "client" for one in found]
        at = history.faults["kill"].before_at_us
        assert sum(one.count for one in late if one.first_decided_at_us > at) > 50

    def test_clients_are_told_of_the_new_leader(self, history: History) -> None:
        fault, shard = history.faults["kill"], history.hit["kill"]
        seen = [one for one in history.facts.leader_seen if one.started_at_us > fault.before_at_us and one.shard == shard]
        assert {one.resource for one in seen if one.previous_leader == fault.target} == {WRITE, DURABLE, "lastack-canary-client"}


def test_a_leader_that_is_terminated_hands_over_within_seconds(history: History) -> None:
    for kind, resource in (("write", WRITE), ("durable_write", DURABLE)):
        for outage in history.outages("terminate", resource, history.hit["terminate"], kind):
            assert (outage.rto.low or 0) < 5 * SECOND_US
            assert not outage.is_open
    runs = history.facts.probes[Stream(WRITE, history.hit["terminate"], "write", "raw", "canary")]
    after = [run for run in _acked(runs) if run.started_at_us > history.faults["terminate"].before_at_us]
    assert {run.leader for run in after} - {history.faults["terminate"].target}, "somebody else led"


def test_a_paused_leader_is_silence_and_not_refusal(history: History) -> None:
    fault, shard = history.faults["pause"], history.hit["pause"]
    (outage,) = history.outages("pause", WRITE, shard, "write")
    assert set(outage.codes) <= {"TIMED_OUT", "NO_CONNECTION", "CONNECTION_LOST"}
    assert may_be(outage, fault.before_at_us)
    assert (outage.rto.high or 0) > 5 * SECOND_US


class TestMetrics:
    def polls(self, history: History, broker: str, began: int, ended: int) -> list[BrokerMetrics]:
        found = [one for one in history.metrics if isinstance(one, BrokerMetrics) and one.broker == broker]
        return [one for one in found if began < one.started_at_us and one.ended_at_us < ended]

    def test_a_paused_broker_does_not_answer_and_delays_no_other(self, history: History) -> None:
        fault = history.faults["pause"]
        began, ended = fault.after_at_us + SECOND_US, fault.after_at_us + 14 * SECOND_US
        paused = self.polls(history, fault.target, began, ended)
        assert {one.outcome for one in paused} == {"UNKNOWN"}
        assert {one.code for one in paused} == {"TIMED_OUT"}
        for broker in {"1", "2", "3"} - {fault.target}:
            answered = self.polls(history, broker, began, ended)
            assert {one.outcome for one in answered} == {"ACKED"}
            span = (answered[-1].ended_at_us - answered[0].started_at_us) / SECOND_US
            assert sum(one.count for one in answered) > span * 0.5

    def test_a_killed_broker_refuses(self, history: History) -> None:
        fault = history.faults["kill"]
        found = self.polls(history, fault.target, fault.after_at_us, fault.after_at_us + 8 * SECOND_US)
        assert {one.code for one in found} <= {"CONNECTION_REFUSED", "CONNECTION_LOST"}
        assert "CONNECTION_REFUSED" in {one.code for one in found}

    def test_the_controller_counts_the_fenced_broker_and_the_leaders_their_lost_replica(self, history: History) -> None:
        at = history.faults["kill"].after_at_us
        fenced = [
            one for one in history.metrics if isinstance(one, BrokerMetrics) and (one.values or {}).get("FencedBrokerCount") == 1.0
        ]
        assert any(at < one.ended_at_us < at + 30 * SECOND_US for one in fenced)
        shrunk = [one for one in history.metrics if isinstance(one, PartitionMetrics) and one.in_sync_replicas == 2]
        assert any(one.is_under_replicated and one.is_at_min_isr and one.resource == WRITE for one in shrunk)

    def test_only_leaders_have_flags_and_only_followers_a_lag(self, history: History) -> None:
        runs = [one for one in history.metrics if isinstance(one, PartitionMetrics)]
        assert {one.resource for one in runs} >= {WRITE, DURABLE, "lastack-canary-client"}
        for run in runs:
            assert (run.is_under_replicated is None) == (run.in_sync_replicas is None)
            assert run.in_sync_replicas is None or run.lag_records_max is None
        assert any(run.lag_records_max is not None for run in runs)


class TestTopics:
    def test_are_made_as_a_measurement_needs_them(self, history: History) -> None:
        lab = history.lab

        assert fit_topics(Connection.plain(lab.bootstrap), ["made"], may_alter=False, partitions_max=64) == []

        states = lab.admin.partitions("made")
        assert sorted(state.replicas[0] for state in states) == [1, 2, 3]
        assert {len(state.replicas) for state in states} == {3}
        settings = lab.admin.topic_settings("made")
        assert {name: settings[name] for name in NEEDED} == NEEDED
        assert settings["min.insync.replicas"] == "2"

    def test_that_do_not_fit_are_altered_only_with_leave(self, history: History) -> None:
        lab = history.lab
        connection = Connection.plain(lab.bootstrap)
        lab.admin.create_assigned_topic("odd", [[1, 2], [2, 3]], {"cleanup.policy": "compact", "min.insync.replicas": "1"})

        with pytest.raises(UsageError, match=r"topic odd: cleanup.policy is compact, needed is delete, .*--yes"):
            fit_topics(connection, ["odd"], may_alter=False, partitions_max=64)
        assert lab.admin.topic_settings("odd")["cleanup.policy"] == "compact"
        assert len(lab.admin.partitions("odd")) == 2

        warnings = fit_topics(connection, ["odd"], may_alter=True, partitions_max=64)
        settings = lab.admin.topic_settings("odd")
        assert {name: settings[name] for name in NEEDED} == NEEDED
        assert sorted(state.replicas[0] for state in lab.admin.partitions("odd")) == [1, 2, 3]
        assert len(warnings) == 2, warnings
        assert "2 replicas where 3 are possible" in warnings[0]
        assert "min.insync.replicas=1" in warnings[1]

    def test_that_leave_a_broker_out_are_a_warning(self, history: History) -> None:
        lab = history.lab
        lab.admin.create_assigned_topic("small", [[1, 2, 3]], NEEDED)

        (warning,) = fit_topics(Connection.plain(lab.bootstrap), ["small"], may_alter=False, partitions_max=64)

        assert "no partition that broker 2, 3 should lead" in warning
