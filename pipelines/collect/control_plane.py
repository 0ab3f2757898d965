"""What did the control plane decide, and when, by its own clock?

The rule: decisions are read at the most exact place that is given (of Kafka: the znodes of a cluster in ZooKeeper mode, the
controllers' listener, else a node's metadata log, else what brokers tell clients, poll by poll); each record says which (`source`).
Where the best place cannot be used (not authorised, a cluster newer than our JARs, nobody there), the next best is used meanwhile, the
status says so, and the best one is tried again every minute.

Nothing is lost over a restart: the position and the state there are kept in a file, and the next run goes on from it.
Decisions that were written down after the file was last kept are written down again, under the same positions, so a reader
takes each position once. On the very first run, what is there already is state, and gives no records.

Example: killed with -9 at offset 812 with the file at 805, the next run writes 805 to 811 again and goes on with 812.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pipelines.brokers.base import BadPosition, ControlPlace, ControlSource, Decisions
from pipelines.brokers.systems import control_sources
from pipelines.collect.config import ClusterConfig
from pipelines.collect.lifecycle import StatusLines, stop_signals
from pipelines.collect.spool import Spool
from pipelines.domain.observations import Blind, Control
from pipelines.errors import LastackError, SpoolError

COLLECTOR = "control_plane"
BEAT_SECONDS = 0.05
BEST_AGAIN_SECONDS = 60.0
"""How long a lesser source is used before the best one is tried again."""
ALL_AGAIN_SECONDS = 1.0
"""The pause when no source can be used at all."""
STATE_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneConfig(ClusterConfig):
    """Where the control plane can be read, the system's `settings` say. `state_folder` keeps the position over a restart; it is not the
    landing folder."""

    state_folder: str
    keep_seconds: float = 10.0


def run(config: ControlPlaneConfig) -> None:
    """Reads until SIGTERM or SIGINT. Raises UsageError for settings that cannot be used, SpoolError for a spool that cannot."""
    sources = control_sources(ControlPlace(cluster=config.place, cluster_id=config.cluster_id, clock=config.clock))
    with config.open_spool(COLLECTOR) as spool, stop_signals() as stop:
        status = StatusLines(spool, config.clock, config.status_seconds)
        asyncio.run(ControlPlane(config, sources, spool, status).run(stop.is_set))
        status.stopped()


class ControlPlane:
    """The reading of one cluster's control plane. `sources` come best first, and are made when they are tried."""

    def __init__(
        self,
        config: ControlPlaneConfig,
        sources: Sequence[Callable[[], ControlSource]],
        spool: Spool,
        status: StatusLines,
    ) -> None:
        self._config = config
        self._sources = sources
        self._spool = spool
        self._status = status
        self._clock = config.clock

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Reads until told to stop."""
        reading = asyncio.create_task(self._read())
        while not is_stopping() and not reading.done():
            self._spool.flush_if_due()
            self._status.write_if_due()
            await asyncio.sleep(BEAT_SECONDS)
        self._status.stopping()
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled():
            reading.result()

    async def _read(self) -> None:
        """The best source that works, for good; a lesser one until the best is tried again."""
        why_not: str | None = None
        while True:
            for rank, make in enumerate(self._sources):
                try:
                    async with asyncio.timeout(None if rank == 0 else BEST_AGAIN_SECONDS):
                        await self._follow(make(), why_not)
                except TimeoutError:
                    break
                except SpoolError:
                    raise
                except LastackError as error:
                    if len(self._sources) == 1:
                        raise
                    why_not = f"{error}; a lesser source is used meanwhile"
            else:
                self._status.degraded(why_not or "no source can be read")
                await asyncio.sleep(ALL_AGAIN_SECONDS)

    async def _follow(self, source: ControlSource, why_not: str | None) -> None:
        """Writes down what a source gives, until it fails or we are cancelled."""
        file = PositionFile(Path(self._config.state_folder) / f"{source.name}.json", self._config.cluster_id)
        saved = file.load()
        try:
            await self._write_all(source, saved, file, why_not)
        except BadPosition as error:
            await self._write_all(source, None, file, str(error))
        finally:
            await source.close()

    async def _write_all(self, source: ControlSource, saved: str | None, file: "PositionFile", why_not: str | None) -> None:
        keep_at = 0.0
        # Kept one interval later than it is taken: by then the records before it are on disk. The first one is kept at once, so that a
        # run that ends early has a successor that goes on from it.
        position: str | None = None
        unseen_us: int | None = None
        async for decided in source.follow(saved):
            self._take(source.name, decided, why_not, unseen_us)
            unseen_us = unseen_us if decided.read_ns is None else self._clock.at_us(decided.read_ns)
            while self._spool.is_full:
                await asyncio.sleep(BEAT_SECONDS)
            if time.monotonic() >= keep_at:
                before, position = position, source.saved()
                file.save(before or position)
                keep_at = time.monotonic() + self._config.keep_seconds if position else 0.0

    def _take(self, source: str, decided: Decisions, why_not: str | None, unseen_us: int | None) -> None:
        seen_us = self._clock.now_us()
        if decided.is_cut:
            # The difference of two states does not show what came and went between them.
            stamped_us = min((one.started_at_us for one in decided.decisions), default=seen_us)
            since_us = stamped_us if unseen_us is None else unseen_us
            self._spool.write(Blind, cause="stopped", started_at_us=min(since_us, seen_us), ended_at_us=seen_us)
        read = {"seen_at_us": seen_us, "unseen_at_us": unseen_us, "is_provisional": decided.is_provisional}
        for one in decided.decisions:
            self._spool.write(Control, source=source, **read, **asdict(one))
        message = "; ".join(text for text in (why_not, decided.trouble) if text)
        if message:
            self._status.degraded(message)
        else:
            self._status.running()


class PositionFile:
    """Where a source goes on after a restart. A file of another cluster, or one that cannot be read, counts as none."""

    def __init__(self, path: Path, cluster_id: str) -> None:
        self._path = path
        self._cluster_id = cluster_id

    def load(self) -> str | None:
        """What was saved last."""
        try:
            body = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(body, dict) or (body.get("format"), body.get("cluster_id")) != (STATE_FORMAT, self._cluster_id):
            return None
        saved = body.get("saved")
        return saved if isinstance(saved, str) else None

    def save(self, saved: str | None) -> None:
        """Replaces what was saved, in one step; None leaves it as it is."""
        if saved is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"format": STATE_FORMAT, "cluster_id": self._cluster_id, "saved": saved}))
        part.replace(self._path)
