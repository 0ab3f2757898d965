"""What is down right now, and who must be told? The fold of the record, run live in the canary, without Spark.

The rule: each run of probes goes through `domain.unavailability.step`, the very fold that derives silver. A run that is still open
is folded tentatively and again when it has grown. A stream is *down* while its last run is bad, *unmeasured* while it is void or the
prober is blind, else *up*. Alerts follow from that (`firing`).

The prober is blind while its loop does not beat (it has hung: what was last seen is not what is), and for a moment after it was
stalled. A stall too short for that is told by the void probes of the streams that it hit: on a busy machine one comes every few
seconds, and no alert may wait for that.

Lines are written at every change at once, so an open bad run that nobody replaced is still bad: at an instant t every probe issued
before t - lambda has been seen. An alert therefore comes at most lambda + P + one tick after the outage passed its threshold.

Example, threshold 5 s, P = 100 ms, lambda = 1 s, a tick of 200 ms: a hang from t = 0 is known at 1.1 s at the latest, fires at
6.3 s at the latest.
"""

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import structlog

from pipelines.collect.firing import Alert, Firing, Present, Rules
from pipelines.domain.facts import Stream, stream_of
from pipelines.domain.names import outage_id
from pipelines.domain.observations import Blind, Outcome, Probes
from pipelines.domain.unavailability import Outage, Watching, current, is_good, step

log = structlog.get_logger("fast_lane")

RECENT_MAX = 50
TICK_SECONDS = 0.2
LIVE_EVERY_US = 1_000_000
BLIND_LEAST_US = 1_000_000
"""A shorter stall does not make the whole view blind (see the module's text)."""
BLIND_FOR_US = 2_000_000
"""For so long after a stall answers are awaited, before anything is called up or down again."""
BEAT_LATE_US = 1_000_000
"""The loop beats ten times a second; when it has not for so long, it hangs."""


class Clock(Protocol):
    """What the fast lane needs of `pipelines.domain.clock.Anchor`."""

    def now_us(self) -> int:
        """The present instant, microseconds since the epoch."""


@dataclass(slots=True)
class _Streamed:
    """One stream: the fold up to its last closed run, the fold with the open run on top, and the last run itself."""

    settled: Watching = field(default_factory=Watching)
    tentative: Watching = field(default_factory=Watching)
    last: Probes | None = None


Deliver = Callable[[list[Alert]], None]
"""Takes the alerts that changed in one tick and, behind them, all others that are unresolved."""


class FastLane:
    """The live view of one prober. `take`, `blind` and `beat` come from the prober's thread and are quick; `tick` and `stop`, which
    write files, come from a timer's thread (`Ticker`)."""

    def __init__(self, *, identity: dict[str, str], clock: Clock, live: Path, rules: Rules, deliver: Deliver) -> None:
        self.identity = identity
        self.clock = clock
        self.live = live
        self.deliver = deliver
        self._lock = threading.Lock()
        self._streams: dict[Stream, _Streamed] = {}
        self._recent: dict[str, tuple[Stream, Outage]] = {}
        self._firing = Firing(identity["cluster_id"], rules)
        self._beaten_us: int | None = None
        self._blind_until_us = 0
        self._blind_since_us: int | None = None
        self._written_us = 0
        self._is_changed = True

    # --- from the prober's thread -------------------------------------------------------------------------------------

    def take(self, run: Probes) -> None:
        """Takes a run as it is written to the spool: new, grown or closed."""
        with self._lock:
            stream = stream_of(run)
            one = self._streams.setdefault(stream, _Streamed())
            before = current(one.tentative), one.last and one.last.outcome
            one.tentative, settled = step(one.settled, run)
            if not run.is_open:
                one.settled = one.tentative
            one.last = run
            for outage in settled:
                self._remember(stream, outage)
            self._is_changed = self._is_changed or before != (current(one.tentative), run.outcome)

    def blind(self, gap: Blind) -> None:
        """The prober was stalled."""
        if gap.ended_at_us - gap.started_at_us < BLIND_LEAST_US:
            return
        with self._lock:
            self._blind_since_us = gap.started_at_us if self._blind_since_us is None else self._blind_since_us
            self._blind_until_us = gap.ended_at_us + BLIND_FOR_US
            self._is_changed = True

    def beat(self) -> None:
        """The prober's loop has come round. Once it has been called, silence means blind."""
        self._beaten_us = self.clock.now_us()

    # --- from the timer's thread --------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Takes over the alerts that an earlier run of this prober left unresolved in its live file, where there is one."""
        try:
            document = json.loads(self.live.read_text(encoding="utf-8"))
            if document["cluster_id"] == self.identity["cluster_id"]:
                with self._lock:
                    self._firing.adopt(self.identity["prober_id"], document["alerts"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("alerts_of_the_earlier_run_are_lost", file=str(self.live), error=repr(error))

    def tick(self) -> None:
        """Fires and resolves alerts, and writes the live file when it is due. Nothing is written under the lock: the prober's
        thread may never wait for a disk."""
        view = None
        with self._lock:
            now_us = self.clock.now_us()
            self._look_around(now_us)
            changed = self._firing.changes(now_us, self._presents(now_us), self._ended)
            told = self._told(changed)
            if changed or self._is_changed or now_us - self._written_us >= LIVE_EVERY_US:
                view = self._view(now_us, "measuring" if self._blind_since_us is None else "blind")
        if told:
            self.deliver(told)
        if view is not None:
            self._write(view)

    def stop(self) -> None:
        """The prober ends: says so in the live file and of its alerts, so that nobody takes its last view for the present."""
        with self._lock:
            told = self._told(self._firing.lose_sight())
            view = self._view(self.clock.now_us(), "stopped")
        if told:
            self.deliver(told)
        self._write(view)

    # --- what is known ------------------------------------------------------------------------------------------------

    def _remember(self, stream: Stream, outage: Outage) -> None:
        """Keeps an outage that is over. An open run settles the outage before it each time that it has grown: the last form counts."""
        self._recent[outage_id(self.identity["cluster_id"], stream, outage)] = (stream, outage)
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def _look_around(self, now_us: int) -> None:
        beaten = self._beaten_us
        hangs = beaten is not None and now_us - beaten > BEAT_LATE_US
        if hangs and self._blind_since_us is None:
            self._blind_since_us = beaten
            self._is_changed = True
        elif self._blind_since_us is not None and not hangs and now_us >= self._blind_until_us:
            self._blind_since_us = None
            self._is_changed = True

    def _presents(self, now_us: int) -> dict[Stream, Present]:
        is_blind = self._blind_since_us is not None
        presents = {}
        for stream, one in self._streams.items():
            last = one.last
            if last is None:
                continue
            is_void = last.outcome == Outcome.VOID
            is_served = is_good(last)
            presents[stream] = Present(
                outage=current(one.tentative),
                is_measured=not is_blind and not (is_void and now_us - last.started_at_us > BLIND_FOR_US),
                is_down=not is_void and not is_served,
                is_served=is_served,
            )
        return presents

    def _ended(self, name: str) -> Outage | None:
        if name in self._recent:
            return self._recent[name][1]
        unsettled = ((stream, current(one.tentative)) for stream, one in self._streams.items())
        named = (outage for stream, outage in unsettled if outage and self._name(stream, outage) == name)
        return next(named, None)

    def _told(self, changed: list[Alert]) -> list[Alert]:
        names = {alert.alert_id for alert in changed}
        return changed and [*changed, *(alert for alert in self._firing.unresolved() if alert.alert_id not in names)]

    # --- the live file ------------------------------------------------------------------------------------------------

    def _view(self, now_us: int, state: str) -> dict[str, Any]:
        unsettled = {
            self._name(stream, outage): (stream, outage)
            for stream, one in self._streams.items()
            if (outage := current(one.tentative)) is not None
        }
        opened = {name: one for name, one in unsettled.items() if one[1].is_open}
        closing = {name: one for name, one in unsettled.items() if name not in opened}
        ended = [name for name in reversed(self._recent) if name not in unsettled]
        recent = (closing | {name: self._recent[name] for name in ended}).items()
        self._written_us, self._is_changed = now_us, False
        return self.identity | {
            "format": 1,
            "written_at_us": now_us,
            "state": state,
            "blind_since_us": self._blind_since_us,
            "streams": self._counts(is_measuring=state == "measuring"),
            "open": [self._described(name, *one) for name, one in opened.items()],
            "recent": [self._described(name, *one) for name, one in list(recent)[:RECENT_MAX]],
            "alerts": [alert.described() for alert in self._firing.newest(RECENT_MAX)],
        }

    def _counts(self, *, is_measuring: bool) -> dict[str, int]:
        counts = {"up": 0, "down": 0, "unmeasured": 0}
        for one in self._streams.values():
            if not is_measuring or one.last is None or one.last.outcome == Outcome.VOID:
                counts["unmeasured"] += 1
            else:
                counts["up" if is_good(one.last) else "down"] += 1
        return counts

    def _name(self, stream: Stream, outage: Outage) -> str:
        return outage_id(self.identity["cluster_id"], stream, outage)

    def _described(self, name: str, stream: Stream, outage: Outage) -> dict[str, Any]:
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
            "is_alerting": self._firing.is_alerting(name),
        }

    def _write(self, view: dict[str, Any]) -> None:
        part = self.live.with_name(f".{self.live.name}.part")
        try:
            part.write_text(json.dumps(view), encoding="utf-8")
            part.replace(self.live)
        except OSError as error:
            # Without a disk alerts still go out; a view that is not replaced grows stale, and its readers say so.
            log.warning("live_view_not_written", file=str(self.live), error=str(error))


class Ticker:
    """Calls `tick` of a fast lane in a thread of its own, and `stop` at the end. Should it fail, the process is told to end, and
    the failure is raised at the end of the `with` block: a prober that cannot alert must not look alive."""

    def __init__(self, lane: FastLane, every_seconds: float = TICK_SECONDS) -> None:
        self._lane = lane
        self._every = every_seconds
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fast-lane", daemon=True)

    def __enter__(self) -> Self:
        self._lane.live.parent.mkdir(parents=True, exist_ok=True)
        self._lane.adopt()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        self._lane.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every):
                self._lane.tick()
        except Exception as error:
            log.exception("fast_lane_failed")
            self._failure = error
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
