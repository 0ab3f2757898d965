"""How is one of Kafka's own tools run, whatever version the brokers are?

The rule: the tools are those of the newest Kafka that is pinned; their clients speak with older brokers, too, and the format of the
log's files is the same. A tool that must end is given a limit, and what it said is returned.

Example: `run_tool("org.apache.kafka.tools.DumpLogSegments", ["--files", "0.log"], log, 60)` is what it printed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipelines import jars
from pipelines.errors import LabError
from pipelines.java import find_java
from pipelines.lab.config import JVM_FLAGS
from pipelines.processes import Child, spawn

__all__ = ["Child", "run_tool", "start_tool"]

HEAP = "-Xmx256m"


def start_tool(main_class: str, arguments: Iterable[str], log_path: Path, prefix: Sequence[str] = ()) -> Child:
    """Starts a tool as a process of its own, which prints to `log_path`. `prefix` is what goes before its command, to run it on a
    host of the lab."""
    jar_set = jars.ensure("kafka")
    command = [*prefix, str(find_java().executable), *JVM_FLAGS, HEAP, "-cp", jar_set.class_path, main_class, *arguments]
    return spawn(main_class.rpartition(".")[2], command, log_path)


def run_tool(main_class: str, arguments: Iterable[str], log_path: Path, seconds: float) -> str:
    """Runs a tool to its end and returns what it printed. Raises LabError with its last words where it fails."""
    child = start_tool(main_class, arguments, log_path)
    try:
        code = child.wait(seconds)
    finally:
        child.stop(grace_seconds=0.0)
    if code != 0:
        raise LabError(f"{child.name} ended with code {code}: {child.log_tail(3)}; it printed to {log_path}")
    return log_path.read_text(errors="replace")
