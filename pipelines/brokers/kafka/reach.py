"""Can a Kafka cluster be measured as the user says? Everything that is named is tried once.

The rule: what is wrong by itself (an address, a file, a setting) is said before anybody is asked over the network.

Example: `reach(place, print)` returns the cluster's id, or raises with one line such as "no Kafka broker could be reached: ...".
"""

from collections.abc import Callable

from pipelines.brokers.base import ClusterPlace
from pipelines.brokers.kafka.check import check, check_controllers
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.connection import Connection
from pipelines.brokers.kafka.metadata_log import folder_of
from pipelines.brokers.kafka.settings import KafkaSettings
from pipelines.errors import UsageError


def reach(place: ClusterPlace, warn: Callable[[str], None]) -> str:
    """The cluster's id. Raises UsageError, ConnectionFailed or Unauthorised."""
    settings = KafkaSettings.of(place)
    connection = load(place.bootstrap, place.command_config)
    controllers = _controllers(place, settings)
    if settings.metadata_log is not None:
        folder_of(settings.metadata_log)
    if settings.zookeeper is not None:
        # Its client is loaded where there is a ZooKeeper.
        from pipelines.brokers.kafka.znodes import check_connect

        check_connect(settings.zookeeper)
    for warning in connection.warnings:
        warn(warning)
    reached = check(connection)
    for node, reason in reached.unreachable.items():
        warn(f"broker {node} cannot be reached: {reason}")
    if controllers is not None:
        check_controllers(controllers)
    if settings.zookeeper is not None:
        from pipelines.brokers.kafka.zookeeper import check_zookeeper

        check_zookeeper(settings.zookeeper, reached.cluster_id)
    return reached.cluster_id


def _controllers(place: ClusterPlace, settings: KafkaSettings) -> Connection | None:
    if not settings.controllers:
        if settings.controller_config is not None:
            raise UsageError("--controller-config says how to reach controllers, but there is no --controller HOST:PORT")
        return None
    try:
        return load(",".join(settings.controllers), settings.controller_config or place.command_config)
    except UsageError as error:
        raise UsageError(f"--controller: {error}") from error
