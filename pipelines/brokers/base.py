"""What must a broker system offer so that Lastack can measure it? The newcomer's list, first part (then `probing`, `readback`).

The rule: a collector knows brokers through these protocols only, and through identity in words (`resource`, `shard`, `leader`
are strings, `term` and positions may be absent). A system offers what it has and says so in its `Entry` and its `Capabilities`; what
it does not have is absent, never faked: RabbitMQ has no positions, RocketMQ no ISR, a ZooKeeper-mode cluster no metadata log.

To add a system, write `pipelines/brokers/<system>/` with what it has of

- an `Entry`, named in `systems.SYSTEMS`: what it has at all, and how a cluster of it is reached;
- a `Prober` and its targets (`probing`), for `collect.canary`;
- a `Watchable`, for `collect.watch`: which shards there are, who leads them, how far each leader's log goes;
- a `MetricSource` for each broker, for `collect.metrics`;
- `ControlSource`s where the control plane can be read, for `collect.control_plane`: what it decided, and when;
- a `LogReader` (`readback`), for `pipelines.readback`: what is really stored.

Instants here are `time.monotonic_ns()` where they are ours (`sent_ns`, `received_ns`) and microseconds since the epoch where
they are the system's own (`started_at_us`, `ended_at_us`).

Example: `kafka.watching.KafkaWatch` answers `positions("2", {Shard("orders", "0"): 5}, deadline)` with `Position(value=1042,
term=5)`.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Outcome
from pipelines.errors import RetryableError

T = TypeVar("T", covariant=True)  # noqa: PLC0105 - one letter is the custom


class AskFailed(RetryableError):
    """A question to a broker has no answer. `code` is for the record, the message for people; `outcome` is what a probe that
    met it becomes: REJECTED (turned away at once), UNKNOWN (silence, or cut off) or VOID (the failure is the prober's own)."""

    def __init__(self, text: str, code: str, outcome: Outcome) -> None:
        super().__init__(text)
        self.code = code
        self.outcome = outcome


class BadPosition(RetryableError):
    """What was saved is not something that this source can go on from."""


class Shard(NamedTuple):
    """A partition of a topic, or a queue's only shard."""

    resource: str
    shard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """Where a cluster is and how it is reached, as the user said it.

    `command_config` is a file that says how to get in; secrets are there and nowhere else. `metrics` are URLs, one for each broker.
    `settings` are the system's own, under the names that its `Entry` lists, each with all its values.
    """

    system: str
    bootstrap: str
    command_config: Path | None = None
    metrics: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the system can be asked at all. That it has no terms or no ISR, the absent fields of a view say."""

    has_term_ends: bool
    """A leader says where an old leader's records end in its log, so committed loss can be proven without writing."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """What clients are told of a shard. `leader` is None where there is none; `identity` differs when it was made anew."""

    leader: str | None
    term: int | None
    isr: tuple[str, ...] | None
    replicas: tuple[str, ...] | None
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What clients are told of the whole cluster: asked at `sent_ns`, answered at `received_ns`."""

    cluster_id: str
    shards: Mapping[Shard, ShardView]
    sent_ns: int
    received_ns: int


@dataclass(frozen=True, slots=True)
class Position:
    """A leader's answer about one shard: ACKED, and how far committed records go; or REJECTED or VOID (the prober's own failure, not
    authorised for instance), and why (`code`, the system's own word)."""

    outcome: Outcome
    value: int | None = None
    term: int | None = None
    code: str | None = None
    is_unknown: bool = False
    """The broker does not know the shard: it was deleted, or the broker was not told of it yet."""


@dataclass(frozen=True, slots=True)
class TermEnd:
    """Where a term ends in the answering leader's log: the position after its last record; None where it is not known."""

    value: int | None
    term: int | None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """An answer, with the instants of asking and of receiving."""

    body: T
    sent_ns: int
    received_ns: int


class ShardSample(NamedTuple):
    """What one broker's metrics say of its replica of a shard. Flags are the leader's, the lag is a follower's; else None."""

    is_under_replicated: bool | None = None
    is_under_min_isr: bool | None = None
    is_at_min_isr: bool | None = None
    in_sync_replicas: int | None = None
    lag_records: int | None = None
    log_start: int | None = None
    log_end: int | None = None


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One look at one broker's metrics. What it does not have is absent; `broker` is None where it does not say who it is."""

    broker: str | None
    cluster_id: str | None
    values: Mapping[str, float]
    shards: Mapping[Shard, ShardSample]
    stamped_at_us: tuple[int, int] | None = None
    """When it was answered, by the host's own clock: the earliest and the latest instant that its stamp allows."""


class MetricSource(Protocol):
    """Where one broker's metrics are read, for `collect.metrics`. Used by one thread, which may wait."""

    address: str
    """Where it is asked: its name until it says who it is."""
    telling: frozenset[str]
    """The names of those values whose change is an event; the others move all the time, and are written now and then."""

    def poll(self, timeout_seconds: float) -> MetricSample:
        """Asks once. Raises AskFailed."""


class Watchable(Protocol):
    """A cluster that can be watched without writing to it. Every method raises AskFailed at the deadline at the latest
    (seconds on `time.monotonic()`), and a question to one broker never waits for another broker."""

    capabilities: Capabilities

    async def view(self, deadline: float) -> View:
        """What clients are told now; never older than what it told before."""

    async def positions(self, broker: str, shards: Mapping[Shard, int | None], deadline: float) -> Timed[dict[Shard, Position]]:
        """Asks a leader how far each of these shards goes. The mapping gives the term that clients were told."""

    async def term_ends(self, broker: str, shards: Mapping[Shard, tuple[int, int]], deadline: float) -> Timed[dict[Shard, TermEnd]]:
        """Asks a leader where old terms end: shard to (term of the leader, the old term). Only with `has_term_ends`."""

    async def close(self) -> None:
        """Ends all connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of the control plane: the fields of a `Control` record under the same names (see there)."""

    event: str
    started_at_us: int
    ended_at_us: int
    stamped_by: str | None = None
    position: str | None = None
    broker: str | None = None
    resource: str | None = None
    topic_id: str | None = None
    shard: str | None = None
    leader: str | None = None
    previous_leader: str | None = None
    term: int | None = None
    isr: tuple[str, ...] | None = None
    previous_isr: tuple[str, ...] | None = None
    replicas: tuple[str, ...] | None = None
    eligible_replicas: tuple[str, ...] | None = None
    is_unclean: bool | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions that became known together, in their order; none of them is a sign of life of the source.

    `is_provisional`: read where it could still be undone. `trouble`: the source cannot be read now, and why, in words for people.
    `is_cut`: decisions between the last ones and these were deleted before they could be read. `read_ns`: whatever the source held when
    it was asked at this instant (`time.monotonic_ns()`) has been given out; None: not read.
    """

    decisions: tuple[Decision, ...] = ()
    is_provisional: bool = False
    trouble: str | None = None
    is_cut: bool = False
    read_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlace:
    """Whose control plane is to be read, and by which clock."""

    cluster: ClusterPlace
    cluster_id: str
    clock: Anchor


class ControlSource(Protocol):
    """Where decisions of the control plane are read from. It goes on by itself through the death of any node."""

    name: str
    """The `source` of the records: one of `ControlSourceName`."""

    def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
        """Decisions from where `saved` says, without end, and a sign of life every second or so. Without `saved`, what is there when
        the source is first read is state and no news.

        Raises BadPosition when `saved` is no good, UsageError (Unauthorised) or RetryableError when it cannot be read at all: the
        caller takes another source.
        """

    def saved(self) -> str | None:
        """Text from which a later `follow` goes on after the decisions given out so far; None where there is none."""

    async def close(self) -> None:
        """Ends connections and closes files."""
