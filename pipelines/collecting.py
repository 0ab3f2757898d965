"""What does each collector's process run? The canary takes the fast lane with it, the others run as they are.

The fast lane lives in the canary's process because an alert must not wait for a disk: it is given the very records that are spooled.
"""

from dataclasses import dataclass
from pathlib import Path

from pipelines.alerts import Outbox, message
from pipelines.collect.canary.config import CanaryConfig
from pipelines.collect.canary.run import run as run_canary
from pipelines.collect.control_plane import ControlPlaneConfig
from pipelines.collect.control_plane import run as run_control_plane
from pipelines.collect.fast_lane import FastLane, Ticker
from pipelines.collect.firing import Alert, Rules
from pipelines.collect.metrics import MetricsConfig
from pipelines.collect.metrics import run as run_metrics
from pipelines.collect.watch import WatchConfig
from pipelines.collect.watch import run as run_watch
from pipelines.domain.observations import Blind, Kind, Probes
from pipelines.errors import UsageError
from pipelines.settings import Home

RECEIVER = "lastack"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryProcess(CanaryConfig):
    """The canary and its fast lane. `home` is where the live view and the outbox are; `webhook` is where alerts go, if anywhere."""

    home: str
    webhook: str | None = None
    alert_after_seconds: float = 5.0


def run(name: str, config: str) -> None:
    """Runs the collector of that name, configured by a JSON text, until it is told to stop."""
    runners = {"canary": _canary, "watch": _watch, "metrics": _metrics, "control-plane": _control_plane}
    if name not in runners:
        raise UsageError(f"there is no collector {name!r}; known are {', '.join(runners)}")
    runners[name](config)


def _canary(text: str) -> None:
    config = CanaryProcess.from_json(text)
    home = Home(Path(config.home))
    identity = {
        "system": config.system,
        "cluster_id": config.cluster_id,
        "prober_id": config.prober_id,
        "boot_id": config.boot_id,
    }
    rules = Rules(after_seconds=dict.fromkeys((Kind.WRITE, Kind.DURABLE_WRITE, Kind.READ), config.alert_after_seconds))
    with Outbox(home.outbox, config.webhook) as outbox:
        lane = FastLane(
            identity=identity,
            clock=config.clock,
            live=home.live / f"{config.prober_id}.json",
            rules=rules,
            deliver=lambda alerts: outbox.put(_told(identity, alerts)),
        )

        def observe(record: Probes | Blind) -> None:
            if isinstance(record, Probes):
                lane.take(record)
            else:
                lane.blind(record)

        with Ticker(lane):
            run_canary(config, [observe], lane.beat)


def _watch(text: str) -> None:
    run_watch(WatchConfig.from_json(text))


def _metrics(text: str) -> None:
    run_metrics(MetricsConfig.from_json(text))


def _control_plane(text: str) -> None:
    run_control_plane(ControlPlaneConfig.from_json(text))


def _told(identity: dict[str, str], alerts: list[Alert]) -> dict[str, object]:
    """Alerts that changed together as one webhook's body."""
    return message(
        labels=[
            {
                "alertname": "PartitionNotServed",
                "severity": "critical",
                "alert_id": alert.alert_id,
                **{name: identity[name] for name in ("system", "cluster_id", "prober_id")},
                "resource": alert.stream.resource,
                "shard": alert.stream.shard,
                "kind": alert.stream.kind,
                "lane": alert.stream.lane,
            }
            for alert in alerts
        ],
        annotations=[{"summary": alert.summary} for alert in alerts],
        states=[alert.state for alert in alerts],
        spans=[(alert.started_at_us, alert.resolved_at_us) for alert in alerts],
        receiver=RECEIVER,
    )
