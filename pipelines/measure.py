"""`lastack measure`: measures a cluster that is not ours, for a while, through the very pipeline that runs for good.

What it does to the cluster is said before it does it: three canary topics are created (or checked) and probed, everything else is
only asked for what DESCRIBE allows. An address that is wrong, a cluster that refuses or a duration that is none ends with one line
and exit code 2 before anything is started.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from pipelines.brokers import systems
from pipelines.brokers.base import ClusterPlace
from pipelines.domain.clock import Anchor
from pipelines.measuring import Measurement
from pipelines.parts import MeasuredCluster, collectors, stream
from pipelines.results import Results
from pipelines.workplace import Reporter, check_home, check_result_file, warn, workplace

START_SECONDS = 240.0
SHORTEST_SECONDS = 10.0
LONGEST_SECONDS = 31 * 86_400.0


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What the command line asks of a measurement."""

    place: ClusterPlace
    for_seconds: float
    json_path: Path | None = None
    home: Path | None = None
    period_ms: int = 100
    may_alter: bool = False
    probers: int = 1


def run(options: MeasureOptions, console: Console) -> None:
    """Measures, then prints the result. Raises UsageError when the cluster cannot be measured as asked."""
    # What is wrong by itself is said before anybody is asked over the network.
    check_result_file(options.json_path)
    check_home(options.home)
    cluster = MeasuredCluster(
        place=options.place,
        cluster_id=systems.reach(options.place, warn),
        period_ms=options.period_ms,
        may_alter=options.may_alter,
        probers=options.probers,
    )
    anchor = Anchor.now()
    with workplace("measure", options.home) as home, Reporter(console) as say, Measurement(home, say) as measurement:
        since = datetime.now(tz=UTC)
        measurement.start(stream(home, cluster, anchor))
        for part in collectors(home, cluster, anchor):
            measurement.start(part)
        measurement.wait(lambda: bool(measurement.live()), START_SECONDS, "the canary's first view of the cluster")
        _measure(measurement, options.for_seconds)
        say("ending the collectors, and letting the stream take in the rest")
        for name in [name for name in measurement.children if name != "stream"]:
            measurement.stop(name)
        measurement.stop("stream")
        results = Results(home, cluster.cluster_id, since)
        results.show(console)
        if options.json_path is not None:
            results.write(options.json_path)
            console.print(f"written: {options.json_path}", markup=False, highlight=False)


def _measure(measurement: Measurement, for_seconds: float) -> None:
    """Lets the collectors work, and says now and then what they see."""
    until = time.monotonic() + for_seconds
    said = ""
    while (left := until - time.monotonic()) > 0:
        measurement.check()
        views = measurement.live()
        up, down, unmeasured = (sum(getattr(view, name) for view in views) for name in ("up", "down", "unmeasured"))
        seen = f"{up} streams served, {down} not served, {unmeasured} unmeasured"
        if seen != said:
            measurement.say(f"measuring for {left:.0f} s more: {seen}")
            said = seen
        time.sleep(min(0.5, left))
