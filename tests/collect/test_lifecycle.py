"""A collector says every few seconds how it is, and stops when it is asked to."""

import os
import signal
from pathlib import Path

from pipelines.collect.lifecycle import StatusLines, stop_signals
from pipelines.collect.spool import Limits
from pipelines.domain.observations import Status
from tests.collect.test_spool import Alerts, HandClock, landed, spool_in


def said(directory: Path) -> list[tuple[str, str | None, int, int]]:
    records = [record for record in landed(directory) if isinstance(record, Status)]
    return [(one.state, one.message, one.started_at_us, one.ended_at_us) for one in records]


def test_a_line_is_written_every_two_seconds_and_at_every_change(tmp_path: Path) -> None:
    clock = HandClock()
    with spool_in(tmp_path, clock) as spool:
        status = StatusLines(spool, clock)
        for _ in range(5):
            status.write_if_due()
            clock.now += 1_000_000
        status.degraded("slow")
        status.degraded("slow")
        status.stopped()

    start = 1_000_000
    assert said(tmp_path) == [
        ("running", None, start, start),
        ("running", None, start, start + 2_000_000),
        ("running", None, start, start + 4_000_000),
        ("degraded", "slow", start + 5_000_000, start + 5_000_000),
        ("stopped", None, start + 5_000_000, start + 5_000_000),
    ]


def test_nothing_is_added_while_the_disk_is_full(tmp_path: Path) -> None:
    clock = HandClock()
    spool = spool_in(tmp_path, clock, limits=Limits(reserve_bytes=1 << 60, backlog_bytes_max=300), alert=Alerts())
    spool.__enter__()
    status = StatusLines(spool, clock)

    for _ in range(100):
        status.write_if_due()
        clock.now += 2_000_000

    assert spool.is_full


def test_a_signal_asks_to_stop() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
    assert signal.getsignal(signal.SIGTERM) == before
