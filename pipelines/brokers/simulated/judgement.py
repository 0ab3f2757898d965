"""What did the judge find? Counts, widths and violations, and the words in which they are told."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipelines.brokers.simulated.service import Down
from pipelines.domain.facts import Stream
from pipelines.domain.intervals import Bounds

NEVER = 2**62
ENOUGH = 100
"""So many outages of a kind have a median that says something."""


@dataclass(slots=True)
class Judgement:
    """What was found, for one history or, added up, for many. `widths` in microseconds by (kind, how it failed)."""

    outages: int = 0
    windows: int = 0
    service_windows: int = 0
    controller_windows: int = 0
    spans: int = 0
    flapping: int = 0
    lost_records: int = 0
    deleted_records: int = 0
    widths: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    views: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Judgement") -> None:
        """Adds the judgement of another history."""
        self.outages += other.outages
        self.windows += other.windows
        self.service_windows += other.service_windows
        self.controller_windows += other.controller_windows
        self.spans += other.spans
        self.flapping += other.flapping
        self.lost_records += other.lost_records
        self.deleted_records += other.deleted_records
        for key, widths in other.widths.items():
            self.widths.setdefault(key, []).extend(widths)
        self.causes.update(other.causes)
        self.views.update(other.views)
        self.violations += other.violations

    def too_wide(self) -> list[str]:
        """Where half of what is reported is wider than two periods and 20 ms (for hangs, two lambdas more). Few outages say nothing."""
        by_how: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for (_, how), widths in self.widths.items():
            by_how.setdefault(("all kinds", how), []).extend(widths)
        found = []
        for (kind, how), widths in sorted({**self.widths, **by_how}.items()):
            ratios = sorted(width / allowed for width, allowed in widths)
            median = ratios[len(ratios) // 2]
            if len(ratios) >= ENOUGH and median > 1:
                found.append(f"{kind}, {how}: half of {len(ratios)} outages are wider than {median:.0%} of what is allowed")
        return found


def touched(downs: Iterable[Down], start: Bounds, end: Bounds) -> list[Down]:
    """The spans that have an instant in common with what may lie between a start and an end."""
    low = start.low if start.low is not None else -NEVER
    high = end.high if end.high is not None else NEVER
    return [down for down in downs if down.begin_us <= high and (down.end_us is None or down.end_us >= low)]


def shown(start: Bounds, end: Bounds) -> str:
    """Bounds of a span."""
    return f"[{start.low}, {start.high}] to [{end.low}, {end.high}]"


def told(downs: Iterable[Down]) -> str:
    """Spans of the truth."""
    return ", ".join(f"[{down.begin_us}, {down.end_us}){'' if down.is_long else ' short'}" for down in downs) or "none"


def name_of(stream: Stream) -> tuple[str, ...]:
    """A stream without its prober."""
    return stream.resource, stream.shard, stream.kind, stream.lane
