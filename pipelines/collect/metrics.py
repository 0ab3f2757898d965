"""What do the brokers' own metrics say, and which brokers do not answer?

The rule: each broker is polled by a thread of its own, on its own timetable, so a broker that hangs delays nobody. A poll that is
not answered is a fact that is written down at once, and again every `trouble_flush_seconds` with the number of polls that it stands
for. A broker's values are written when one of the telling ones changed (`MetricSource.telling`) and every `flush_seconds`; what they
say of partitions is written as runs (`domain.replica_runs`), which are extended every `trouble_flush_seconds` while they are
remarkable.

Example: broker 2 is stopped with SIGSTOP: its polls give up after `timeout_ms` as UNKNOWN (TIMED_OUT); brokers 1 and 3 are polled
every second as before.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.brokers.base import AskFailed, MetricSample, MetricSource, Shard
from pipelines.brokers.systems import metric_source
from pipelines.collect.config import CollectorConfig
from pipelines.collect.lifecycle import StatusLines, stop_signals
from pipelines.collect.spool import Spool
from pipelines.domain.clock_book import ClockBook
from pipelines.domain.clocks import RESPONSE_TIME
from pipelines.domain.intervals import Bounds
from pipelines.domain.observations import BrokerMetrics, Outcome, PartitionMetrics
from pipelines.domain.replica_runs import Poll, ReplicaRuns
from pipelines.errors import UsageError

STOP_SECONDS = 3.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig(CollectorConfig):
    """Where the brokers' metrics are read. `urls` are one agent for each broker, `login_file` holds `user:password` in one line."""

    urls: tuple[str, ...]
    login_file: str | None = None
    period_ms: int = 1000
    timeout_ms: int = 2000
    flush_seconds: float = 60.0
    trouble_flush_seconds: float = 10.0

    def sources(self) -> list[MetricSource]:
        """One for each broker. Raises UsageError."""
        if not self.urls:
            raise UsageError("no metrics URL is given; expected one for each broker, such as http://broker1:7777/jolokia")
        if self.period_ms < 100 or self.timeout_ms < 100:
            raise UsageError(f"period_ms is {self.period_ms} and timeout_ms {self.timeout_ms}, expected 100 or more")
        return [metric_source(self.system, url, _login(self.login_file)) for url in self.urls]


def run(config: MetricsConfig) -> None:
    """Polls until SIGTERM or SIGINT. Raises UsageError when it cannot begin, SpoolError when nothing can be written at all."""
    sources = config.sources()
    with stop_signals() as stop, config.open_spool("metrics") as spool:
        status = StatusLines(spool, config.clock, config.status_seconds)
        failure: list[BaseException] = []
        pollers = [Poller(source, spool, config) for source in sources]
        threads = [threading.Thread(target=_guarded, args=(poller, stop, failure), daemon=True) for poller in pollers]
        for thread in threads:
            thread.start()
        while not stop.wait(LOOK_SECONDS):
            spool.flush_if_due()
            _tell(status, pollers)
        status.stopping()
        for thread in threads:
            thread.join(STOP_SECONDS)
        if failure:
            raise failure[0]
        status.stopped()


def _guarded(poller: "Poller", stop: threading.Event, failure: list[BaseException]) -> None:
    """A poller that fails ends the collector: a broker that is silently not polled any more would look healthy."""
    try:
        poller.run(stop)
    except BaseException as error:  # noqa: BLE001 - it is raised again in the main thread
        failure.append(error)
        stop.set()


def _tell(status: StatusLines, pollers: Sequence["Poller"]) -> None:
    troubles = [poller.trouble for poller in pollers if poller.trouble]
    if troubles:
        status.degraded("; ".join(troubles))
    else:
        status.running()
    status.write_if_due()


class Poller:
    """Polls one broker. `trouble` is what is wrong that the record itself does not say."""

    def __init__(self, source: MetricSource, spool: Spool, config: MetricsConfig) -> None:
        self.trouble: str | None = None
        self._source = source
        self._spool = spool
        self._config = config
        self._clock = config.clock
        self._broker = source.address
        self._replicas: dict[Shard, ReplicaRuns] = {}
        self._events: Mapping[str, float] = {}
        self._unwritten = _Unwritten()
        self._clocks = ClockBook(RESPONSE_TIME, spool.write)
        self._flush_at_us = 0
        self._extend_at_us = 0

    def run(self, stop: threading.Event) -> None:
        """Polls on a fixed timetable; a poll that took too long is followed by the next that is due, none is made up for."""
        period = self._config.period_ms / 1000
        due = time.monotonic()
        while not stop.is_set():
            if not self._spool.is_full:
                self.poll()
            due += period * max(1.0, (time.monotonic() - due) // period)
            stop.wait(max(0.0, due - time.monotonic()))
        self._close_runs()
        self._write_broker()
        self._clocks.close()

    def poll(self) -> None:
        """One poll, and what there is to write of it."""
        started_at_us = self._clock.now_us()
        try:
            sample = self._source.poll(self._config.timeout_ms / 1000)
        except AskFailed as error:
            self._failed(error, started_at_us, self._clock.now_us())
            return
        ended_at_us = self._clock.now_us()
        if sample.cluster_id not in (None, self._config.cluster_id):
            self.trouble = f"{self._source.address} belongs to the cluster {sample.cluster_id}, not to {self._config.cluster_id}"
            return
        self.trouble = None
        self._broker = sample.broker or self._broker
        if sample.stamped_at_us is not None:
            earliest, latest = sample.stamped_at_us
            self._clocks.take(self._broker, Bounds(earliest - ended_at_us, latest - started_at_us), started_at_us, ended_at_us)
        self._answered(sample, started_at_us, ended_at_us)

    def _failed(self, error: AskFailed, started_at_us: int, ended_at_us: int) -> None:
        self._close_runs()
        self._events = {}
        is_new = self._unwritten.code != error.code
        if is_new:
            self._write_broker()
        self._unwritten.add(error.outcome, error.code, None, started_at_us, ended_at_us)
        if is_new or ended_at_us >= self._flush_at_us:
            self._write_broker()

    def _answered(self, sample: MetricSample, started_at_us: int, ended_at_us: int) -> None:
        events = {name: value for name, value in sample.values.items() if name in self._source.telling}
        has_changed = events != self._events
        if self._unwritten.code is not None:
            self._write_broker()
        self._events = events
        self._unwritten.add(Outcome.ACKED, None, sample.values, started_at_us, ended_at_us)
        for shard, one in sample.shards.items():
            runs = self._replicas.get(shard)
            if runs is None:
                runs = self._replicas[shard] = ReplicaRuns(self._broker, shard.resource, shard.shard)
            flags = one.is_under_replicated, one.is_under_min_isr, one.is_at_min_isr, one.in_sync_replicas
            self._write(runs.add(Poll(started_at_us, ended_at_us, flags, one.lag_records, one.log_start, one.log_end)))
        for shard in self._replicas.keys() - sample.shards.keys():
            self._write(self._replicas.pop(shard).close())
        if has_changed or ended_at_us >= self._flush_at_us:
            self._write_broker()
        if ended_at_us >= self._extend_at_us:
            self._extend_at_us = ended_at_us + int(self._config.trouble_flush_seconds * 1e6)
            for runs in self._replicas.values():
                self._write(runs.extend())

    def _write(self, lines: list[dict[str, object]]) -> None:
        for line in lines:
            self._spool.write(PartitionMetrics, **line)

    def _write_broker(self) -> None:
        one, self._unwritten = self._unwritten, _Unwritten(code=self._unwritten.code)
        if one.count:
            seconds = self._config.flush_seconds if one.code is None else self._config.trouble_flush_seconds
            self._flush_at_us = one.ended_at_us + int(seconds * 1e6)
            self._spool.write(
                BrokerMetrics,
                broker=self._broker,
                outcome=one.outcome,
                code=one.code,
                values=one.values,
                count=one.count,
                started_at_us=one.started_at_us,
                ended_at_us=one.ended_at_us,
            )

    def _close_runs(self) -> None:
        for runs in self._replicas.values():
            self._write(runs.close())
        self._replicas.clear()


@dataclass(slots=True)
class _Unwritten:
    """Polls of one outcome that are not written yet, and the newest values."""

    outcome: str = Outcome.ACKED
    code: str | None = None
    values: dict[str, float] | None = None
    count: int = 0
    started_at_us: int = 0
    ended_at_us: int = 0

    def add(self, outcome: str, code: str | None, values: Mapping[str, float] | None, started_at_us: int, ended_at_us: int) -> None:
        """One more poll."""
        if not self.count:
            self.started_at_us = started_at_us
        self.outcome, self.code = str(outcome), code
        self.values = None if values is None else dict(values)
        self.count += 1
        self.ended_at_us = ended_at_us


def _login(path: str | None) -> tuple[str, str] | None:
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"login file {path}: cannot be read: {said}") from error
    user, colon, password = text.partition(":")
    if not colon:
        raise UsageError(f"login file {path}: expected one line USER:PASSWORD")
    return user, password
