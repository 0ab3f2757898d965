"""How do decided probes become lines, and who else hears of them?

The rule: a run that ended is written at once, one that began at the next look (a tenth of a second) unless it has ended by then.
While a run goes on its open line is extended every `flush` (10 s when all is well, one second when not), and every observer in this
process gets the very record that was spooled.

Example: a partition that is healthy for a minute writes its first line at once and then six more, each longer than the last.
"""

from collections.abc import Callable, Iterable

from pipelines.collect.spool import Spool
from pipelines.domain.clock_book import ClockBook
from pipelines.domain.clocks import APPEND_TIME, clock_bound
from pipelines.domain.observations import Blind, LateAcks, LeaderSeen, Outcome, Probes
from pipelines.domain.spans import Decided, LateAck, Line, SpanBuilder, late_runs

Observer = Callable[[Probes | Blind], None]
"""Somebody in the canary's own process, called in its thread with what was just written; must not block."""


class Journal:
    """Writes to the spool, and tells the observers."""

    def __init__(self, spool: Spool, observers: Iterable[Observer] = ()) -> None:
        self._spool = spool
        self._observers = tuple(observers)
        self._clocks = ClockBook(APPEND_TIME, spool.write)

    @property
    def is_full(self) -> bool:
        """Nothing can be written: stop probing."""
        return self._spool.is_full

    def probes(self, lines: Iterable[Line]) -> None:
        """Writes runs."""
        for line in lines:
            record = self._spool.write(Probes, **line)
            for observer in self._observers:
                observer(record)
            proven = clock_bound(record)
            if proven is not None:
                self._clocks.take(proven.host, proven.offset, proven.begin_us, proven.end_us)

    def close(self) -> None:
        """Writes what is open by itself."""
        self._clocks.close()

    def late(self, shared: Line, acks: list[LateAck]) -> None:
        """Writes late acknowledgements of one partition; `shared` names it."""
        for line in late_runs(acks):
            self._spool.write(LateAcks, **shared, **line)

    def blind(self, cause: str, started_at_us: int, ended_at_us: int) -> None:
        """Writes that the prober could not see."""
        record = self._spool.write(Blind, cause=cause, started_at_us=started_at_us, ended_at_us=ended_at_us)
        for observer in self._observers:
            observer(record)

    def leader_seen(self, **fields: object) -> None:
        """Writes that clients are told of another leader."""
        self._spool.write(LeaderSeen, **fields)


class ShardJournal:
    """The journal of one partition of one lane: its open run, its late acknowledgements, and when they are to be written."""

    def __init__(self, journal: Journal, spans: SpanBuilder, shared: Line, flush_us: tuple[int, int], flush_at_us: int) -> None:
        self._journal = journal
        self._spans = spans
        self._shared = shared
        self._calm_us, self._trouble_us = flush_us
        self._flush_at_us = flush_at_us
        self._late: list[LateAck] = []
        self._begun: Line | None = None

    def decided(self, probe: Decided) -> None:
        """The next probe, in order."""
        lines = self._spans.add(probe)
        if lines:
            self._begun = lines.pop()
            self._journal.probes(lines)
            self._flush_at_us = min(self._flush_at_us, probe.decided_at_us + self._pause_us())

    def acknowledged_late(self, ack: LateAck) -> None:
        """A probe that was decided otherwise was acknowledged after all."""
        self._late.append(ack)

    def flush_if_due(self, now_us: int) -> None:
        """Call it often."""
        if self._late:
            late, self._late = self._late, []
            self._journal.late(self._shared, late)
        if self._begun is not None:
            begun, self._begun = self._begun, None
            self._journal.probes([begun])
        if now_us >= self._flush_at_us:
            self._flush_at_us = now_us + self._pause_us()
            self._journal.probes(self._spans.flush())

    def close(self) -> None:
        """Writes all there is."""
        self._begun = None
        self.flush_if_due(0)
        self._journal.probes(self._spans.close())

    def _pause_us(self) -> int:
        return self._calm_us if self._spans.outcome in (Outcome.ACKED, None) else self._trouble_us
