"""How is a cluster measured, whoever's it is? Collectors, stream and pages as processes of their own, started, awaited, ended in order.

The order of the end matters: collectors first (they flush what they know), then the stream, which takes in the rest, reads the
canary topics back a last time and writes gold; only then is a result read. Every wait has a limit and says what it waits for, and
ends at once when a process that it depends on is gone.

`demo` and `measure` differ in whose cluster it is, not in this.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from signal import Signals
from types import TracebackType
from typing import Self

import urllib3

from pipelines.collect.config import CollectorConfig
from pipelines.domain.health import LiveView, StreamProgress
from pipelines.errors import LastackError, ProcessFailed, TimedOut, UsageError
from pipelines.processes import Child, spawn, wait_until
from pipelines.serving import read_json
from pipelines.settings import Home

STEADY_SECONDS = 5.0
START_SECONDS = 240.0
COLLECTOR_STOP_SECONDS = 15.0
STREAM_STOP_SECONDS = 180.0
LOOPBACK = "127.0.0.1"
PREFIX = "lastack: "

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a measurement: its command of ours, and the configuration that it reads."""

    name: str
    command: tuple[str, ...]
    config: CollectorConfig | None = None
    stop_seconds: float = COLLECTOR_STOP_SECONDS


class Measurement:
    """The processes of one measurement, inside a `with` block. Whatever happens, none of them is left behind.

    `prefix` is what goes before every command, for instance to run it in a network namespace.
    """

    def __init__(self, home: Home, say: Say, prefix: Sequence[str] = ()) -> None:
        self.home = home
        self.say = say
        self._prefix = tuple(prefix)
        self.children: dict[str, Child] = {}
        self._parts: dict[str, Part] = {}

    def __enter__(self) -> Self:
        self.home.create()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for child in reversed(self.children.values()):
            child.stop(grace_seconds=2.0 if error is not None else 10.0)

    def start(self, part: Part, prefix: Sequence[str] | None = None) -> Child:
        """Starts a part; its configuration is written to HOME/run, readable by its owner only. `prefix`: instead of that of all."""
        command = [*(self._prefix if prefix is None else prefix), sys.executable, "-m", "pipelines", *part.command]
        if part.config is not None:
            folder = self.home.path / "run"
            folder.mkdir(mode=0o700, exist_ok=True)
            path = folder / f"{part.name}.json"
            path.touch(mode=0o600)
            path.write_text(part.config.to_json(), encoding="utf-8")
            command.append(str(path))
        child = spawn(part.name, command, self.home.logs / f"{part.name}.log")
        self.children[part.name] = child
        self._parts[part.name] = part
        return child

    def stop(self, name: str) -> None:
        """Ends a part in order and checks that it ended well."""
        child, part = self.children.pop(name), self._parts[name]
        # To the process alone: its group would take the stream's JVM away while the stream still needs it.
        child.send(Signals.SIGTERM)
        with contextlib.suppress(TimedOut):
            child.wait(part.stop_seconds)
        code = child.stop(grace_seconds=0.0)
        if code != 0:
            raise _failed(child, code)

    def check(self) -> None:
        """Raises the error that a part died of: its own line where it said one."""
        for child in self.children.values():
            code = child.exit_code
            if code is not None:
                raise _failed(child, code)

    def wait(self, condition: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        """Waits for a condition, as long as every part lives, and says what it waits for."""
        self.say(f"waiting for {what}")

        def holds() -> bool:
            self.check()
            return condition()

        wait_until(holds, timeout_seconds, what, poll_seconds=0.2)

    # --- what is waited for -------------------------------------------------------------------------------------------

    def live(self) -> list[LiveView]:
        """What the probers that are alive say now."""
        now_us = time.time_ns() // 1000
        views = []
        for path in self.home.live.glob("[!.]*.json"):
            view = read_json(path, LiveView.parse)
            if view is not None and view.is_fresh(now_us):
                views.append(view)
        return views

    def is_serving(self) -> bool:
        """Every stream of every prober is measured and served."""
        views = self.live()
        return bool(views) and all(view.is_measuring_all and view.down == 0 for view in views)

    def is_streaming(self) -> bool:
        """The stream runs and has taken in lines."""
        progress = self.progress()
        return progress is not None and progress.batch_id is not None

    def progress(self) -> StreamProgress | None:
        """What the stream last said of itself."""
        return read_json(self.home.stream / "progress.json", StreamProgress.parse)

    def wait_steady(self, timeout_seconds: float = START_SECONDS) -> None:
        """Waits until everything is served, and stays so for some seconds."""
        since: list[float] = []

        def is_steady() -> bool:
            if not self.is_serving():
                since.clear()
                return False
            since.append(time.monotonic())
            return since[-1] - since[0] >= STEADY_SECONDS

        self.wait(is_steady, timeout_seconds, f"steady state: every partition served for {STEADY_SECONDS:g} s")

    def wait_page(self, address: str) -> None:
        """Waits until the pages answer."""
        http = urllib3.PoolManager(retries=False, timeout=2.0)

        def answers() -> bool:
            try:
                return http.request("GET", f"{address}/healthz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        self.wait(answers, START_SECONDS, "the pages")


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


def check_port(port: int) -> None:
    """Before anything is started: raises UsageError where the pages could not be served at a port of loopback; 0 is any."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise UsageError(
                f"--port {port}: the pages cannot be served at {LOOPBACK}:{port}: {error.strerror};"
                " name another port, or 0 for a free one"
            ) from error


def _failed(child: Child, code: int) -> LastackError:
    said = [line.removeprefix(PREFIX) for line in child.log_tail(50).splitlines() if line.startswith(PREFIX)]
    if said:
        return UsageError(said[-1]) if code == UsageError.exit_code else ProcessFailed(f"{child.name} ended: {said[-1]}")
    last = child.log_tail(1) or "it said nothing"
    return ProcessFailed(f"{child.name} ended with code {code}: {last}; its log is {child.log_path}")
