"""One broker's polls become records: a silent broker is a fact, and what moves all the time is not an event."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipelines.brokers.base import AskFailed, MetricSample, Shard, ShardSample
from pipelines.brokers.kafka.jolokia import TELLING
from pipelines.collect.metrics import MetricsConfig, Poller
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import BrokerMetrics, Outcome, PartitionMetrics
from pipelines.errors import UsageError
from tests.collect.test_spool import landed

SILENT = AskFailed("no answer", "TIMED_OUT", Outcome.UNKNOWN)


@dataclass
class Scripted:
    """A source that says what it was told to say, poll by poll."""

    says: list[MetricSample | AskFailed]
    address: str = "127.0.0.1:7777"
    telling: frozenset[str] = TELLING
    asked: int = field(default=0)

    def poll(self, timeout_seconds: float) -> MetricSample:
        one = self.says[self.asked]
        self.asked += 1
        if isinstance(one, AskFailed):
            raise one
        return one


def config(directory: Path, **changed: object) -> MetricsConfig:
    identity = {"system": "kafka", "cluster_id": "c", "prober_id": "p"}
    given = identity | {"spool": str(directory), "anchor": Anchor.now().text(), "urls": ("http://h:1",)}
    return MetricsConfig(**(given | {"spool_reserve_bytes": 0} | changed))  # type: ignore[arg-type]


def sample(cluster_id: str | None = "c", isr: int = 3, **values: float) -> MetricSample:
    shards = {Shard("t", "0"): ShardSample(isr < 3, False, False, isr, None, 0, 9)}
    return MetricSample("2", cluster_id, values, shards)


def polled(directory: Path, says: list[MetricSample | AskFailed]) -> tuple[list[BrokerMetrics], list[PartitionMetrics], Poller]:
    told = config(directory)
    with told.open_spool("metrics") as spool:
        poller = Poller(Scripted(says), spool, told)
        for _ in says:
            poller.poll()
        poller._close_runs()
    records = landed(directory)
    return (
        [one for one in records if isinstance(one, BrokerMetrics)],
        [one for one in records if isinstance(one, PartitionMetrics)],
        poller,
    )


def test_values_that_move_all_the_time_are_not_written_with_every_poll(tmp_path: Path) -> None:
    brokers, partitions, _ = polled(tmp_path, [sample(MaxLag=float(n), LeaderCount=2.0) for n in range(5)])

    assert [(one.broker, one.outcome, one.values) for one in brokers] == [("2", "ACKED", {"MaxLag": 0.0, "LeaderCount": 2.0})]
    assert [(one.count, one.is_open) for one in partitions] == [(1, True), (5, False)]


def test_an_event_is_written_at_once_with_the_polls_since_the_last_line(tmp_path: Path) -> None:
    brokers, _, _ = polled(tmp_path, [sample(LeaderCount=2.0)] * 3 + [sample(LeaderCount=1.0)])

    assert [(one.count, one.values) for one in brokers] == [(1, {"LeaderCount": 2.0}), (3, {"LeaderCount": 1.0})]


def test_a_change_of_the_isr_is_written_at_once(tmp_path: Path) -> None:
    _, partitions, _ = polled(tmp_path, [sample(), sample(), sample(isr=2), sample(isr=2)])

    assert [(one.in_sync_replicas, one.is_under_replicated, one.count, one.is_open) for one in partitions] == [
        (3, False, 1, True),
        (3, False, 2, False),
        (2, True, 1, True),
        (2, True, 2, False),
    ]


def test_a_broker_that_does_not_answer_is_a_fact_and_its_runs_end(tmp_path: Path) -> None:
    brokers, partitions, _ = polled(tmp_path, [sample(LeaderCount=2.0), SILENT, SILENT, sample(LeaderCount=2.0)])

    assert [(one.broker, one.outcome, one.code, one.count) for one in brokers] == [
        ("2", "ACKED", None, 1),
        ("2", "UNKNOWN", "TIMED_OUT", 1),
        ("2", "UNKNOWN", "TIMED_OUT", 1),
        ("2", "ACKED", None, 1),
    ]
    assert [(one.count, one.is_open) for one in partitions] == [(1, True), (1, False), (1, True), (1, False)]


def test_a_broker_that_never_answered_is_named_by_its_address(tmp_path: Path) -> None:
    brokers, _, _ = polled(tmp_path, [SILENT])

    assert [one.broker for one in brokers] == ["127.0.0.1:7777"]


def test_a_partition_that_went_away_ends_its_run(tmp_path: Path) -> None:
    gone = MetricSample("2", "c", {}, {})

    _, partitions, _ = polled(tmp_path, [sample(), gone, sample()])

    assert [(one.count, one.is_open) for one in partitions] == [(1, True), (1, False), (1, True), (1, False)]


def test_a_broker_of_another_cluster_is_not_recorded(tmp_path: Path) -> None:
    brokers, partitions, poller = polled(tmp_path, [sample(cluster_id="other")])

    assert (brokers, partitions) == ([], [])
    assert poller.trouble == "127.0.0.1:7777 belongs to the cluster other, not to c"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"urls": ()}, "no metrics URL"),
        ({"urls": ("nonsense",)}, "'nonsense' is not one"),
        ({"period_ms": 1}, "period_ms is 1"),
        ({"system": "abacus"}, "'abacus' is not a broker system that Lastack knows"),
        ({"login_file": "/nonexistent"}, "cannot be read"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config(tmp_path, **changed).sources()


def test_a_login_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_text("nobody")

    with pytest.raises(UsageError, match="USER:PASSWORD"):
        config(tmp_path, login_file=str(path)).sources()
    path.write_bytes(b"reader:\xff\n")
    with pytest.raises(UsageError, match="it is not UTF-8"):
        config(tmp_path, login_file=str(path)).sources()
    path.write_text("reader:secret\n")
    assert [source.address for source in config(tmp_path, login_file=str(path)).sources()] == ["h:1"]
