"""Which controller is asked next, when the one that was asked does not answer as the active one?

The rule: the leader that an answer names comes next, else the next address does. An address that could not be reached is passed over
for UNREACHED_SECONDS, even if it is named: it may be named by an address that is no good from here. It is passed over no longer than
that: one that was elected a moment ago may not have answered in time yet, and be the leader that all others name.

Example: of (a, b, c) b, which led, is dead, and a, just elected, did not answer in time. c names a. c is asked for a second; then a.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable

from pipelines.brokers.kafka.connection import Address

UNREACHED_SECONDS = 1.0


class Turns:
    """The addresses of controllers, the one that is asked now first."""

    def __init__(self, addresses: Iterable[Address], clock: Callable[[], float] = time.monotonic) -> None:
        self._turns = deque(addresses)
        self._clock = clock
        self._unreached_at: dict[Address, float] = {}

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def current(self) -> Address:
        """The one that is asked now."""
        return self._turns[0]

    def learn(self, address: Address) -> bool:
        """One more, which comes after those that are known; returns whether it is new."""
        is_new = address not in self._turns
        if is_new:
            self._turns.append(address)
        return is_new

    def answered(self) -> None:
        """The one that was asked is the active controller: what failed before does not count any more."""
        self._unreached_at.clear()

    def ask_another(self, named: Address | None, *, is_unreached: bool) -> None:
        """Passes on: to the leader that was named, if any, or to the next. `is_unreached`: no answer came from the current one."""
        if is_unreached:
            self._unreached_at[self.current] = self._clock()
        if named is not None and not self._is_passed_over(named):
            self._turns.rotate(-self._turns.index(named))
            return
        self._turns.rotate(-1)
        reachable = next((index for index, one in enumerate(self._turns) if not self._is_passed_over(one)), 0)
        self._turns.rotate(-reachable)

    def _is_passed_over(self, address: Address) -> bool:
        at = self._unreached_at.get(address)
        return at is not None and self._clock() - at < UNREACHED_SECONDS
