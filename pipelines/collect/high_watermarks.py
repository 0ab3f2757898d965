"""Were committed records lost in this election, how many, and over which span of time? Proven without writing.

The rule: per partition the high watermarks that its leaders answered are kept, with the instants between which they were
asked and answered. Records below the highest one seen in a term were committed. When the leader's term rises, the new leader
is asked where the old term ends in its log: below the highest high watermark means that committed records are gone, that many
of them. The span: from the last instant at which the high watermark was seen at or below that end (the first lost record came
after it) to the first instant at which the highest was seen (the last lost record came before it).

What is kept per partition is bounded: of the older half of the samples every second one is dropped when there are too many.
That widens the span of old losses, and never makes it wrong.

Example: in term 0 the samples are 40 (asked at 1.0 s), 50 (2.0), 90 (3.0), 150 (4.0, answered at 4.01), 150 (5.0). The leader
of term 1 says that term 0 ends at 50: 100 records are lost, between 2.0 s and 4.01 s.
"""

from dataclasses import dataclass
from typing import NamedTuple

SAMPLES_MAX = 96


class Sample(NamedTuple):
    """A high watermark: first answered at `first_answered_us`, last asked for (with the same answer) at `last_asked_us`."""

    value: int
    first_answered_us: int
    last_asked_us: int


@dataclass(frozen=True, slots=True)
class Question:
    """An old term whose end has to be asked for, and the highest high watermark that was seen in it."""

    term: int
    high_watermark_max: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the records of an old term."""

    lost_records: int
    lost_started_at_us: int | None
    lost_ended_at_us: int | None


class HighWatermarks:
    """The high watermarks of one partition. Pure; instants are microseconds, terms are leader epochs."""

    __slots__ = ("_samples", "term")

    def __init__(self) -> None:
        self.term: int | None = None
        self._samples: list[Sample] = []

    @property
    def highest(self) -> int | None:
        """The highest high watermark that is known to have been committed."""
        return self._samples[-1].value if self._samples else None

    def answered(self, term: int, value: int, asked_us: int, answered_us: int) -> Question | None:
        """Takes a leader's answer. Returns the question that a new term raises, if it raises one."""
        question = self.elected(term)
        if self.term is not None and term < self.term:
            return None  # a late answer of a leader that is none any more
        self.term = term
        last = self._samples[-1] if self._samples else None
        if last is None or value > last.value:
            self._samples.append(Sample(value, answered_us, asked_us))
            self._thin()
        elif value == last.value:
            self._samples[-1] = last._replace(last_asked_us=asked_us)
        return question

    def elected(self, term: int) -> Question | None:
        """Takes the news of a leader's term. Returns the question that it raises: none without samples of an older one."""
        highest = self.highest
        if self.term is None or term <= self.term or highest is None:
            return None
        question, self.term = Question(self.term, highest), term
        return question

    def ended(self, question: Question, end: int) -> Verdict:
        """Takes the answer to a question: `end` is the position after the old term's last record in the new leader's log."""
        lost = max(0, question.high_watermark_max - end)
        if lost == 0:
            return Verdict(0, None, None)
        below = [one for one in self._samples if one.value <= end]
        highest = next((one for one in self._samples if one.value >= question.high_watermark_max), None)
        # What was lost is not committed any more: the watermarks begin anew from the end.
        self._samples = below
        return Verdict(
            lost,
            below[-1].last_asked_us if below else None,
            highest.first_answered_us if highest is not None else None,
        )

    def _thin(self) -> None:
        if len(self._samples) > SAMPLES_MAX:
            half = SAMPLES_MAX // 2
            self._samples = self._samples[:half:2] + self._samples[half:]
