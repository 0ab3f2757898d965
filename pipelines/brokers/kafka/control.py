"""Where can a Kafka cluster's control plane be read, best first?

The rule: in ZooKeeper mode from the znodes; in KRaft mode from the controllers' listener (nothing that is read there can be
undone), else from a node's folder; else by asking brokers. The two of KRaft mode need Kafka's own message definitions, out of the
pinned JARs.

Example: a place with `controllers` and no `metadata_log` gives a ControllerFetch and, should that fail, an AdminPoll.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipelines import jars
from pipelines.brokers.base import ControlPlace, ControlSource
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.controller import ControllerFetch
from pipelines.brokers.kafka.definitions import Definitions
from pipelines.brokers.kafka.metadata_log import MetadataLog, folder_of
from pipelines.brokers.kafka.polled import AdminPoll
from pipelines.brokers.kafka.raft_metrics import RaftHighWatermark, node_of
from pipelines.brokers.kafka.settings import KafkaSettings


def control_sources(place: ControlPlace) -> list[Callable[[], ControlSource]]:
    """The sources that the place allows, each made when it is called for; making one raises UsageError when it cannot be used."""
    cluster, settings = place.cluster, KafkaSettings.of(place.cluster)
    sources: list[Callable[[], ControlSource]] = []
    if settings.zookeeper is not None:
        sources.append(partial(_znodes, place, settings.zookeeper))
    if settings.controllers:
        sources.append(partial(_fetch, place, settings))
    if settings.metadata_log is not None:
        sources.append(partial(_log, place, settings.metadata_log))
    sources.append(lambda: AdminPoll(load(cluster.bootstrap, cluster.command_config), place.clock))
    return sources


def _znodes(place: ControlPlace, connect: str) -> ControlSource:
    # Its client is loaded where there is a ZooKeeper.
    from pipelines.brokers.kafka.zookeeper import ZookeeperControl

    return ZookeeperControl(connect, place.clock, place.cluster_id)


def _definitions() -> Definitions:
    pinned = jars.ensure("kafka")
    return Definitions.of_jars(pinned.path_of("kafka-metadata"), pinned.path_of("kafka-clients"))


def _fetch(place: ControlPlace, settings: KafkaSettings) -> ControlSource:
    connection = load(",".join(settings.controllers), settings.controller_config or place.cluster.command_config)
    return ControllerFetch(connection, _definitions(), place.cluster_id)


def _log(place: ControlPlace, where: Path) -> ControlSource:
    folder = folder_of(where)
    agents = place.cluster.metrics
    mark = RaftHighWatermark(agents, node_of(folder)) if agents else None
    return MetadataLog(folder, _definitions(), mark)
