"""What is down right now, and who must be told? The fold of the record, run live in the canary, without Spark.

The rule: each run of probes goes through `domain.unavailability.step`, the very fold that derives silver. A run that is still open
is folded tentatively and again when it has grown. A stream is *down* while its last run is bad, *unmeasured* while it is void or the
prober is blind, else *up*. An outage that lasts longer than its threshold fires an alert; it is resolved when a good probe ends the
outage, and never by silence: while the prober is blind the alert says "unmeasured".

Lines are written at every change at once, so an open bad run that nobody replaced is still bad: at an instant t every probe issued
before t - lambda has been seen. An alert therefore comes at most lambda + P + one tick after the outage passed its threshold.

Example, threshold 5 s, P = 100 ms, lambda = 1 s: a hang from t = 0 is known at 1.1 s at the latest, fires at 6.2 s at the latest.
"""

import contextlib
import dataclasses
import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog

from pipelines.domain.facts import Stream, stream_of
from pipelines.domain.names import outage_id
from pipelines.domain.observations import Blind, Kind, Lane, Outcome, Probes
from pipelines.domain.unavailability import Outage, Watching, current, is_good, step

log = structlog.get_logger("fast_lane")

FIRING, UNMEASURED, RESOLVED = "firing", "unmeasured", "resolved"
RECENT_MAX = 50
LIVE_EVERY_US = 1_000_000
BLIND_FOR_US = 2_000_000
"""After a stall the prober counts as blind for so long: its next lines must come before anything is called up again."""


class Clock(Protocol):
    """What the fast lane needs of `pipelines.domain.clock.Anchor`."""

    def now_us(self) -> int:
        """The present instant, microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Rules:
    """After how many seconds of an outage an alert fires, by kind; a kind that is not named never fires."""

    after_seconds: dict[str, float] = field(default_factory=lambda: {Kind.WRITE: 5.0, Kind.DURABLE_WRITE: 5.0, Kind.READ: 5.0})


@dataclass(slots=True)
class _Streamed:
    """One stream: the fold up to its last closed run, the fold with the open run on top, and the last run itself."""

    settled: Watching = field(default_factory=Watching)
    tentative: Watching = field(default_factory=Watching)
    last: Probes | None = None


@dataclass(slots=True)
class Alert:
    """An alert about one outage of one stream."""

    alert_id: str
    stream: Stream
    state: str
    started_at_us: int
    summary: str
    resolved_at_us: int | None = None
    rto_ms: tuple[float | None, float | None] = (None, None)


Deliver = Callable[[list[Alert]], None]
"""Takes the alerts that changed in one tick; must not block."""


class FastLane:
    """The live view of one prober. `take` and `blind` come from the prober's thread, `tick` from a timer's; both are quick."""

    def __init__(self, *, identity: dict[str, str], clock: Clock, live: Path, rules: Rules, deliver: Deliver) -> None:
        self.identity = identity
        self.clock = clock
        self.live = live
        self.rules = rules
        self.deliver = deliver
        self._lock = threading.Lock()
        self._streams: dict[Stream, _Streamed] = {}
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT_MAX)
        self._alerts: dict[str, Alert] = {}
        self._blind_until_us = 0
        self._blind_since_us: int | None = None
        self._written_us = 0
        self._is_changed = True

    def take(self, run: Probes) -> None:
        """Takes a run as it is written to the spool: new, grown or closed."""
        with self._lock:
            one = self._streams.setdefault(stream_of(run), _Streamed())
            before = current(one.tentative)
            one.tentative, settled = step(one.settled, run)
            if not run.is_open:
                one.settled = one.tentative
            one.last = run
            for outage in settled:
                self._remember(self._described(stream_of(run), outage))
            self._is_changed = self._is_changed or before != current(one.tentative) or bool(settled)

    def _remember(self, row: dict[str, Any]) -> None:
        """Keeps an outage that is over, once: an open run settles the outage before it each time that it has grown."""
        if all(known["outage_id"] != row["outage_id"] for known in self._recent):
            self._recent.append(row)

    def blind(self, gap: Blind) -> None:
        """The prober was stalled: until new lines have come nothing is known."""
        with self._lock:
            self._blind_since_us = gap.started_at_us if self._blind_since_us is None else self._blind_since_us
            self._blind_until_us = gap.ended_at_us + BLIND_FOR_US
            self._is_changed = True

    def tick(self) -> None:
        """Fires and resolves alerts, and writes the live file when it is due."""
        with self._lock:
            now_us = self.clock.now_us()
            if self._blind_since_us is not None and now_us >= self._blind_until_us:
                self._blind_since_us = None
            changed = self._alerts_changed(now_us)
            if changed or self._is_changed or now_us - self._written_us >= LIVE_EVERY_US:
                self._write(now_us, "blind" if self._blind_since_us is not None else "measuring")
        if changed:
            self.deliver(changed)

    def stop(self) -> None:
        """The prober ends: says so in the live file, so that nobody takes its last view for the present."""
        with self._lock:
            self._write(self.clock.now_us(), "stopped")

    # --- alerts -------------------------------------------------------------------------------------------------------

    def _alerts_changed(self, now_us: int) -> list[Alert]:
        changed = []
        is_blind = self._blind_since_us is not None
        open_now = {}
        for stream, one in self._streams.items():
            outage = current(one.tentative)
            if outage is not None and outage.is_open:
                open_now[outage_id(self.identity["cluster_id"], stream, outage)] = (stream, outage)
        for alert_id, (stream, outage) in open_now.items():
            is_firing = alert_id in self._alerts and self._alerts[alert_id].state != RESOLVED
            if not is_firing and not is_blind and self._is_over_threshold(stream, outage, now_us):
                changed.append(self._fire(alert_id, stream, outage, now_us))
        for alert_id, alert in self._alerts.items():
            wanted = UNMEASURED if is_blind else FIRING
            if alert.state == RESOLVED:
                continue
            if alert_id not in open_now:
                changed.append(self._resolve(alert, now_us))
            elif alert.state != wanted:
                alert.state = wanted
                log.warning("alert", alert_id=alert_id, state=wanted, summary=alert.summary)
                changed.append(alert)
        return [dataclasses.replace(one) for one in changed]

    def _is_over_threshold(self, stream: Stream, outage: Outage, now_us: int) -> bool:
        after = self.rules.after_seconds.get(stream.kind)
        return after is not None and stream.lane != Lane.WATCH and now_us - outage.earliest_decided_us >= after * 1_000_000

    def _fire(self, alert_id: str, stream: Stream, outage: Outage, now_us: int) -> Alert:
        seconds = (now_us - outage.earliest_decided_us) / 1e6
        summary = f"{stream.kind} of {stream.resource}/{stream.shard} ({stream.lane}) not served for at least {seconds:.1f} s"
        alert = Alert(alert_id, stream, FIRING, outage.earliest_decided_us, summary)
        self._alerts[alert_id] = alert
        log.error("alert", alert_id=alert_id, state=FIRING, summary=summary, codes=list(outage.codes), **self.identity)
        return alert

    def _resolve(self, alert: Alert, now_us: int) -> Alert:
        alert.state = RESOLVED
        alert.resolved_at_us = now_us
        one = self._streams[alert.stream]
        ended = [row for row in self._recent if row["outage_id"] == alert.alert_id]
        outage = current(one.tentative)
        row = ended[-1] if ended else self._described(alert.stream, outage) if outage else None
        if row:
            alert.rto_ms = (row["rto_ms_min"], row["rto_ms_max"])
            alert.summary = (
                f"{alert.stream.kind} of {alert.stream.resource}/{alert.stream.shard} ({alert.stream.lane}) is served again after "
                f"{_seconds(row['rto_ms_min'])} to {_seconds(row['rto_ms_max'])}"
            )
        log.warning("alert", alert_id=alert.alert_id, state=RESOLVED, summary=alert.summary, **self.identity)
        return alert

    # --- the live file ------------------------------------------------------------------------------------------------

    def _write(self, now_us: int, state: str) -> None:
        is_blind = state != "measuring"
        up = down = unmeasured = 0
        opened = []
        for stream, one in self._streams.items():
            outage = current(one.tentative)
            if outage is not None and outage.is_open:
                opened.append(self._described(stream, outage))
            if is_blind or one.last is None or one.last.outcome == Outcome.VOID:
                unmeasured += 1
            elif is_good(one.last):
                up += 1
            else:
                down += 1
        closing = [
            self._described(stream, outage)
            for stream, one in self._streams.items()
            if (outage := current(one.tentative)) is not None and not outage.is_open
        ]
        view = self.identity | {
            "format": 1,
            "written_at_us": now_us,
            "state": state,
            "blind_since_us": self._blind_since_us,
            "streams": {"up": up, "down": down, "unmeasured": unmeasured},
            "open": opened,
            "recent": [*closing, *reversed(self._recent)][:RECENT_MAX],
            "alerts": [self._told(alert) for alert in list(self._alerts.values())[-RECENT_MAX:]],
        }
        part = self.live.with_suffix(".part")
        part.write_text(json.dumps(view))
        part.rename(self.live)
        self._written_us = now_us
        self._is_changed = False
        self._forget(now_us)

    def _forget(self, now_us: int) -> None:
        """Resolved alerts leave the view after an hour, so that a long life does not fill it."""
        for alert_id, alert in list(self._alerts.items()):
            if alert.resolved_at_us is not None and now_us - alert.resolved_at_us > 3_600_000_000:
                del self._alerts[alert_id]

    def _described(self, stream: Stream, outage: Outage) -> dict[str, Any]:
        alert = self._alerts.get(name := outage_id(self.identity["cluster_id"], stream, outage))
        return {
            "outage_id": name,
            "resource": stream.resource,
            "shard": stream.shard,
            "kind": stream.kind,
            "lane": stream.lane,
            "started_at_min_us": outage.start.low,
            "started_at_max_us": outage.start.high,
            "ended_at_min_us": None if outage.is_open else outage.end.low,
            "ended_at_max_us": outage.end.high,
            "rto_ms_min": (outage.rto.low or 0) / 1000,
            "rto_ms_max": None if outage.rto.high is None else outage.rto.high / 1000,
            "codes": list(outage.codes),
            "leader_before": outage.before.leader if outage.before else None,
            "is_alerting": alert is not None and alert.state != RESOLVED,
        }

    @staticmethod
    def _told(alert: Alert) -> dict[str, Any]:
        return {
            "alert_id": alert.alert_id,
            "state": alert.state,
            "summary": alert.summary,
            "started_at_us": alert.started_at_us,
            "resolved_at_us": alert.resolved_at_us,
        }


class Ticker:
    """Calls `tick` of a fast lane in a thread of its own, and `stop` at the end."""

    def __init__(self, lane: FastLane, every_seconds: float = 0.2) -> None:
        self._lane = lane
        self._every = every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fast-lane", daemon=True)

    def __enter__(self) -> "Ticker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            self._lane.stop()

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            self._lane.tick()


def _seconds(milliseconds: float | None) -> str:
    return "an unknown time" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
