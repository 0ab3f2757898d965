"""What did the controller decide, and what was the state before? The metadata log, replayed as Kafka itself replays it.

The rule: records change a state of topics, partitions and brokers exactly as org.apache.kafka.metadata does, so that each
decision carries what was before it. In particular:

- *leader epoch*: a PartitionChangeRecord carries none. It rises by one when the record names a leader (also "none", -1, and also the
  same leader again), and stays when it names none (-2); PartitionRegistration.merge.
- *unclean*: a record that names a leader and says that it is recovering (leaderRecoveryState 1); PartitionRegistration.
  electionWasUnclean. A new leader outside the previous ISR is not enough: a reassignment may bring it into the ISR by the same record.
- *transactions*: records between Begin and EndTransactionRecord count when it ends, those before an AbortTransactionRecord never.
- *instants*: the batch's timestamp, the active controller's clock at append, in milliseconds: [ms * 1000, ms * 1000 + 999]. Whose
  clock that is (`stamped_by`) is who the last LeaderChange record named.

An active controller writes a NoOpRecord every metadata.max.idle.interval.ms (500 by default). Between two of its batches a gap of
more than twice that and SILENCE_SLACK_MS is a controller that was silent, and then *resumed*; a batch of another controller ends the
silence of the one before it, however short. It *fell silent* between its last write and the end of the longest pause that it usually
made; both stamps of one event are of one clock. The interval is the median of the last gaps between NoOpRecords, since it can be
configured; without NoOpRecords nothing is said about silence.

Example: orders/0 is led by 2 in epoch 4 with ISR (2, 3, 1). The record {isr: [3, 1], leader: 3} gives PARTITION_CHANGED with
leader 3, previous_leader 2, term 5, isr (3, 1), previous_isr (2, 3, 1), is_unclean False.
"""

import json
import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from pipelines.brokers.base import BadPosition, Decision
from pipelines.brokers.kafka.batches import Batch
from pipelines.brokers.kafka.definitions import Definitions, Fields, UnknownRecord
from pipelines.brokers.kafka.metadata import topic_id_text
from pipelines.brokers.kafka.metadata_state import NO_LEADER, At, BrokerState, DecidedPartition, MetadataState, differences, text
from pipelines.brokers.kafka.wire import uvarint
from pipelines.domain.observations import ControlEvent

NO_LEADER_CHANGE = -2
RECOVERING = 1
LEADER_CHANGE = 2
"""The type of the control record that a new active controller writes first (org.apache.kafka.common.record.ControlRecordType)."""
FRAME_VERSION = 1
SILENCE_SLACK_MS = 500
IDLE_GAPS_MIN = 5
IDLE_GAPS_KEPT = 101
UNKNOWN_WRITER = "unknown"
"""Stands for a controller that nothing names (what a snapshot holds does not say who wrote it): nobody knows its clock."""


class Key(IntEnum):
    """The keys of the metadata records that matter here (common/metadata/*.json)."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    BROKER_REGISTRATION_CHANGE = 17
    NO_OP = 20
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28


REPLAYED = frozenset(Key) - {Key.NO_OP, Key.BEGIN_TRANSACTION, Key.END_TRANSACTION, Key.ABORT_TRANSACTION}
"""The keys of the records that change the state. Others (configurations, credentials, quotas) are not even decoded."""


@dataclass(slots=True)
class _Silence:
    """When the controller last wrote, and how often it does when it has nothing to say."""

    last_ms: int | None = None
    last_no_op_ms: int | None = None
    gaps_ms: deque[int] = field(default_factory=lambda: deque(maxlen=IDLE_GAPS_KEPT))

    def ended_by(self, timestamp_ms: int, *, is_of_another: bool) -> tuple[int, int] | None:
        """Between which instants the writer before this batch fell silent, by its own clock; None when it did not."""
        last, self.last_ms = self.last_ms, timestamp_ms
        if last is None or len(self.gaps_ms) < IDLE_GAPS_MIN:
            return None
        limit = round(2 * statistics.median(self.gaps_ms) + SILENCE_SLACK_MS)
        if not is_of_another and timestamp_ms - last <= limit:
            return None
        if is_of_another:
            self.last_no_op_ms = None  # the next one is of another clock
        return last, last + min(limit, max(self.gaps_ms))

    def no_op(self, timestamp_ms: int) -> None:
        if self.last_no_op_ms is not None and timestamp_ms > self.last_no_op_ms:
            gap = timestamp_ms - self.last_no_op_ms
            # A silence is no usual pause.
            if len(self.gaps_ms) < IDLE_GAPS_MIN or gap <= 2 * statistics.median(self.gaps_ms) + SILENCE_SLACK_MS:
                self.gaps_ms.append(gap)
        self.last_no_op_ms = timestamp_ms


class Replay:
    """The state of a cluster's metadata at `next_offset`, and what each batch decided. No I/O."""

    def __init__(self, definitions: Definitions) -> None:
        self.state = MetadataState()
        self.next_offset = 0
        self.epoch = 0
        self.timestamp_ms: int | None = None
        self.controller: int | None = None
        self._definitions = definitions
        self._silence = _Silence()
        self._transaction: list[tuple[int, Fields, int]] | None = None

    def saved(self) -> str | None:
        """What `restore` needs to go on from here; None while a transaction is open, whose records are not in the state yet."""
        if self._transaction is not None:
            return None
        saved = {
            "next_offset": self.next_offset,
            "epoch": self.epoch,
            "timestamp_ms": self.timestamp_ms,
            "controller": self.controller,
            "idle_gaps_ms": list(self._silence.gaps_ms),
            "state": self.state.to_json(),
        }
        return json.dumps(saved, separators=(",", ":"))

    def restore(self, text_of_saved: str) -> None:
        """Goes on from what `saved` returned. Raises BadPosition when it is something else."""
        try:
            saved = json.loads(text_of_saved)
            self.state = MetadataState.from_json(saved["state"])
            self.next_offset, self.epoch = int(saved["next_offset"]), int(saved["epoch"])
            self.timestamp_ms, self.controller = saved["timestamp_ms"], saved["controller"]
            self._silence = _Silence(last_ms=self.timestamp_ms, gaps_ms=deque(saved["idle_gaps_ms"], IDLE_GAPS_KEPT))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadPosition(f"the saved position of the metadata log cannot be used ({error}); its present state is taken") from error

    def load(self, batches: Iterable[Batch], next_offset: int, epoch: int) -> list[Decision]:
        """Takes a whole snapshot as the state. Returns how it differs from the state before, if there was one: what was decided
        in between, with bounds as wide as the time between. Raises UnknownRecord."""
        before, since_ms = self.state, self.timestamp_ms
        self.state, self.controller, self._transaction = MetadataState(), None, None
        for batch in batches:
            self.apply(batch)
        until_ms = max(self.timestamp_ms or 0, since_ms or 0)
        self.next_offset, self.epoch, self._silence = next_offset, epoch, _Silence()
        if since_ms is None:
            return []
        at = At(next_offset - 1, since_ms * 1000, until_ms * 1000 + 999, UNKNOWN_WRITER)
        return list(differences(before, self.state, at))

    def apply(self, batch: Batch) -> list[Decision]:
        """Takes the next batch of the log and returns its decisions in order. Raises UnknownRecord."""
        # A batch that names a new leader was written by that leader.
        named = self._leader_named(batch)
        writer = text(self.controller if named is None else named) or UNKNOWN_WRITER
        at = At(batch.base_offset, batch.timestamp_ms * 1000, batch.timestamp_ms * 1000 + 999, writer)
        decisions: list[Decision] = []
        decisions += self._silent(batch, at, is_of_another=named is not None and named != self.controller)
        for index, (key, value) in enumerate(batch.records):
            record_at = replace(at, offset=batch.base_offset + index)
            if batch.is_control:
                decisions += self._control(key or b"", value or b"", batch.epoch, record_at)
            else:
                decisions += self._record(value or b"", record_at)
        self.next_offset, self.epoch, self.timestamp_ms = batch.next_offset, batch.epoch, batch.timestamp_ms
        return decisions

    def _silent(self, batch: Batch, at: At, *, is_of_another: bool) -> Iterator[Decision]:
        fell_silent = self._silence.ended_by(batch.timestamp_ms, is_of_another=is_of_another)
        if fell_silent is None:
            return
        before = text(self.controller)
        since_ms, until_ms = fell_silent
        silent = At(at.offset, since_ms * 1000, until_ms * 1000 + 999, before or UNKNOWN_WRITER)
        yield silent.decision(ControlEvent.CONTROLLER_SILENT, broker=before, term=self.epoch)
        if not is_of_another:
            yield at.decision(ControlEvent.CONTROLLER_RESUMED, broker=before, term=self.epoch)

    def _leader_named(self, batch: Batch) -> int | None:
        named = [value for key, value in batch.records if batch.is_control and int.from_bytes((key or b"")[2:4]) == LEADER_CHANGE]
        return self._leader_id(named[0] or b"") if named else None

    def _leader_id(self, value: bytes) -> int:
        leader: int = self._definitions.message("LeaderChangeMessage").decode(value, int.from_bytes(value[:2]))["leader_id"]
        return leader

    def _control(self, key: bytes, value: bytes, epoch: int, at: At) -> Iterator[Decision]:
        if int.from_bytes(key[2:4]) != LEADER_CHANGE:
            return
        previous, self.controller = self.controller, self._leader_id(value)
        now = text(self.controller)
        event = ControlEvent.CONTROLLER_CHANGED
        yield at.decision(event, broker=now, leader=now, previous_leader=text(previous), term=epoch)

    def _record(self, value: bytes, at: At) -> list[Decision]:
        view = memoryview(value)
        frame, position = uvarint(view, 0)
        api_key, position = uvarint(view, position)
        version, position = uvarint(view, position)
        if frame != FRAME_VERSION:
            raise UnknownRecord(f"the metadata record at offset {at.offset} has frame version {frame}, expected {FRAME_VERSION}")
        if api_key == Key.NO_OP:
            self._silence.no_op(at.started_at_us // 1000)
        elif api_key == Key.BEGIN_TRANSACTION:
            self._transaction = []
        elif api_key == Key.ABORT_TRANSACTION:
            self._transaction = None
        elif api_key == Key.END_TRANSACTION:
            held, self._transaction = self._transaction or [], None
            # Decided when the transaction ended, written down under the offsets of its records.
            return [one for key, fields, offset in held for one in self._change(key, fields, replace(at, offset=offset))]
        elif api_key in REPLAYED:
            fields = self._definitions.record(api_key, version, view[position:])
            if self._transaction is None:
                return self._change(api_key, fields, at)
            self._transaction.append((api_key, fields, at.offset or 0))
        return []

    def _change(self, api_key: int, fields: Fields, at: At) -> list[Decision]:
        topic_id = topic_id_text(fields.get("topic_id")) or ""
        decisions: list[Decision] = []
        match api_key:
            case Key.TOPIC:
                self.state.topics[topic_id] = fields["name"]
                self.state.partitions.setdefault(topic_id, {})
            case Key.PARTITION:
                decisions = [self.state.set_partition(topic_id, fields["partition_id"], _partition(fields), at)]
            case Key.PARTITION_CHANGE:
                decisions = [self._partition_change(topic_id, fields, at)]
            case Key.REMOVE_TOPIC:
                decisions = self.state.remove_topic(topic_id, at)
            case Key.CLEAR_ELR:
                self.state.clear_eligible(fields["topic_name"])
            case Key.REGISTER_CONTROLLER:
                where = tuple((one["host"], one["port"]) for one in fields["end_points"])
                self.state.controllers[fields["controller_id"]] = where
            case Key.REGISTER_BROKER:
                decisions = self._register(fields, at)
            case Key.UNREGISTER_BROKER:
                self.state.brokers.pop(fields["broker_id"], None)
                decisions = [at.decision(ControlEvent.BROKER_UNREGISTERED, broker=str(fields["broker_id"]))]
            case _:
                decisions = self._broker_change(api_key, fields, at)
        return decisions

    def _partition_change(self, topic_id: str, fields: Fields, at: At) -> Decision:
        number = fields["partition_id"]
        before = self.state.partitions.get(topic_id, {}).get(number)
        if before is None:
            raise UnknownRecord(f"offset {at.offset} changes partition {number} of topic id {topic_id}, which does not exist")
        names_leader = fields["leader"] != NO_LEADER_CHANGE
        state = DecidedPartition(
            fields["leader"] if names_leader else before.leader,
            before.epoch + 1 if names_leader else before.epoch,
            before.isr if fields["isr"] is None else tuple(fields["isr"]),
            before.replicas if fields["replicas"] is None else tuple(fields["replicas"]),
            before.eligible if fields["eligible_leader_replicas"] is None else tuple(fields["eligible_leader_replicas"]),
        )
        is_unclean = fields["leader_recovery_state"] == RECOVERING if names_leader and state.leader != NO_LEADER else None
        return self.state.set_partition(topic_id, number, state, at, is_unclean)

    def _register(self, fields: Fields, at: At) -> list[Decision]:
        """A broker that registers again (a restart faster than its session) was not fenced before, and is now."""
        node = fields["broker_id"]
        before = self.state.brokers.get(node)
        state = BrokerState(bool(fields["fenced"]), bool(fields["in_controlled_shutdown"]))
        self.state.brokers[node] = state
        decisions = [at.decision(ControlEvent.BROKER_REGISTERED, broker=str(node))]
        if before is not None and state.is_fenced and not before.is_fenced:
            decisions.append(at.decision(ControlEvent.BROKER_FENCED, broker=str(node)))
        return decisions

    def _broker_change(self, api_key: int, fields: Fields, at: At) -> list[Decision]:
        node = fields["broker_id"] if api_key == Key.BROKER_REGISTRATION_CHANGE else fields["id"]
        fenced = {Key.FENCE_BROKER.value: 1, Key.UNFENCE_BROKER.value: -1}.get(api_key, fields.get("fenced", 0))
        state = self.state.brokers.get(node, BrokerState(is_fenced=True))
        events = []
        if fenced:
            state = replace(state, is_fenced=fenced > 0)
            events.append(ControlEvent.BROKER_FENCED if fenced > 0 else ControlEvent.BROKER_UNFENCED)
        if fields.get("in_controlled_shutdown", 0) == 1 and not state.is_shutting_down:
            state = replace(state, is_shutting_down=True)
            events.append(ControlEvent.BROKER_SHUTTING_DOWN)
        self.state.brokers[node] = state
        return [at.decision(event, broker=str(node)) for event in events]


def _partition(fields: Fields) -> DecidedPartition:
    return DecidedPartition(
        fields["leader"],
        fields["leader_epoch"],
        tuple(fields["isr"]),
        tuple(fields["replicas"]),
        tuple(fields["eligible_leader_replicas"] or ()),
    )
