"""A real ZooKeeper-mode cluster: what its znodes tell of a killed leader that is the controller, and of a broker stopped in order."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pipelines.brokers.base import Decision
from pipelines.brokers.kafka.zookeeper import CHECK_SECONDS
from pipelines.lab import Fault, Lab, LabSpec
from tests.system.znode_reader import CLOCK, Following, of_mtime, story

pytestmark = pytest.mark.system

SESSION_MS = 6000
TICK_MS = 1000
TOPIC = "led"
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
SPEC = LabSpec(mode="zookeeper", properties=SETTINGS, zookeeper_properties={"tickTime": str(TICK_MS)})
FAILOVER_SECONDS = 60.0
CHECK_US = int(CHECK_SECONDS * 1e6)
SLACK_US = 1_000_000
"""How late this loaded machine may be to look."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(SPEC, anchor=CLOCK, say=lambda line: None) as running:
        running.admin.create_assigned_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        running.admin.wait_until_led(TOPIC, 20)
        yield running


@pytest.fixture
def znodes(lab: Lab) -> Iterator[KazooClient]:
    """A look of our own at the znodes."""
    client = KazooClient(lab.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture(autouse=True)
def _is_whole_again(lab: Lab) -> Iterator[None]:
    """Each test finds all brokers serving."""
    yield
    for node in lab.nodes:
        if not node.is_alive():
            lab.start(node)
    lab.wait_until_in_sync()


def in_thread(action: Callable[[], Any]) -> Awaitable[Any]:
    return asyncio.to_thread(action)


def state_of(znodes: KazooClient, number: int) -> tuple[dict[str, Any], Any]:
    data, stat = znodes.get(f"/brokers/topics/{TOPIC}/partitions/{number}/state")
    return json.loads(data), stat


def of_topic(decisions: list[Decision]) -> list[Decision]:
    return [one for one in decisions if one.resource == TOPIC]


def test_the_lab_is_a_cluster_in_zookeeper_mode_with_the_settings_that_it_was_given(lab: Lab, znodes: KazooClient) -> None:
    assert lab.admin.brokers() == {1, 2, 3}
    assert lab.controllers == []
    assert json.loads(znodes.get("/cluster/id")[0])["id"] == lab.cluster_id == lab.admin.cluster_id()
    assert json.loads(znodes.get("/controller")[0])["brokerid"] == lab.active_controller().node_id
    for node in lab.nodes:
        settings = lab.admin.broker_settings(node.node_id)
        assert settings["zookeeper.connect"] == lab.zookeeper_connect
        assert settings["zookeeper.session.timeout.ms"] == str(SESSION_MS)
        first = node.log_path.read_text().split(maxsplit=1)[0]
        assert first.endswith("Z")
    assert lab.zookeepers[0].conf()["tickTime"] == str(TICK_MS)


def test_a_killed_leader_that_is_the_controller_is_told_as_the_znodes_have_it(lab: Lab, znodes: KazooClient) -> None:
    killed = lab.active_controller()
    name = str(killed.node_id)
    before = {number: state_of(znodes, number)[0] for number in range(3)}

    async def told(reading: Following) -> None:
        fault: Fault = await in_thread(lambda: lab.kill(killed))
        await reading.until(
            lambda: {one.shard for one in of_topic(reading.decisions) if one.leader} == {"0", "1", "2"}, FAILOVER_SECONDS
        )
        print(report(fault, reading.decisions))

        (fenced,) = reading.of("broker_fenced")
        assert fenced.broker == name
        # The session is as old as its last heartbeat when the broker dies, and expires at a tick.
        assert fault.before_at_us < fenced.started_at_us
        assert fenced.ended_at_us - fault.after_at_us < (SESSION_MS + 2 * TICK_MS) * 1000 + SLACK_US
        assert fenced.ended_at_us - fenced.started_at_us < CHECK_US + SLACK_US
        assert reading.of("broker_shutting_down") == []

        _, controller = znodes.get("/controller")
        (changed,) = reading.of("controller_changed")
        assert (changed.previous_leader, changed.leader) == (name, str(json.loads(znodes.get("/controller")[0])["brokerid"]))
        assert changed.term == int(znodes.get("/controller_epoch")[0])
        assert (changed.position, changed.started_at_us) == (str(controller.czxid), controller.ctime * 1000)

        for number in range(3):
            now, stat = state_of(znodes, number)
            *first, last = [
                each for each in of_topic(reading.decisions) if each.shard == str(number) and each.event == "partition_changed"
            ]
            assert last.position == str(stat.mzxid)
            assert (last.ended_at_us, last.leader, last.term) == (of_mtime(stat)[1], str(now["leader"]), now["leader_epoch"])
            assert set(last.isr or ()) == {"1", "2", "3"} - {name}
            assert last.leader != name
            led = before[number]["leader"] == killed.node_id
            # A new controller first takes the dead broker out everywhere, and only then elects: one without a leader lies between. The
            # epoch rises with each write, also where the dead broker only followed.
            assert now["leader_epoch"] == before[number]["leader_epoch"] + (2 if led else 1)
            if led and first:
                assert [(one.previous_leader, one.leader, one.is_unclean) for one in (*first, last)] == [
                    (name, None, None),
                    (None, str(now["leader"]), False),
                ]
                assert (last.started_at_us, last.ended_at_us) == of_mtime(stat)
            elif led:
                assert reading.of("missed_changes")
                assert last.is_unclean is None
            assert fenced.started_at_us < last.ended_at_us
            assert int(fenced.position or 0) < int(changed.position or 0) < int(last.position or 0)

    story(lab.zookeeper_connect, told)


def test_a_broker_that_is_stopped_in_order_is_known_to_have_been(lab: Lab, znodes: KazooClient) -> None:
    node = next(one for one in lab.nodes if one is not lab.active_controller())
    name = str(node.node_id)

    async def told(reading: Following) -> None:
        fault: Fault = await in_thread(lambda: lab.terminate(node))
        await reading.until(lambda: bool(reading.of("broker_fenced")), FAILOVER_SECONDS)
        print(report(fault, reading.decisions))
        (leaving,) = reading.of("broker_shutting_down")
        (fenced,) = reading.of("broker_fenced")
        moved = [one for one in of_topic(reading.decisions) if name in (one.previous_isr or ()) and name not in (one.isr or ())]
        assert (leaving.broker, fenced.broker) == (name, name)
        assert {one.shard for one in moved} == {"0", "1", "2"}
        assert fault.before_at_us < leaving.started_at_us <= min(one.started_at_us for one in moved)
        assert int(leaving.position or 0) < min(int(one.position or 0) for one in moved)
        assert max(int(one.position or 0) for one in moved) < int(fenced.position or 0)
        # It registers again as fast as it starts: it ended its session itself.
        await in_thread(lambda: lab.start(node))
        await reading.until(lambda: bool(reading.of("broker_unfenced")), FAILOVER_SECONDS)

    story(lab.zookeeper_connect, told)


def test_a_deleted_topic_is_removed_and_never_without_a_leader(lab: Lab) -> None:
    lab.admin.create_topic("short-lived", partitions=3, replicas=3)
    lab.admin.wait_until_led("short-lived", 20)

    async def told(reading: Following) -> None:
        await in_thread(lambda: lab.admin.delete_topic("short-lived"))
        await reading.until(lambda: len(reading.of("partition_removed")) == 3, FAILOVER_SECONDS)
        assert [one.event for one in reading.decisions if one.resource == "short-lived"] == ["partition_removed"] * 3

    story(lab.zookeeper_connect, told)


def test_an_unclean_election_is_told_as_one(lab: Lab, znodes: KazooClient) -> None:
    survivor, leader = (one for one in lab.nodes if one is not lab.active_controller())
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    lab.admin.create_assigned_topic("unclean", [[leader.node_id, survivor.node_id]], settings)
    lab.admin.wait_until_led("unclean", 20)

    async def told(reading: Following) -> None:
        await in_thread(lambda: lab.kill(survivor))
        await reading.until(lambda: is_in(reading, "unclean", isr=(str(leader.node_id),)), FAILOVER_SECONDS)
        await in_thread(lambda: lab.kill(leader))
        await reading.until(lambda: is_in(reading, "unclean", leader=None), FAILOVER_SECONDS)
        await in_thread(lambda: lab.start(survivor))
        await reading.until(lambda: is_in(reading, "unclean", leader=str(survivor.node_id)), FAILOVER_SECONDS)
        changes = [one for one in reading.decisions if one.resource == "unclean"]
        last = [one for one in changes if one.leader != one.previous_leader and one.leader is not None][-1]
        assert (last.leader, last.previous_leader, last.is_unclean) == (str(survivor.node_id), None, True)

    story(lab.zookeeper_connect, told)


def is_in(reading: Following, topic: str, **state: Any) -> bool:
    """Whether the last decision about a topic of one partition says this."""
    last = [one for one in reading.decisions if one.resource == topic][-1:]
    return bool(last) and all(getattr(last[0], name) == value for name, value in state.items())


def report(fault: Fault, decisions: list[Decision]) -> str:
    """What happened when, in ms after the fault; for people who run this with -s."""
    lines = [f"{fault.fault} of {fault.target}"]
    for one in decisions:
        span = f"[{(one.started_at_us - fault.after_at_us) / 1000:.1f}, {(one.ended_at_us - fault.after_at_us) / 1000:.1f}]"
        who = one.broker or f"{one.resource}/{one.shard} {one.previous_leader}->{one.leader} {one.previous_isr}->{one.isr} e{one.term}"
        lines.append(f"{span} {one.event} {who} at {one.position}")
    return "\n".join(lines)
