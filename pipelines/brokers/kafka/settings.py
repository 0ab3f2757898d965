"""Which settings does Kafka have that no other system knows? Where its control plane can be read.

Example: a place with the settings `{"controllers": ("c1:9093", "c2:9093")}` is `KafkaSettings(controllers=("c1:9093", "c2:9093"))`.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from pipelines.brokers.base import ClusterPlace
from pipelines.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Where the control plane can be read.

    `controllers`: HOST:PORT of the controllers' listeners, reached with `controller_config` (a client.properties; that of the brokers
    when absent). `metadata_log`: a node's folder; one of the metrics' agents is that node's and says its high watermark. `zookeeper`:
    the brokers' zookeeper.connect, of a cluster in ZooKeeper mode.
    """

    controllers: tuple[str, ...] = ()
    controller_config: Path | None = None
    metadata_log: Path | None = None
    zookeeper: str | None = None

    @classmethod
    def of(cls, place: ClusterPlace) -> Self:
        """The settings of a place. Raises UsageError for one that is given more than once, where there can be but one."""
        return cls(
            controllers=tuple(place.settings.get("controllers", ())),
            controller_config=_path(_one(place, "controller_config")),
            metadata_log=_path(_one(place, "metadata_log")),
            zookeeper=_one(place, "zookeeper"),
        )


NAMES = frozenset(one.name for one in fields(KafkaSettings))


def _one(place: ClusterPlace, name: str) -> str | None:
    given = place.settings.get(name, ())
    if len(given) > 1:
        raise UsageError(f"{name} is given {len(given)} times, expected once")
    return given[0] if given else None


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
