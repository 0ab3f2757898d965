"""Scenes: what collectors would write of a small cluster, told as timelines of probes and decisions of the controller.

A timeline is a word with one letter a probe, `PERIOD_MS` apart: G good, L good but slow (answered after 900 ms), R refused at once
by the broker, X connection refused at once, H hung (undecided at lambda), N not enough replicas, V void, `.` not probed at all. The
probes go through the span builder of the real collectors. Instants are given in milliseconds from the scene's begin.
"""

from collections.abc import Iterable
from typing import Any

from pipelines.domain.derivation import Derivation, derive
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import Control, EpochEnd, FoundRun, LateAcks, LeaderSeen, Observation, Probes, ReadBack
from pipelines.domain.spans import Decided, SpanBuilder
from pipelines.domain.unavailability import longest_runs

BEGIN_US = 1_790_000_000_000_000
PERIOD_MS, LAMBDA_MS = 100, 1000
LANES = {"write": "raw", "durable_write": "raw", "read": "read", "leader": "watch"}

OUTCOMES: dict[str, tuple[str, int, str | None, bool]] = {
    "G": ("ACKED", 2, None, False),
    "L": ("ACKED", 900, None, False),
    "R": ("REJECTED", 1, "NOT_LEADER_OR_FOLLOWER", True),
    "N": ("REJECTED", 1, "NOT_ENOUGH_REPLICAS", True),
    "X": ("REJECTED", 1, "_TRANSPORT", False),
    "H": ("UNKNOWN", LAMBDA_MS, "_MSG_TIMED_OUT", False),
    "V": ("VOID", LAMBDA_MS, "STALLED", False),
}


def us(milliseconds: float) -> int:
    """An instant of a scene, in microseconds since the epoch."""
    return BEGIN_US + round(milliseconds * 1000)


def ms(bounds: Bounds | None) -> tuple[float | None, float | None] | None:
    """Bounds of an instant, in milliseconds of the scene."""
    if bounds is None:
        return None
    low, high = ((None if one is None else (one - BEGIN_US) / 1000) for one in (bounds.low, bounds.high))
    return low, high


def lasting_ms(bounds: Bounds) -> tuple[float | None, float | None]:
    """Bounds of a duration, in milliseconds."""
    low, high = ((None if one is None else one / 1000) for one in (bounds.low, bounds.high))
    return low, high


def partition_of(name: str) -> Partition:
    """`topic/0` as a partition."""
    resource, shard = name.split("/")
    return Partition(resource, shard)


def decided(timeline: str, *, period_ms: int = PERIOD_MS, begin_ms: float = 0, **told: Any) -> list[Decided]:
    """The probes of a timeline; `told` is what is the same of all (leader, term, isr)."""
    found = []
    for sequence, letter in enumerate(timeline):
        if letter != ".":
            outcome, latency, code, is_answered = OUTCOMES[letter]
            issued = us(begin_ms + sequence * period_ms)
            found.append(Decided(sequence, issued, issued + latency * 1000, outcome, code, is_answered, **told))
    return found


def runs_of(probes: Iterable[Decided], **changed: Any) -> list[Probes]:
    """What is kept of the lines that a collector writes for the probes of one stream."""
    scene = Scene()
    scene.add_probes("t/0", "write", probes, **changed)
    return longest_runs(one for one in scene.observations if isinstance(one, Probes))


class Scene:
    """Observations of one cluster, each under the envelope of its collector."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._offset = 1000

    # --- observers ----------------------------------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        kind: str,
        *parts: tuple[str, str | None],
        period_ms: int = PERIOD_MS,
        begin_ms: float = 0,
        prober: str = "canary",
        clock_id: str = "clock",
        **told: Any,
    ) -> "Scene":
        """A lane of a partition, as parts of (timeline, leader)."""
        probes: list[Decided] = []
        position = 0
        at = 0
        for timeline, leader in parts:
            for probe in decided(timeline, period_ms=period_ms, begin_ms=begin_ms + at * period_ms, leader=leader, **told):
                is_stored = probe.outcome == "ACKED" and kind in ("write", "durable_write")
                probes.append(probe._replace(sequence=probe.sequence + at, position=position if is_stored else None))
                position += is_stored
            at += len(timeline)
        return self.add_probes(name, kind, probes, period_ms=period_ms, prober=prober, clock_id=clock_id)

    def add_probes(
        self, name: str, kind: str, probes: Iterable[Decided], *, period_ms: int = PERIOD_MS, prober: str = "canary", **envelope: str
    ) -> "Scene":
        """Decided probes of a lane, through the span builder."""
        partition = partition_of(name)
        builder = SpanBuilder(
            resource=partition.resource,
            shard=partition.shard,
            kind=kind,
            lane=LANES[kind],
            period_us=period_ms * 1000,
            lambda_us=LAMBDA_MS * 1000,
            has_contiguous_positions=kind in ("write", "durable_write"),
        )
        lines = [line for probe in probes for line in builder.add(probe)] + builder.close()
        for line in lines:
            self.add(Probes, prober, **envelope, **line)
        return self

    def late(self, name: str, kind: str, sequences: tuple[int, int], positions: tuple[int, int], acked_ms: float) -> "Scene":
        """Late acknowledgements of probes of a timeline that began with the scene."""
        first, last = sequences
        return self.add(
            LateAcks,
            "canary",
            **_place(name, kind),
            count=last - first + 1,
            first_sequence=first,
            last_sequence=last,
            first_position=str(positions[0]),
            last_position=str(positions[1]),
            started_at_us=us(first * PERIOD_MS),
            last_issued_at_us=us(last * PERIOD_MS),
            first_decided_at_us=us(acked_ms),
            ended_at_us=us(acked_ms),
        )

    def read_back(
        self,
        name: str,
        kind: str,
        at_ms: float,
        end: int,
        *runs: tuple[int, int, int],
        start: int = 0,
        log_start: int = 0,
        boot: str = "boot-0",
        topic_id: str | None = None,
        clock_id: str = "clock",
    ) -> "Scene":
        """A read-back of [start, end); runs are (first sequence, last sequence, first position)."""
        found = tuple(
            FoundRun(
                boot_id=boot, first_sequence=first, last_sequence=last, first_position=position, last_position=position + last - first
            )
            for first, last, position in runs
        )
        return self.add(
            ReadBack,
            "readback",
            **_place(name, kind),
            from_position=str(start),
            to_position=str(end),
            log_start_position=str(log_start),
            damaged_records=0,
            runs=found,
            topic_id=topic_id,
            clock_id=clock_id,
            started_at_us=us(at_ms),
            ended_at_us=us(at_ms + 1),
        )

    # --- the control plane --------------------------------------------------------------------------------------------

    def control(self, event: str, at_ms: float, *, offset: int | None = None, **fields: Any) -> "Scene":
        """An event of the metadata log, stamped in whole milliseconds."""
        self._offset += 1
        stamp = us(at_ms) // 1000 * 1000
        position = str(self._offset if offset is None else offset)
        return self.add(
            Control,
            "control",
            **{
                "event": event,
                "source": "metadata_fetch",
                "position": position,
                "started_at_us": stamp,
                "ended_at_us": stamp + 999,
                "seen_at_us": stamp + 5000,
                **fields,
            },
        )

    def changed(
        self, name: str, at_ms: float, leaders: tuple[str | None, str | None], isrs: tuple[str, str], *, term: int = 2, **fields: Any
    ) -> "Scene":
        """A partition's change: leaders and ISRs (as `123`) before and after."""
        partition = partition_of(name)
        return self.control(
            "partition_changed",
            at_ms,
            resource=partition.resource,
            shard=partition.shard,
            previous_leader=leaders[0],
            leader=leaders[1],
            previous_isr=tuple(isrs[0]),
            isr=tuple(isrs[1]),
            **{"term": term, "replicas": ("1", "2", "3")} | fields,
        )

    def fenced(self, broker: str, at_ms: float) -> "Scene":
        """The controller gave a broker up."""
        return self.control("broker_fenced", at_ms, broker=broker)

    def told(self, name: str, from_ms: float, to_ms: float, leaders: tuple[str | None, str | None], term: int = 2) -> "Scene":
        """Clients were told of another leader."""
        partition = partition_of(name)
        return self.add(
            LeaderSeen,
            "watch",
            resource=partition.resource,
            shard=partition.shard,
            previous_leader=leaders[0],
            leader=leaders[1],
            term=term,
            started_at_us=us(from_ms),
            ended_at_us=us(to_ms),
        )

    def epoch_end(self, name: str, at_ms: float, watermark: int, end: int) -> "Scene":
        """Where an old epoch ends in the new leader's log."""
        partition = partition_of(name)
        lost = max(0, watermark - end)
        return self.add(
            EpochEnd,
            "watch",
            resource=partition.resource,
            shard=partition.shard,
            term=1,
            new_term=2,
            leader="3",
            high_watermark_max=str(watermark),
            end_position=str(end),
            lost_records=lost,
            lost_started_at_us=us(at_ms - 5000) if lost else None,
            lost_ended_at_us=us(at_ms - 4000) if lost else None,
            started_at_us=us(at_ms),
            ended_at_us=us(at_ms + 1),
        )

    # --- what follows -------------------------------------------------------------------------------------------------

    def add(self, record: type[Any], prober: str, *, boot_id: str = "boot-0", clock_id: str = "clock", **fields: Any) -> "Scene":
        """One observation under the next number of its prober."""
        key = (prober, boot_id)
        seq = self._numbers[key] = self._numbers.get(key, -1) + 1
        envelope = {"system": "kafka", "cluster_id": "c", "collector": prober, "prober_id": prober}
        self.observations.append(record(**envelope, boot_id=boot_id, clock_id=clock_id, seq=seq, **fields))
        return self

    def facts(self) -> Facts:
        """The facts of the scene."""
        return Facts.of(self.observations)

    def derived(self) -> Derivation:
        """Everything that follows."""
        return derive(self.facts(), [])


def stream(name: str, kind: str, prober: str = "canary") -> Stream:
    """The stream of a partition's lane."""
    partition = partition_of(name)
    return Stream(partition.resource, partition.shard, kind, LANES[kind], prober)


def _place(name: str, kind: str) -> dict[str, str]:
    partition = partition_of(name)
    return {"resource": partition.resource, "shard": partition.shard, "kind": kind, "lane": LANES[kind]}
