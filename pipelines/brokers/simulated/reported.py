"""What is held against the truth? What was derived of one history, in the few words that the judge needs.

It is made of a derivation (`Reported.of`), or read from the tables that the whole pipeline wrote (`pipelines.truth`): the judge is the
same, and knows nothing of where it comes from. All instants are microseconds on the clock that the derivation gives them by.

Example: `judge(history, derive(...))` judges the domain alone, `judge_reported(history, facts, reported)` what Spark made of it.
"""

from dataclasses import dataclass

from pipelines.domain.controllers import ControllerWindow
from pipelines.domain.data_loss import Loss
from pipelines.domain.derivation import Derivation, Explained
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.findings import Finding
from pipelines.domain.intervals import Bounds
from pipelines.domain.ledger import Ledger
from pipelines.domain.sequences import Range, common
from pipelines.domain.views import Key


@dataclass(frozen=True, slots=True)
class LaneOutage:
    """An outage of one lane, with what is said of its cause and of what other probers saw."""

    stream: Stream
    start: Bounds
    end: Bounds
    rto: Bounds
    downtime_us_min: int
    is_open: bool
    bad_probes: int
    rejected_probes: int
    void_probes: int
    flaps: int
    cause: str
    broker: str | None
    fenced: Bounds | None
    elected: Bounds | None
    agreement: str
    is_contradicted: bool
    period_us: int
    lambda_us: int

    @classmethod
    def of(cls, one: Explained) -> "LaneOutage":
        """What is said of an outage that was derived."""
        outage, recovery = one.outage, one.recovery
        return cls(
            one.stream,
            outage.start,
            outage.end,
            outage.rto,
            outage.downtime_us_min,
            outage.is_open,
            outage.bad_probes,
            outage.rejected_probes,
            outage.void_probes,
            outage.flaps,
            recovery.cause,
            recovery.broker,
            recovery.fenced,
            recovery.elected,
            one.view.agreement,
            bool(one.view.contradicted_by),
            one.period_us,
            one.lambda_us,
        )

    @property
    def is_in_pieces(self) -> bool:
        """It says that it was not measured throughout: it certainly lasted for less than from its latest start to its earliest end."""
        whole = (self.end.low or 0) - (self.start.high or 0)
        return (self.rto.low or 0) < max(0, whole)


@dataclass(frozen=True, slots=True)
class Window:
    """A span of a partition without a serving leader, or in which acks=all writes waited."""

    window: str
    partition: Partition
    evidence: str
    broker: str | None
    start: Bounds
    end: Bounds


@dataclass(frozen=True, slots=True)
class ServiceSpan:
    """A span in which a partition was down for every prober that looked."""

    key: Key
    start: Bounds
    end: Bounds
    rto: Bounds
    is_open: bool
    probers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithoutController:
    """A span without a controller. `waiting` counts the partitions that waited for one; `waited` names them, where it is known."""

    cause: str
    start: Bounds
    end: Bounds
    length: Bounds
    is_open: bool
    waiting: int
    waited: frozenset[Partition] | None

    @classmethod
    def of(cls, one: ControllerWindow) -> "WithoutController":
        """What is said of a window that was derived."""
        waited = frozenset(window.partition for window in one.waited)
        return cls(one.cause, one.start, one.end, one.length, one.is_open, len(waited), waited)


@dataclass(frozen=True, slots=True)
class Found:
    """A finding about acknowledged records: of the run of a prober (`boot_id`), from one record to another."""

    partition: Partition
    kind: str
    lane: str
    boot_id: str
    verdict: str
    evidence: str
    records: Bounds
    span: Bounds
    acked_from_us: int | None
    acked_to_us: int | None
    first_position: int | None
    last_position: int | None
    reason: str | None
    acked_records: int

    @classmethod
    def of(cls, one: Loss) -> "Found":
        """What is said by a finding that was derived."""
        return cls(
            one.stream.partition,
            one.stream.kind,
            one.stream.lane,
            one.boot_id,
            one.verdict,
            one.evidence,
            one.records,
            one.span,
            one.acked_from_us,
            one.acked_to_us,
            one.first_position,
            one.last_position,
            one.reason,
            one.acked_records,
        )

    def sequences(self, ledger: Ledger) -> Range | None:
        """The first and the last record that it is about: so many, from one to another place. None: there are none such."""
        firsts = (
            run.first_sequence + ((self.acked_from_us or 0) - run.started_at_us) // max(1, run.period_us)
            for run in ledger.runs
            if run.started_at_us <= (self.acked_from_us or 0)
        )
        begun = [(first, 2**62) for first in firsts if _is_at(ledger, first, self.acked_from_us, self.first_position)]
        left = self.acked_records
        for first, last in common(ledger.sequences, begun[:1]):
            if last - first + 1 >= left:
                end = first + left - 1
                return (begun[0][0], end) if ledger.position(end) == self.last_position else None
            left -= last - first + 1
        return None


def _is_at(ledger: Ledger, sequence: int, issued_us: int | None, position: int | None) -> bool:
    """Whether a record was issued at an instant and stored at a place."""
    is_acked = bool(common(ledger.sequences, [(sequence, sequence)]))
    return is_acked and ledger.issued_us(sequence) == issued_us and ledger.position(sequence) == position


@dataclass(frozen=True, slots=True)
class Doubt:
    """A disagreement that is told: what it is, whose word is in doubt, and of which partition."""

    finding: str
    subject: str
    partition: Partition | None

    @classmethod
    def of(cls, one: Finding) -> "Doubt":
        """What is told by a finding that was derived."""
        return cls(one.finding, one.subject, one.partition)


@dataclass(frozen=True, slots=True)
class Reported:
    """All that is reported of one history."""

    outages: list[LaneOutage]
    windows: list[Window]
    services: list[ServiceSpan]
    controllers: list[WithoutController]
    losses: list[Found]
    doubts: list[Doubt]

    @classmethod
    def of(cls, derivation: Derivation) -> "Reported":
        """What a derivation reports."""
        return cls(
            [LaneOutage.of(one) for one in derivation.outages],
            [Window(one.window, one.partition, one.evidence, why.broker, one.start, one.end) for one, why in derivation.windows],
            [ServiceSpan(one.key, one.start, one.end, one.rto, one.is_open, one.probers) for one in derivation.service_windows],
            [WithoutController.of(one) for one in derivation.controllers],
            [Found.of(one) for one in derivation.losses],
            [Doubt.of(one) for one in derivation.findings],
        )
