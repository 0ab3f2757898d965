"""What is known of an instant or of a duration? Always an interval, sometimes without an upper end.

`Bounds(low, high)` says that the truth lies in [low, high]. `high=None`: nothing bounds it from above (an outage that is still
open). `low=None`: nothing bounds it from below (an outage that was there before we looked). Instants are microseconds since the
epoch, UTC; durations are microseconds.

Example: an outage started in [100, 160] and ended in [900, 990]: it lasted between 740 and 890, since
`duration(start, end) == Bounds(900 - 160, 990 - 100)`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """The closed interval [low, high] that holds the truth; an end that nothing bounds is None."""

    low: int | None
    high: int | None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.high < self.low:
            raise ValueError(f"bounds are not ordered: low {self.low} is above high {self.high}")

    @classmethod
    def exactly(cls, value: int) -> Self:
        """Bounds of a value that is known."""
        return cls(value, value)

    def holds(self, value: int) -> bool:
        """Whether the value is one that these bounds allow."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def widened(self, error_us: int) -> Self:
        """The same statement made with a clock that is off by up to `error_us`."""
        return type(self)(
            None if self.low is None else self.low - error_us,
            None if self.high is None else self.high + error_us,
        )

    def intersection(self, other: Self) -> Self | None:
        """What both statements allow together; None where they contradict each other."""
        low = max(known(self.low, other.low), default=None)
        high = min(known(self.high, other.high), default=None)
        return None if low is not None and high is not None and high < low else type(self)(low, high)

    def hull(self, other: Self) -> Self:
        """The smallest interval that allows whatever one of the two allows."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return type(self)(low, high)

    def later_of(self, other: Self) -> Self:
        """The later one of two instants of which this is known."""
        low = max(known(self.low, other.low), default=None)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return type(self)(low, high)


def known(*values: int | None) -> list[int]:
    """The values that are not None."""
    return [value for value in values if value is not None]


def hull(bounds: Iterable[Bounds]) -> Bounds | None:
    """The smallest interval that allows whatever one of the bounds allows; None for no bounds at all."""
    whole: Bounds | None = None
    for one in bounds:
        whole = one if whole is None else whole.hull(one)
    return whole


def duration(start: Bounds, end: Bounds) -> Bounds:
    """How long it took from `start` to `end`, in microseconds; never negative, open where an end is."""
    low = 0 if start.high is None or end.low is None else max(0, end.low - start.high)
    high = None if start.low is None or end.high is None else max(low, end.high - start.low)
    return Bounds(low, high)
