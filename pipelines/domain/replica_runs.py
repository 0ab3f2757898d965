"""How are polls of one replica's metrics written down as runs?

The rule: polls with the same flags and the same number of in-sync replicas share a run; a run never crosses a minute of UTC and ends
when a poll is not answered. A change is written at once. While a run goes on it is written again at `extend`, and a run of a
minute in which nothing was remarkable (no flag, no lag) is written once, at its end.

Example: a follower is polled every second and lags by 0, 0, 40, 0 records: one run with lag_records_max=40, lag_records_last=0.
"""

from typing import Any, NamedTuple

MINUTE_US = 60_000_000

Line = dict[str, Any]
"""The fields of one `PartitionMetrics` record, without its envelope."""


class Poll(NamedTuple):
    """One poll's word on one replica. Flags are the leader's, the lag is a follower's; else None."""

    started_at_us: int
    ended_at_us: int
    flags: tuple[bool | None, bool | None, bool | None, int | None]
    """Under-replicated, under min ISR, at min ISR, number of in-sync replicas."""
    lag_records: int | None
    log_start: int | None
    log_end: int | None


class ReplicaRuns:
    """The runs of one replica: give it every answered poll, write down what it returns."""

    def __init__(self, broker: str, resource: str, shard: str) -> None:
        self._fixed: Line = {"broker": broker, "resource": resource, "shard": shard}
        self._first: Poll | None = None
        self._last: Poll | None = None
        self._lag_max: int | None = None
        self._count = 0
        self._written_count = 0
        self._was_written = False

    def add(self, poll: Poll) -> list[Line]:
        """Takes the next poll."""
        first = self._first
        if first is not None and poll.flags == first.flags and _minute(poll) == _minute(first):
            self._extend(poll)
            return []
        lines = self.close()
        has_changed = not self._was_written or first is None or poll.flags != first.flags
        self._first, self._count, self._lag_max, self._written_count = poll, 0, None, 0
        self._extend(poll)
        if has_changed:
            self._was_written = True
            lines.append(self._line(is_open=True))
        return lines

    def extend(self) -> list[Line]:
        """The open run, if it has grown since it was written and there is something remarkable about it."""
        if self._first is None or self._count == self._written_count:
            return []
        is_remarkable = bool(self._lag_max) or any(self._first.flags[:3])
        return [self._line(is_open=True)] if is_remarkable else []

    def close(self) -> list[Line]:
        """Ends the open run: its minute is over, something changed, or nobody answers any more."""
        if self._first is None:
            return []
        lines = [self._line(is_open=False)]
        self._first = None
        return lines

    def _extend(self, poll: Poll) -> None:
        self._last = poll
        self._count += 1
        if poll.lag_records is not None:
            self._lag_max = max(poll.lag_records, self._lag_max or 0)

    def _line(self, *, is_open: bool) -> Line:
        first, last = self._first, self._last
        if first is None or last is None:
            return {}
        self._written_count = self._count
        under_replicated, under_min_isr, at_min_isr, in_sync = first.flags
        return {
            **self._fixed,
            "is_under_replicated": under_replicated,
            "is_under_min_isr": under_min_isr,
            "is_at_min_isr": at_min_isr,
            "in_sync_replicas": in_sync,
            "lag_records_last": last.lag_records,
            "lag_records_max": self._lag_max,
            "log_start_position": None if last.log_start is None else str(last.log_start),
            "log_end_position": None if last.log_end is None else str(last.log_end),
            "count": self._count,
            "started_at_us": first.started_at_us,
            "ended_at_us": last.ended_at_us,
            "is_open": is_open,
        }


def _minute(poll: Poll) -> int:
    return poll.started_at_us // MINUTE_US
