"""How far are the brokers' clocks off ours, and when is that written down?

The rule: stamps of one host are put together for ten seconds, in which two good clocks drift apart by less than is measured; what they
prove together is written down when it is the first, when it contradicts what was written last (the clock was stepped), and once a
minute. Stamps that contradict each other are written down at once, each by itself: the step lies between them.

Example: acknowledgements of broker 2 prove [-900, 400] and [-300, 1100] us within ten seconds: one `ClockSeen` of [-300, 400].
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.domain.clocks import DRIFT
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import ClockSeen

WINDOW_US = 10_000_000
EVERY_US = 60_000_000


@dataclass(slots=True)
class _Window:
    """What stamps of one host prove together."""

    offset: Bounds
    begin_us: int
    end_us: int
    count: int = 1


class ClockBook:
    """The clocks of all hosts that one collector sees stamps of. `write` is `Spool.write` for `ClockSeen`. Not for several threads."""

    def __init__(self, method: str, write: Callable[..., object]) -> None:
        self._method = method
        self._write = write
        self._open: dict[str, _Window] = {}
        self._written: dict[str, _Window] = {}

    def take(self, host: str, offset: Bounds, begin_us: int, end_us: int) -> None:
        """Takes what was proven of a host's clock (its minus ours, in microseconds) in a span of time by ours."""
        window = self._open.get(host)
        agreed = None if window is None else window.offset.intersection(offset)
        if window is not None and agreed is not None and end_us - window.begin_us < WINDOW_US:
            window.offset, window.end_us, window.count = agreed, max(window.end_us, end_us), window.count + 1
            return
        if window is not None:
            self._end(host, window, is_contradicted=agreed is None)
        self._open[host] = _Window(offset, begin_us, end_us)
        if agreed is None:
            self._note(host, self._open[host])

    def close(self) -> None:
        """Writes what is open."""
        for host, window in self._open.items():
            self._note(host, window)
        self._open.clear()

    def _end(self, host: str, window: _Window, *, is_contradicted: bool) -> None:
        last = self._written.get(host)
        is_news = last is None or last.offset.intersection(window.offset) is None
        if is_contradicted or is_news or (last is not None and window.end_us - last.end_us >= EVERY_US):
            self._note(host, window)

    def _note(self, host: str, window: _Window) -> None:
        before = self._written.get(host)
        away = 0 if before is None else max(0, window.begin_us - before.end_us)
        has_stepped = before is not None and before.offset.widened(int(away * DRIFT)).intersection(window.offset) is None
        self._written[host] = window
        self._write(
            ClockSeen,
            host=host,
            method=self._method,
            clock_offset_us_min=window.offset.low,
            clock_offset_us_max=window.offset.high,
            count=window.count,
            has_stepped=has_stepped,
            started_at_us=window.begin_us,
            ended_at_us=window.end_us,
        )
