"""Which alerts fire, which are over, and of which is nothing known any more?

The rule: an outage that is open and lasts longer than its kind's threshold fires one alert. It is resolved when a good probe ends
the outage, and never by silence: while the prober is blind, or has had nothing but void probes of a stream for two seconds, the
alert says "unmeasured". An outage that opens again (flapping) fires again under the same name.

An alert that was not resolved when an earlier run of the prober ended is adopted from its live file: it says "unmeasured" until
the stream is measured again, and is resolved when the stream is served. So a receiver never keeps an alert that nobody looks after.

Example, threshold 5 s: bad probes known since 10.1 s fire at 15.1 s; a good one at 19.0 s resolves "after 8.8 to 9.1 s".
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from pipelines.domain.clock import instant
from pipelines.domain.facts import Stream
from pipelines.domain.names import outage_id
from pipelines.domain.observations import Kind, Lane
from pipelines.domain.unavailability import Outage

log = structlog.get_logger("fast_lane")

FIRING, UNMEASURED, RESOLVED = "firing", "unmeasured", "resolved"
KEPT_US = 3_600_000_000
"""Resolved alerts are forgotten after an hour, so that a long life does not fill the view."""


@dataclass(frozen=True, slots=True)
class Rules:
    """After how many seconds of an outage an alert fires, by kind; a kind that is not named never fires."""

    after_seconds: dict[str, float] = field(default_factory=lambda: {Kind.WRITE: 5.0, Kind.DURABLE_WRITE: 5.0, Kind.READ: 5.0})


@dataclass(slots=True)
class Alert:
    """An alert about one stream. `is_adopted`: an earlier run of the prober raised it, and this one knows nothing of its outage."""

    alert_id: str
    stream: Stream
    state: str
    started_at_us: int
    summary: str
    resolved_at_us: int | None = None
    is_adopted: bool = False

    def described(self) -> dict[str, Any]:
        """The alert as it stands in the live file."""
        return {
            "alert_id": self.alert_id,
            "state": self.state,
            "resource": self.stream.resource,
            "shard": self.stream.shard,
            "kind": self.stream.kind,
            "lane": self.stream.lane,
            "summary": self.summary,
            "started_at_us": self.started_at_us,
            "resolved_at_us": self.resolved_at_us,
        }


@dataclass(frozen=True, slots=True)
class Present:
    """What is known of a stream now: the outage that is not settled, if any, and what its last probes say."""

    outage: Outage | None
    is_measured: bool
    is_down: bool
    is_served: bool

    @property
    def open_outage(self) -> Outage | None:
        """The outage that goes on."""
        return self.outage if self.outage is not None and self.outage.is_open else None


EndedOutage = Callable[[str], Outage | None]
"""The outage of that name, once it has ended."""


class Firing:
    """The alerts of one prober; at most one a stream is unresolved. Not for several threads."""

    def __init__(self, cluster_id: str, rules: Rules) -> None:
        self._cluster_id = cluster_id
        self._rules = rules
        self._alerts: dict[str, Alert] = {}
        self._unresolved: dict[Stream, Alert] = {}

    def adopt(self, prober_id: str, described: Iterable[Mapping[str, Any]]) -> None:
        """Takes over what an earlier run of the prober left unresolved in its live file. Raises KeyError for what is no alert."""
        for one in described:
            if one["state"] != RESOLVED:
                stream = Stream(one["resource"], one["shard"], one["kind"], one["lane"], prober_id)
                alert = Alert(one["alert_id"], stream, one["state"], one["started_at_us"], one["summary"], is_adopted=True)
                self._alerts[alert.alert_id] = self._unresolved[stream] = alert

    def is_alerting(self, name: str) -> bool:
        """Whether an alert about the outage of that name is unresolved."""
        return name in self._alerts and self._alerts[name].state != RESOLVED

    def unresolved(self) -> list[Alert]:
        """Copies of all alerts that are not resolved."""
        return [dataclasses.replace(one) for one in self._unresolved.values()]

    def newest(self, most: int) -> list[Alert]:
        """The unresolved alerts, then the resolved ones, the newest first."""
        resolved = [one for one in self._alerts.values() if one.state == RESOLVED]
        resolved.sort(key=lambda one: -(one.resolved_at_us or 0))
        return [*self._unresolved.values(), *resolved][:most]

    def changes(self, now_us: int, presents: Mapping[Stream, Present], ended: EndedOutage) -> list[Alert]:
        """Fires, resolves and marks; returns copies of the alerts that changed."""
        changed = [alert for alert in list(self._unresolved.values()) if self._follow(alert, presents, ended, now_us)]
        for stream, present in presents.items():
            outage = present.open_outage
            if outage is None or stream in self._unresolved or not (present.is_measured and present.is_down):
                continue
            if self._is_over_threshold(stream, outage, now_us):
                changed.append(self._fire(stream, outage))
        self._forget(now_us)
        return [dataclasses.replace(one) for one in changed]

    def lose_sight(self) -> list[Alert]:
        """The prober ends: nothing is known of what it had alerts about. Returns copies of the alerts that changed."""
        changed = [alert for alert in self._unresolved.values() if self._mark(alert, UNMEASURED)]
        return [dataclasses.replace(one) for one in changed]

    def _follow(self, alert: Alert, presents: Mapping[Stream, Present], ended: EndedOutage, now_us: int) -> bool:
        present = presents.get(alert.stream)
        if present is None:
            return self._mark(alert, UNMEASURED)
        outage = present.open_outage
        if alert.is_adopted:
            is_over = present.is_served and outage is None
        else:
            is_over = outage is None or outage_id(self._cluster_id, alert.stream, outage) != alert.alert_id
        if is_over:
            self._resolve(alert, ended(alert.alert_id), now_us)
            return True
        return self._mark(alert, FIRING if present.is_measured else UNMEASURED)

    def _mark(self, alert: Alert, state: str) -> bool:
        if alert.state == state:
            return False
        alert.state = state
        log.warning("alert", alert_id=alert.alert_id, state=state, summary=alert.summary)
        return True

    def _is_over_threshold(self, stream: Stream, outage: Outage, now_us: int) -> bool:
        after = self._rules.after_seconds.get(stream.kind)
        return after is not None and stream.lane != Lane.WATCH and now_us - outage.earliest_decided_us >= after * 1_000_000

    def _fire(self, stream: Stream, outage: Outage) -> Alert:
        since = instant(outage.earliest_decided_us).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        summary = f"{_said(stream)} is not served, since {since}Z at the latest"
        alert = Alert(outage_id(self._cluster_id, stream, outage), stream, FIRING, outage.earliest_decided_us, summary)
        self._alerts[alert.alert_id] = self._unresolved[stream] = alert
        log.error("alert", alert_id=alert.alert_id, state=FIRING, summary=summary, codes=list(outage.codes))
        return alert

    def _resolve(self, alert: Alert, outage: Outage | None, now_us: int) -> None:
        alert.state, alert.resolved_at_us = RESOLVED, now_us
        alert.summary = f"{_said(alert.stream)} is served again{_after(outage)}"
        del self._unresolved[alert.stream]
        log.warning("alert", alert_id=alert.alert_id, state=RESOLVED, summary=alert.summary)

    def _forget(self, now_us: int) -> None:
        for alert_id, alert in list(self._alerts.items()):
            if alert.resolved_at_us is not None and now_us - alert.resolved_at_us > KEPT_US:
                del self._alerts[alert_id]


def _said(stream: Stream) -> str:
    return f"{stream.kind} of {stream.resource}/{stream.shard} ({stream.lane})"


def _after(outage: Outage | None) -> str:
    """How long it lasted, rounded outwards; nothing where this run of the prober did not see it end."""
    if outage is None or outage.rto.low is None:
        return ""
    low = math.floor(outage.rto.low / 100_000) / 10
    if outage.rto.high is None:
        return f" after at least {low:.1f} s"
    return f" after {low:.1f} to {math.ceil(outage.rto.high / 100_000) / 10:.1f} s"
