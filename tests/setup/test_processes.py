"""A child never outlives us, whoever started it and however we end."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from pipelines.errors import ProcessFailed, TimedOut
from pipelines.processes import spawn, wait_until

REPOSITORY = Path(__file__).parents[2]
READS_FOREVER = "import signal\nwhile True: signal.pause()"


def is_running(pid):
    """Whether the process does anything: one that nobody has reaped yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def python(tmp_path):
    """Starts a Python child that runs a script; ends those that the test leaves."""
    children = []

    def start(script, **options):
        child = spawn("a child", [sys.executable, "-c", script], tmp_path / "logs" / "child.log", **options)
        children.append(child)
        return child

    yield start
    for child in children:
        child.stop(grace_seconds=0)


def has_logged(child, text):
    return lambda: text in child.log_tail()


def test_output_goes_to_the_log_and_the_exit_code_is_known(python):
    child = python("import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(7)")
    assert child.wait(10) == 7
    assert child.log_tail().splitlines() == ["out", "err"]
    assert not child.is_alive()
    assert child.send(signal.SIGTERM) is False


def test_a_child_that_hears_sigterm_ends_by_itself(python):
    child = python("import signal, sys\nsignal.signal(15, lambda *_: sys.exit(3))\nprint('ready', flush=True)\n" + READS_FOREVER)
    wait_until(has_logged(child, "ready"), 10, "the child")
    assert child.stop(grace_seconds=10) == 3


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(python):
    child = python("import signal\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\n" + READS_FOREVER)
    wait_until(has_logged(child, "ready"), 10, "the child")
    assert child.stop(grace_seconds=0.2) == -signal.SIGKILL


def test_a_paused_child_can_be_stopped(python):
    child = python("print('ready', flush=True)\n" + READS_FOREVER)
    wait_until(has_logged(child, "ready"), 10, "the child")
    child.send(signal.SIGSTOP)
    assert child.stop(grace_seconds=10) == -signal.SIGTERM


def test_what_a_child_started_goes_with_it(python):
    child = python(
        "import subprocess, sys\n"
        f"one = subprocess.Popen([sys.executable, '-c', {READS_FOREVER!r}])\n"
        "print(one.pid, flush=True)\n" + READS_FOREVER
    )
    wait_until(lambda: child.log_tail().strip().isdigit(), 10, "the grandchild")
    grandchild = int(child.log_tail())
    child.stop(grace_seconds=10)
    wait_until(lambda: not is_running(grandchild), 10, "the grandchild to be gone")


def test_a_child_leads_a_group_of_its_own_so_that_ctrl_c_reaches_only_us(python):
    child = python(READS_FOREVER)
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)


def test_a_child_that_a_passing_thread_started_lives_on_when_the_thread_has_ended(python):
    children = []
    thread = threading.Thread(target=lambda: children.append(python("print('ready', flush=True)\n" + READS_FOREVER)))
    thread.start()
    thread.join()
    wait_until(has_logged(children[0], "ready"), 10, "the child")
    assert children[0].is_alive()


@pytest.mark.timeout(60)
def test_a_child_dies_with_a_parent_that_is_killed_with_minus_nine(tmp_path):
    script = "\n".join(
        [
            "import sys, pathlib, threading",
            "from pipelines.processes import spawn",
            f"command = [sys.executable, '-c', {READS_FOREVER!r}]",
            "def start(): print(spawn('a child', command, pathlib.Path(sys.argv[1])).pid, flush=True)",
            "thread = threading.Thread(target=start); thread.start(); thread.join()",
            "sys.stdin.read()",
        ]
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        wait_until(lambda: not is_running(child), 10, "the child to be gone")
    finally:
        parent.kill()
        parent.communicate(timeout=10)


def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ProcessFailed, match="cannot start the broker: there is no program no-such-program"):
        spawn("the broker", ["no-such-program"], tmp_path / "log")


def test_a_wait_in_vain_says_what_it_waited_for():
    with pytest.raises(TimedOut, match=r"waited 0\.01 s for a miracle, in vain"):
        wait_until(lambda: False, 0.01, "a miracle")


def test_a_wait_asks_at_least_once():
    wait_until(lambda: True, 0, "nothing")
