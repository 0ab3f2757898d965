"""Which broker systems are there, and how are they reached from their settings?

The rule: collectors name a system by its word and get what it offers through the protocols of `base`; no collector of the
watch or of the control plane imports a system's own modules. A new system is one entry in each table; one that has no control
plane to be read has no entry there.

Example: `watchable("kafka", "127.0.0.1:9092", None)` is a `KafkaWatch`; `watchable("abacus", ...)` says which systems are
known.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.brokers.base import ControlPlace, ControlSource, Watchable
from pipelines.brokers.kafka import client_properties
from pipelines.brokers.kafka.control import control_sources as kafka_control_sources
from pipelines.brokers.kafka.watching import KafkaWatch
from pipelines.errors import UsageError

SourceMaker = Callable[[], ControlSource]


def _kafka_watch(bootstrap: str, command_config: Path | None) -> Watchable:
    return KafkaWatch(client_properties.load(bootstrap, command_config))


WATCHABLES: dict[str, Callable[[str, Path | None], Watchable]] = {"kafka": _kafka_watch}
CONTROL_SOURCES: dict[str, Callable[[ControlPlace], Sequence[SourceMaker]]] = {"kafka": kafka_control_sources}


def watchable(system: str, bootstrap: str, command_config: Path | None) -> Watchable:
    """What `collect.watch` watches. Raises UsageError for a system that cannot be watched, or settings that cannot be used."""
    if system not in WATCHABLES:
        raise UsageError(f"{system!r} cannot be watched; systems that can: {', '.join(sorted(WATCHABLES))}")
    return WATCHABLES[system](bootstrap, command_config)


def control_sources(system: str, place: ControlPlace) -> Sequence[SourceMaker]:
    """Where `collect.control_plane` reads decisions, best first. Raises UsageError for a system that has none."""
    if system not in CONTROL_SOURCES:
        raise UsageError(f"{system!r} has no control plane that can be read; systems that have: {', '.join(sorted(CONTROL_SOURCES))}")
    return CONTROL_SOURCES[system](place)
