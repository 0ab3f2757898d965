"""What is kept of one partition while it is watched?

The rule: probes are decided in any order (an answer to the second may come before the first one's time is up), and written
down in the order of their issue. High watermarks are kept from answer to answer; a new term raises a question to the new
leader, which stays until it is answered.

Example: probe 7 hangs, probe 8 is answered by a new leader after 5 ms, probe 7's time is up 2 ms later: `decide(8, ...)`
returns no lines, `decide(7, ...)` those of both.
"""

from pipelines.brokers.base import Shard
from pipelines.collect.high_watermarks import HighWatermarks, Question, Verdict
from pipelines.domain.observations import Kind, Lane
from pipelines.domain.spans import Decided, Line, SpanBuilder


class Watched:
    """One partition. `identity` tells it from another one of the same name, made after this one was deleted."""

    __slots__ = ("_builder", "_pending", "_watermarks", "identity", "questions")

    def __init__(self, shard: Shard, identity: str | None, period_us: int, lambda_us: int) -> None:
        self.identity = identity
        self.questions: list[Question] = []
        self._builder = SpanBuilder(
            resource=shard.resource,
            shard=shard.shard,
            kind=Kind.LEADER.value,
            lane=Lane.WATCH.value,
            period_us=period_us,
            lambda_us=lambda_us,
        )
        self._pending: dict[int, Decided | None] = {}
        self._watermarks = HighWatermarks()

    def issue(self, sequence: int) -> None:
        """A probe is on its way; call it in the order of issue."""
        self._pending[sequence] = None

    def decide(self, probe: Decided) -> list[Line]:
        """A probe's outcome is known. Returns the lines to write; a second outcome of the same probe is ignored."""
        if self._pending.get(probe.sequence, probe) is not None:
            return []
        self._pending[probe.sequence] = probe
        lines: list[Line] = []
        while self._pending:
            sequence, first = next(iter(self._pending.items()))
            if first is None:
                break
            del self._pending[sequence]
            lines += self._builder.add(first)
        return lines

    def flush(self) -> list[Line]:
        """The run that is open, if it has grown since it was last written."""
        return self._builder.flush()

    def close(self) -> list[Line]:
        """Ends the run: no probe follows. Probes that are on their way are forgotten."""
        self._pending.clear()
        return self._builder.close()

    def remember(self, before: "Watched") -> None:
        """It is the partition that `before` was of: its high watermarks and open questions hold on."""
        self._watermarks, self.questions = before._watermarks, before.questions  # noqa: SLF001 - of one class

    def answered(self, term: int, high_watermark: int, asked_us: int, answered_us: int) -> None:
        """A leader of that term said how far committed records go."""
        self._raise(self._watermarks.answered(term, high_watermark, asked_us, answered_us))

    def elected(self, term: int) -> None:
        """Clients are told of a leader of that term."""
        self._raise(self._watermarks.elected(term))

    def ended(self, question: Question, end: int) -> Verdict:
        """The question was answered: the old term ends there. It is not asked again."""
        self.questions.remove(question)
        return self._watermarks.ended(question, end)

    def _raise(self, question: Question | None) -> None:
        if question is not None:
            self.questions.append(question)
