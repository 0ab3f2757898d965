"""Where can a Kafka cluster's control plane be read, best first?

The rule: in ZooKeeper mode from the znodes; in KRaft mode from the controllers' listener (nothing that is read there can be
undone), else from a node's folder; else by asking brokers. The two of KRaft mode need Kafka's own message definitions, out of the
pinned JARs.

Example: a place with `controllers` and no `metadata_log` gives a ControllerFetch and, should that fail, an AdminPoll.
"""

from collections.abc import Callable

from pipelines import jars
from pipelines.brokers.base import ControlPlace, ControlSource
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.controller import ControllerFetch
from pipelines.brokers.kafka.definitions import Definitions
from pipelines.brokers.kafka.metadata_log import MetadataLog, folder_of
from pipelines.brokers.kafka.polled import AdminPoll
from pipelines.brokers.kafka.raft_metrics import RaftHighWatermark, node_of


def control_sources(place: ControlPlace) -> list[Callable[[], ControlSource]]:
    """The sources that the place allows, each made when it is called for; making one raises UsageError when it cannot be used."""
    sources: list[Callable[[], ControlSource]] = []
    if place.zookeeper is not None:
        sources.append(lambda: _znodes(place))
    if place.controllers:
        sources.append(lambda: _fetch(place))
    if place.metadata_log is not None:
        sources.append(lambda: _log(place))
    sources.append(lambda: AdminPoll(load(place.bootstrap, place.command_config), place.clock))
    return sources


def _znodes(place: ControlPlace) -> ControlSource:
    # Its client is loaded where there is a ZooKeeper.
    from pipelines.brokers.kafka.zookeeper import ZookeeperControl

    assert place.zookeeper is not None  # noqa: S101 - asked by the caller
    return ZookeeperControl(place.zookeeper, place.clock, place.cluster_id)


def _definitions() -> Definitions:
    pinned = jars.ensure("kafka")
    return Definitions.of_jars(pinned.path_of("kafka-metadata"), pinned.path_of("kafka-clients"))


def _fetch(place: ControlPlace) -> ControlSource:
    connection = load(",".join(place.controllers), place.controller_config)
    return ControllerFetch(connection, _definitions(), place.cluster_id)


def _log(place: ControlPlace) -> ControlSource:
    assert place.metadata_log is not None  # noqa: S101 - asked by the caller
    folder = folder_of(place.metadata_log)
    mark = RaftHighWatermark(place.jolokia, node_of(folder)) if place.jolokia else None
    return MetadataLog(folder, _definitions(), mark)
