"""Which broker systems are there? The one table, and the one place that enters them.

The rule: everybody else names a system by its word and gets what it offers through protocols (`base`, `probing`, `readback`); nobody
imports a system's own modules. What a system does not have is refused here, in one line that says which systems have it.

Example: `watchable(ClusterPlace(system="kafka", bootstrap="127.0.0.1:9092"))` is a `KafkaWatch`; a place with `system="abacus"` raises
UsageError and says which systems are known.
"""

from collections.abc import Callable, Mapping, Sequence

from pipelines.brokers.base import ClusterPlace, ControlPlace, MetricSource, Watchable
from pipelines.brokers.entry import Entry, SourceMaker
from pipelines.brokers.kafka.entry import KAFKA
from pipelines.brokers.probing import LeaderChange, ProbePlace, Prober
from pipelines.brokers.readback import LogReader
from pipelines.domain.observations import Kind, Lane
from pipelines.errors import UsageError

SYSTEMS: dict[str, Entry] = {"kafka": KAFKA}


def entry(system: str) -> Entry:
    """What a system has. Raises UsageError for one that is not known."""
    if system not in SYSTEMS:
        raise UsageError(f"{system!r} is not a broker system that Lastack knows; known are {', '.join(sorted(SYSTEMS))}")
    return SYSTEMS[system]


def reach(place: ClusterPlace, warn: Callable[[str], None]) -> str:
    """Connects, once, to everything that is named, and returns the cluster's own name. Raises UsageError for what the system has not or
    what cannot be used, ConnectionFailed, Unauthorised: one line for people."""
    found = entry(place.system)
    for name in sorted(place.settings.keys() - found.settings):
        raise UsageError(f"{name!r} is not a setting of {place.system!r}; known are {', '.join(sorted(found.settings)) or 'none'}")
    for url in place.metrics:
        metric_source(place.system, url, None)
    return found.reach(place, warn)


def check_lanes(system: str, lanes: Mapping[str, tuple[Kind, Lane]]) -> None:
    """Raises UsageError, which names the first lane that the system cannot serve."""
    found = entry(system).lanes
    for name, lane in lanes.items():
        if lane not in found:
            served = ", ".join(f"{kind}/{of_kind}" for kind, of_kind in sorted(found))
            raise UsageError(f"{system!r} cannot serve the lane {name!r} ({lane[0]}/{lane[1]}); it can serve {served or 'none'}")


def prepare_probing(place: ProbePlace) -> list[str]:
    """Makes sure of what the canary writes to. Returns warnings for people. Raises UsageError for something that exists and does not
    fit; ConnectionFailed, Unauthorised."""
    return entry(place.cluster.system).prepare_probing(place)


def prober(place: ProbePlace, on_change: Callable[[LeaderChange], None]) -> Prober:
    """What `collect.canary` probes with, after `prepare_probing`; `on_change` hears of every new leader."""
    return entry(place.cluster.system).prober(place, on_change)


def watchable(place: ClusterPlace) -> Watchable:
    """What `collect.watch` watches. Raises UsageError for a system that cannot be watched, or settings that cannot be used."""
    make = entry(place.system).watchable
    if make is None:
        raise _lacking(place.system, "cannot be watched", "can", lambda one: one.watchable)
    return make(place)


def metric_source(system: str, url: str, login: tuple[str, str] | None) -> MetricSource:
    """Where `collect.metrics` reads one broker's metrics; `login` is (user, password). Raises UsageError."""
    make = entry(system).metric_source
    if make is None:
        raise _lacking(system, "has no metrics that can be read", "have", lambda one: one.metric_source)
    return make(url, login)


def control_sources(place: ControlPlace) -> Sequence[SourceMaker]:
    """Where `collect.control_plane` reads decisions, best first. Raises UsageError for a system that has none."""
    system = place.cluster.system
    make = entry(system).control_sources
    if make is None:
        raise _lacking(system, "has no control plane that can be read", "have", lambda one: one.control_sources)
    return make(place)


def log_reader(place: ClusterPlace) -> LogReader:
    """What `pipelines.readback` reads with. Raises UsageError for a system whose records cannot be read back, or settings."""
    make = entry(place.system).log_reader
    if make is None:
        raise _lacking(place.system, "has no records that can be read back", "have", lambda one: one.log_reader)
    return make(place)


def _lacking(system: str, what: str, verb: str, has: Callable[[Entry], object]) -> UsageError:
    having = sorted(name for name, one in SYSTEMS.items() if has(one) is not None)
    return UsageError(f"{system!r} {what}; systems that {verb}: {', '.join(having) or 'none'}")
