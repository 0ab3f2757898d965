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

from pipelines.brokers.kafka.check import check, check_controllers
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.metadata_log import folder_of
from pipelines.brokers.kafka.znodes import check_connect
from pipelines.brokers.kafka.zookeeper import check_zookeeper
from pipelines.brokers.systems import metric_source
from pipelines.domain.clock import Anchor
from pipelines.errors import UsageError
from pipelines.measuring import Measurement
from pipelines.parts import Target, collectors, stream
from pipelines.results import Results
from pipelines.workplace import Reporter, check_home, check_result_file, warn, workplace

START_SECONDS = 240.0
SHORTEST_SECONDS = 10.0
LONGEST_SECONDS = 31 * 86_400.0


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What the command line asks of a measurement."""

    bootstrap: str
    for_seconds: float
    command_config: Path | None = None
    jolokia: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    controller_config: Path | None = None
    metadata_log: Path | None = None
    zookeeper: str | None = None
    json_path: Path | None = None
    home: Path | None = None
    period_ms: int = 100
    may_alter: bool = False
    probers: int = 1


def run(options: MeasureOptions, console: Console) -> None:
    """Measures, then prints the result. Raises UsageError when the cluster cannot be measured as asked."""
    connection, controllers = _understood(options)
    for warning in connection.warnings:
        warn(warning)
    reached = check(connection)
    for node, reason in reached.unreachable.items():
        warn(f"broker {node} cannot be reached: {reason}")
    if controllers is not None:
        check_controllers(controllers)
    if options.zookeeper is not None:
        check_zookeeper(options.zookeeper, reached.cluster_id)
    target = Target(
        bootstrap=options.bootstrap,
        cluster_id=reached.cluster_id,
        command_config=options.command_config,
        jolokia=options.jolokia,
        controllers=options.controllers,
        controller_config=options.controller_config,
        metadata_log=options.metadata_log,
        zookeeper=options.zookeeper,
        period_ms=options.period_ms,
        may_alter=options.may_alter,
        probers=options.probers,
    )
    anchor = Anchor.now()
    with workplace("measure", options.home) as home, Reporter(console) as say, Measurement(home, say) as measurement:
        since = datetime.now(tz=UTC)
        measurement.start(stream(home, target, anchor))
        for part in collectors(home, target, anchor):
            measurement.start(part)
        measurement.wait(lambda: bool(measurement.live()), START_SECONDS, "the canary's first view of the cluster")
        _measure(measurement, options.for_seconds)
        say("ending the collectors, and letting the stream take in the rest")
        for name in [name for name in measurement.children if name != "stream"]:
            measurement.stop(name)
        measurement.stop("stream")
        results = Results(home, target.cluster_id, since)
        results.show(console)
        if options.json_path is not None:
            results.write(options.json_path)
            console.print(f"written: {options.json_path}", markup=False, highlight=False)


def _understood(options: MeasureOptions) -> tuple[Connection, Connection | None]:
    """The ways in to the brokers and to the controllers. What is wrong by itself is said before anybody is asked over the network."""
    check_result_file(options.json_path)
    check_home(options.home)
    connection = load(options.bootstrap, options.command_config)
    controllers = _controllers(options)
    if options.metadata_log is not None:
        folder_of(options.metadata_log)
    for url in options.jolokia:
        metric_source("kafka", url, None)
    if options.zookeeper is not None:
        check_connect(options.zookeeper)
    return connection, controllers


def _controllers(options: MeasureOptions) -> Connection | None:
    if not options.controllers:
        if options.controller_config is not None:
            raise UsageError("--controller-config says how to reach controllers, but there is no --controller HOST:PORT")
        return None
    try:
        return load(",".join(options.controllers), options.controller_config or options.command_config)
    except UsageError as error:
        raise UsageError(f"--controller: {error}") from error


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
