"""Is a cluster serving right now, as far as anyone can say? From what the fast lane and the stream last wrote of themselves.

Each prober replaces HOME/live/<prober_id>.json every second; the stream replaces HOME/stream/progress.json after each
micro-batch. `LiveView` and `StreamProgress` are these files, and the rule turns them into one word a cluster:

- OUTAGE: a prober that writes sees a stream down, or an outage open.
- SERVING: at least one prober that writes measures every one of its streams, and all of them are served.
- UNMEASURED: probers write, but none of them measures everything (blind, stopped, or some streams are unmeasured); or none
  was ever seen.
- STALE: no prober has written for `LIVE_MAX_AGE_US`. What was last seen is not what is.

Unmeasured and stale are never green. A file from the future (a clock that was stepped) is as stale as one from the past.

Worked example: written 1.2 s ago, state measuring, 18 streams up: SERVING. The same file 6 s later: STALE.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

FORMAT = 1
"""The version of both files; another one is refused."""

LIVE_MAX_AGE_US = 5_000_000
STREAM_MAX_AGE_US = 15_000_000
"""A stream in a usual batch writes more often; a long batch is allowed three times its predecessor's length."""

STREAM_START_MAX_AGE_US = 60_000_000
"""Before its first batch is done a stream starts a JVM, makes tables and compiles: that takes longer than any later batch."""


class ClusterState(StrEnum):
    """What can be said of a cluster, worst first."""

    OUTAGE = "outage"
    STALE = "stale"
    UNMEASURED = "unmeasured"
    SERVING = "serving"


class StreamState(StrEnum):
    """What can be said of the stream that fills the tables."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STALE = "stale"
    STOPPED = "stopped"
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOutage:
    """An outage as a prober sees it before the tables have it: provisional. Instants in microseconds, durations in ms."""

    outage_id: str
    resource: str
    shard: str
    kind: str
    lane: str
    started_at_min_us: int | None
    started_at_max_us: int
    rto_ms_min: float
    rto_ms_max: float | None = None
    ended_at_min_us: int | None = None
    ended_at_max_us: int | None = None
    codes: tuple[str, ...] = ()
    leader_before: str | None = None
    is_alerting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What one prober last said of itself and of the streams that it probes."""

    system: str
    cluster_id: str
    prober_id: str
    written_at_us: int
    state: str
    blind_since_us: int | None
    up: int
    down: int
    unmeasured: int
    open: tuple[LiveOutage, ...]
    recent: tuple[LiveOutage, ...]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """The view in a parsed file. Raises KeyError, TypeError or ValueError where the file is not of this format."""
        _check_format(document)
        streams = document["streams"]
        return cls(
            system=document["system"],
            cluster_id=document["cluster_id"],
            prober_id=document["prober_id"],
            written_at_us=int(document["written_at_us"]),
            state=document["state"],
            blind_since_us=document.get("blind_since_us"),
            up=int(streams["up"]),
            down=int(streams["down"]),
            unmeasured=int(streams["unmeasured"]),
            open=tuple(_outage(one) for one in document["open"]),
            recent=tuple(_outage(one) for one in document["recent"]),
        )

    def age_us(self, now_us: int) -> int:
        """How long ago it was written."""
        return now_us - self.written_at_us

    def is_fresh(self, now_us: int) -> bool:
        """Whether it says anything about now."""
        return abs(self.age_us(now_us)) <= LIVE_MAX_AGE_US

    @property
    def is_measuring_all(self) -> bool:
        """It sees, and no stream of it is left out."""
        return self.state == "measuring" and self.unmeasured == 0 and self.up + self.down > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """What the streaming query last said of itself."""

    batch_id: int | None
    state: StreamState
    started_at_us: int
    written_at_us: int
    rows: int | None
    quarantined: int | None
    batch_ms: float | None
    landing_files_waiting: int | None
    newest_event_at_us: int | None
    error: str | None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """The progress in a parsed file. Raises KeyError, TypeError or ValueError where the file is not of this format."""
        _check_format(document)
        return cls(
            batch_id=document.get("batch_id"),
            state=StreamState(document["state"]),
            started_at_us=int(document["started_at_us"]),
            written_at_us=int(document["written_at_us"]),
            rows=document.get("rows"),
            quarantined=document.get("quarantined"),
            batch_ms=document.get("batch_ms"),
            landing_files_waiting=document.get("landing_files_waiting"),
            newest_event_at_us=document.get("newest_event_at_us"),
            error=document.get("error"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """One cluster: its state, why, and what it rests on."""

    system: str
    cluster_id: str
    state: ClusterState
    reason: str
    views: tuple[LiveView, ...]

    @property
    def written_at_us(self) -> int | None:
        """When a prober of the cluster last wrote; None: none ever did."""
        return max((view.written_at_us for view in self.views), default=None)


def cluster_health(
    views: Iterable[LiveView],
    known: Iterable[tuple[str, str]],
    now_us: int,
) -> list[ClusterHealth]:
    """Every cluster that a prober speaks of, or that is `known` as (system, cluster_id) from the tables; worst state first."""
    by_cluster: dict[tuple[str, str], list[LiveView]] = {key: [] for key in known}
    for view in views:
        by_cluster.setdefault((view.system, view.cluster_id), []).append(view)
    found = [_health(key, tuple(of_cluster), now_us) for key, of_cluster in by_cluster.items()]
    order = list(ClusterState)
    return sorted(found, key=lambda one: (order.index(one.state), one.system, one.cluster_id))


def stream_state(progress: StreamProgress | None, now_us: int) -> StreamState:
    """Whether the tables are being filled."""
    if progress is None:
        return StreamState.ABSENT
    state = progress.state
    if state in (StreamState.FAILED, StreamState.STOPPED):
        return state
    usual = STREAM_START_MAX_AGE_US if progress.batch_id is None else STREAM_MAX_AGE_US
    allowed = max(usual, 3_000 * (progress.batch_ms or 0))
    return state if abs(now_us - progress.written_at_us) <= allowed else StreamState.STALE


def _health(key: tuple[str, str], views: tuple[LiveView, ...], now_us: int) -> ClusterHealth:
    fresh = [view for view in views if view.is_fresh(now_us)]
    state, reason = _state(views, fresh, now_us)
    return ClusterHealth(system=key[0], cluster_id=key[1], state=state, reason=reason, views=views)


def _state(views: tuple[LiveView, ...], fresh: list[LiveView], now_us: int) -> tuple[ClusterState, str]:
    if not views:
        return ClusterState.UNMEASURED, "no prober is measuring it"
    if not fresh:
        newest = max(views, key=lambda view: view.written_at_us)
        return ClusterState.STALE, _silence(newest, now_us)
    down = sum(view.down for view in fresh)
    if down or any(view.open for view in fresh):
        # A stream whose outage began is down until the fold has seen it served; the open list is the longer memory.
        count = max(down, sum(len(view.open) for view in fresh))
        return ClusterState.OUTAGE, f"{count} of {sum(_streams(view) for view in fresh)} streams are not served"
    complete = [view for view in fresh if view.is_measuring_all]
    if complete:
        return ClusterState.SERVING, f"{max(view.up for view in complete)} streams are served"
    return ClusterState.UNMEASURED, "; ".join(_gap(view) for view in fresh)


def _silence(view: LiveView, now_us: int) -> str:
    if view.age_us(now_us) < 0:
        return f"prober {view.prober_id} writes with a clock that is ahead of this host's"
    if view.state == "stopped":
        return f"prober {view.prober_id} was stopped"
    seen = f"; {len(view.open)} outages were open then" if view.open else ""
    return f"prober {view.prober_id} is silent{seen}"


def _gap(view: LiveView) -> str:
    if view.state == "blind":
        return f"prober {view.prober_id} is blind"
    if view.state == "stopped":
        return f"prober {view.prober_id} is stopped"
    if view.unmeasured:
        return f"{view.unmeasured} of {_streams(view)} streams are unmeasured"
    return f"prober {view.prober_id} has no stream yet"


def _streams(view: LiveView) -> int:
    return view.up + view.down + view.unmeasured


def _outage(document: Mapping[str, Any]) -> LiveOutage:
    return LiveOutage(
        outage_id=document["outage_id"],
        resource=document["resource"],
        shard=document["shard"],
        kind=document["kind"],
        lane=document["lane"],
        started_at_min_us=document.get("started_at_min_us"),
        started_at_max_us=int(document["started_at_max_us"]),
        rto_ms_min=float(document["rto_ms_min"]),
        rto_ms_max=document.get("rto_ms_max"),
        ended_at_min_us=document.get("ended_at_min_us"),
        ended_at_max_us=document.get("ended_at_max_us"),
        codes=tuple(document.get("codes") or ()),
        leader_before=document.get("leader_before"),
        is_alerting=bool(document.get("is_alerting")),
    )


def _check_format(document: Mapping[str, Any]) -> None:
    if not isinstance(document, Mapping):
        raise TypeError("not a JSON object")
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}, expected {FORMAT}")
