"""What was served, and when not? From the trace of a cluster to the truth of each lane and partition.

The rule: a *mode* says what becomes of a request that reaches a partition at an instant. Served: the broker that the client believes
to lead does lead, runs, and, for acks=all, has an ISR that is large enough and complete. Refused: it runs and says no. Else the request
waits: in the client while no leader is known or reachable, in the socket of a hung broker, in a leader that waits for its ISR.
A lane is not served while its mode is anything but served; that is its truth, to the microsecond.

Two more truths belong to the partition and not to a client: whether it had a serving leader at all, and whether acks=all writes
waited for a broker that was not running.

Example: broker 2 killed at 10 s, 3 elected at 18.9 s, follows at 18.91 s, the canary is told at 19.2 s: the write lane is not served
in [10, 19.2), the partition has no serving leader in [10, 18.91).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.brokers.simulated.cluster import DEAD, HUNG, Trace, Version, topic_id
from pipelines.brokers.simulated.quorum import UP
from pipelines.brokers.simulated.scenario import Scenario
from pipelines.domain.facts import Partition
from pipelines.domain.observations import Kind

SERVED, REFUSED, QUEUED, IN_SOCKET, AWAITING_ISR, UNREACHABLE, CUT = (
    "served",
    "refused",
    "queued",
    "in_socket",
    "awaiting_isr",
    "unreachable",
    "cut",
)


@dataclass(frozen=True, slots=True)
class Mode:
    """What becomes of a request. `broker` is where it goes, `term` the epoch in which that broker believes to lead."""

    what: str
    broker: str | None
    term: int | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A mode and from when on it holds; up to the next segment's begin."""

    begin_us: int
    mode: Mode
    term: int = 0
    """The leader epoch that the client has been told of."""
    topic_id: str | None = None
    """And the topic, where clients know topics by more than their names."""


@dataclass(frozen=True, slots=True)
class Down:
    """A span that was not served: [begin, end), `end_us` None when it lasts beyond the history. `is_long`: (H) holds around it."""

    begin_us: int
    end_us: int | None
    is_long: bool


@dataclass(slots=True)
class Service:
    """The modes and truths of one partition."""

    scenario: Scenario
    trace: Trace
    partition: Partition
    boundaries: list[int]
    _at_brokers: dict[tuple[str, str], list[tuple[int, Mode]]] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, trace: Trace, partition: Partition) -> "Service":
        """The service of a partition."""
        return cls(scenario, trace, partition, [0, *(at for at in trace.boundaries(partition) if at > 0)])

    def segments(self, client: str, kind: str) -> list[Segment]:
        """The modes of one client's lane of a kind, as they follow each other."""
        found: list[Segment] = []
        for instant in self.boundaries:
            mode = self.lane_mode(client, kind, instant)
            told = self.trace.known_by(self.trace.told[client], self.partition, instant)
            topic = topic_id(self.partition, told.topic) if self.scenario.has_topic_ids else None
            if not found or (found[-1].mode, found[-1].term, found[-1].topic_id) != (mode, told.term, topic):
                found.append(Segment(instant, mode, told.term, topic))
        return found

    def lane_mode(self, client: str, kind: str, at_us: int) -> Mode:
        """What becomes of a client's request at an instant."""
        broker = self.trace.known_by(self.trace.told[client], self.partition, at_us).leader
        if broker is None:
            return Mode(QUEUED, None)
        if self.trace.cut[client, broker].at(at_us):
            return Mode(CUT, broker)
        return self.broker_mode(broker, kind, at_us)

    def broker_mode(self, broker: str, kind: str, at_us: int) -> Mode:
        """What becomes of a request at a broker, whoever leads."""
        state = self.trace.states[broker].at(at_us)
        if state == DEAD:
            return Mode(QUEUED if self.scenario.dead_is == "queued" else UNREACHABLE, broker)
        if state == HUNG:
            return Mode(IN_SOCKET, broker)
        version = self.trace.known_by(self.trace.applied[broker], self.partition, at_us)
        if version.leader != broker:
            code = "UNKNOWN_TOPIC_OR_PARTITION" if version.is_removed else "NOT_LEADER_OR_FOLLOWER"
            return Mode(REFUSED, broker, version.term, code)
        if kind == Kind.DURABLE_WRITE:
            if len(version.isr) < self.scenario.min_isr:
                return Mode(REFUSED, broker, version.term, "NOT_ENOUGH_REPLICAS")
            if not all(self.trace.is_fetching(one, at_us) for one in version.isr if one != broker):
                return Mode(AWAITING_ISR, broker, version.term)
        return Mode(SERVED, broker, version.term)

    def broker_changes(self, broker: str, kind: str, after_us: int) -> list[tuple[int, Mode]]:
        """The modes at a broker after an instant, boundary by boundary."""
        known = self._at_brokers.get((broker, kind))
        if known is None:
            known = [(instant, self.broker_mode(broker, kind, instant)) for instant in self.boundaries]
            self._at_brokers[broker, kind] = known
        return known[bisect_right(self.boundaries, after_us) :]

    def unserved(self, client: str, kind: str, gap_us: int) -> list[Down]:
        """The truth of a lane."""
        return _downs([(one.begin_us, one.mode.what != SERVED) for one in self.segments(client, kind)], gap_us)

    def served_nobody(self) -> list[Down]:
        """When no client at all reached a leader: it may have had one, of which nobody could know."""
        clients = self.scenario.clients
        steps = [(at, all(self.lane_mode(one, Kind.LEADER, at).what != SERVED for one in clients)) for at in self.boundaries]
        return _downs(steps, self.scenario.watch_gap_us)

    def leaderless(self) -> list[Down]:
        """The truth of the partition: when it had no serving leader."""
        steps = [(at, not self._has_leader(at)) for at in self.boundaries]
        return _downs(steps, self.scenario.watch_gap_us)

    def stalled(self, broker: str) -> list[Down]:
        """When acks=all writes of the partition waited for a broker that was not running and did not lead it."""
        steps = [(at, self.trace.states[broker].at(at) != UP and self._waits_for(broker, at)) for at in self.boundaries]
        return _downs(steps, self.scenario.watch_gap_us)

    def unfollowed(self, broker: str) -> list[Down]:
        """The same, also while the broker ran and was too slow to follow."""
        steps = [(at, not self.trace.is_fetching(broker, at) and self._waits_for(broker, at)) for at in self.boundaries]
        return _downs(steps, self.scenario.watch_gap_us)

    def _has_leader(self, at_us: int) -> bool:
        current = self.trace.current(self.partition, at_us)
        former = self._before(current)
        return self._leads(current.leader, at_us) or (former is not None and self._leads(former.leader, at_us))

    def _leads(self, broker: str | None, at_us: int) -> bool:
        if broker is None or self.trace.states[broker].at(at_us) != UP:
            return False
        return self.trace.known_by(self.trace.applied[broker], self.partition, at_us).leader == broker

    def _before(self, current: Version) -> Version | None:
        """The version before the last change of leader: its leader serves on until it follows the change."""
        versions = self.trace.versions[self.partition]
        index = next((i for i in range(versions.index(current), 0, -1) if versions[i - 1].leader != versions[i].leader), None)
        return None if index is None else versions[index - 1]

    def _waits_for(self, broker: str, at_us: int) -> bool:
        current = self.trace.current(self.partition, at_us)
        if current.leader in (None, broker):
            return False
        followed = self.trace.known_by(self.trace.applied[str(current.leader)], self.partition, at_us)
        return broker in (followed if followed.leader == current.leader else current).isr


def _downs(steps: Sequence[tuple[int, bool]], gap_us: int) -> list[Down]:
    """Spans from (instant, is_down) steps; a span is long when it and the runs beside it last 2g or more."""
    runs: list[tuple[int, bool]] = []
    for instant, is_down in steps:
        if not runs or runs[-1][1] != is_down:
            runs.append((instant, is_down))
    found = []
    for index, (begin, is_down) in enumerate(runs):
        if is_down:
            end = runs[index + 1][0] if index + 1 < len(runs) else None
            lengths = [end - begin if end is not None else None]
            lengths.append(begin - runs[index - 1][0] if index else None)
            lengths.append(runs[index + 2][0] - end if index + 2 < len(runs) and end is not None else None)
            found.append(Down(begin, end, all(one is None or one >= 2 * gap_us for one in lengths)))
    return found
