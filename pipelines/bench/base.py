"""What is a figure of a benchmark, and what do all benchmarks share?

The rule: a figure has a name, a number, an aim (a most), and one line that says how it was measured. Where the aim is missed, `limit`
says why and what is the limit. A verdict follows from figure and aim alone.

Example: `Figure("alert p99", 1.4, "s", aim=2.0, method="...")` has the verdict "met".
"""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One result. `aim` is the most that it may be (None: there is no aim); `details` are what it was made of. `void` says why the
    figure proves nothing, where it does not: what it was to be measured against did not happen."""

    name: str
    value: float
    unit: str
    method: str
    aim: float | None = None
    limit: str | None = None
    void: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """met, missed, void, or "-" without an aim."""
        if self.void is not None:
            return "void"
        if self.aim is None:
            return "-"
        return "met" if self.value <= self.aim else "missed"

    def document(self) -> dict[str, Any]:
        """The figure as it stands in the JSON file."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "aim": self.aim,
            "verdict": self.verdict,
            "method": self.method,
            "void": self.void,
            "limit": self.limit if self.verdict == "missed" else None,
            "details": self.details,
        }


@dataclass(frozen=True, slots=True)
class Bench:
    """What every benchmark is given: a folder of its own to work in, whether to be quick, and whom to tell what it is doing."""

    folder: Path
    is_quick: bool
    say: Say


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that so large a share of all is not above. Raises ValueError when there is none."""
    if not samples:
        raise ValueError("a percentile of no samples was asked for")
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def load() -> float:
    """The machine's load now: processes that run or want to, averaged over a minute."""
    return os.getloadavg()[0]


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process, all its threads."""
    times = process.cpu_times()
    return float(times.user + times.system)


def tree_cpu_seconds() -> float:
    """CPU time of this process and of all that descend from it; what ended in between counts by what its parent waited for."""
    own = psutil.Process()
    total = 0.0
    for one in [own, *own.children(recursive=True)]:
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
