"""Which records were acknowledged, and what do read-backs say of each?

The rule: the ledger of a lane is every acknowledged record whose position is known, as runs in which sequence and position rise by
one. A read-back lists every intact identity that is in the log between two positions. An acknowledged record whose position it
covered and which it did not list is lost; one that it listed is present, wherever it lies; one that no read-back reached yet is not
judged. The latest read-back that says anything of a record decides; of one below the log's start it says nothing, and where no
other did, it cannot be checked. A read-back of a topic that was made anew under the same name says nothing of what was in the one
before. Only what had been acknowledged before a read-back began can be missed in it.

A log's terms rise with its positions. So where a read-back lists a record that was acknowledged in a later term, nothing of an earlier
term lies there or behind it, also beyond what was read: a leader that nobody followed may have acknowledged more than its follower's
log has come to hold.

Example: sequences 0..9 acknowledged at positions 0..9; a read-back of [0, 8) lists 0..4: 5..7 are lost, 8 and 9 not judged. Had it
listed 10, acknowledged by the next leader in a later term, at position 5, 8 and 9 would be lost, too.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.domain.observations import LateAcks, Outcome, Probes, ReadBack
from pipelines.domain.sequences import Range, common, minus, number, union


@dataclass(frozen=True, slots=True)
class Acked:
    """A run of acknowledged records: the sequence rises by one from record to record, and the position by one or more."""

    boot_id: str
    first_sequence: int
    last_sequence: int
    first_position: int
    started_at_us: int
    period_us: int
    latency_us_max: int
    topic_id: str | None = None
    term: int | None = None
    last_position: int | None = None
    """Where the last record was stored: not one after the other, where somebody else writes to the partition, too."""

    def issued_us(self, sequence: int) -> int:
        """Intended issue of a record of the run."""
        return self.started_at_us + (sequence - self.first_sequence) * self.period_us

    def acked_by_us(self, sequence: int) -> int:
        """The latest instant at which the record was acknowledged."""
        return self.issued_us(sequence) + self.latency_us_max

    def position(self, sequence: int) -> int:
        """Where the record was stored; of one amid those of others, a position not after it."""
        if sequence == self.last_sequence and self.last_position is not None:
            return self.last_position
        return self.first_position + sequence - self.first_sequence

    def sequences_at(self, first_position: int, last_position: int) -> list[Range]:
        """The sequences of the run that were certainly stored within a range of positions.

        A leader's log only grows, and it stores a prober's records in the order of their sending: from one to the next the position
        rises by one or more. So a record lies at least as many positions after the run's first one, and before its last one, as there
        are sequences between them.
        """
        end = self.last_position if self.last_position is not None else self.first_position + self.last_sequence - self.first_sequence
        first = max(self.first_sequence, self.first_sequence + first_position - self.first_position)
        last = min(self.last_sequence, self.last_sequence + last_position - end)
        return [(first, last)] if first <= last else []

    def sequences_acked_by(self, instant_us: int) -> list[Range]:
        """The sequences of the run that were certainly acknowledged by an instant."""
        return self._up_to(instant_us - self.latency_us_max)

    def sequences_issued_in(self, after_us: int, by_us: int) -> list[Range]:
        """The sequences of the run whose issue lies after one instant and not after another."""
        return minus(self._up_to(by_us), self._up_to(after_us))

    def _up_to(self, issued_us: int) -> list[Range]:
        count = (issued_us - self.started_at_us) // max(1, self.period_us) + 1
        last = min(self.last_sequence, self.first_sequence + count - 1)
        return [(self.first_sequence, last)] if last >= self.first_sequence else []


def is_one_after_the_other(run: Probes) -> bool:
    """Whether every position of a run of acknowledged records is known: nobody else's record lies between them."""
    first, last = number(run.first_position), number(run.last_position)
    return first is not None and last is not None and last - first == run.last_sequence - run.first_sequence


def acked_runs(probes: Iterable[Probes], late: Iterable[LateAcks]) -> list[Acked]:
    """The ledger of one stream: every acknowledged record whose position is known, in order of issue."""
    period = 0
    ledger: list[Acked | None] = []
    for run in probes:
        period = run.period_us
        if run.outcome == Outcome.ACKED:
            slowest = run.latency_us_max if run.latency_us_max is not None else run.ended_at_us - run.last_issued_at_us
            ledger.append(_acked(run, run.period_us, slowest))
    for ack in late:
        span = ack.last_sequence - ack.first_sequence
        apart = (ack.last_issued_at_us - ack.started_at_us) // span if span else period
        ledger.append(_acked(ack, apart, ack.ended_at_us - ack.started_at_us))
    return sorted((run for run in ledger if run), key=lambda run: (run.started_at_us, run.first_sequence))


def _acked(run: Probes | LateAcks, period_us: int, latency_us_max: int) -> Acked | None:
    position = number(run.first_position)
    if position is None:
        return None
    return Acked(
        run.boot_id,
        run.first_sequence,
        run.last_sequence,
        position,
        run.started_at_us,
        max(0, period_us),
        max(0, latency_us_max),
        run.topic_id if isinstance(run, Probes) else None,
        run.term if isinstance(run, Probes) else None,
        number(run.last_position),
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    """The acknowledged records of one run of the prober, in order of sequence."""

    boot_id: str
    runs: tuple[Acked, ...]

    @classmethod
    def of(cls, boot_id: str, runs: Iterable[Acked]) -> "Ledger":
        """The ledger of one `boot_id`, from runs of any."""
        own = sorted((run for run in runs if run.boot_id == boot_id), key=lambda run: run.first_sequence)
        return cls(boot_id, tuple(own))

    @property
    def sequences(self) -> list[Range]:
        """Every acknowledged sequence."""
        return union((run.first_sequence, run.last_sequence) for run in self.runs)

    def run_of(self, sequence: int) -> Acked:
        """The run that holds an acknowledged sequence. Raises KeyError for one that was not acknowledged."""
        index = bisect_right(self.runs, sequence, key=lambda run: run.first_sequence) - 1
        if index < 0 or self.runs[index].last_sequence < sequence:
            raise KeyError(f"sequence {sequence} of run {self.boot_id} was not acknowledged")
        return self.runs[index]

    def issued_us(self, sequence: int) -> int:
        """Intended issue of an acknowledged record."""
        return self.run_of(sequence).issued_us(sequence)

    def acked_by_us(self, sequence: int) -> int:
        """The latest instant at which a record was acknowledged."""
        return self.run_of(sequence).acked_by_us(sequence)

    def all_acked_by_us(self, first: int, last: int) -> int:
        """The latest instant at which any record from one acknowledged sequence to another was acknowledged: not always the last one,
        for a client that sends again may have the earlier ones acknowledged later."""
        runs = (run for run in self.runs if run.first_sequence <= last and run.last_sequence >= first)
        return max((run.acked_by_us(min(last, run.last_sequence)) for run in runs), default=self.acked_by_us(last))

    def position(self, sequence: int) -> int:
        """Where an acknowledged record was stored."""
        return self.run_of(sequence).position(sequence)

    def issued_in(self, after_us: int, by_us: int) -> list[Range]:
        """The sequences whose issue lies after one instant and not after another."""
        return union(found for run in self.runs for found in run.sequences_issued_in(after_us, by_us))

    def found_in(self, readback: ReadBack) -> list[Range]:
        """The sequences of this run of the prober, acknowledged or not, that a read-back listed."""
        return union((run.first_sequence, run.last_sequence) for run in readback.runs if run.boot_id == self.boot_id)

    def covered_by(self, readback: ReadBack) -> list[Range]:
        """The acknowledged sequences that a read-back must have listed if they were there."""
        begin, log_start, end = (number(at) for at in (readback.from_position, readback.log_start_position, readback.to_position))
        if begin is None or log_start is None or end is None:
            return []
        return union([*self._stored_at(max(begin, log_start), end - 1, readback), *self._of_earlier_terms(readback)])

    def below(self, readback: ReadBack) -> list[Range]:
        """The acknowledged sequences that lay below the log's start."""
        log_start = number(readback.log_start_position)
        return [] if log_start is None else self._stored_at(0, log_start - 1, readback)

    def of_another_topic(self, readback: ReadBack) -> list[Range]:
        """The sequences that were acknowledged before a read-back of a topic that is not theirs."""
        ranges: list[Range] = []
        for run in self.runs:
            if _is_other(run, readback):
                ranges += run.sequences_acked_by(readback.started_at_us)
        return union(ranges)

    def _of_earlier_terms(self, readback: ReadBack) -> list[Range]:
        """The sequences that were acknowledged at or behind the position of a record that is listed, in an earlier term than that."""
        listed = [
            (run.term, found.first_position + max(0, run.first_sequence - found.first_sequence))
            for run in self.runs
            for found in readback.runs
            if run.term is not None
            and found.boot_id == self.boot_id
            and found.first_sequence <= run.last_sequence
            and run.first_sequence <= found.last_sequence
        ]
        ranges: list[Range] = []
        for run in self.runs:
            begin = min((position for term, position in listed if run.term is not None and term > run.term), default=None)
            if begin is not None and not _is_other(run, readback):
                behind = run.sequences_at(begin, run.position(run.last_sequence))
                ranges += common(behind, run.sequences_acked_by(readback.started_at_us))
        return ranges

    def _stored_at(self, first_position: int, last_position: int, readback: ReadBack) -> list[Range]:
        ranges: list[Range] = []
        for run in self.runs:
            if not _is_other(run, readback):
                ranges += common(run.sequences_at(first_position, last_position), run.sequences_acked_by(readback.started_at_us))
        return union(ranges)


def _is_other(run: Acked, readback: ReadBack) -> bool:
    return run.topic_id is not None and readback.topic_id is not None and run.topic_id != readback.topic_id


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What read-backs say of acknowledged sequences of one run of the prober; what is in none of the lists is not judged."""

    present: list[Range]
    lost: list[Range]
    uncheckable: list[Range]
    replaced: list[Range]
    """Acknowledged in a topic that was deleted since, and never read back."""

    @classmethod
    def of(cls, ledger: Ledger, sequences: list[Range], readbacks: Sequence[ReadBack]) -> "Verdicts":
        """The verdicts over `sequences`; `readbacks` are those of the ledger's partition and lane."""
        present: list[Range] = []
        lost: list[Range] = []
        below: list[Range] = []
        other: list[Range] = []
        undecided = union(sequences)
        for one in sorted(readbacks, key=lambda each: each.ended_at_us, reverse=True):
            if not undecided:
                break
            found = common(undecided, ledger.found_in(one))
            missed = minus(common(undecided, ledger.covered_by(one)), found)
            present += found
            lost += missed
            below += ledger.below(one)
            other += ledger.of_another_topic(one)
            undecided = minus(undecided, [*found, *missed])
        replaced = common(undecided, other)
        return cls(union(present), union(lost), minus(common(undecided, below), replaced), replaced)
