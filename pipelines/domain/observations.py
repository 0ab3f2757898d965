"""What can be observed of a message broker, and how is it written down?

Every observation is one flat record: an envelope that says who saw it, and fields that say what was seen. A collector for any
broker writes these records as JSON Lines (`docs/landing-format.md` is this module in words, `docs/landing-format.schema.json` is
made from it), bronze stores them under the same names, and the folds in this package read them.

The rule of the records: a record states what was seen and between which instants, never what it means. Identity is strings
(`resource`, `shard`, `leader`, `position`): RabbitMQ has no offsets and RocketMQ no ISR, so nothing may assume them.

Runs of equal outcomes are one record (`Probes`). While a run lasts it is written again and again, each time longer, under the
same (prober_id, boot_id, resource, shard, kind, lane, first_sequence); the longest says the same as all the shorter ones and
more, so the shorter ones may be dropped. `is_open` is true on all but the last.

Example: 50 acknowledged writes at a period of 100 ms, the first meant for t = 1_000_000 and acknowledged 2 ms later:
`Probes(outcome="ACKED", count=50, first_sequence=0, last_sequence=49, started_at_us=1_000_000, last_issued_at_us=5_900_000,
first_decided_at_us=1_002_000, ...)`.
"""

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

FORMAT = 1
"""The version of the landing format; a reader refuses a line of a version that it does not know."""


class Outcome(StrEnum):
    """What became of a probe by the end of its service latency lambda."""

    ACKED = "ACKED"
    REJECTED = "REJECTED"
    UNKNOWN = "UNKNOWN"
    VOID = "VOID"


class Kind(StrEnum):
    """Which service a probe asks for."""

    WRITE = "write"
    DURABLE_WRITE = "durable_write"
    READ = "read"
    LEADER = "leader"


class Lane(StrEnum):
    """How it asks: without retries, as applications do, by reading a known record, or by asking the leader for its offsets."""

    RAW = "raw"
    CLIENT = "client"
    READ = "read"
    WATCH = "watch"


class ControlEvent(StrEnum):
    """What the control plane decided."""

    PARTITION_CREATED = "partition_created"
    PARTITION_CHANGED = "partition_changed"
    PARTITION_REMOVED = "partition_removed"
    BROKER_REGISTERED = "broker_registered"
    BROKER_UNREGISTERED = "broker_unregistered"
    BROKER_FENCED = "broker_fenced"
    BROKER_UNFENCED = "broker_unfenced"
    BROKER_SHUTTING_DOWN = "broker_shutting_down"
    CONTROLLER_CHANGED = "controller_changed"
    CONTROLLER_SILENT = "controller_silent"
    CONTROLLER_RESUMED = "controller_resumed"
    MISSED_CHANGES = "missed_changes"
    """Changes between two states that were seen were not: the change that is told spans them, and has bounds as wide."""


class ControlSourceName(StrEnum):
    """Where decisions of the control plane are read."""

    METADATA_FETCH = "metadata_fetch"
    METADATA_LOG = "metadata_log"
    ZOOKEEPER = "zookeeper"
    ADMIN_POLL = "admin_poll"


FOLLOWED_IN_ORDER = frozenset({ControlSourceName.METADATA_FETCH, ControlSourceName.METADATA_LOG})
"""Sources whose decisions reach every broker in the order of their positions: brokers follow the log. Znodes are changed in the order
of their positions, too, but the controller tells each broker by requests of its own; what is polled has no order at all."""


def says(meaning: str, **default: Any) -> Any:
    """A dataclass field with its meaning; the schema and the tables' comments are made from it."""
    return field(metadata={"says": meaning}, **default)


def maybe(meaning: str) -> Any:
    """A field that may be absent (None), with its meaning."""
    return says(meaning, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Who saw it. (prober_id, boot_id, seq) names a line for good: the same line twice changes nothing."""

    system: str = says("the broker system: kafka, rocketmq, pulsar, rabbitmq")
    cluster_id: str = says("the cluster that was observed, as the system itself names it")
    collector: str = says("the program that observed: canary, watch, metrics, control_plane, readback, drill")
    prober_id: str = says("the observer; stays the same when the collector is restarted")
    boot_id: str = says("this run of the collector, unique")
    clock_id: str = says("the clock that all *_at_us of the line were read from; equal ids can be compared without error")
    seq: int = says("number of the line within (prober_id, boot_id), from 0 without gaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Envelope):
    """The collector lives. Written every few seconds: silence means unmeasured, and this is what breaks the silence."""

    record: ClassVar[str] = "status"
    state: str = says("running, degraded, stopping or stopped")
    message: str | None = maybe("why it is degraded, in words for people")
    started_at_us: int = says("since when it has been in this state")
    ended_at_us: int = says("the instant of this line; every outcome before it, less lambda, has been written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes(Envelope):
    """A run of consecutive probes of one partition, kind and lane with the same outcome (see the module's text)."""

    record: ClassVar[str] = "probes"
    resource: str = says("the topic or queue")
    shard: str = says("the partition")
    kind: str = says("write, durable_write, read or leader")
    lane: str = says("raw, client, read or watch")
    outcome: str = says("ACKED within lambda; REJECTED (refused); UNKNOWN (undecided at lambda); VOID (not measured)")
    code: str | None = maybe("the error's name, for outcomes other than ACKED")
    is_answered: bool = says("the outcome is a broker's own answer, not a silence or a dead connection", default=False)
    count: int = says("number of probes in the run")
    first_sequence: int = says("sequence of the first probe within (boot_id, resource, shard, kind, lane)")
    last_sequence: int = says("sequence of the last probe; the run has no gaps")
    started_at_us: int = says("intended issue of the first probe")
    last_issued_at_us: int = says("intended issue of the last probe")
    first_decided_at_us: int = says("when the first probe was decided: its answer, or its issue + lambda if that came first")
    last_decided_at_us: int = says("when the last probe was decided")
    earliest_decided_at_us: int = says("the earliest decision in the run")
    ended_at_us: int = says("the latest decision in the run")
    period_us: int = says("the time between intended issues")
    lambda_us: int = says("the latency up to which an acknowledgement counts as serving")
    latency_us_min: int | None = maybe("ACKED: shortest time from intended issue to acknowledgement")
    latency_us_max: int | None = maybe("ACKED: longest time from intended issue to acknowledgement")
    latency_us_mean: int | None = maybe("ACKED: mean time from intended issue to acknowledgement")
    issue_delay_us_max: int | None = maybe("how much later than intended a probe was really issued, at most")
    first_position: str | None = maybe("where the first acknowledged record was stored (Kafka: offset); for watch: the high watermark")
    last_position: str | None = maybe("where the last acknowledged record was stored; for watch: the high watermark")
    term: int | None = maybe("leader epoch in which the run was answered, where known")
    leader: str | None = maybe("the broker that the probes were sent to, where known")
    isr: tuple[str, ...] | None = maybe("watch: in-sync replicas by the client metadata of that time")
    replicas: tuple[str, ...] | None = maybe("watch: replicas by the client metadata of that time")
    topic_id: str | None = maybe("identity of the topic; a re-created topic has another one")
    first_server_at_us: int | None = maybe("the leader's own clock at the first record (Kafka: LogAppendTime)")
    last_server_at_us: int | None = maybe("the leader's own clock at the last record")
    clock_offset_us_min: int | None = maybe("the leader's clock minus ours is at least this, proven by send, append and answer")
    clock_offset_us_max: int | None = maybe("the leader's clock minus ours is at most this")
    is_open: bool = says("a later line with the same first_sequence may extend this one", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAcks(Envelope):
    """Acknowledgements that came after their probes had been decided otherwise: late for the service, yet not lost."""

    record: ClassVar[str] = "late_acks"
    resource: str = says("the topic or queue")
    shard: str = says("the partition")
    kind: str = says("write or durable_write")
    lane: str = says("raw or client")
    count: int = says("number of acknowledgements in the run")
    first_sequence: int = says("sequence of the first probe")
    last_sequence: int = says("sequence of the last probe; the run has no gaps")
    first_position: str | None = maybe("where the first record was stored")
    last_position: str | None = maybe("where the last record was stored")
    started_at_us: int = says("intended issue of the first probe")
    last_issued_at_us: int = says("intended issue of the last probe")
    first_decided_at_us: int = says("when the first acknowledgement came")
    ended_at_us: int = says("when the last acknowledgement came")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind(Envelope):
    """The prober itself could not see: it was stalled, stopped or out of disk. Nothing is known of the broker in this span."""

    record: ClassVar[str] = "blind"
    cause: str = says("stall, stopped, spool_full, unauthorised")
    started_at_us: int = says("last instant at which the prober was known to run")
    ended_at_us: int = says("first instant at which it ran again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Envelope):
    """One decision of the control plane, with its state before and after as far as the event carries it."""

    record: ClassVar[str] = "control"
    event: str = says("see ControlEvent")
    source: str = says("metadata_fetch, metadata_log, zookeeper or admin_poll: where it was read, which also says how exact it is")
    started_at_us: int = says("earliest instant at which it can have been decided (by the controller's clock, or the poll before)")
    ended_at_us: int = says("latest instant at which it can have been decided; equal to started_at_us + 999 for millisecond stamps")
    seen_at_us: int = says("when the collector saw it")
    stamped_by: str | None = maybe("whose clock started_at_us and ended_at_us are read from: a broker or controller; absent: clock_id")
    unseen_at_us: int | None = maybe("by clock_id: the last instant at which the source had been read, and did not hold it yet")
    is_provisional: bool = says("read from a node's disk and not yet known to be below the high watermark", default=False)
    position: str | None = maybe("offset in the metadata log, or zxid of the znode's change (of a deletion: at most)")
    broker: str | None = maybe("the broker or controller that the event is about")
    resource: str | None = maybe("the topic or queue")
    topic_id: str | None = maybe("identity of the topic; a re-created topic has another one")
    shard: str | None = maybe("the partition")
    leader: str | None = maybe("leader after the event; absent: no leader")
    previous_leader: str | None = maybe("leader before the event")
    term: int | None = maybe("leader epoch after the event; controller epoch for controller events")
    isr: tuple[str, ...] | None = maybe("in-sync replicas after the event, the leader included")
    previous_isr: tuple[str, ...] | None = maybe("in-sync replicas before the event")
    replicas: tuple[str, ...] | None = maybe("replicas after the event")
    eligible_replicas: tuple[str, ...] | None = maybe("eligible leader replicas after the event")
    is_unclean: bool | None = maybe("the new leader was neither in the previous ISR nor eligible: data may be lost")

    @property
    def is_polled(self) -> bool:
        """Whether it is only the difference of two states that were seen, and not what was decided: changes between them are missed."""
        return self.source == ControlSourceName.ADMIN_POLL


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSeen(Envelope):
    """Clients were told of another leader or epoch: between the two instants the metadata that clients get changed."""

    record: ClassVar[str] = "leader_seen"
    resource: str = says("the topic or queue")
    shard: str = says("the partition")
    leader: str | None = maybe("the leader that clients are told now; absent: none")
    previous_leader: str | None = maybe("the leader that clients were told before")
    term: int | None = maybe("leader epoch that clients are told now")
    started_at_us: int = says("when the last metadata answer with the previous leader had been asked for")
    ended_at_us: int = says("when the first metadata answer with the new leader came")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd(Envelope):
    """After an election: where the old epoch ends in the new leader's log, against the highest high watermark seen in it."""

    record: ClassVar[str] = "epoch_end"
    resource: str = says("the topic")
    shard: str = says("the partition")
    term: int = says("the old leader epoch")
    new_term: int = says("the epoch of the leader that answered")
    leader: str | None = maybe("the leader that answered")
    high_watermark_max: str = says("highest high watermark seen in the old epoch: records below it were committed")
    end_position: str = says("first position after the old epoch in the new leader's log")
    lost_records: int = says("committed records that are gone: high_watermark_max - end_position, at least 0")
    lost_started_at_us: int | None = maybe("if any: last instant at which the high watermark was seen at or below end_position")
    lost_ended_at_us: int | None = maybe("if any: first instant at which the highest high watermark was seen")
    started_at_us: int = says("when the question was asked")
    ended_at_us: int = says("when it was answered")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSeen(Envelope):
    """How far a host's clock is off ours, at most: proven by its own stamps, each of which lies between a question and its answer."""

    record: ClassVar[str] = "clock"
    host: str = says("whose clock: the broker or controller")
    method: str = says("append_time (its stamp of a record of ours) or response_time (its stamp of an answer)")
    clock_offset_us_min: int = says("its clock minus ours is at least this")
    clock_offset_us_max: int = says("its clock minus ours is at most this")
    count: int = says("how many stamps prove it together", default=1)
    has_stepped: bool = says("it contradicts what was written of this host before: its clock was set in between", default=False)
    started_at_us: int = says("when the first of them was asked for")
    ended_at_us: int = says("when the last of them was received")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics(Envelope):
    """One poll of one broker, or a run of polls that it did not answer."""

    record: ClassVar[str] = "broker_metrics"
    broker: str = says("the broker that was asked")
    outcome: str = says("ACKED (answered), REJECTED (an error answer) or UNKNOWN (no answer)")
    code: str | None = maybe("what went wrong")
    values: dict[str, float] | None = maybe("metric name to value; a metric that the broker does not have is absent")
    count: int = says("number of polls", default=1)
    started_at_us: int = says("when the first poll was sent")
    ended_at_us: int = says("when the last poll was answered or given up")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetrics(Envelope):
    """What one broker's metrics said of one of its partitions, over a run of polls in which no flag changed."""

    record: ClassVar[str] = "partition_metrics"
    broker: str = says("the broker that was asked")
    resource: str = says("the topic or queue")
    shard: str = says("the partition")
    is_under_replicated: bool | None = maybe("the leader's view; meaningless on followers, hence absent there")
    is_under_min_isr: bool | None = maybe("the leader's view")
    is_at_min_isr: bool | None = maybe("the leader's view")
    in_sync_replicas: int | None = maybe("the leader's count of in-sync replicas")
    lag_records_last: int | None = maybe("follower: records behind its leader, last poll")
    lag_records_max: int | None = maybe("follower: records behind its leader, highest in the run")
    log_start_position: str | None = maybe("first position in this replica's log, last poll")
    log_end_position: str | None = maybe("position after the last record in this replica's log, last poll")
    count: int = says("number of polls in the run", default=1)
    started_at_us: int = says("when the first poll of the run was sent")
    ended_at_us: int = says("when the last poll of the run was answered")
    is_open: bool = says("a later line with the same started_at_us may extend this one", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """Canary records that were found one after the other: sequence and position both rise by one from record to record."""

    boot_id: str
    first_sequence: int
    last_sequence: int
    first_position: int
    last_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack(Envelope):
    """A canary partition was read again, and this is every intact canary record that was in it."""

    record: ClassVar[str] = "readback"
    resource: str = says("the topic or queue")
    shard: str = says("the partition")
    kind: str = says("the kind of the lane that wrote it")
    lane: str = says("the lane that wrote it")
    from_position: str = says("first position that was read")
    to_position: str = says("position after the last that was read (the high watermark before reading)")
    log_start_position: str = says("first position in the log, the higher of before and after reading: below it nothing can be said")
    topic_id: str | None = maybe("identity of the topic; a re-created topic has another one")
    damaged_records: int = says("records whose hash does not fit their identity: they count as absent")
    runs: tuple[FoundRun, ...] = says("what was found, as runs")
    started_at_us: int = says("when reading began, after the log start was read")
    ended_at_us: int = says("when reading ended, before the log start was read again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Envelope):
    """A fault that was injected on purpose, as the injector saw it."""

    record: ClassVar[str] = "fault"
    fault: str = says("kill, terminate, pause, resume, start, ...")
    target: str = says("what it was done to, e.g. the broker")
    is_verified: bool = says("the injector checked that the fault took effect")
    started_at_us: int = says("just before the injection")
    ended_at_us: int = says("just after it was seen to have taken effect")


Observation = (
    Status
    | Probes
    | LateAcks
    | Blind
    | Control
    | LeaderSeen
    | EpochEnd
    | ClockSeen
    | BrokerMetrics
    | PartitionMetrics
    | ReadBack
    | Fault
)

RECORDS: dict[str, type[Any]] = {
    one.record: one
    for one in (
        Status,
        Probes,
        LateAcks,
        Blind,
        Control,
        LeaderSeen,
        EpochEnd,
        ClockSeen,
        BrokerMetrics,
        PartitionMetrics,
        ReadBack,
        Fault,
    )
}
"""Record name to its class: the whole vocabulary of the landing."""

ENVELOPE_FIELDS: tuple[str, ...] = tuple(one.name for one in dataclasses.fields(Envelope))
"""The names of the envelope's fields, in order."""
