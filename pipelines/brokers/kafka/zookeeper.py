"""What did the controller decide, read from its znodes as they change?

The rule: everything is read once and watched; what a watch names is read again at once, a few times a second it is made sure that
nothing else has changed (`Znodes.checkpoint`), and after every loss of the connection everything is read again. What was decided is the
difference of two looks (`zookeeper_state`, `zookeeper_members`), whether they are a millisecond apart or a restart: a change that was
seen by itself is as exact as its mtime, one that hides others says so, and what is gone went between the last look that showed it and
the first that does not.

A topic that is being deleted (it is in `/admin/delete_topics`) has its leaders and ISRs taken away one by one first. Those writes are
part of the deletion and no decisions of their own; what is told is that its partitions were removed.

Znodes say what was decided, not when brokers heard of it: the controller tells each by requests of its own.

Needs READ on the znodes, which Kafka leaves to everybody also where it sets ACLs (zookeeper.set.acl).

Example: `ZookeeperControl("127.0.0.1:2181/kafka", clock)` and `async for decided in source.follow(None)`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator

from pipelines.brokers.base import BadPosition, Decision, Decisions
from pipelines.brokers.kafka.znodes import BROKERS, SessionBroken, Znode, Znodes
from pipelines.brokers.kafka.zookeeper_members import CONTROLLER, CONTROLLER_EPOCH, Members
from pipelines.brokers.kafka.zookeeper_state import BadZnode, Look, PartitionZnode, TopicZnode, ZookeeperState, body_of
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import ControlSourceName
from pipelines.errors import ConnectionFailed

TOPICS = "/brokers/topics"
DELETED = "/admin/delete_topics"
LOG_DIR_EVENTS = "/log_dir_event_notification"
CLUSTER = "/cluster/id"

CHECK_SECONDS = 0.2
"""How often it is made sure that nothing has changed: so wide are the bounds of what is gone."""
ALIVE_SECONDS = 1.0
SILENT_SECONDS = 2.0
"""How long ZooKeeper may not answer before it is said."""
FIRST_SECONDS = 5.0
"""How long the check before a measurement waits for an answer."""
GIVE_UP_SECONDS = 10.0
"""When nobody ever answered within this, the address is wrong."""
TRIES = 5
"""How often registrations are read again that changed while they were read."""


class ZookeeperControl:
    """A `ControlSource` over the znodes of a cluster in ZooKeeper mode.

    Args:
        connect: the brokers' `zookeeper.connect`, chroot included.
        clock: ours, for what has no instant of its own.
        cluster_id: what the cluster must be; None: not checked.
    """

    name = ControlSourceName.ZOOKEEPER.value

    def __init__(self, connect: str, clock: Anchor, cluster_id: str | None = None) -> None:
        self._znodes = Znodes(connect)
        self._clock = clock
        self._cluster_id = cluster_id
        self._state = ZookeeperState()
        self._members = Members()
        self._generation: int | None = None
        self._is_known = False
        self._since_us = 0
        self._read_ns: int | None = None
        """When it was last made sure that nothing had changed; `_since_us` is the same by the clock of the record."""
        self._ahead_us: int | None = None
        self._zxid = 0
        """The newest change that ZooKeeper had when it was last read."""
        self._is_due = False
        self._alive_at = 0.0

    async def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
        """See `ControlSource.follow`. Raises ConnectionFailed when no server answers within some seconds or Kafka is not there, and
        Unauthorised when a znode may not be read."""
        self._state, self._members, self._is_known, self._zxid = ZookeeperState(), Members(), False, 0
        if saved is not None:
            self._restore(saved)
        await self._znodes.start(GIVE_UP_SECONDS)
        answered_at = time.monotonic()
        trouble = "ZooKeeper does not answer"
        self._is_due = True
        turn = asyncio.create_task(self._turn())
        try:
            while True:
                await asyncio.wait({turn}, timeout=ALIVE_SECONDS)
                if turn.done():
                    try:
                        decisions = turn.result()
                        answered_at = time.monotonic()
                        if decisions:
                            yield Decisions(tuple(decisions), read_ns=self._read_ns)
                    except (SessionBroken, BadZnode) as error:
                        trouble = str(error)
                    turn = asyncio.create_task(self._turn())
                if time.monotonic() >= self._alive_at:
                    self._alive_at = time.monotonic() + ALIVE_SECONDS
                    trouble_now = trouble if time.monotonic() - answered_at > SILENT_SECONDS else None
                    yield Decisions(trouble=trouble_now, read_ns=self._read_ns)
        finally:
            turn.cancel()

    def saved(self) -> str | None:
        """See `ControlSource.saved`."""
        if not self._is_known:
            return None
        saved = {
            "since_us": self._since_us,
            "zxid": self._zxid,
            "state": self._state.to_json(),
            "members": self._members.to_json(),
        }
        return json.dumps(saved, separators=(",", ":"))

    async def check(self, timeout: float) -> None:
        """Raises what `follow` would raise at its start, and SessionBroken."""
        await self._znodes.start(timeout)
        await self._check_cluster()

    async def close(self) -> None:
        """Ends the session."""
        await self._znodes.close()

    def _restore(self, text: str) -> None:
        try:
            saved = json.loads(text)
            self._state, self._members = ZookeeperState.from_json(saved["state"]), Members.from_json(saved["members"])
            self._since_us, self._zxid = int(saved["since_us"]), int(saved["zxid"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadPosition(f"the saved state of the znodes cannot be used ({error}); their present state is taken") from error
        self._is_known = True

    async def _until_due(self) -> None:
        """Until a watch names something, or it is time to make sure that nothing has changed."""
        if self._znodes.changed:
            return
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._znodes.wake.wait()
        except TimeoutError:
            return

    async def _turn(self) -> list[Decision]:
        """Waits until something has to be read, reads it, and returns what was decided. Raises SessionBroken, BadZnode."""
        if not self._is_due:
            await self._until_due()
        self._is_due = False
        self._znodes.wake.clear()
        try:
            return await self._read()
        except (SessionBroken, BadZnode):
            # What was named as changed may be lost with the answers: everything is read again.
            self._generation = None
            raise

    async def _read(self) -> list[Decision]:
        if self._generation != self._znodes.generation:
            return await self._read_all()
        if self._znodes.changed:
            changed, self._znodes.changed = self._znodes.changed, set()
            return await self._look(changed)
        asked_ns = time.monotonic_ns()
        await self._znodes.checkpoint()
        if not self._znodes.changed and self._generation == self._znodes.generation:
            self._read_ns, self._since_us = asked_ns, self._clock.at_us(asked_ns)
        return []

    async def _read_all(self) -> list[Decision]:
        generation, asked_ns = self._znodes.generation, time.monotonic_ns()
        self._znodes.changed = set()
        await self._znodes.checkpoint()
        await self._check_cluster()
        known = [_topic_path(name) for name in self._state.topics]
        states = [_state_path(name, number) for name, of_topic in self._state.partitions.items() for number in of_topic]
        decisions = await self._look({TOPICS, BROKERS, CONTROLLER, *known, *states})
        if not self._is_known:
            decisions, self._is_known = [], True
        self._generation, self._read_ns = generation, asked_ns
        self._since_us, self._ahead_us = self._clock.at_us(asked_ns), None
        return decisions

    async def _check_cluster(self) -> None:
        """Raises ConnectionFailed where there is no Kafka, or another one; BadPosition where ZooKeeper was made anew."""
        found = await self._znodes.read([CLUSTER, BROKERS, TOPICS], is_watched=False)
        if found[BROKERS] is None:
            raise ConnectionFailed(
                f"--zookeeper {self._znodes.connect}: there is no {BROKERS}; expected the brokers' zookeeper.connect, chroot included"
            )
        cluster = found[CLUSTER]
        cluster_id = None if cluster is None else body_of(CLUSTER, cluster).get("id")
        if self._cluster_id is not None and cluster_id != self._cluster_id:
            raise ConnectionFailed(
                f"--zookeeper {self._znodes.connect} belongs to the cluster {cluster_id}, but {self._cluster_id} is measured"
            )
        if self._znodes.last_zxid < self._zxid:
            raise BadPosition(
                f"ZooKeeper {self._znodes.connect} is at zxid {self._znodes.last_zxid}, but was seen at {self._zxid}: it was made anew;"
                " its present state is taken"
            )

    async def _look(self, changed: set[str]) -> list[Decision]:
        """Reads the paths that changed and what they lead to, all of it before anything is taken as known."""
        topic_names = await self._znodes.children(TOPICS) if TOPICS in changed else None
        fresh = topic_names[0] - self._state.topics.keys() if topic_names is not None else frozenset()
        names = sorted(fresh | {path.rsplit("/", 1)[1] for path in changed if _is_topic(path)})
        read = await self._znodes.read(map(_topic_path, names))
        topics = {name: TopicZnode.of(_topic_path(name), znode) for name in names if (znode := read[_topic_path(name)]) is not None}
        wanted = {path for path in changed if path.endswith("/state")}
        wanted |= {
            _state_path(name, number)
            for name, topic in topics.items()
            for number in topic.replicas.keys() - self._state.partitions.get(name, {}).keys()
        }
        states = await self._znodes.read(sorted(wanted))
        # Read after the states: a deletion that has taken anything away from them is named here, or is over.
        deleted = await self._deleted() if states else frozenset()
        if topic_names is None and None in states.values():
            topic_names = await self._znodes.children(TOPICS)
        brokers = await self._brokers() if any(path.startswith(BROKERS) for path in changed) else None
        log_dir_events = (await self._znodes.read([LOG_DIR_EVENTS], is_watched=False))[LOG_DIR_EVENTS] if brokers else None
        controller = await self._controller() if changed & {CONTROLLER, CONTROLLER_EPOCH} else None

        look = Look(self._since_us or self._clock.now_us(), self._clock.now_us(), self._ahead_us, self._znodes.last_zxid)
        decisions: list[Decision] = []
        if topic_names is not None:
            decisions += self._state.topics_are(topic_names[0], topic_names[1].pzxid, look)
        present = topic_names[0] if topic_names is not None else None
        for name, topic in topics.items():
            if present is None or name in present:
                decisions += self._state.topic_is(name, topic, look)
        for path, znode in states.items():
            name, number = _partition_of(path)
            if znode is not None and name not in deleted and name in self._state.topics:
                self._note_clock(znode, look)
                decisions += self._state.partition_is(name, number, PartitionZnode.of(path, znode), look)
        if brokers is not None:
            decisions += self._members.brokers_are(brokers[0], brokers[1], log_dir_events, self._state, look)
        if controller is not None:
            decisions += self._members.controller_is(*controller, look)
        self._zxid = max(self._zxid, self._znodes.last_zxid)
        return sorted(decisions, key=lambda one: int(one.position or 0))

    def _note_clock(self, znode: Znode, look: Look) -> None:
        """What was written at an instant of the server's clock was seen by now, by ours."""
        ahead_us = znode.mtime_ms * 1000 - look.seen_us
        self._ahead_us = ahead_us if self._ahead_us is None else max(self._ahead_us, ahead_us)

    async def _deleted(self) -> frozenset[str]:
        """The topics that are being deleted."""
        found = await self._znodes.children(DELETED)
        return frozenset() if found is None else found[0]

    async def _brokers(self) -> tuple[dict[int, Znode], Znode]:
        """The registrations, and the znode that they are below; both of one moment."""
        for _ in range(TRIES):
            found = await self._znodes.children(BROKERS)
            if found is None:
                break
            names, ids = found
            read = await self._znodes.read(f"{BROKERS}/{name}" for name in names)
            there = {int(path.rsplit("/", 1)[1]): znode for path, znode in read.items() if znode is not None}
            if len(there) == len(names) and all(znode.czxid <= ids.pzxid for znode in there.values()):
                return there, ids
        raise SessionBroken(f"ZooKeeper {self._znodes.connect}: {BROKERS} changed {TRIES} times while it was read")

    async def _controller(self) -> tuple[Znode | None, Znode | None]:
        """`/controller` and `/controller_epoch`, of one election where that can be had."""
        for _ in range(TRIES):
            read = await self._znodes.read([CONTROLLER, CONTROLLER_EPOCH])
            controller, epoch = read[CONTROLLER], read[CONTROLLER_EPOCH]
            if controller is None or epoch is None or controller.czxid == epoch.mzxid:
                break
        return controller, epoch


def check_zookeeper(connect: str, cluster_id: str) -> None:
    """Connects once. Raises ConnectionFailed or Unauthorised, with one line for people, where the cluster is not kept there."""
    asyncio.run(_check(connect, cluster_id))


async def _check(connect: str, cluster_id: str) -> None:
    source = ZookeeperControl(connect, Anchor.now(), cluster_id)
    try:
        await source.check(FIRST_SECONDS)
    except (SessionBroken, BadZnode) as error:
        raise ConnectionFailed(f"--zookeeper {connect}: {error}") from error
    finally:
        await source.close()


def _topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def _state_path(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def _is_topic(path: str) -> bool:
    return path.startswith(f"{TOPICS}/") and path.count("/") == 3


def _partition_of(path: str) -> tuple[str, int]:
    _, _, _, name, _, number, _ = path.split("/")
    return name, int(number)
