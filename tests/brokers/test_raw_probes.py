"""A raw probe is sent once, over the right connection, and what became of it is said as it was."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka import leaders
from pipelines.brokers.kafka.channel import WINDOW_MIN
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.gate import Gates
from pipelines.brokers.kafka.leaders import Leaders
from pipelines.brokers.kafka.produce import ACKS_ALL
from pipelines.brokers.kafka.raw_writes import RawWrites
from pipelines.brokers.kafka.reads import Reads
from pipelines.brokers.probing import Flight, LeaderChange, Pace, Reply, Target
from tests.brokers.fake_kafka import FakeCluster, fake_cluster

SECONDS = 5.0
PACE = Pace(100_000, 1_000_000)


class Bench:
    """A target over a fake cluster. Replies are kept by flight, in order."""

    def __init__(self, cluster: FakeCluster, make: Callable[[Leaders, Gates], Target]) -> None:
        self.cluster = cluster
        self.changes: list[LeaderChange] = []
        self.replies: dict[int, list[Reply]] = {}
        self._cluster = Cluster(cluster.connection)
        self.leaders = Leaders(self._cluster, ["t"], self.changes.append)
        self.gates = Gates(cluster.connection)
        self.target = make(self.leaders, self.gates)
        self._sequence = 0

    async def open(self) -> None:
        deadline = time.monotonic() + SECONDS
        await self._cluster.refresh(deadline, ())
        await self.leaders.open(deadline)
        await self.target.open(deadline)

    async def close(self) -> None:
        await self.leaders.close()
        await self.target.close()
        await self.gates.close()
        await self._cluster.close()

    def issue(self, partition: int = 0, payload: bytes = b"x", position: int | None = None) -> Flight:
        flight = Flight(Shard("t", str(partition)), self._sequence, time.monotonic_ns(), payload, self._landed, position)
        self._sequence += 1
        self.replies[flight.sequence] = []
        self.target.issue([flight])
        return flight

    def give_up(self, flight: Flight) -> None:
        self.target.overdue(flight)
        flight.is_over = True

    async def reply(self, flight: Flight) -> Reply:
        await self.until(lambda: bool(self.replies[flight.sequence]), f"the answer to probe {flight.sequence}")
        return self.replies[flight.sequence][-1]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited {SECONDS} s for {what}"
            await asyncio.sleep(0.002)

    def _landed(self, flight: Flight, reply: Reply) -> None:
        self.replies[flight.sequence].append(reply)


@asynccontextmanager
async def writing(partitions: int = 1, **changed: Any) -> AsyncIterator[Bench]:
    async with fake_cluster(partitions) as cluster:
        given = {"topic": "t", "acks": ACKS_ALL, "times": PACE} | changed
        bench = Bench(cluster, lambda leaders, gates: RawWrites(leaders=leaders, gates=gates, **given))
        await bench.open()
        try:
            yield bench
        finally:
            await bench.close()


@asynccontextmanager
async def reading(partitions: int = 1) -> AsyncIterator[Bench]:
    async with fake_cluster(partitions) as cluster:
        for number, one in cluster.partitions.items():
            one.records = [b"first", b"record of %d" % number]
        bench = Bench(cluster, lambda leaders, gates: Reads(topic="t", times=PACE, leaders=leaders, gates=gates))
        await bench.open()
        try:
            yield bench
        finally:
            await bench.close()


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


class TestWrites:
    def test_an_acknowledgement_says_where_and_when_it_was_stored(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                flight = bench.issue(payload=b"hello")
                reply = await bench.reply(flight)

                assert (reply.outcome, reply.is_answered, reply.position, reply.server_at_us) == ("ACKED", True, 0, 1_000_000)
                assert (flight.leader, flight.term) == ("1", 0)
                assert flight.sent_ns is not None
                assert flight.issued_ns <= flight.sent_ns <= reply.at_ns
                assert bench.cluster.partitions[0].records == [b"hello"]

        run(scenario)

    @pytest.mark.parametrize(
        ("code", "outcome", "name"),
        [
            (19, "REJECTED", "NOT_ENOUGH_REPLICAS"),
            (20, "UNKNOWN", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
            (7, "UNKNOWN", "REQUEST_TIMED_OUT"),
            (29, "VOID", "TOPIC_AUTHORIZATION_FAILED"),
            (3, "REJECTED", "UNKNOWN_TOPIC_OR_PARTITION"),
            (9999, "UNKNOWN", "ERROR_9999"),
        ],
    )
    def test_a_brokers_refusal_is_told_by_its_code(self, code: int, outcome: str, name: str) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                bench.cluster.brokers[1].answer = code
                reply = await bench.reply(bench.issue())

                assert (reply.outcome, reply.code, reply.is_answered) == (outcome, name, True)

        run(scenario)

    def test_it_is_sent_once_even_when_it_is_refused(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                bench.cluster.elect(0, 2)
                first = await bench.reply(bench.issue())
                await bench.until(lambda: bool(bench.changes), "the new leader to be known")
                second = await bench.reply(bench.issue())

                assert (first.outcome, first.code) == ("REJECTED", "NOT_LEADER_OR_FOLLOWER")
                assert second.outcome == "ACKED"
                assert bench.cluster.brokers[1].requests.count(ProduceRequest.__name__) == 1
                (change,) = bench.changes
                assert (change.leader, change.previous_leader, change.term) == ("2", "1", 1)
                assert change.asked_ns < first.at_ns < change.received_ns

        run(scenario)

    def test_one_that_hangs_holds_up_those_behind_it_until_its_time_is_up_and_then_the_next_goes_another_way(self) -> None:
        async def scenario() -> None:
            async with writing(times=Pace(100_000, 40_000)) as bench:
                broker = bench.cluster.brokers[1]
                broker.answer = "hang"
                first, second = bench.issue(), bench.issue()
                await bench.until(lambda: len(broker.requests) > 2 and broker.requests[-1] == "ProduceRequest", "the hang")
                broker.answer = "serve"
                assert broker.connections == 2, "one for metadata, one for the partition"

                until = time.monotonic() + 0.04
                await bench.until(lambda: time.monotonic() > until, "its time to be up")
                bench.give_up(first)
                third = bench.issue()
                assert (await bench.reply(third)).outcome == "ACKED"
                assert broker.connections == 3
                assert bench.replies[second.sequence] == []

                broker.released.set()
                assert (await bench.reply(first)).outcome == "ACKED", "the old connection is listened to for late answers"
                assert (await bench.reply(second)).outcome == "ACKED"

        run(scenario)

    def test_a_connection_on_which_answers_still_come_is_kept(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                broker = bench.cluster.brokers[1]
                assert (await bench.reply(bench.issue())).outcome == "ACKED"
                broker.answer = "hang"
                flight = bench.issue()
                bench.give_up(flight)
                broker.answer = "serve"
                broker.released.set()
                assert (await bench.reply(bench.issue())).outcome == "ACKED"
                assert broker.connections == 2, "one for metadata, one for the partition"

        run(scenario)

    def test_only_a_few_are_on_their_way_and_what_waits_is_not_sent_when_its_time_is_up(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                broker = bench.cluster.brokers[1]
                broker.answer = "hang"
                flights = [bench.issue(payload=b"%d" % number) for number in range(10)]
                assert [flight.sent_ns is not None for flight in flights] == [True] * WINDOW_MIN + [False] * 6
                assert {flight.waits_for for flight in flights} == {"TIMED_OUT"}
                for flight in flights[WINDOW_MIN:8]:
                    flight.is_over = True
                broker.answer = "serve"
                broker.released.set()
                await bench.reply(flights[9])

                assert bench.cluster.partitions[0].records == [b"0", b"1", b"2", b"3", b"8", b"9"]

        run(scenario)

    def test_a_connection_that_is_cut_leaves_it_unknown_and_the_next_one_is_sent_on_a_new_one(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                bench.cluster.brokers[1].answer = "drop"
                reply = await bench.reply(bench.issue())
                bench.cluster.brokers[1].answer = "serve"

                assert (reply.outcome, reply.code, reply.is_answered) == ("UNKNOWN", "CONNECTION_LOST", False)
                assert (await bench.reply(bench.issue())).outcome == "ACKED"

        run(scenario)

    def test_a_refused_connection_rejects_each_that_was_issued_before_the_attempt(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                await bench.cluster.brokers[1].stop()
                # The end of the connection may be noticed by the probe itself, which is then cut off, not refused.
                await bench.until(lambda: not next(iter(bench.target._channels.values())).is_ready, "the end of the connection")
                for _ in range(3):
                    flight = bench.issue()
                    reply = await bench.reply(flight)
                    assert (reply.outcome, reply.code, reply.is_answered) == ("REJECTED", "CONNECTION_REFUSED", False)
                    assert reply.at_ns > flight.issued_ns
                    assert flight.sent_ns is None

                await bench.cluster.brokers[1].start()
                replies = [await bench.reply(bench.issue()) for _ in range(2)]
                assert replies[-1].outcome == "ACKED"

        run(scenario)

    def test_what_waits_for_a_connection_is_not_sent_when_its_time_is_up(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                channel = next(iter(bench.target._channels.values()))
                await bench.cluster.brokers[1].stop()
                await bench.until(lambda: not channel.is_ready, "the end of the connection")
                held = asyncio.Event()
                channel._gate._open = held.wait  # the listener neither answers nor refuses
                first, second = bench.issue(), bench.issue()
                bench.give_up(first)
                assert first.waits_for == "NO_CONNECTION"
                assert channel.is_urgent
                bench.give_up(second)
                bench.give_up(second)
                assert not channel.is_urgent

        run(scenario)

    def test_without_a_leader_it_is_rejected_by_an_answer_that_was_asked_for_after_its_issue(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                bench.cluster.elect(0, None)
                bench.leaders.suspect()
                await bench.until(lambda: bool(bench.changes), "the loss of the leader to be known")
                flight = bench.issue()
                reply = await bench.reply(flight)

                assert (reply.outcome, reply.code, reply.is_answered) == ("REJECTED", "LEADER_NOT_AVAILABLE", True)
                assert reply.at_ns > flight.issued_ns

                flight = bench.issue()
                bench.cluster.elect(0, 2)
                assert (await bench.reply(flight)).outcome == "ACKED"
                assert flight.leader == "2"

        run(scenario)

    def test_what_a_quota_holds_up_has_an_excuse(self) -> None:
        async def scenario() -> None:
            async with writing() as bench:
                broker = bench.cluster.brokers[1]
                broker.throttle_ms = 60_000
                assert (await bench.reply(bench.issue())).outcome == "ACKED"
                broker.answer = "hang"
                flight = bench.issue()
                bench.give_up(flight)

                assert flight.excuse == "THROTTLED"

        run(scenario)

    def test_a_broker_that_is_too_old_is_our_own_trouble(self) -> None:
        async def scenario() -> None:
            async with fake_cluster() as cluster:
                cluster.brokers[1].versions[ProduceRequest] = (0, 5)
                given = {"topic": "t", "acks": 1, "times": PACE}
                bench = Bench(cluster, lambda known, gates: RawWrites(leaders=known, gates=gates, **given))
                deadline = time.monotonic() + 0.2
                await bench._cluster.refresh(deadline, ())
                await bench.leaders.open(deadline)
                await bench.target.open(deadline)
                reply = await bench.reply(bench.issue())
                await bench.close()

                assert (reply.outcome, reply.code) == ("VOID", "UNSUPPORTED_VERSION")

        run(scenario)

    @pytest.mark.parametrize(("connections_max", "expected"), [(256, 12), (4, 2), (1, 1)])
    def test_partitions_share_connections_only_where_there_are_too_many(self, connections_max: int, expected: int) -> None:
        async def scenario() -> None:
            async with writing(12, connections_max=connections_max) as bench:
                for number in range(12):
                    assert (await bench.reply(bench.issue(number))).outcome == "ACKED"

                assert len(bench.target._channels) == expected

        run(scenario)

    def test_a_hanging_partition_holds_up_no_other(self) -> None:
        async def scenario() -> None:
            async with writing(2) as bench:
                broker = bench.cluster.brokers[1]
                broker.answer = "hang"
                bench.issue(0)
                await bench.until(lambda: broker.requests[-1] == "ProduceRequest", "the hang")
                broker.answer = "serve"

                assert (await bench.reply(bench.issue(1))).outcome == "ACKED"

        run(scenario)


class TestReads:
    def test_the_bytes_at_the_position_come_back(self) -> None:
        async def scenario() -> None:
            async with reading() as bench:
                reply = await bench.reply(bench.issue(payload=b"record of 0", position=1))

                assert (reply.outcome, reply.position, reply.is_answered) == ("ACKED", 1, True)

        run(scenario)

    @pytest.mark.parametrize(
        ("payload", "position", "code"),
        [(b"record of 0", 2, "NOT_READABLE_YET"), (b"another", 1, "OTHER_RECORD"), (b"record of 0", 0, "OTHER_RECORD")],
    )
    def test_anything_else_is_no_read(self, payload: bytes, position: int, code: str) -> None:
        async def scenario() -> None:
            async with reading() as bench:
                reply = await bench.reply(bench.issue(payload=payload, position=position))

                assert (reply.outcome, reply.code) == ("REJECTED", code)

        run(scenario)

    def test_before_the_first_write_there_is_nothing_to_read(self) -> None:
        async def scenario() -> None:
            async with reading() as bench:
                reply = await bench.reply(bench.issue(position=None))

                assert (reply.outcome, reply.code) == ("VOID", "NO_COMMITTED_RECORD")

        run(scenario)

    def test_one_request_asks_a_leader_for_all_its_partitions_and_each_is_judged_alone(self) -> None:
        async def scenario() -> None:
            async with reading(4) as bench:
                bench.cluster.elect(3, 2)
                bench.leaders.suspect()
                await bench.until(lambda: bool(bench.changes), "the new leader to be known")
                flights = []
                for number in range(4):
                    payload = b"wrong" if number == 1 else b"record of %d" % number
                    flight = Flight(Shard("t", str(number)), number, time.monotonic_ns(), payload, bench._landed, 1)
                    bench.replies[number] = []
                    flights.append(flight)
                bench.target.issue(flights)
                outcomes = [(await bench.reply(flight)).outcome for flight in flights]

                assert outcomes == ["ACKED", "REJECTED", "ACKED", "ACKED"]
                assert [broker.requests.count("FetchRequest") for broker in bench.cluster.brokers.values()] == [1, 1]

        run(scenario)

    def test_a_cut_connection_is_a_refusal(self) -> None:
        async def scenario() -> None:
            async with reading() as bench:
                bench.cluster.brokers[1].answer = "drop"
                reply = await bench.reply(bench.issue(payload=b"record of 0", position=1))

                assert (reply.outcome, reply.code) == ("REJECTED", "CONNECTION_LOST")

        run(scenario)


def test_the_leaders_are_asked_for_often_only_in_trouble() -> None:
    async def scenario() -> None:
        async with writing() as bench:
            brokers = bench.cluster.brokers.values()
            asked = sum(broker.requests.count("MetadataRequest") for broker in brokers)
            await bench.until(
                lambda: sum(broker.requests.count("MetadataRequest") for broker in brokers) > asked, "the next calm question"
            )
            since = time.monotonic()
            for _ in range(3):
                bench.leaders.suspect()
                known = sum(broker.requests.count("MetadataRequest") for broker in brokers)
                await bench.until(
                    lambda known=known: sum(b.requests.count("MetadataRequest") for b in brokers) > known, "a hurried question"
                )
            took = time.monotonic() - since

            assert 2 * leaders.HURRY_SECONDS < took < 3 * leaders.CALM_SECONDS

    run(scenario)
