"""A stream that is killed at any moment, again and again, ends with the tables of one that was never disturbed."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.domain.clock import Anchor
from pipelines.lakehouse import Lakehouse
from pipelines.processes import Child, spawn, wait_until
from pipelines.settings import Home
from pipelines.streaming import StreamConfig
from tests.spark.histories import kill_of_broker_2, land
from tests.spark.streams import contents, run_stream

pytestmark = pytest.mark.spark

FILES = 12
MARKS_MOST = 16
"""A kill comes after at most so many new commits, of tables and of the query, have been seen since the process was started."""


class Killed:
    """A stream of its own process, which is fed file by file, killed and started again."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        lines = kill_of_broker_2().lines()
        self.lines = len(lines)
        size = -(-len(lines) // FILES)
        self.waiting = [lines[at : at + size] for at in range(0, len(lines), size)]
        config = StreamConfig(
            system="kafka",
            cluster_id="history",
            spool=str(home.landing),
            anchor=Anchor.now().text(),
            home=str(home.path),
            trigger_seconds=0.0,
        )
        self.config = home.path / "stream.json"
        home.create()
        self.config.write_text(config.to_json())

    def start(self) -> Child:
        command = [sys.executable, "-m", "pipelines", "stream", str(self.config)]
        return spawn("stream", command, self.home.logs / "stream.log", os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])})

    def land_next(self) -> None:
        if self.waiting:
            land(self.waiting.pop(0), self.home.landing, f"file-{len(self.waiting):02d}")

    def marks(self) -> int:
        """Commits of all tables, and of the query: begun batches and finished ones."""
        logs = (path for path in self.home.lakehouse.glob("*/*/_delta_log/*.json"))
        checkpoint = self.home.stream / "checkpoint"
        return sum(1 for _ in logs) + sum(1 for one in ("offsets", "commits") for _ in (checkpoint / one).glob("[0-9]*"))

    def batches(self) -> int:
        return sum(1 for _ in (self.home.stream / "checkpoint" / "commits").glob("[0-9]*"))

    def run_until_killed(self, *, is_jvm_spared: bool) -> None:
        """Runs until a moment that the seed chooses, between two commits or in the middle of one, and kills with -9."""
        self.land_next()
        before, wanted, pause = self.marks(), self.random.randint(1, MARKS_MOST), self.random.uniform(0.0, 0.5)
        child = self.start()
        done = self.batches()
        reached_at: float | None = None

        def is_moment() -> bool:
            nonlocal done, reached_at
            assert child.is_alive(), child.log_tail()
            if self.batches() > done:
                done = self.batches()
                self.land_next()
            is_reached = self.marks() - before >= wanted or (not self.waiting and self.is_all_taken())
            reached_at = time.monotonic() if is_reached and reached_at is None else reached_at
            return reached_at is not None and time.monotonic() - reached_at >= pause

        wait_until(is_moment, 180, f"{wanted} commits of the stream", poll_seconds=0.005)
        if is_jvm_spared:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(30)
        else:
            child.kill()

    def is_all_taken(self) -> bool:
        path = self.home.stream / "progress.json"
        progress = json.loads(path.read_text()) if path.exists() else {}
        return progress.get("landing_files_waiting") == 0 and self.batches() > 0

    def finish(self) -> None:
        """A last run, which is told to stop in order: it takes in all that is left."""
        while self.waiting:
            self.land_next()
        began_us = time.time_ns() // 1000
        child = self.start()
        progress = self.home.stream / "progress.json"

        def has_begun() -> bool:
            assert child.is_alive(), child.log_tail()
            return progress.exists() and json.loads(progress.read_text())["started_at_us"] >= began_us

        wait_until(has_begun, 180, "the stream to begin")
        child.send(signal.SIGTERM)
        assert child.wait(300) == 0, child.log_tail()

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(str(self.home.table(table))).to_pyarrow_table().to_pylist()
        return rows


def killed_times(times: int, home: Home, seed: int) -> Killed:
    stream = Killed(home, seed)
    for number in range(times):
        # Alternately everything dies at once, and the JVM lives on for a while in the middle of what it was told to do.
        stream.run_until_killed(is_jvm_spared=number % 2 == 0)
    stream.finish()
    return stream


def check(stream: Killed, undisturbed: Lakehouse) -> None:
    observed = stream.rows("bronze.observations")
    keys = [(row["prober_id"], row["boot_id"], row["seq"]) for row in observed]
    assert len(keys) == len(set(keys)) == stream.lines
    survivor = Lakehouse(undisturbed.spark, stream.home)
    assert contents(survivor) == contents(undisturbed)


def test_three_kills_change_nothing(killed: Lakehouse, tmp_path: Path) -> None:
    check(killed_times(3, Home(tmp_path / "home"), seed=3), killed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [11, 12])
def test_ten_kills_change_nothing(killed: Lakehouse, tmp_path: Path, seed: int) -> None:
    check(killed_times(10, Home(tmp_path / "home"), seed), killed)


def test_a_micro_batch_that_is_done_again_changes_nothing(lakehouse: Lakehouse) -> None:
    lines = kill_of_broker_2().lines()
    land(lines[:40], lakehouse.home.landing, "first")
    run_stream(lakehouse)
    land(["garbage", *lines[40:]], lakehouse.home.landing, "second")
    run_stream(lakehouse)
    before = contents(lakehouse), lakehouse.read("bronze.observations").count(), lakehouse.read("bronze.quarantine").count()

    commits = lakehouse.home.stream / "checkpoint" / "commits"
    last = max((path for path in commits.glob("[0-9]*")), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    run_stream(lakehouse)
    assert (commits / last.name).exists()
    after = contents(lakehouse), lakehouse.read("bronze.observations").count(), lakehouse.read("bronze.quarantine").count()
    assert after == before
    assert before[1:] == (len(lines), 1)
