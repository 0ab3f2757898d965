"""How do we start a process that never outlives us, and wait for things without sleeping on luck?

The rule: a child dies with its parent, however the parent ends, kill -9 included. On Linux the child asks the kernel for it
(PR_SET_PDEATHSIG) before it becomes the program that was asked for; a parent that died in between is noticed, because the
child then has another parent than it was told.

The kernel sends that signal when the *thread* that started the child ends, not the process. So every child is started by one
thread that lives as long as the process does (`_Spawner`), and any thread may call `spawn`. Elsewhere than on Linux, children
die with their parent on every ordinary way out (`stop`), but not when it is killed with -9.

A child leads a process group of its own: Ctrl-C in the terminal reaches us, and we decide in which order things end.

Example: `spawn("broker 1", ["java", ...], log_path=folder / "broker-1.log").stop(grace_seconds=10)` sends SIGTERM, waits up to
10 s, then sends SIGKILL to the whole group and returns when the child is gone.
"""

import contextlib
import functools
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from signal import Signals

from pipelines.errors import ProcessFailed, TimedOut

POLL_SECONDS = 0.05
KILL_SECONDS = 10.0

# Run by a fresh interpreter without site packages (20 ms), which then becomes the program: code between fork and exec in a
# process that has threads may deadlock, and a setting made here survives exec.
_LAUNCHER = """
import os, signal, sys
parent, death_signal = int(sys.argv[1]), int(sys.argv[2])
if sys.platform == "linux":
    import ctypes
    if ctypes.CDLL(None, use_errno=True).prctl(1, death_signal, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_PDEATHSIG) failed: errno %d" % ctypes.get_errno())
if os.getppid() != parent:
    os.kill(os.getpid(), signal.SIGKILL)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Child:
    """A process of ours. All methods may be called from any thread, and again when the process is gone."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which is also its group's."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with (minus the signal's number when one ended it); None while it runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Whether it still runs; a paused process does."""
        return self.exit_code is None

    def send(self, number: Signals) -> bool:
        """Sends a signal to the process itself; False when it was gone already."""
        if not self.is_alive():
            return False
        self._process.send_signal(number)
        return True

    def wait(self, timeout_seconds: float) -> int:
        """Its exit code, once it has ended. Raises TimedOut when it has not within the limit."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{self.name} (pid {self.pid}) still runs after {timeout_seconds:g} s; see {self.log_path}") from error

    def kill(self) -> None:
        """Ends the whole group at once and returns when the process is gone."""
        self._signal_group(Signals.SIGKILL)
        self.wait(KILL_SECONDS)

    def stop(self, grace_seconds: float = 10.0) -> int:
        """Ends it: SIGTERM, and SIGKILL for the group when it has not gone within the grace. Returns its exit code."""
        if self.is_alive():
            self._signal_group(Signals.SIGTERM)
            self._signal_group(Signals.SIGCONT)  # a paused process cannot hear the first one
            with contextlib.suppress(TimedOut):
                self.wait(grace_seconds)
        # Also when it went by itself: what it started may still be there.
        self._signal_group(Signals.SIGKILL)
        return self.wait(KILL_SECONDS)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log; empty when there is none."""
        if not self.log_path.is_file():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(max(0, self.log_path.stat().st_size - 64 * 1024))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def _signal_group(self, number: Signals) -> None:
        # A group that is gone is what we wanted. Its number is not given to another process while the leader is unreaped
        # or any member lives; after that, the kernel hands process ids out in a circle.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def spawn(
    name: str,
    command: Sequence[str],
    log_path: Path,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    death_signal: Signals = Signals.SIGKILL,
) -> Child:
    """Starts a command whose output is appended to a log, and which dies with us.

    Args:
        name: what people call it, for messages.
        command: the program, a path or a name on PATH, and its arguments.
        log_path: receives standard output and standard error; its folder is made.
        environ: the whole environment; ours when not given.
        folder: the working directory; ours when not given.
        death_signal: what the child receives when we die.

    Raises:
        ProcessFailed: the program is not there, or cannot be started.
    """
    program = shutil.which(command[0])
    if program is None:
        raise ProcessFailed(f"cannot start {name}: there is no program {command[0]}")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(int(death_signal))]
    arguments = [*launcher, str(Path(program).absolute()), *command[1:]]

    def start() -> subprocess.Popen[bytes]:
        with log_path.open("ab") as log:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if environ is None else dict(environ),
                cwd=folder,
                process_group=0,
            )

    try:
        return Child(name, _spawner(os.getpid()).call(start), log_path)
    except OSError as error:
        raise ProcessFailed(f"cannot start {name} ({command[0]}): {error}") from error


def wait_until(condition: Callable[[], bool], timeout_seconds: float, what: str, poll_seconds: float = POLL_SECONDS) -> None:
    """Returns as soon as the condition holds; asks at least once.

    Args:
        condition: asked again and again; what it raises is raised.
        timeout_seconds: the limit.
        what: ends the sentence "waited N s for ..." of the error.
        poll_seconds: the pause between two questions.

    Raises:
        TimedOut: it did not hold within the limit.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise TimedOut(f"waited {timeout_seconds:g} s for {what}, in vain")
        time.sleep(poll_seconds)


class _Spawner:
    """The one thread that starts children, so that they live as long as this process and not as long as some worker."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def call(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Has the thread start a process, and returns it or raises what starting it raised."""
        result: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put((start, result))
        return result.result()

    def _run(self) -> None:
        while True:
            start, result = self._jobs.get()
            try:
                result.set_result(start())
            except BaseException as error:  # noqa: BLE001 - it is raised again where `call` waits for it
                result.set_exception(error)


@functools.cache
def _spawner(_pid: int) -> _Spawner:
    """This process's spawner. A forked copy of us has another pid, and no spawner thread until it asks for one."""
    return _Spawner()
