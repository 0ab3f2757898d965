"""The canary as a process: it makes sure of its topics, opens its lanes and probes until it is told to stop."""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from pipelines.brokers import systems
from pipelines.brokers.base import Shard
from pipelines.brokers.probing import Flight, LeaderChange, Pace, ProbePlace, Prober, Reply
from pipelines.collect.canary.committed import Committed
from pipelines.collect.canary.config import LANES, CanaryConfig
from pipelines.collect.canary.identity import Stamp
from pipelines.collect.canary.journal import Journal, Observer, ShardJournal
from pipelines.collect.canary.lane import Letter, ProbedLane, Timetable
from pipelines.collect.canary.pacer import Pacer
from pipelines.collect.lifecycle import StatusLines, stop_signals
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Outcome
from pipelines.domain.spans import SpanBuilder

CONNECT_SECONDS = 10.0
PRIORITY = -10
WALL_CLOCK_US = 250_000
"""A wall clock that is further from the anchored clock than this has been stepped since."""


def run(config: CanaryConfig, observers: Sequence[Observer] = (), beat: Callable[[], None] | None = None) -> None:
    """Probes until SIGTERM or SIGINT; `observers` get every record of runs and of blindness as it is spooled, and `beat` is called
    ten times a second while the loop comes round: whoever watches from another thread takes its absence for blindness.

    Raises UsageError, ConnectionFailed or Unauthorised when it cannot begin, SpoolError when nothing can be written at all.
    """
    config.check()
    systems.check_lanes(config.system, {name: (LANES[name].kind, LANES[name].lane) for name in config.lanes})
    place = ProbePlace(
        cluster=config.place,
        resources=config.topics(),
        connections_max=config.connections_max,
        shards_max=config.partitions_max,
        may_alter=config.may_alter,
    )
    warnings = systems.prepare_probing(place)
    with stop_signals() as stop, config.open_spool("canary") as spool:
        journal = Journal(spool, observers)
        status = StatusLines(spool, config.clock, config.status_seconds)
        changed = partial(_leader_changed, journal, config.clock)
        prober = systems.prober(place, changed)
        canary = Canary(config, prober, journal, status, warnings)

        def flush() -> None:
            spool.flush_if_due()
            if beat is not None:
                beat()

        asyncio.run(canary.run(stop.is_set, flush))


class Canary:
    """All lanes of one cluster, whichever system it is. All in one thread, on one event loop."""

    def __init__(
        self, config: CanaryConfig, prober: Prober, journal: Journal, status: StatusLines, warnings: Sequence[str] = ()
    ) -> None:
        self.lanes: list[ProbedLane] = []
        self._config = config
        self._prober = prober
        self._journal = journal
        self._status = status
        self._clock = config.clock
        self._warnings = tuple(warnings)
        self._look_at_us = 0

    async def run(self, is_stopping: Callable[[], bool], flush: Callable[[], None]) -> None:
        """Probes until `is_stopping`; `flush` is called ten times a second."""
        await self._prober.open(time.monotonic() + CONNECT_SECONDS)
        committed: dict[Shard, Committed] = {}
        for name in self._config.lanes:
            self.lanes.append(self._lane(name, committed))
        await self._prober.connect(time.monotonic() + CONNECT_SECONDS)
        pacer = Pacer(self.lanes, self._journal, self._clock.at_us, self._config.stall_ms * 1000)
        _raise_priority()
        # What lives for as long as the process need not be looked through again and again: it would be a pause of the prober.
        gc.collect()
        gc.freeze()
        try:
            await pacer.run(is_stopping, partial(self._look, pacer, flush))
        finally:
            self._status.stopping()
            for lane in self.lanes:
                lane.close()
            self._journal.close()
            self._status.stopped()
            await self._prober.close()

    def _lane(self, name: str, committed: dict[Shard, Committed]) -> ProbedLane:
        config, spec, topic = self._config, LANES[name], self._config.topic(name)
        period_us, lambda_us = config.period_us(name), config.lambda_ms * 1000
        target = self._prober.target(spec.kind, spec.lane, topic, Pace(period_us, lambda_us))
        times = Timetable(
            period_us=period_us,
            lambda_us=lambda_us,
            late_us=config.stall_ms * 1000,
            # One request reads from all partitions of a leader; there is nothing to read before the first write.
            is_staggered=name != "read",
            delay_us=lambda_us if name == "read" else 0,
        )
        lane = ProbedLane(name, spec.kind, target, times, self._clock.at_us)
        shards = self._prober.shards(topic)
        flush_us = int(config.flush_seconds * 1e6), int(config.trouble_flush_seconds * 1e6)
        for index, shard in enumerate(shards):
            shared = {"resource": shard.resource, "shard": shard.shard, "kind": spec.kind.value, "lane": spec.lane.value}
            spans = SpanBuilder(
                **shared, period_us=period_us, lambda_us=lambda_us, has_contiguous_positions=name not in ("read", "client")
            )
            # The first flushes are spread out, so that not all partitions are written in one go ever after.
            first_flush_us = self._clock.now_us() + flush_us[0] * (index + 1) // len(shards)
            shard_journal = ShardJournal(self._journal, spans, shared, flush_us, first_flush_us)
            of_shard = committed.setdefault(shard, Committed())
            if name == "read":
                lane.add(shard, _question(of_shard), shard_journal, partial(_read, of_shard, target.gone))
            else:
                keeps = partial(_written, of_shard) if name == "durable_write" else None
                lane.add(shard, _letter(Stamp(config.boot_id, spec.kind, spec.lane, shard.shard)), shard_journal, keeps)
        return lane

    def _look(self, pacer: Pacer, flush: Callable[[], None]) -> None:
        """What else there is to do, ten times a second."""
        flush()
        now_us = self._clock.now_us()
        if now_us >= self._look_at_us:
            self._look_at_us = now_us + int(self._config.status_seconds * 1e6)
            troubles = [*self._warnings, *self._troubles(pacer)]
            if troubles:
                self._status.degraded("; ".join(troubles))
            else:
                self._status.running()
        self._status.write_if_due()

    def _troubles(self, pacer: Pacer) -> list[str]:
        found = []
        if pacer.stalls:
            found.append(f"the prober was blind {pacer.stalls} times")
            pacer.stalls = 0
        for lane in self.lanes:
            found += [f"lane {lane.name}: {count} probes void: {code}" for code, count in sorted(lane.void_codes.items())]
            lane.void_codes.clear()
            if lane.lateness_ns_max > lane.times.period_us * 1000:
                found.append(f"lane {lane.name}: probes were issued up to {lane.lateness_ns_max // 1_000_000} ms late")
            lane.lateness_ns_max = 0
        off_us = time.time_ns() // 1000 - self._clock.now_us()
        if abs(off_us) > WALL_CLOCK_US:
            found.append(f"the wall clock is {off_us / 1e6:+.1f} s off the clock of the record: it was stepped since the start")
        return found


def _raise_priority() -> None:
    """A prober that waits for a CPU is blind. It needs little, and asks to be served first, where the system lets it."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def _letter(stamp: Stamp) -> Letter:
    return lambda sequence: (stamp.value(sequence), None)


def _question(committed: Committed) -> Letter:
    return lambda _: committed.target()


def _written(committed: Committed, flight: Flight, reply: Reply) -> None:
    if reply.outcome is Outcome.ACKED:
        committed.acknowledged(flight.payload, reply.position)


def _read(committed: Committed, gone: frozenset[str], flight: Flight, reply: Reply) -> None:
    if reply.code in gone:
        committed.is_gone(flight.position)


def _leader_changed(journal: Journal, clock: Anchor, change: LeaderChange) -> None:
    journal.leader_seen(
        resource=change.shard.resource,
        shard=change.shard.shard,
        leader=change.leader,
        previous_leader=change.previous_leader,
        term=change.term,
        started_at_us=clock.at_us(change.asked_ns),
        ended_at_us=clock.at_us(change.received_ns),
    )
