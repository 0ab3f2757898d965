"""Decisions are read from the znodes of a real ZooKeeper, written as Kafka's controller writes them."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from pipelines.brokers.base import BadPosition, Decision
from pipelines.brokers.kafka.znodes import registered_brokers
from pipelines.brokers.kafka.zookeeper import CHECK_SECONDS, ZookeeperControl
from pipelines.errors import ConnectionFailed, Unauthorised
from pipelines.lab.zookeeper import ZooKeeperNode
from tests.system.znode_reader import CLOCK, Following, bounds, first_of, of_mtime, story
from tests.system.zookeeper_server import CLUSTER, WriterOfZnodes, zookeeper_server

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperNode]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as node:
        yield node


@pytest.fixture
def kafka(server: ZooKeeperNode, request: pytest.FixtureRequest) -> Iterator[WriterOfZnodes]:
    """Brokers 1, 2 and 3, of which 1 is the controller, and the topic orders, whose partition 0 is led by 1."""
    writer = WriterOfZnodes(server.address, f"/{abs(hash(request.node.name))}")
    for broker in (1, 2, 3):
        writer.register(broker)
    writer.elect(1, 1)
    writer.create_topic("orders", [[1, 2, 3]])
    yield writer
    writer.close()


# --- partitions -------------------------------------------------------------------------------------------------------------


def test_what_is_there_already_is_state_and_no_news(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        await reading.until(lambda: reading.signs >= 2)
        assert reading.decisions == []

    story(kafka.connect, told)


def test_a_change_is_told_with_what_was_before_it_and_as_exactly_as_its_znode(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        stat = kafka.change("orders", 0, 2, 1, [2, 3])
        (decision,) = await reading.until_told(1)
        assert decision == Decision(
            event="partition_changed",
            position=str(stat.mzxid),
            started_at_us=stat.mtime * 1000,
            ended_at_us=stat.mtime * 1000 + 999,
            stamped_by="zookeeper",
            resource="orders",
            topic_id="id",
            shard="0",
            leader="2",
            previous_leader="1",
            term=1,
            isr=("2", "3"),
            previous_isr=("1", "2", "3"),
            replicas=("1", "2", "3"),
            is_unclean=False,
        )

    story(kafka.connect, told)


def test_every_change_that_is_seen_by_itself_is_told_in_order(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        for epoch, leader in enumerate((2, 3, 1, 2), start=1):
            kafka.change("orders", 0, leader, epoch, [leader])
            await reading.until_told(epoch)
        assert [(one.previous_leader, one.leader, one.term) for one in reading.decisions] == [
            ("1", "2", 1),
            ("2", "3", 2),
            ("3", "1", 3),
            ("1", "2", 4),
        ]
        assert [int(one.position or 0) for one in reading.decisions] == sorted(int(one.position or 0) for one in reading.decisions)

    story(kafka.connect, told)


def test_an_unclean_election_is_one_and_the_clean_one_after_it_is_none(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        kafka.change("orders", 0, 1, 0, [1])
        await reading.until_told(1)
        kafka.change("orders", 0, 2, 1, [2], leader_recovery_state=1)
        await reading.until_told(2)
        kafka.change("orders", 0, 2, 1, [2, 3], leader_recovery_state=1)
        await reading.until_told(3)
        kafka.change("orders", 0, 3, 2, [3], leader_recovery_state=1)
        await reading.until_told(4)
        assert [one.is_unclean for one in reading.decisions] == [None, True, None, False]

    story(kafka.connect, told)


def test_a_partition_without_a_leader_is_told_as_one(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        kafka.change("orders", 0, -1, 1, [1])
        (decision,) = await reading.until_told(1)
        assert (decision.leader, decision.isr, decision.is_unclean) == (None, ("1",), None)

    story(kafka.connect, told)


def test_a_topic_that_is_made_is_told_partition_by_partition_also_when_its_states_come_later(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        kafka.create_topic("new", [[1, 2], [2, 3]], topic_id="new-id")
        created = await reading.until_told(2)
        assert {(one.event, one.resource, one.shard, one.leader, one.topic_id) for one in created} == {
            ("partition_created", "new", "0", "1", "new-id"),
            ("partition_created", "new", "1", "2", "new-id"),
        }
        kafka.assign("new", [[1, 2], [2, 3], [3, 1]], topic_id="new-id")
        await reading.until(lambda: len(reading.source._state.topics["new"].replicas) == 3)
        kafka.client.create("/brokers/topics/new/partitions/2/state", b'{"leader":3,"leader_epoch":0,"isr":[3,1]}', makepath=True)
        third = (await reading.until_told(3))[2]
        assert (third.event, third.shard, third.leader, third.replicas) == ("partition_created", "2", "3", ("3", "1"))

    story(kafka.connect, told)


def test_a_reassignment_is_told_with_its_replicas(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        stat = kafka.assign("orders", [[1, 2]])
        (decision,) = await reading.until_told(1)
        assert (decision.event, decision.replicas, decision.leader, bounds(decision)) == (
            "partition_changed",
            ("1", "2"),
            "1",
            of_mtime(stat),
        )

    story(kafka.connect, told)


def test_a_deleted_topic_was_removed_and_never_without_a_leader(kafka: WriterOfZnodes) -> None:
    kafka.create_topic("gone", [[1, 2], [2, 1]])

    async def told(reading: Following) -> None:
        before_us = CLOCK.now_us()
        kafka.delete_topic("gone")
        removed = await reading.until_told(2)
        await reading.until(lambda: reading.source._since_us > CLOCK.now_us() - 1_000_000)
        assert {(one.event, one.shard, one.previous_leader) for one in removed} == {
            ("partition_removed", "0", "1"),
            ("partition_removed", "1", "2"),
        }
        assert len(reading.decisions) == 2
        for one in removed:
            assert before_us - 1_000_000 < one.started_at_us <= one.ended_at_us <= CLOCK.now_us()

    story(kafka.connect, told)


# --- versions that were not seen -------------------------------------------------------------------------------------------


def test_changes_that_nobody_saw_are_said_and_widen_the_one_that_is_seen(kafka: WriterOfZnodes) -> None:
    async def nothing(reading: Following) -> None:
        await reading.until(lambda: reading.source.saved() is not None)

    saved = story(kafka.connect, nothing)
    first = kafka.client.exists("/brokers/topics/orders/partitions/0/state")
    kafka.change("orders", 0, 2, 1, [2, 3])
    last = kafka.change("orders", 0, 3, 2, [3])

    async def told(reading: Following) -> None:
        missed, changed = await reading.until_told(2)
        assert (missed.event, missed.resource, missed.shard, missed.position) == ("missed_changes", "orders", "0", str(last.mzxid))
        assert (changed.event, changed.previous_leader, changed.leader, changed.term) == ("partition_changed", "1", "3", 2)
        # Nobody knows the changes between: neither whether one of them was unclean, nor when each of them was.
        assert changed.is_unclean is None
        assert bounds(missed) == bounds(changed) == (first.mtime * 1000, last.mtime * 1000 + 999)

    story(kafka.connect, told, saved)


def test_a_change_that_hides_another_began_after_the_last_look(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        kafka.change("orders", 0, 1, 0, [1, 2])
        await reading.until_told(1)
        looked_us = CLOCK.now_us()
        await reading.until(lambda: reading.source._since_us > looked_us + 500_000)
        # Both in one transaction: whoever reads sees the second one only.
        transaction = kafka.client.transaction()
        for data in (b'{"leader":2,"leader_epoch":1,"isr":[2]}', b'{"leader":2,"leader_epoch":1,"isr":[2,3]}'):
            transaction.set_data("/brokers/topics/orders/partitions/0/state", data)
        transaction.commit()
        stat = kafka.client.exists("/brokers/topics/orders/partitions/0/state")
        _, missed, changed = await reading.until_told(3)
        assert missed.event == "missed_changes"
        assert looked_us + 400_000 < changed.started_at_us < stat.mtime * 1000 <= changed.ended_at_us == stat.mtime * 1000 + 999

    story(kafka.connect, told)


# --- brokers and the controller ---------------------------------------------------------------------------------------------


def test_a_broker_that_is_gone_was_fenced_between_the_last_look_and_now(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        before_us = CLOCK.now_us()
        kafka.unregister(3)
        after_us = CLOCK.now_us()
        (fenced,) = await reading.until_told(1)
        assert (fenced.event, fenced.broker) == ("broker_fenced", "3")
        assert before_us - 2 * CHECK_SECONDS * 1e6 - 100_000 < fenced.started_at_us <= after_us
        assert before_us <= fenced.ended_at_us <= CLOCK.now_us()
        stat = kafka.register(3)
        _, registered, unfenced = await reading.until_told(3)
        assert [one.event for one in (registered, unfenced)] == ["broker_registered", "broker_unfenced"]
        assert bounds(registered) == bounds(unfenced) == of_mtime(stat)
        assert registered.position == str(stat.czxid)

    story(kafka.connect, told)


def test_a_broker_whose_leaders_and_isrs_were_moved_while_it_was_there_was_shutting_down(kafka: WriterOfZnodes) -> None:
    kafka.create_topic("other", [[2, 3], [3]])

    async def told(reading: Following) -> None:
        first = kafka.change("other", 0, 2, 1, [2])
        kafka.change("orders", 0, 1, 1, [1, 2])
        await reading.until_told(2)
        kafka.unregister(3)
        _, _, leaving, fenced = await reading.until_told(4)
        assert (leaving.event, leaving.broker, leaving.position) == ("broker_shutting_down", "3", str(first.mzxid - 1))
        assert bounds(leaving) == of_mtime(first)
        assert fenced.event == "broker_fenced"

    story(kafka.connect, told)


@pytest.mark.parametrize("why", ["something was left to it", "its leader dropped it", "a log directory had failed"])
def test_a_broker_that_may_have_crashed_was_not_shutting_down(kafka: WriterOfZnodes, why: str) -> None:
    kafka.create_topic("other", [[2, 3]])

    async def told(reading: Following) -> None:
        if why == "a log directory had failed":
            kafka.client.create("/log_dir_event_notification/log_dir_event_", b"{}", sequence=True)
        epoch = 0 if why == "its leader dropped it" else 1
        kafka.change("orders", 0, 1, epoch, [1, 2])
        await reading.until_told(1)
        if why != "something was left to it":
            kafka.change("other", 0, 2, epoch, [2])
            await reading.until_told(2)
        kafka.unregister(3)
        await reading.until(lambda: bool(reading.of("broker_fenced")))
        assert reading.of("broker_shutting_down") == []

    story(kafka.connect, told)


def test_the_controller_s_end_and_its_successor_are_told(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        before_us = CLOCK.now_us()
        kafka.unregister(1)
        await reading.until(lambda: reading.source._members.controller.broker is None)
        absent_us = CLOCK.now_us()
        stat = kafka.elect(2, 2)
        fenced, silent, changed = await reading.until_told(3)
        assert (fenced.event, fenced.broker) == ("broker_fenced", "1")
        assert (silent.event, silent.broker, silent.term) == ("controller_silent", "1", 1)
        assert before_us - 1_000_000 < silent.started_at_us <= silent.ended_at_us <= absent_us
        assert (silent.stamped_by, changed.stamped_by) == (None, "zookeeper")
        assert (changed.event, changed.broker, changed.leader, changed.previous_leader, changed.term) == (
            "controller_changed",
            "2",
            "2",
            "1",
            2,
        )
        assert (bounds(changed), changed.position) == (of_mtime(stat), str(stat.czxid))

    story(kafka.connect, told)


# --- over gaps ----------------------------------------------------------------------------------------------------------------


def test_a_restart_finds_what_was_decided_meanwhile_and_repeats_nothing(kafka: WriterOfZnodes) -> None:
    async def before(reading: Following) -> None:
        kafka.change("orders", 0, 2, 1, [2, 3, 1])
        await reading.until_told(1)

    saved = story(kafka.connect, before)
    stopped_us = CLOCK.now_us()
    stat = kafka.change("orders", 0, 3, 2, [3, 1])
    kafka.unregister(2)
    kafka.unregister(3)
    anew = kafka.register(3)

    async def after(reading: Following) -> None:
        events = await reading.until_told(5)
        assert sorted((one.event, one.broker or one.resource) for one in events) == [
            ("broker_fenced", "2"),
            ("broker_fenced", "3"),
            ("broker_registered", "3"),
            ("broker_unfenced", "3"),
            ("partition_changed", "orders"),
        ]
        (changed,) = reading.of("partition_changed")
        assert bounds(changed) == of_mtime(stat)
        two, three = sorted(reading.of("broker_fenced"), key=lambda one: one.broker or "")
        assert two.started_at_us <= stopped_us <= two.ended_at_us <= CLOCK.now_us()
        assert three.started_at_us <= stopped_us
        assert three.ended_at_us == anew.ctime * 1000 + 999

    story(kafka.connect, after, saved)


def test_after_our_own_session_has_expired_everything_is_read_again_and_nothing_is_lost(kafka: WriterOfZnodes) -> None:
    async def told(reading: Following) -> None:
        client = reading.source._znodes._client
        generation = reading.source._znodes.generation
        thief = KazooClient(kafka.connect, client_id=client.client_id)
        await asyncio.to_thread(thief.start)
        await asyncio.to_thread(thief.stop)
        stat = kafka.change("orders", 0, 2, 1, [2, 3])
        kafka.unregister(3)
        await reading.until(lambda: reading.source._generation is not None and reading.source._generation > generation)
        await reading.until(lambda: len(reading.decisions) >= 2)
        assert sorted(one.event for one in reading.decisions) == ["broker_fenced", "partition_changed"]
        assert bounds(reading.of("partition_changed")[0]) == of_mtime(stat)

    story(kafka.connect, told)


def test_a_server_that_hangs_is_said_and_gone_on_with(kafka: WriterOfZnodes, server: ZooKeeperNode) -> None:
    async def told(reading: Following) -> None:
        server.pause()
        try:
            signs = reading.signs
            await reading.until(lambda: bool(reading.troubles))
            assert reading.signs > signs, "it gives signs of life meanwhile"
        finally:
            server.resume()
        await reading.until(lambda: reading.source._since_us > CLOCK.now_us() - 500_000)
        stat = kafka.change("orders", 0, 2, 1, [2, 3])
        await reading.until(lambda: bool(reading.of("partition_changed")))
        assert bounds(reading.of("partition_changed")[0]) == of_mtime(stat)

    story(kafka.connect, told)


def test_two_thousand_partitions_are_read_and_followed_within_seconds(kafka: WriterOfZnodes) -> None:
    for topic in range(20):
        kafka.create_topic(f"many-{topic}", [[1, 2, 3]] * 100)

    async def told(reading: Following) -> None:
        assert sum(map(len, reading.source._state.partitions.values())) == 2001
        begun = time.monotonic()
        gap = longest = 0.0
        for topic in range(20):
            for number in range(100):
                kafka.client.set_async(
                    f"/brokers/topics/many-{topic}/partitions/{number}/state", b'{"leader":2,"leader_epoch":1,"isr":[2,3]}'
                )
        while len(reading.decisions) < 2000:
            gap = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - gap)
            assert time.monotonic() - begun < 10
        assert {one.event for one in reading.decisions} == {"partition_changed"}
        assert longest < 1.0, "the event loop was held up"
        assert all(one.ended_at_us - one.started_at_us == 999 for one in reading.decisions)

    begun = time.monotonic()
    saved = story(kafka.connect, told)
    assert saved is not None
    assert time.monotonic() - begun < 20


# --- what cannot be read --------------------------------------------------------------------------------------------------------


def test_a_wrong_address_says_what_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.brokers.kafka.zookeeper.GIVE_UP_SECONDS", 0.5)
    with pytest.raises(ConnectionFailed, match=r"--zookeeper 127\.0\.0\.1:1: no server answered within 0\.5 s"):
        asyncio.run(first_of(ZookeeperControl("127.0.0.1:1", CLOCK)))


def test_a_wrong_chroot_says_what_is_missing(server: ZooKeeperNode) -> None:
    with pytest.raises(ConnectionFailed, match=r"there is no /brokers/ids; expected the brokers' zookeeper.connect, chroot included"):
        asyncio.run(first_of(ZookeeperControl(f"{server.address}/nowhere", CLOCK)))


def test_another_cluster_is_not_taken_for_this_one(kafka: WriterOfZnodes) -> None:
    with pytest.raises(ConnectionFailed, match=f"belongs to the cluster {CLUSTER}, but another is measured"):
        asyncio.run(first_of(ZookeeperControl(kafka.connect, CLOCK, "another")))


def test_a_znode_that_may_not_be_read_is_named(kafka: WriterOfZnodes) -> None:
    kafka.client.set_acls("/brokers/topics/orders", [make_digest_acl("kafka", "secret", all=True)])
    with pytest.raises(Unauthorised, match=r"/brokers/topics/orders may not be read .*; its ACL has to allow us READ"):
        asyncio.run(first_of(ZookeeperControl(kafka.connect, CLOCK, CLUSTER)))


@pytest.mark.parametrize("saved", ["", "{}", '{"since_us":1,"zxid":1,"state":{"format":9},"members":{}}'])
def test_what_cannot_be_gone_on_from_is_said(kafka: WriterOfZnodes, saved: str) -> None:
    with pytest.raises(BadPosition):
        asyncio.run(first_of(ZookeeperControl(kafka.connect, CLOCK, CLUSTER), saved))


def test_a_zookeeper_that_was_made_anew_is_not_compared_with_the_old_one(kafka: WriterOfZnodes) -> None:
    async def nothing(reading: Following) -> None:
        await reading.until(lambda: reading.source.saved() is not None)

    saved = story(kafka.connect, nothing) or ""
    newer = saved.replace('"zxid":', '"zxid":9', 1)
    with pytest.raises(BadPosition, match="was made anew"):
        asyncio.run(first_of(ZookeeperControl(kafka.connect, CLOCK, CLUSTER), newer))


def test_the_registered_brokers_can_be_asked_for_at_once(kafka: WriterOfZnodes) -> None:
    assert registered_brokers(kafka.connect) == {1, 2, 3}
    with pytest.raises(ConnectionFailed):
        registered_brokers("127.0.0.1:1", timeout=0.3)
