"""Which processes does a measurement consist of, and what is each of them told? The one place that knows all collectors.

The rule: what a broker system does not have (`brokers.entry`) is not started: no watch, no control plane, no lane that it cannot serve.
Secrets travel as the path of the user's own file. All collectors share one clock anchor, so their instants compare without error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.brokers import systems
from pipelines.brokers.base import ClusterPlace
from pipelines.collect.canary.config import LANES, written_topics
from pipelines.collect.config import CollectorConfig, as_fields
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
class MeasuredCluster:
    """The cluster that is measured, and how."""

    place: ClusterPlace
    cluster_id: str
    period_ms: int = 100
    may_alter: bool = False
    webhook: str | None = None
    probers: int = 1
    """How many probers ask, each a process of its own."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that its system can serve, by name."""
        served = systems.entry(self.place.system).lanes
        return tuple(name for name, spec in LANES.items() if (spec.kind, spec.lane) in served)


def prober(home: Home, cluster: MeasuredCluster, anchor: Anchor, prober_id: str = "canary") -> Part:
    """A prober of a cluster. Several of them share the canary's topics."""
    config = CanaryProcess(
        **_reaching(home, cluster, anchor),
        prober_id=prober_id,
        lanes=cluster.lanes,
        home=str(home.path),
        period_ms=cluster.period_ms,
        may_alter=cluster.may_alter,
        webhook=cluster.webhook,
    )
    return Part(prober_id, ("collect", "canary"), config)


def further_probers(home: Home, cluster: MeasuredCluster, anchor: Anchor, probers: int) -> Iterator[Part]:
    """Those beside the first one, where so many ask."""
    for number in range(2, probers + 1):
        yield prober(home, cluster, anchor, f"canary-{number}")


def mark_fault(home: Home, cluster: MeasuredCluster, anchor: Anchor, by: str, fault: str, hit: str, span_us: tuple[int, int]) -> None:
    """Marks a fault in the landing, as any injector should: what, whom, from just before it to when it was seen to take effect."""
    config = CollectorConfig(**_shared(home, cluster, anchor), prober_id=by)
    with config.open_spool("drill") as spool:
        spool.write(Fault, fault=fault, target=hit, is_verified=True, started_at_us=span_us[0], ended_at_us=span_us[1])


def _shared(home: Home, cluster: MeasuredCluster, anchor: Anchor) -> dict[str, Any]:
    """What every part is told."""
    return {
        "system": cluster.place.system,
        "cluster_id": cluster.cluster_id,
        "spool": str(home.landing),
        "anchor": anchor.text(),
    }


def _reaching(home: Home, cluster: MeasuredCluster, anchor: Anchor) -> dict[str, Any]:
    """What every part is told that asks the cluster itself."""
    return _shared(home, cluster, anchor) | as_fields(cluster.place)


def collectors(home: Home, cluster: MeasuredCluster, anchor: Anchor) -> Iterator[Part]:
    """The collectors of a cluster, each a process of its own: one for each thing that its system has."""
    reaching, has = _reaching(home, cluster, anchor), systems.entry(cluster.place.system)
    yield prober(home, cluster, anchor)
    yield from further_probers(home, cluster, anchor, cluster.probers)
    if has.watchable is not None:
        yield Part("watch", ("collect", "watch"), WatchConfig(**reaching, prober_id="watch"))
    if has.control_sources is not None:
        control_plane = ControlPlaneConfig(**reaching, prober_id="control-plane", state_folder=str(home.spool))
        yield Part("control-plane", ("collect", "control-plane"), control_plane)
    if cluster.place.metrics:
        metrics = MetricsConfig(**_shared(home, cluster, anchor), prober_id="metrics", urls=cluster.place.metrics)
        yield Part("metrics", ("collect", "metrics"), metrics)


def stream(home: Home, cluster: MeasuredCluster, anchor: Anchor) -> Part:
    """The stream, with the canary's topics to read back, where they can be."""
    is_read_back = systems.entry(cluster.place.system).log_reader is not None
    topics = written_topics(cluster.lanes) if is_read_back else {}
    config = StreamConfig(
        **_reaching(home, cluster, anchor),
        home=str(home.path),
        topics=tuple(f"{name}={kind}/{lane}" for name, (kind, lane) in topics.items()),
    )
    return Part("stream", ("stream",), config, STREAM_STOP_SECONDS)


def dashboard(home: Home, port: int) -> Part:
    """The pages."""
    return Part("dashboard", ("dashboard", "--home", str(home.path), "--port", str(port)))
