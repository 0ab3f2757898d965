"""What is in the log of a canary partition, and what was once and is gone?

The rule: the leader appends; a follower that fetches has what was appended `replication_us` ago. When another replica is elected its
log is the log: what it had not fetched by the last instant at which the old leader served it, or at which it fetched itself, is cut
off. Positions are given again after a cut, and from 0 in a topic that was made anew. A leader that comes back from a hang before it
learns that it was replaced still takes writes into a log of its own, which is thrown away.

Example: replication takes 50 ms, the leader dies at 1,000 ms: records appended after 950 ms are gone.
"""

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.brokers.simulated.cluster import Trace, Version
from pipelines.brokers.simulated.quorum import UP
from pipelines.domain.facts import Partition
from pipelines.domain.observations import FoundRun


@dataclass(slots=True, eq=False)
class Record:
    """One record of one run of a prober, and where and when it was stored; the position is known once the log has been played."""

    boot_id: str
    sequence: int
    appended_us: int
    position: int = -1
    number: int = -1
    topic: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """From `at_us` on the log is another replica's: what had been appended after `kept_us` is gone. Or it is another topic's."""

    at_us: int
    kept_us: int
    is_removal: bool = False


class Read(NamedTuple):
    """What a read-back found: the log from its start to its end."""

    at_us: int
    log_start: int
    end: int
    runs: tuple[FoundRun, ...]
    topic: int


@dataclass(slots=True)
class Log:
    """A partition's log as time goes on. `advance` and `append` are called in order of time; `ends` are old logs' ends at cuts."""

    cuts: list[Cut]
    rng: random.Random
    records: list[Record] = field(default_factory=list)
    gone: list[Record] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    log_start: int = 0
    topic: int = 0
    removed: list[Record] = field(default_factory=list)

    def advance(self, at_us: int) -> None:
        """Brings the log to an instant."""
        while self.cuts and self.cuts[0].at_us <= at_us:
            cut = self.cuts.pop(0)
            self.ends.append((cut.at_us, self.end))
            if cut.is_removal:
                self.removed += self.records
                self.records, self.log_start, self.topic = [], 0, self.topic + 1
            while self.records and self.records[-1].appended_us > cut.kept_us:
                self.gone.append(self.records.pop())

    @property
    def end(self) -> int:
        """The position after the last record."""
        return len(self.records)

    def append(self, record: Record) -> None:
        """Stores a record at the end of the log. Called for every write, so it does no more than it must."""
        if self.cuts and self.cuts[0].at_us <= record.appended_us:
            self.advance(record.appended_us)
        record.position = len(self.records)
        record.topic = self.topic
        self.records.append(record)

    def append_in_vain(self, record: Record) -> None:
        """Stores a record in the log of a leader that was replaced before; called when the log has come to its end."""
        index = max((index for index, (cut_at, _) in enumerate(self.ends) if cut_at <= record.appended_us), default=None)
        cut_at, record.position = self.ends[index] if index is not None else (0, self.end)
        if index is not None:
            self.ends[index] = (cut_at, record.position + 1)
        self.gone.append(record)

    def play(self, appended: Iterable[Record], in_vain: Iterable[Record], read_at: list[int], end_us: int) -> Iterator[Read]:
        """Lets all probers' records come in, in order of time, and reads the log back now and then."""
        waiting = sorted(read_at, reverse=True)
        for record in sorted(appended, key=lambda one: one.appended_us):
            while waiting and waiting[-1] <= record.appended_us:
                yield self._read(waiting.pop())
            self.append(record)
        while waiting:
            yield self._read(waiting.pop())
        self.advance(end_us)
        for record in sorted(in_vain, key=lambda one: one.appended_us):
            self.append_in_vain(record)

    def _read(self, at_us: int) -> "Read":
        self.advance(at_us)
        if self.rng.random() < 0.1:
            self.log_start = max(self.log_start, self.rng.randint(0, self.end // 4))
        end, runs = self.found()
        return Read(at_us, self.log_start, end, runs, self.topic)

    def found(self) -> tuple[int, tuple[FoundRun, ...]]:
        """The position after the last record, and what a read-back finds."""
        runs: list[FoundRun] = []
        kept = self.records[self.log_start :]
        first = 0
        for index in range(1, len(kept) + 1):
            before = kept[index - 1]
            if index == len(kept) or kept[index].sequence != before.sequence + 1 or kept[index].boot_id != before.boot_id:
                run = FoundRun(
                    boot_id=before.boot_id,
                    first_sequence=kept[first].sequence,
                    last_sequence=before.sequence,
                    first_position=kept[first].position,
                    last_position=before.position,
                )
                runs.append(run)
                first = index
        return self.end, tuple(runs)


def cuts_of(trace: Trace, partition: Partition, replication_us: int, rng: random.Random, *, is_durable: bool) -> list[Cut]:
    """When a partition's log became another replica's, and from when on records were missing in it.

    Where every write waits for the ISR (`is_durable`) nothing is missing after a move in order.
    """
    found = []
    former, topic = trace.versions[partition][0].leader, 0
    replaced = None
    for version in trace.versions[partition][1:]:
        if version.is_removed:
            left = version.decided_us if former is None else _left(trace, former, version)
            found.append(Cut(left, left, is_removal=True))
            former, replaced, topic = None, None, version.topic + 1
            continue
        if former is None and version.topic == topic:
            former = version.leader
        if version.leader == former:
            replaced = None
            continue
        replaced = replaced or version
        if version.leader is not None and former is not None and _took_over(trace, partition, version):
            left = _left(trace, former, replaced)
            kept = min(left, trace.last_fetching(version.leader, left)) - rng.randint(replication_us // 2, replication_us)
            if is_durable and trace.states[former].at(left) == UP:
                kept = left
            takes_over = next((at for at, batch in _steps(trace, version.leader) if batch >= version.batch), version.decided_us)
            found.append(Cut(max(takes_over, left), kept))
            former, replaced = version.leader, None
    return found


def _took_over(trace: Trace, partition: Partition, version: Version) -> bool:
    """Whether who was elected ever knew: one that was given up before it heard of it has not led, and its log counts for nothing."""
    if version.leader is None:
        return False
    first = next((batch for _, batch in _steps(trace, version.leader) if batch >= version.batch), None)
    return first is None or trace.version(partition, first).leader == version.leader


def _left(trace: Trace, former: str, replaced: Version) -> int:
    """The last instant at which a leader served before it was replaced: when it stopped, or when it followed the change."""
    states = trace.states[former]
    index = bisect_right(states.times, replaced.decided_us) - 1
    if states.values[index] == UP:
        followed = next((at for at, known in _steps(trace, former) if known >= replaced.batch), replaced.decided_us)
        return min([followed, *(at for at in states.times if at > replaced.decided_us)])
    while states.values[index] != UP:
        index -= 1
    return states.times[index + 1]


def _steps(trace: Trace, broker: str) -> list[tuple[int, int]]:
    steps = trace.applied[broker]
    return list(zip(steps.times, steps.values, strict=True))
