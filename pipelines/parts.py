"""Which processes does a measurement consist of, and what is each of them told? The one place that knows all collectors.

Secrets travel as the path of the user's own file. All collectors share one clock anchor, so their instants compare without error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.collect.canary.config import CanaryConfig
from pipelines.collect.config import CollectorConfig
from pipelines.collect.control_plane import ControlPlaneConfig
from pipelines.collect.metrics import MetricsConfig
from pipelines.collect.watch import WatchConfig
from pipelines.collecting import CanaryProcess
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Fault
from pipelines.measuring import STREAM_STOP_SECONDS, Part
from pipelines.settings import Home
from pipelines.streaming import StreamConfig


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that is measured, and how."""

    bootstrap: str
    cluster_id: str
    command_config: Path | None = None
    jolokia: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    controller_config: Path | None = None
    metadata_log: Path | None = None
    zookeeper: str | None = None
    period_ms: int = 100
    may_alter: bool = False
    webhook: str | None = None
    probers: int = 1
    """How many probers ask, each a process of its own."""

    @property
    def way_in(self) -> dict[str, Any]:
        """What each part needs to reach the cluster."""
        config = None if self.command_config is None else str(self.command_config.resolve())
        return {"bootstrap": self.bootstrap, "command_config": config}


def prober(home: Home, target: Target, anchor: Anchor, prober_id: str = "canary") -> Part:
    """A prober of a target. Several of them share the canary's topics."""
    config = CanaryProcess(
        **_shared(home, target, anchor),
        **target.way_in,
        prober_id=prober_id,
        home=str(home.path),
        period_ms=target.period_ms,
        may_alter=target.may_alter,
        webhook=target.webhook,
    )
    return Part(prober_id, ("collect", "canary"), config)


def further_probers(home: Home, target: Target, anchor: Anchor, probers: int) -> Iterator[Part]:
    """Those beside the first one, where so many ask."""
    for number in range(2, probers + 1):
        yield prober(home, target, anchor, f"canary-{number}")


def mark_fault(home: Home, target: Target, anchor: Anchor, by: str, fault: str, hit: str, span_us: tuple[int, int]) -> None:
    """Marks a fault in the landing, as any injector should: what, whom, from just before it to when it was seen to take effect."""
    config = CollectorConfig(cluster_id=target.cluster_id, prober_id=by, spool=str(home.landing), anchor=anchor.text())
    with config.open_spool("drill") as spool:
        spool.write(Fault, fault=fault, target=hit, is_verified=True, started_at_us=span_us[0], ended_at_us=span_us[1])


def _shared(home: Home, target: Target, anchor: Anchor) -> dict[str, Any]:
    return {"cluster_id": target.cluster_id, "spool": str(home.landing), "anchor": anchor.text()}


def collectors(home: Home, target: Target, anchor: Anchor) -> Iterator[Part]:
    """The collectors of a target, each a process of its own."""
    shared = _shared(home, target, anchor)
    yield prober(home, target, anchor)
    yield from further_probers(home, target, anchor, target.probers)
    yield Part("watch", ("collect", "watch"), WatchConfig(**shared, **target.way_in, prober_id="watch"))
    control_plane = ControlPlaneConfig(
        **shared,
        **target.way_in,
        prober_id="control-plane",
        state_folder=str(home.spool),
        controllers=target.controllers,
        controller_config=None if target.controller_config is None else str(target.controller_config.resolve()),
        jolokia=target.jolokia,
        metadata_log=None if target.metadata_log is None else str(target.metadata_log.resolve()),
        zookeeper=target.zookeeper,
    )
    yield Part("control-plane", ("collect", "control-plane"), control_plane)
    if target.jolokia:
        metrics = MetricsConfig(**shared, prober_id="metrics", urls=target.jolokia)
        yield Part("metrics", ("collect", "metrics"), metrics)


def stream(home: Home, target: Target, anchor: Anchor) -> Part:
    """The stream, with the canary's topics to read back."""
    topics = CanaryConfig(
        cluster_id=target.cluster_id, prober_id="", spool="", anchor=anchor.text(), bootstrap=target.bootstrap
    ).written_topics()
    config = StreamConfig(
        cluster_id=target.cluster_id,
        spool=str(home.landing),
        anchor=anchor.text(),
        **target.way_in,
        home=str(home.path),
        topics=tuple(f"{name}={kind}/{lane}" for name, (kind, lane) in topics.items()),
    )
    return Part("stream", ("stream",), config, STREAM_STOP_SECONDS)


def dashboard(home: Home, port: int) -> Part:
    """The pages."""
    return Part("dashboard", ("dashboard", "--home", str(home.path), "--port", str(port)))
