"""What must a broker system offer so that the canary can probe it? The newcomer's list, second part (the first is `base`).

The rule: the canary decides *when* a probe is issued and what its outcome means; a `Target` of the broker system carries probes of
one lane and says what became of each: an answer, a refusal, or nothing. A target never decides that time is up, never sends a
probe twice and never holds one up because of another shard. All of it runs on one event loop, in one thread.

To add a system, offer a target for each lane that it can serve, and name those lanes in its `Entry`:

- *raw* writes: one attempt each, straight to the leader, no retries of any kind;
- *client* writes: the system's ordinary client with its stock settings, whatever it does inside;
- *read*: the bytes of a record whose write was acknowledged as durable;

and a `Prober` that brings them together. A system that lacks a lane leaves it out: nothing probes it.

Instants are `time.monotonic_ns()`. `server_at_us` is the system's own clock, microseconds since the epoch.

Example: a flight for shard 0 was sent; the leader answers that it is no leader any more: the target calls
`flight.land(Reply(Outcome.REJECTED, at_ns, "NOT_LEADER_OR_FOLLOWER", is_answered=True))`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipelines.brokers.base import ClusterPlace, Shard
from pipelines.domain.observations import Kind, Lane, Outcome

if TYPE_CHECKING:
    from pipelines.domain.spans import Decided

WAITING_FOR_LEADER = "LEADER_UNKNOWN"
WAITING_FOR_CONNECTION = "NO_CONNECTION"
WAITING_FOR_ANSWER = "TIMED_OUT"
"""What a flight is waiting for: its code, should nothing come in time."""


class Reply(NamedTuple):
    """What became of a probe. REJECTED: it was not done, for certain. UNKNOWN: it failed, and may have been done. VOID: the failure
    is the prober's own. `is_answered`: a broker said so itself."""

    outcome: Outcome
    at_ns: int
    code: str | None = None
    is_answered: bool = False
    position: int | str | None = None
    server_at_us: int | None = None


class Flight:
    """One probe on its way.

    The canary sets `shard`, `sequence`, `issued_ns` (the intended instant) and `payload` (for reads: the bytes that must come back,
    `position` says where from), and `is_over` once it has decided without an answer: what was not sent by then is not sent any more.
    The target sets `sent_ns`, `leader`, `term` and `topic_id` when it sends, `waits_for`, and `excuse` when a failure would be the
    prober's own; `carrier` is its own note, as `verdict` is the canary's.
    """

    __slots__ = (
        "carrier",
        "excuse",
        "is_over",
        "issued_ns",
        "land_on",
        "leader",
        "payload",
        "position",
        "sent_ns",
        "sequence",
        "shard",
        "term",
        "topic_id",
        "verdict",
        "waits_for",
    )

    def __init__(
        self,
        shard: Shard,
        sequence: int,
        issued_ns: int,
        payload: bytes,
        land_on: "Callable[[Flight, Reply], None]",
        position: int | str | None = None,
    ) -> None:
        self.shard = shard
        self.sequence = sequence
        self.issued_ns = issued_ns
        self.payload = payload
        self.position = position
        self.land_on = land_on
        self.is_over = False
        self.sent_ns: int | None = None
        self.leader: str | None = None
        self.term: int | None = None
        self.topic_id: str | None = None
        self.waits_for = WAITING_FOR_LEADER
        self.excuse: str | None = None
        self.carrier: object = None
        self.verdict: Decided | None = None

    def land(self, reply: Reply) -> None:
        """The target's last word on it; also when it comes too late."""
        self.carrier = None  # it may hold on to the flight: a ring would be left to the garbage collector's pauses
        self.land_on(self, reply)


class Pace(NamedTuple):
    """How often a shard is probed, and how long a probe is waited for."""

    period_us: int
    lambda_us: int


class LeaderChange(NamedTuple):
    """Clients are told of another leader or term since some instant in [asked_ns, received_ns]; `leader` is None: of none. `term` is
    None where the system has none."""

    shard: Shard
    leader: str | None
    previous_leader: str | None
    term: int | None
    asked_ns: int
    received_ns: int


class Target(Protocol):
    """Where the probes of one lane go."""

    gone: frozenset[str]
    """Codes that say of a read: the record is not there any more."""
    tick_seconds: float | None
    """How often `tick` must be called while flights are on their way; None: never."""

    async def open(self, deadline: float) -> None:
        """Makes ready to send: connections, metadata. Returns at the deadline (seconds on `time.monotonic()`) at the latest, also
        when not all is ready: probes say what is wrong."""

    def issue(self, flights: Sequence[Flight]) -> None:
        """Takes the flights that are due now. Must not block."""

    def overdue(self, flight: Flight) -> None:
        """The flight's time is up and nothing came. Called just before the canary decides, so that `excuse` can still be set."""

    def tick(self) -> None:
        """Collects what came back, where that does not happen by itself."""

    async def close(self) -> None:
        """Ends all connections."""


class ProbePlace(NamedTuple):
    """Where to probe. `connections_max` is for each raw lane, `shards_max` for what is created, `may_alter` is leave to change what
    exists."""

    cluster: ClusterPlace
    resources: tuple[str, ...]
    connections_max: int
    shards_max: int
    may_alter: bool


class Prober(Protocol):
    """A cluster, as the canary needs it."""

    async def open(self, deadline: float) -> None:
        """Learns which shards there are and who leads them. Raises ConnectionFailed when nobody says so by the deadline."""

    def shards(self, resource: str) -> list[Shard]:
        """The shards of a resource."""

    def target(self, kind: Kind, lane: Lane, resource: str, times: Pace) -> Target:
        """Where the probes of a lane go."""

    async def connect(self, deadline: float) -> None:
        """Makes the connections of all targets, as far as they can be made by the deadline."""

    async def close(self) -> None:
        """Ends everything."""
