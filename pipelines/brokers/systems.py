"""Which broker systems are there, and how are they reached from their settings?

The rule: collectors name a system by its word and get what it offers through the protocols of `base`; no collector imports a
system's own modules. A new system is one entry in each table; one that has no control
plane to be read has no entry there.

Example: `watchable("kafka", "127.0.0.1:9092", None)` is a `KafkaWatch`; `watchable("abacus", ...)` says which systems are
known.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.brokers.base import ControlPlace, ControlSource, MetricSource, Watchable
from pipelines.brokers.kafka import client_properties
from pipelines.brokers.kafka.control import control_sources as kafka_control_sources
from pipelines.brokers.kafka.jolokia import Jolokia
from pipelines.brokers.kafka.log_reader import KafkaLogReader
from pipelines.brokers.kafka.prober import KafkaProber
from pipelines.brokers.kafka.prober import prepare as kafka_prepare
from pipelines.brokers.kafka.watching import KafkaWatch
from pipelines.brokers.probing import LeaderChange, ProbePlace, Prober
from pipelines.brokers.readback import LogReader
from pipelines.errors import UsageError

SourceMaker = Callable[[], ControlSource]


def _kafka_watch(bootstrap: str, command_config: Path | None) -> Watchable:
    return KafkaWatch(client_properties.load(bootstrap, command_config))


def _kafka_log_reader(bootstrap: str, command_config: Path | None) -> LogReader:
    return KafkaLogReader(client_properties.load(bootstrap, command_config))


WATCHABLES: dict[str, Callable[[str, Path | None], Watchable]] = {"kafka": _kafka_watch}
PROBERS: dict[str, tuple[Callable[[ProbePlace], list[str]], Callable[[ProbePlace, Callable[[LeaderChange], None]], Prober]]] = {
    "kafka": (kafka_prepare, KafkaProber)
}
METRIC_SOURCES: dict[str, Callable[[str, tuple[str, str] | None], MetricSource]] = {"kafka": Jolokia}
CONTROL_SOURCES: dict[str, Callable[[ControlPlace], Sequence[SourceMaker]]] = {"kafka": kafka_control_sources}
LOG_READERS: dict[str, Callable[[str, Path | None], LogReader]] = {"kafka": _kafka_log_reader}


def watchable(system: str, bootstrap: str, command_config: Path | None) -> Watchable:
    """What `collect.watch` watches. Raises UsageError for a system that cannot be watched, or settings that cannot be used."""
    if system not in WATCHABLES:
        raise UsageError(f"{system!r} cannot be watched; systems that can: {', '.join(sorted(WATCHABLES))}")
    return WATCHABLES[system](bootstrap, command_config)


def prepare_probing(system: str, place: ProbePlace) -> list[str]:
    """Makes sure of what the canary writes to. Returns warnings for people. Raises UsageError for a system that cannot be probed, or
    for something that exists and does not fit; ConnectionFailed, Unauthorised."""
    if system not in PROBERS:
        raise UsageError(f"{system!r} cannot be probed; systems that can: {', '.join(sorted(PROBERS))}")
    return PROBERS[system][0](place)


def prober(system: str, place: ProbePlace, on_change: Callable[[LeaderChange], None]) -> Prober:
    """What `collect.canary` probes with, after `prepare_probing`; `on_change` hears of every new leader."""
    return PROBERS[system][1](place, on_change)


def metric_source(system: str, url: str, login: tuple[str, str] | None) -> MetricSource:
    """Where `collect.metrics` reads one broker's metrics; `login` is (user, password). Raises UsageError."""
    if system not in METRIC_SOURCES:
        raise UsageError(f"{system!r} has no metrics that can be read; systems that have: {', '.join(sorted(METRIC_SOURCES))}")
    return METRIC_SOURCES[system](url, login)


def control_sources(system: str, place: ControlPlace) -> Sequence[SourceMaker]:
    """Where `collect.control_plane` reads decisions, best first. Raises UsageError for a system that has none."""
    if system not in CONTROL_SOURCES:
        raise UsageError(f"{system!r} has no control plane that can be read; systems that have: {', '.join(sorted(CONTROL_SOURCES))}")
    return CONTROL_SOURCES[system](place)


def log_reader(system: str, bootstrap: str, command_config: Path | None) -> LogReader:
    """What `pipelines.readback` reads with. Raises UsageError for a system whose records cannot be read back, or settings."""
    if system not in LOG_READERS:
        raise UsageError(f"what {system!r} stores cannot be read back; systems that can be: {', '.join(sorted(LOG_READERS))}")
    return LOG_READERS[system](bootstrap, command_config)
