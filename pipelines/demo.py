"""`lastack demo`: a real three-node Kafka cluster on this machine loses a leader, and Lastack measures what that cost.

In order: pages and stream start while the nodes boot; the collectors follow; when every partition has been served for some
seconds, the broker that is the active controller (and leads partitions) is killed with -9; when everything is served again it is
started again and catches up; when the canary topics have been read back, the result is printed. `--once` ends there; otherwise the
pages stay and the measurement goes on until Ctrl-C.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from pipelines.domain.clock import Anchor
from pipelines.lab.cluster import Lab
from pipelines.lab.config import LabSpec
from pipelines.lab.node import Fault as Injected
from pipelines.lab.node import Node
from pipelines.measuring import LOOPBACK, Measurement, check_port, free_port
from pipelines.parts import MeasuredCluster, collectors, dashboard, mark_fault, stream
from pipelines.results import Results
from pipelines.workplace import Reporter, check_result_file, workplace

USER_TOPIC = "demo-orders"
USER_PARTITIONS = 6
OUTAGE_SECONDS = 120.0
STREAM_SECONDS = 300.0
SETTLE_SECONDS = 180.0
VERDICT_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line asks of the demo."""

    is_once: bool = False
    json_path: Path | None = None
    home: Path | None = None
    port: int = 0


def run(options: DemoOptions, console: Console) -> None:
    """Runs the demo; returns when it is over (`--once`) or when it was interrupted."""
    check_result_file(options.json_path)
    check_port(options.port)
    with workplace("demo", options.home) as home, Reporter(console) as say:
        anchor = Anchor.now()
        with Measurement(home, say) as measurement:
            address = _start_pages(measurement, options.port)
            with Lab(LabSpec(), anchor=anchor, say=say) as lab:
                _demonstrate(measurement, lab, anchor, address, options, console)


def _start_pages(measurement: Measurement, port: int) -> str:
    port = port or free_port()
    measurement.start(dashboard(measurement.home, port))
    address = f"http://{LOOPBACK}:{port}"
    measurement.wait_page(address)
    measurement.say(f"the pages are at {address}")
    return address


def _demonstrate(measurement: Measurement, lab: Lab, anchor: Anchor, address: str, options: DemoOptions, console: Console) -> None:
    since = datetime.now(tz=UTC)
    lab.admin.create_topic(USER_TOPIC, partitions=USER_PARTITIONS, replicas=lab.spec.replicas)
    cluster = MeasuredCluster(lab.place, lab.admin.cluster_id())
    measurement.start(stream(measurement.home, cluster, anchor))
    for part in collectors(measurement.home, cluster, anchor):
        measurement.start(part)
    measurement.wait(measurement.is_streaming, STREAM_SECONDS, "the stream's first batch")
    measurement.wait_steady()

    victim = lab.active_controller()
    measurement.say(f"killing broker {victim.node_id} with -9: it leads partitions and is the active controller")
    killed = lab.kill(victim)
    _inject(measurement, cluster, anchor, killed)
    measurement.wait(lambda: not measurement.is_serving(), OUTAGE_SECONDS, "the outage to be seen")
    measurement.wait(measurement.is_serving, OUTAGE_SECONDS, "every partition to be served again without it")
    _restart(measurement, lab, victim, cluster, anchor)
    measurement.wait_steady(SETTLE_SECONDS)
    _wait_for_verdict(measurement, cluster, datetime.fromtimestamp(killed.before_at_us / 1e6, tz=UTC))
    if options.is_once:
        _end(measurement)
    results = Results(measurement.home, cluster.cluster_id, since)
    results.show(console)
    if options.json_path is not None:
        results.write(options.json_path)
        console.print(f"written: {options.json_path}", markup=False, highlight=False)
    if not options.is_once:
        console.print(f"The pages stay at {address}; Ctrl-C ends everything.")
        while True:
            measurement.check()
            time.sleep(1.0)


def _restart(measurement: Measurement, lab: Lab, victim: Node, cluster: MeasuredCluster, anchor: Anchor) -> None:
    measurement.say(f"starting broker {victim.node_id} again")
    _inject(measurement, cluster, anchor, lab.start(victim))
    measurement.say("waiting for all replicas to be in sync")
    lab.wait_until_in_sync(SETTLE_SECONDS)


def _inject(measurement: Measurement, cluster: MeasuredCluster, anchor: Anchor, done: Injected) -> None:
    mark_fault(measurement.home, cluster, anchor, "demo", done.fault, done.target, (done.before_at_us, done.verified_at_us))


def _wait_for_verdict(measurement: Measurement, cluster: MeasuredCluster, killed_at: datetime) -> None:
    """Waits until gold has the outages of the kill, not of something before it, closed and with a verdict on their data."""

    def is_decided() -> bool:
        results = Results(measurement.home, cluster.cluster_id, killed_at)
        kinds = {row["kind"] for row in results.outages if row["lane"] == "raw" and not row["is_open"]}
        return (
            {"write", "durable_write"} <= kinds
            and not any(row["is_open"] for row in results.outages if row["lane"] != "watch")
            and results.is_read_back
        )

    measurement.wait(is_decided, VERDICT_SECONDS, "gold: all outages closed and all canary topics read back")


def _end(measurement: Measurement) -> None:
    measurement.say("ending the collectors, and letting the stream take in the rest")
    for name in [name for name in measurement.children if name not in ("stream", "dashboard")]:
        measurement.stop(name)
    measurement.stop("stream")
