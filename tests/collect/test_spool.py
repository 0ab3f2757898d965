"""The spool loses nothing that it took, shows only finished files, and stops when the disk is full."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipelines.collect.spool import Limits, Spool
from pipelines.domain.landing import decode
from pipelines.domain.observations import Blind, Observation, Status
from pipelines.errors import SpoolError, UsageError

REPOSITORY = Path(__file__).parents[2]


@dataclass
class HandClock:
    """A clock that is moved by hand."""

    clock_id: str = "hand"
    now: int = 1_000_000

    def now_us(self) -> int:
        return self.now


@dataclass
class Alerts:
    """What the spool told people."""

    said: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, message: str, is_over: bool) -> None:
        self.said.append((message, is_over))


def spool_in(directory: Path, clock: HandClock, **changed: Any) -> Spool:
    given: dict[str, Any] = {"prober_id": "p", "boot_id": "b0", "limits": Limits(reserve_bytes=0)} | changed
    return Spool(directory=directory, collector="canary", system="kafka", cluster_id="c", clock=clock, **given)


def write(spool: Spool, cause: str = "stall") -> Blind:
    return spool.write(Blind, cause=cause, started_at_us=1, ended_at_us=2)


def finished(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if not path.name.startswith("."))


def hidden(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.startswith("."))


def landed(directory: Path) -> list[Observation]:
    """All records of the finished files, each line decoded: a torn line fails here."""
    return [decode(line) for path in finished(directory) for line in path.read_text().splitlines()]


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for the sealer's thread."""
    waiting = threading.Event()
    for _ in range(1000):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError(f"waited 5 s for {what}")


def test_a_record_gets_the_envelope_and_comes_back_as_it_was_written(tmp_path: Path) -> None:
    with spool_in(tmp_path, HandClock()) as spool:
        records = [write(spool), write(spool, "stopped")]

    assert landed(tmp_path) == records
    assert [record.seq for record in records] == [0, 1]
    assert records[0].boot_id == "b0"
    assert [path.name for path in finished(tmp_path)] == ["canary-p-b0-00000000.jsonl"]


def test_readers_see_a_file_only_when_it_is_finished(tmp_path: Path) -> None:
    clock = HandClock()
    with spool_in(tmp_path, clock) as spool:
        write(spool)
        clock.now += 499_999
        spool.flush_if_due()
        assert finished(tmp_path) == []
        assert [path.name for path in hidden(tmp_path)] == [".canary-p-b0-00000000.jsonl.part"]

        clock.now += 1
        spool.flush_if_due()
        until(lambda: len(finished(tmp_path)) == 1, "the file to be finished")

        clock.now += 10_000_000
        spool.flush_if_due()
    assert len(finished(tmp_path)) == 1, "without a line there is no file"
    assert hidden(tmp_path) == []


def test_a_file_that_is_large_is_finished_at_once(tmp_path: Path) -> None:
    with spool_in(tmp_path, HandClock(), limits=Limits(rotate_bytes=300, reserve_bytes=0)) as spool:
        for _ in range(10):
            write(spool)

    assert len(finished(tmp_path)) == 5
    assert [record.seq for record in landed(tmp_path)] == list(range(10))


def test_lines_of_many_threads_are_whole_and_numbered_without_gaps(tmp_path: Path) -> None:
    with spool_in(tmp_path, HandClock()) as spool:
        threads = [threading.Thread(target=lambda: [write(spool) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(record.seq for record in landed(tmp_path)) == list(range(800))


@pytest.mark.parametrize("word", ["", "a/b", "..\n", "a b"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageError, match="file name"):
        spool_in(tmp_path, HandClock(), prober_id=word)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SpoolError, match="cannot be used"), spool_in(tmp_path / "file", HandClock()):
        pass


class TestLeftovers:
    """What an earlier run left behind."""

    def killed(self, directory: Path, lines: int) -> None:
        """A process with an open spool, killed with -9 while it writes."""
        script = textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from pipelines.collect.spool import Limits, Spool
            from pipelines.domain.clock import Anchor
            from pipelines.domain.observations import Blind
            directory, lines = Path(sys.argv[1]), int(sys.argv[2])
            limits = Limits(reserve_bytes=0)
            with Spool(directory=directory, collector="canary", prober_id="p", boot_id="dead", system="kafka",
                       cluster_id="c", clock=Anchor.now(), limits=limits) as spool:
                for _ in range(lines):
                    spool.write(Blind, cause="stall", started_at_us=1, ended_at_us=2)
                print("written", flush=True)
                sys.stdin.read()
            """
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(directory), str(lines)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def test_of_a_killed_run_are_finished_with_every_line_that_was_written(self, tmp_path: Path) -> None:
        self.killed(tmp_path, 40)
        assert [path.name for path in hidden(tmp_path)] == [".canary-p-dead-00000000.jsonl.part"]

        with spool_in(tmp_path, HandClock(), boot_id="next") as spool:
            (message,) = spool.recovered

        assert "canary-p-dead-00000000.jsonl" in message
        assert "40 lines kept" in message
        records = landed(tmp_path)
        assert [record.seq for record in records if record.boot_id == "dead"] == list(range(40))
        (status,) = [record for record in records if record.boot_id == "next"]
        assert isinstance(status, Status)
        assert status.message == message

    def test_lose_a_torn_last_line_and_nothing_else(self, tmp_path: Path) -> None:
        self.killed(tmp_path, 3)
        (part,) = hidden(tmp_path)
        part.write_bytes(part.read_bytes()[:-20])

        with spool_in(tmp_path, HandClock(), boot_id="next") as spool:
            assert "2 lines kept, a torn last line of" in spool.recovered[0]

        assert [record.seq for record in landed(tmp_path) if record.boot_id == "dead"] == [0, 1]

    def test_without_a_whole_line_are_removed(self, tmp_path: Path) -> None:
        (tmp_path / ".canary-p-dead-00000000.jsonl.part").write_text('{"form')

        with spool_in(tmp_path, HandClock()):
            assert hidden(tmp_path)[:1] != [tmp_path / ".canary-p-dead-00000000.jsonl.part"]

    def test_that_somebody_still_writes_are_left_alone(self, tmp_path: Path) -> None:
        with spool_in(tmp_path, HandClock(), boot_id="alive") as alive:
            write(alive)
            with spool_in(tmp_path, HandClock(), boot_id="second") as second:
                assert second.recovered == ()
            write(alive)

        assert [record.seq for record in landed(tmp_path)] == [0, 1]

    def test_of_others_are_left_alone(self, tmp_path: Path) -> None:
        names = [".watch-p-dead-00000000.jsonl.part", ".canary-p-q-dead-00000000.jsonl.part", ".canary-p-x.part"]
        for name in names:
            (tmp_path / name).write_text("{}\n")

        with spool_in(tmp_path, HandClock()) as spool:
            assert spool.recovered == ()
        assert [path.name for path in hidden(tmp_path)] == sorted(names)


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """A file system of 256 KiB on the directory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None and "tmpfs" in Path("/proc/filesystems").read_text()


FULL_DISK_SCRIPT = textwrap.dedent(
    """
    import json, resource, sys
    from pathlib import Path
    from pipelines.collect.spool import Limits, Spool
    from pipelines.domain.clock import Anchor
    from pipelines.domain.observations import Blind

    directory, means = Path(sys.argv[1]), sys.argv[2]
    ballast = directory / "_ballast"
    said = []

    class Clock:
        clock_id, now = "hand", 1_000_000
        def now_us(self):
            return self.now

    def no_space():
        if means == "rlimit":  # no file may grow past what one line and a half need: the second line is torn
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))
        else:
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

    def no_space_at_all():
        if means == "rlimit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def space():
        if means == "rlimit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            ballast.unlink()

    def write(spool):
        spool.write(Blind, cause="stall", started_at_us=1, ended_at_us=2)

    clock = Clock()
    limits = Limits(reserve_bytes=0)
    with Spool(directory=directory, collector="canary", prober_id="p", boot_id="b", system="kafka", cluster_id="c",
               clock=clock, limits=limits, alert=lambda message, is_over: said.append([message, is_over])) as spool:
        write(spool)
        no_space()
        count = 1
        while not spool.is_full:
            write(spool)
            count += 1
        no_space_at_all()
        full = str(spool.trouble)
        clock.now += 5_000_000
        spool.flush_if_due()
        still_full = spool.is_full
        write(spool)
        count += 1
        space()
        clock.now += 5_000_000
        spool.flush_if_due()
        freed = not spool.is_full
        write(spool)
        count += 1
    print(json.dumps({"full": full, "still_full": still_full, "freed": freed, "count": count, "said": said}))
    """
)


@pytest.mark.parametrize("means", ["rlimit", *(["tmpfs"] if may_mount() else [])])
def test_a_full_disk_stops_collecting_and_damages_nothing(tmp_path: Path, means: str) -> None:
    """A real kernel that really refuses: a file size limit, which anybody may set, and where we may mount, a full tmpfs."""
    with mounted(tmp_path) if means == "tmpfs" else contextlib.nullcontext():
        done = subprocess.run(
            [sys.executable, "-c", FULL_DISK_SCRIPT, str(tmp_path), means],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        records = landed(tmp_path)
        left = hidden(tmp_path)

    assert ("File too large" if means == "rlimit" else "No space left") in told["full"]
    assert (told["still_full"], told["freed"]) == (True, True)
    assert [is_over for _, is_over in told["said"]] == [False, True]
    assert left == []
    assert [record.seq for record in records] == list(range(told["count"] + 2)), "every line is there once, and in order"
    status, blind = (record for record in records if record.record == "status" or record.ended_at_us > 2)
    assert isinstance(status, Status)
    assert isinstance(blind, Blind)
    assert (status.state, status.message) == ("degraded", told["full"])
    assert (blind.cause, blind.started_at_us, blind.ended_at_us) == ("spool_full", 1_000_000, 11_000_000)


class TestOwnLimits:
    """Limits that we set ourselves act before the disk is full."""

    def test_on_the_landing_directory_hold_until_a_reader_has_taken_files_away(self, tmp_path: Path) -> None:
        clock, alerts = HandClock(), Alerts()
        other = tmp_path / "watch-p-x-00000000.jsonl"
        other.write_bytes(bytes(6000))
        with spool_in(tmp_path, clock, limits=Limits(reserve_bytes=0, bytes_max=5000), alert=alerts) as spool:
            write(spool)
            assert spool.is_full
            other.unlink()
            clock.now += 2_000_000
            spool.flush_if_due()
            assert not spool.is_full

        assert "6000 bytes are in it, the limit is 5000" in alerts.said[0][0]
        assert [is_over for _, is_over in alerts.said] == [False, True]
        assert [type(record).__name__ for record in landed(tmp_path)] == ["Blind", "Status", "Blind"]

    def test_on_free_space_leave_it_to_others(self, tmp_path: Path) -> None:
        alerts = Alerts()
        spool = spool_in(tmp_path, HandClock(), limits=Limits(reserve_bytes=1 << 60), alert=alerts)
        spool.__enter__()
        write(spool)

        assert spool.is_full
        assert "less than the reserve" in alerts.said[0][0]
        with pytest.raises(SpoolError, match="1 lines were lost"):
            spool.close()
        assert list(tmp_path.iterdir()) == []

    def test_on_what_waits_in_memory_end_the_collector_that_does_not_stop(self, tmp_path: Path) -> None:
        limits = Limits(reserve_bytes=1 << 60, backlog_bytes_max=500)
        spool = spool_in(tmp_path, HandClock(), limits=limits, alert=Alerts())
        spool.__enter__()
        write(spool)
        write(spool)

        with pytest.raises(SpoolError, match="wait in memory"):
            write(spool)
        with pytest.raises(SpoolError, match="2 lines were lost"):
            spool.close()


def test_lines_of_a_file_that_could_not_be_finished_are_written_again(tmp_path: Path) -> None:
    """The landing directory is taken away and comes back."""
    clock, alerts = HandClock(), Alerts()
    landing, away = tmp_path / "landing", tmp_path / "away"
    with spool_in(landing, clock, alert=alerts) as spool:
        write(spool)
        landing.rename(away)
        clock.now += 1_000_000
        spool.flush_if_due()

        def noticed() -> bool:
            spool.flush_if_due()
            return spool.is_full

        until(noticed, "the failed rename to be noticed")
        write(spool)
        away.rename(landing)
        clock.now += 2_000_000
        spool.flush_if_due()
        assert not spool.is_full

    assert [record.seq for record in landed(landing)] == [0, 1, 2, 3]
    assert "No such file" in alerts.said[0][0]
