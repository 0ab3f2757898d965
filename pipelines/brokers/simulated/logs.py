"""What is in the log of a canary partition, and what was once and is gone?

The rule: the leader appends; a follower that fetches has what was appended `replication_us` ago. When another replica is elected its
log is the log: what it had not fetched by the last instant at which the old leader served it, or at which it fetched itself, is cut
off. Positions are given again after a cut. A leader that comes back from a hang before it learns that it was replaced still takes
writes into a log of its own, which is thrown away.

Example: replication takes 50 ms, the leader dies at 1,000 ms: records appended after 950 ms are gone.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.brokers.simulated.cluster import UP, Trace, Version
from pipelines.domain.facts import Partition
from pipelines.domain.observations import FoundRun


class Record(NamedTuple):
    """One record of one run of the prober, and where and when it was stored."""

    boot_id: str
    sequence: int
    position: int
    appended_us: int


@dataclass(frozen=True, slots=True)
class Cut:
    """From `at_us` on the log is another replica's: what had been appended after `kept_us` is gone."""

    at_us: int
    kept_us: int


@dataclass(slots=True)
class Log:
    """A partition's log as time goes on. `advance` and `append` are called in order of time; `ends` are old logs' ends at cuts."""

    cuts: list[Cut]
    records: list[Record] = field(default_factory=list)
    gone: list[Record] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    log_start: int = 0

    def advance(self, at_us: int) -> None:
        """Brings the log to an instant."""
        while self.cuts and self.cuts[0].at_us <= at_us:
            cut = self.cuts.pop(0)
            self.ends.append((cut.at_us, self.end))
            while self.records and self.records[-1].appended_us > cut.kept_us:
                self.gone.append(self.records.pop())

    @property
    def end(self) -> int:
        """The position after the last record."""
        return len(self.records)

    def append(self, boot_id: str, sequence: int, at_us: int) -> Record:
        """Stores a record at the end of the log. Called for every write, so it does no more than it must."""
        if self.cuts and self.cuts[0].at_us <= at_us:
            self.advance(at_us)
        record = Record(boot_id, sequence, len(self.records), at_us)
        self.records.append(record)
        return record

    def append_in_vain(self, boot_id: str, sequence: int, at_us: int) -> Record:
        """Stores a record in the log of a leader that was replaced before; called when the log has come to its end."""
        index = max((index for index, (cut_at, _) in enumerate(self.ends) if cut_at <= at_us), default=None)
        cut_at, position = self.ends[index] if index is not None else (0, self.end)
        if index is not None:
            self.ends[index] = (cut_at, position + 1)
        record = Record(boot_id, sequence, position, at_us)
        self.gone.append(record)
        return record

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
    former = trace.versions[partition][0].leader
    replaced = None
    for version in trace.versions[partition][1:]:
        if version.leader == former:
            replaced = None
            continue
        replaced = replaced or version
        if version.leader is not None and former is not None:
            left = _left(trace, former, replaced)
            kept = min(left, trace.last_fetching(version.leader, left)) - rng.randint(replication_us // 2, replication_us)
            if is_durable and trace.states[former].at(left) == UP:
                kept = left
            takes_over = next((at for at, batch in _steps(trace, version.leader) if batch >= version.batch), version.decided_us)
            found.append(Cut(max(takes_over, left), kept))
            former, replaced = version.leader, None
    return found


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
