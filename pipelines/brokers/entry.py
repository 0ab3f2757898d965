"""What does a broker system have at all? Its entry: everything else asks here, and never which system it is.

The rule: what a system does not have is None, or not named, and whoever needs it says so in one line (`systems`) instead of starting
something that can only fail: no control plane that can be read, no process that reads it; no client lane, no client lane's probes.

To add a system, write `pipelines/brokers/<system>/` with an `Entry`, and name it in `systems.SYSTEMS`. Only settings of its own need
more: an option of the command line (`pipelines.__main__`).

Example: a system without a control plane, whose stock client is not offered yet:
`Entry(reach=reach, lanes=frozenset({(Kind.WRITE, Lane.RAW), (Kind.READ, Lane.READ)}), prepare_probing=prepare, prober=MyProber,
watchable=MyWatch)`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.brokers.base import ClusterPlace, ControlPlace, ControlSource, MetricSource, Watchable
from pipelines.brokers.probing import LeaderChange, ProbePlace, Prober
from pipelines.brokers.readback import LogReader
from pipelines.domain.observations import Kind, Lane

SourceMaker = Callable[[], ControlSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One broker system."""

    reach: Callable[[ClusterPlace, Callable[[str], None]], str]
    """Connects, once, to everything that a place names, and returns the cluster's own name (`cluster_id`). Tells warnings for people,
    line by line. Raises UsageError for settings that cannot be used, before anybody is asked; ConnectionFailed, Unauthorised."""
    lanes: frozenset[tuple[Kind, Lane]]
    """The lanes that it can serve: a `Prober` gives a target for each."""
    prepare_probing: Callable[[ProbePlace], list[str]]
    """Makes sure of what the canary writes to. Returns warnings for people; raises UsageError, ConnectionFailed, Unauthorised."""
    prober: Callable[[ProbePlace, Callable[[LeaderChange], None]], Prober]
    """What probes go through; it is told whom to tell of every new leader."""
    settings: frozenset[str] = frozenset()
    """The names that `ClusterPlace.settings` may have: settings that no other system knows."""
    watchable: Callable[[ClusterPlace], Watchable] | None = None
    """Every shard can be watched without writing to it."""
    metric_source: Callable[[str, tuple[str, str] | None], MetricSource] | None = None
    """Brokers' own metrics can be read: from a URL, with (user, password). Raises UsageError for a URL that is none."""
    control_sources: Callable[[ControlPlace], Sequence[SourceMaker]] | None = None
    """Decisions of the control plane can be read: from these sources, best first."""
    log_reader: Callable[[ClusterPlace], LogReader] | None = None
    """Records can be read back, so that loss can be proven."""
