"""What does a run of good probes prove, and when? It was served: the S and T of an outage are found here.

A probe that was acknowledged within lambda proves an instant at which the service was serving, somewhere between its intended
issue i and its acknowledgement r. A run keeps i of every probe exactly (one period apart), but r only of the first and the last;
of those between, r is at most i + the longest latency of the run. Collectors end a run where S may be asked for (see `spans`), so
the coarser bound is met only in runs that somebody else wrote.

Example, period 100: issued at 0 to 900, the first decided at 5, the last at 950, longest latency 60. The last one answered before
910 is the one issued at 800 (answered by 860); the first one issued from 250 on is the one of 300 (answered by 360).
"""

from dataclasses import dataclass
from typing import Self

from pipelines.domain.observations import Outcome, Probes


@dataclass(frozen=True, slots=True)
class Good:
    """A good probe that may become S or T of an outage. Its resolution is exact or the latest possible one."""

    issued_us: int
    resolved_us: int
    leader: str | None
    term: int | None


@dataclass(frozen=True, slots=True)
class GoodRun:
    """A run of good probes, reduced to what a bound can ask of it. All in microseconds."""

    started_us: int
    last_issued_us: int
    period_us: int
    first_decided_us: int
    last_decided_us: int
    latency_us_max: int
    leader: str | None
    term: int | None

    @classmethod
    def of(cls, run: Probes) -> Self:
        """The proofs in a run of which `is_good` holds."""
        return cls(
            started_us=run.started_at_us,
            last_issued_us=run.last_issued_at_us,
            period_us=max(1, run.period_us),
            first_decided_us=max(run.started_at_us, run.first_decided_at_us),
            last_decided_us=max(run.last_issued_at_us, run.last_decided_at_us),
            latency_us_max=max(0, run.lambda_us if run.latency_us_max is None else run.latency_us_max),
            leader=run.leader,
            term=run.term,
        )

    def last_resolved_before(self, instant_us: int) -> Good | None:
        """The last probe of the run that was certainly answered before the instant."""
        if self.last_decided_us < instant_us:
            return self._good(self.last_issued_us)
        index = (instant_us - 1 - self.latency_us_max - self.started_us) // self.period_us
        if index >= 1:
            return self._good(min(self.started_us + index * self.period_us, self.last_issued_us - self.period_us))
        return self._good(self.started_us) if self.first_decided_us < instant_us else None

    def first_issued_from(self, instant_us: int) -> Good | None:
        """The first probe of the run that was issued at or after the instant."""
        if instant_us > self.last_issued_us:
            return None
        index = max(0, -((self.started_us - instant_us) // self.period_us))
        return self._good(min(self.started_us + index * self.period_us, self.last_issued_us))

    def _good(self, issued_us: int) -> Good:
        if issued_us == self.started_us:
            resolved = self.first_decided_us
        elif issued_us == self.last_issued_us:
            resolved = self.last_decided_us
        else:
            resolved = issued_us + self.latency_us_max
        return Good(issued_us, resolved, self.leader, self.term)


def is_good(run: Probes) -> bool:
    """Acknowledged, each within lambda. A run that mixes both is not: the format has late ones decided as UNKNOWN."""
    return run.outcome == Outcome.ACKED and (run.latency_us_max is None or run.latency_us_max <= run.lambda_us)
