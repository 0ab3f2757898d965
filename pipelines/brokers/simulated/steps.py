"""A value that changes at instants: what it was at any time, and when it changes next.

Example: `steps = Steps("up"); steps.set(5, "dead")`: `steps.at(4) == "up"`, `steps.at(5) == "dead"`, `steps.next_after(3) == 5`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Steps(Generic[Value]):
    """A piecewise constant function of time. Changes are set in order of time; a value holds from its instant on."""

    __slots__ = ("times", "values")

    def __init__(self, value: Value, since_us: int = -(2**62)) -> None:
        self.times: list[int] = [since_us]
        self.values: list[Value] = [value]

    def set(self, at_us: int, value: Value) -> None:
        """From an instant on the value is another. Raises ValueError for an instant before the last one."""
        if at_us < self.times[-1]:
            raise ValueError(f"a step at {at_us} comes after one at {self.times[-1]}")
        if value == self.values[-1]:
            return
        if at_us == self.times[-1]:
            self.values[-1] = value
        else:
            self.times.append(at_us)
            self.values.append(value)

    def at(self, at_us: int) -> Value:
        """The value at an instant."""
        return self.values[bisect_right(self.times, at_us) - 1]

    def changes(self) -> Iterator[tuple[int, Value]]:
        """Every change: its instant, and the value from then on."""
        return zip(self.times, self.values, strict=True)

    @property
    def last(self) -> Value:
        """The value from the last change on."""
        return self.values[-1]

    def next_after(self, at_us: int) -> int | None:
        """The first change after an instant."""
        index = bisect_right(self.times, at_us)
        return self.times[index] if index < len(self.times) else None
