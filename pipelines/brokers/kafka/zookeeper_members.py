"""Which brokers does ZooKeeper have, and which of them is the controller? What changed between two looks. No I/O.

The rule: a registration (`/brokers/ids/N`, `/controller`) is an ephemeral znode, which lives as long as its owner's session.

- *It is made*: broker registered, and at once unfenced, for ZooKeeper mode has no step in between.
- *It is gone*: the session ended, by expiry or by an orderly stop. The controller gives the broker up then, as a KRaft controller
  does when it fences one: broker fenced. Made anew since the last look (another czxid): all three.
- *Controlled shutdown* is in no znode: the controller keeps it in memory. What it writes because of it is there: while the broker is
  still registered, it takes it out of every ISR that others are in, too (each such write raises the leader epoch). So: shutting down,
  when the broker is gone, every such write came before that (zxids say), none is left to be made, and no log directory was reported to
  have failed since it registered (which makes the controller write the same). It is told together with the fencing, and dated to the
  first of those writes, just before which it is placed. Where several registrations came or went between two looks, nothing is claimed.
- *No controller*: `/controller` is absent: silent, since some instant between its last look that showed it and the first that does not.
  Its session may have outlived it: that it is there proves nothing of the controller.

Example: broker 2 registered at zxid 40. At zxids 90 and 91 the controller moves orders/0 and orders/1 from it, at 95 its znode goes:
BROKER_SHUTTING_DOWN at position 89, BROKER_FENCED at 95.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pipelines.brokers.base import Decision
from pipelines.brokers.kafka.metadata_state import text
from pipelines.brokers.kafka.znodes import Znode
from pipelines.brokers.kafka.zookeeper_state import Drops, Look, ZookeeperState, body_of, made, written
from pipelines.domain.observations import ControlEvent

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"


@dataclass(frozen=True, slots=True)
class Controller:
    """Who is the controller (None: nobody), or was the last one; and the epoch's znode, whose version rises with each election."""

    broker: int | None
    last_broker: int | None
    czxid: int
    epoch: int | None
    epoch_version: int
    epoch_mtime_ms: int
    absent_since_us: int | None = None


@dataclass(slots=True)
class Members:
    """The registrations at the last look. Each method takes what is there now, keeps it, and returns what was decided."""

    brokers: dict[int, int] = field(default_factory=dict)
    """Broker id to the czxid of its registration."""
    cversion: int | None = None
    """How often a registration had come or gone."""
    controller: Controller | None = None

    def brokers_are(
        self, found: Mapping[int, Znode], ids: Znode, log_dir_events: Znode | None, state: ZookeeperState, look: Look
    ) -> Iterator[Decision]:
        """The children of /brokers/ids, that znode itself, and /log_dir_event_notification, read after it."""
        is_one_step = self.cversion is not None and ids.cversion - self.cversion == 1
        self.cversion = ids.cversion
        gone = look
        if is_one_step:
            there_us = max(look.since_us, state.written_before(ids.pzxid) * 1000)
            gone = replace(look, since_us=min(there_us, look.seen_us))
        for broker in sorted(self.brokers.keys() - found.keys()):
            czxid = self.brokers.pop(broker)
            drops = state.drops.pop(broker, None)
            has_failed_log_dir = log_dir_events is not None and log_dir_events.pzxid >= czxid
            if drops and is_one_step and not has_failed_log_dir and _is_in_order(drops, czxid, ids.pzxid, state, broker):
                at_us = drops.first_mtime_ms * 1000
                shutting_down = ControlEvent.BROKER_SHUTTING_DOWN
                yield made(shutting_down, drops.first_mzxid - 1, at_us, at_us + 999, broker=str(broker))
            yield gone.gone(ids.pzxid, ControlEvent.BROKER_FENCED, broker=str(broker))
        for broker, znode in sorted(found.items()):
            before, self.brokers[broker] = self.brokers.get(broker), znode.czxid
            if before == znode.czxid:
                continue
            if before is not None:
                state.drops.pop(broker, None)
                since_us, gone_by_us = look.after(0, znode.ctime_ms), znode.ctime_ms * 1000 + 999
                yield made(ControlEvent.BROKER_FENCED, znode.czxid, since_us, gone_by_us, broker=str(broker))
            yield written(ControlEvent.BROKER_REGISTERED, znode, broker=str(broker))
            yield written(ControlEvent.BROKER_UNFENCED, znode, broker=str(broker))

    def controller_is(self, znode: Znode | None, epoch: Znode | None, look: Look) -> Iterator[Decision]:
        """`/controller` and `/controller_epoch`, which an election writes in one step."""
        before = self.controller
        version, mtime_ms = (epoch.version, epoch.mtime_ms) if epoch is not None else (0, 0)
        if before is not None and epoch is not None and version - before.epoch_version > 1:
            since_us = look.after(before.epoch_mtime_ms, mtime_ms)
            yield made(ControlEvent.MISSED_CHANGES, epoch.mzxid, since_us, mtime_ms * 1000 + 999, term=_epoch(epoch))
        last = before.last_broker if before is not None else None
        if znode is None:
            since = before.absent_since_us if before is not None and before.broker is None else look.since_us
            czxid = before.czxid if before is not None else 0
            if before is not None and before.broker is not None:
                fields = {"broker": text(before.broker), "term": before.epoch}
                yield look.gone(max(look.zxid, czxid), ControlEvent.CONTROLLER_SILENT, **fields)
            self.controller = Controller(None, last, czxid, _epoch(epoch), version, mtime_ms, since)
            return
        broker = int(body_of(CONTROLLER, znode)["brokerid"])
        term = _epoch(epoch) if epoch is not None and epoch.mzxid == znode.czxid else None
        self.controller = Controller(broker, broker, znode.czxid, term, version, mtime_ms)
        if before is None or before.czxid == znode.czxid:
            return
        now, previous = str(broker), None if last is None else str(last)
        yield written(ControlEvent.CONTROLLER_CHANGED, znode, broker=now, leader=now, previous_leader=previous, term=term)

    def to_json(self) -> dict[str, Any]:
        """The registrations as plain data."""
        controller = None if self.controller is None else [getattr(self.controller, slot) for slot in Controller.__slots__]
        return {"brokers": self.brokers, "cversion": self.cversion, "controller": controller}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`, also after JSON made texts of numbers."""
        controller = None if data["controller"] is None else Controller(*data["controller"])
        return cls({int(broker): int(czxid) for broker, czxid in data["brokers"].items()}, data["cversion"], controller)


def _is_in_order(drops: Drops, czxid: int, gone_zxid: int, state: ZookeeperState, broker: int) -> bool:
    """Whether everything was taken from a broker while it was registered."""
    is_while_registered = czxid < drops.first_mzxid and drops.last_mzxid < gone_zxid
    return is_while_registered and not state.has_in_sync_with_others(broker)


def _epoch(znode: Znode | None) -> int | None:
    return None if znode is None else int(znode.data)
