"""Is every partition of every topic led by somebody who answers, and what was committed? Asked without writing anything.

The rule: once a period each leader is asked for the high watermarks of all the partitions that it leads, in one request. Each
partition's answer is a probe (kind leader, lane watch) whose position is the high watermark and whose term is the leader
epoch of the answer. The loop is open: a probe's issue is its tick, whether the one before was answered or not; a broker that
hangs holds up nobody but itself. A probe is decided by its answer, or at issue + lambda.

- *Who leads* is what clients are told: asked every period, and at once (50 ms apart) after a refusal, a lost connection or a silence. A
  change of leader or epoch is a `LeaderSeen`.
- *No leader*: the probe waits for what clients are told after its issue. Still none: rejected, in a broker's own words; else sent.
- *A shard that the broker does not know*: the same. Clients are not told of it any more: its run just ends. It was deleted, or who told
  us knows little yet (a ZooKeeper-mode broker that just started tells of no topic at all): if the same shard is told of again, what was
  known of its high watermarks still holds.
- *After an election* the new leader is asked where the old epoch ends in its log (see `high_watermarks`): `EpochEnd`.
- *Not authorised* is VOID, not an outage. A stall of our own is `Blind`, and what it left unanswered is VOID.

Example: 1,000 partitions on three brokers are three requests a second, some 12 bytes a partition each way.
"""

import asyncio
import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from pipelines.brokers.base import AskFailed, Position, Shard, ShardView, TermEnd, Timed, View, Watchable
from pipelines.brokers.systems import watchable
from pipelines.collect.config import ClusterConfig
from pipelines.collect.lifecycle import StatusLines, stop_signals
from pipelines.collect.spool import Spool
from pipelines.collect.stall import StallDetector
from pipelines.collect.watched import Watched
from pipelines.domain.observations import Blind, EpochEnd, LeaderSeen, Outcome, Probes
from pipelines.domain.spans import Decided, Line
from pipelines.errors import UsageError

COLLECTOR = "watch"
BEAT_SECONDS = 0.05
STALL_ALLOWED_US = 100_000
HURRY_SECONDS = 0.05
"""The least pause between two questions for what clients are told."""
TROUBLED_SECONDS = 0.2
"""The pause between them while some partition does not answer: a new leader is to be seen soon after clients can see it."""
VIEW_SECONDS = 2.0
"""How long an answer to that may take."""
VIEW_LOAD_MAX = 0.5
"""The part of a core that reading what clients are told may take in a hurry, and a tenth of it otherwise: on huge clusters it is
asked less often."""
QUESTION_SECONDS = 0.1
ANSWER_SECONDS = 1.0
FORGOTTEN_US = 600_000_000
"""For so long the high watermarks of a shard that nobody tells of are kept."""
MISSED_TICKS_MAX = 10
"""After a longer stall the ticks that were missed are a gap in the sequence, and not void probes one by one."""
NO_LEADER = "LEADER_NOT_AVAILABLE"
NOT_TOLD = "LEADER_UNKNOWN"
TIMED_OUT = "TIMED_OUT"
STALLED = "PROBER_STALLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConfig(ClusterConfig):
    """A healthy partition is written down every `flush_seconds`, and at once when something changes."""

    period_ms: int = 1000
    lambda_ms: int = 1000
    flush_seconds: float = 30.0

    def check(self) -> None:
        """Raises UsageError for settings that make no sense."""
        for name, value in (("period_ms", self.period_ms), ("lambda_ms", self.lambda_ms)):
            if not 10 <= value <= 3_600_000:
                raise UsageError(f"{name} is {value}, expected 10 to 3600000")


def run(config: WatchConfig) -> None:
    """Watches until SIGTERM or SIGINT. Raises UsageError for settings that cannot be used, SpoolError for a spool that cannot."""
    config.check()
    door = watchable(config.place)
    with config.open_spool(COLLECTOR) as spool, stop_signals() as stop:
        status = StatusLines(spool, config.clock, config.status_seconds)
        asyncio.run(_run(Watch(config, door, spool, status), door, stop.is_set))
        status.stopped()


async def _run(watch: "Watch", door: Watchable, is_stopping: Callable[[], bool]) -> None:
    try:
        await watch.run(is_stopping)
    finally:
        await door.close()


@dataclass(frozen=True, slots=True)
class Tick:
    """One round of probes: all of them are meant for the same instant. `deadline` is issue + lambda on `time.monotonic()`."""

    sequence: int
    issued_ns: int
    issued_us: int
    deadline: float


@dataclass(frozen=True, slots=True)
class _Untold:
    """A shard that clients are not told of any more: what was kept of it, and what they were told last."""

    watched: Watched
    told: ShardView
    sent_ns: int
    since_us: int


class Watch:
    """The watch of one cluster, on one event loop."""

    def __init__(self, config: WatchConfig, door: Watchable, spool: Spool, status: StatusLines) -> None:
        self._config = config
        self._door = door
        self._spool = spool
        self._status = status
        self._clock = config.clock
        self._period_us = config.period_ms * 1000
        self._lambda_us = config.lambda_ms * 1000
        self._stalls = StallDetector(int(BEAT_SECONDS * 1e6), STALL_ALLOWED_US)
        self._view: View | None = None
        self._watched: dict[Shard, Watched] = {}
        self._untold: dict[Shard, _Untold] = {}
        self._flushes: deque[tuple[int, Shard, Watched]] = deque()
        self._hurry = asyncio.Event()
        self._viewed = asyncio.Condition()
        self._troubled_us = 0
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Watches until told to stop, then writes down what is known."""
        for loop in (self._look(), self._tick(), self._ask_questions()):
            self._spawn(loop)
        try:
            while not is_stopping():
                self._beat()
                for one in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(one)
                    one.result()
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            for one in self._tasks:
                one.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._status.stopping()
        for watched in self._watched.values():
            self._write(watched.close())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    # beats

    def _beat(self) -> None:
        self._notice_stall()
        self._spool.flush_if_due()
        self._status.write_if_due()
        now_us = self._clock.now_us()
        while self._flushes and self._flushes[0][0] <= now_us:
            due_us, shard, watched = self._flushes.popleft()
            if self._watched.get(shard) is watched:
                self._write(watched.flush())
                self._flushes.append((due_us + int(self._config.flush_seconds * 1e6), shard, watched))

    def _notice_stall(self) -> None:
        stall = self._stalls.beat(self._clock.now_us())
        if stall is not None:
            self._spool.write(Blind, cause="stall", started_at_us=stall.started_at_us, ended_at_us=stall.ended_at_us)

    def _write(self, lines: list[Line]) -> None:
        for line in lines:
            self._spool.write(Probes, **line)

    # what clients are told

    async def _look(self) -> None:
        """Asks what clients are told: every period, often while some partition does not answer, and at once in a hurry."""
        while True:
            started, used = time.monotonic(), time.process_time()
            self._hurry.clear()
            try:
                view = await self._door.view(started + VIEW_SECONDS)
            except AskFailed as error:
                self._status.degraded(f"no broker says who leads: {error}")
                self._troubled_us = self._clock.now_us()
            else:
                self._status.running()
                self._take_view(view)
                async with self._viewed:
                    self._viewed.notify_all()
            used = time.process_time() - used
            least = max(HURRY_SECONDS, used / VIEW_LOAD_MAX)
            await asyncio.sleep(max(0.0, started + least - time.monotonic()))
            is_troubled = self._clock.now_us() - self._troubled_us < 2 * self._period_us
            most = max(least, TROUBLED_SECONDS) if is_troubled else max(10 * least, self._period_us / 1e6)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(started + most):
                    await self._hurry.wait()

    def _take_view(self, view: View) -> None:
        before, self._view = self._view, view
        for shard in self._watched.keys() - view.shards.keys():
            watched = self._watched.pop(shard)
            self._write(watched.close())
            if before is not None and shard in before.shards:
                self._untold[shard] = _Untold(watched, before.shards[shard], before.sent_ns, self._clock.now_us())
        for shard, told in view.shards.items():
            known = self._watched.get(shard)
            if known is not None and known.identity != told.identity:
                self._write(known.close())
                known = None
            if known is None:
                self._add(shard, told, view)
            elif before is not None and shard in before.shards:
                self._compare(shard, known, before.shards[shard], before.sent_ns, view)
        forgotten_us = self._clock.now_us() - FORGOTTEN_US
        for shard in [one for one, untold in self._untold.items() if untold.since_us < forgotten_us]:
            del self._untold[shard]

    def _add(self, shard: Shard, told: ShardView, view: View) -> None:
        watched = self._watched[shard] = Watched(shard, told.identity, self._period_us, self._lambda_us)
        self._flushes.append((self._clock.now_us() + int(self._config.flush_seconds * 1e6), shard, watched))
        untold = self._untold.pop(shard, None)
        if untold is not None and told.identity is not None and untold.watched.identity == told.identity:
            watched.remember(untold.watched)
            self._compare(shard, watched, untold.told, untold.sent_ns, view)

    def _compare(self, shard: Shard, watched: Watched, was: ShardView, was_sent_ns: int, view: View) -> None:
        told = view.shards[shard]
        if (was.leader, was.term) == (told.leader, told.term):
            return
        self._spool.write(
            LeaderSeen,
            resource=shard.resource,
            shard=shard.shard,
            leader=told.leader,
            previous_leader=was.leader,
            term=told.term,
            started_at_us=self._clock.at_us(was_sent_ns),
            ended_at_us=self._clock.at_us(view.received_ns),
        )
        if told.term is not None:
            watched.elected(told.term)

    # probes

    async def _tick(self) -> None:
        """Issues a round of probes every period, and never waits for one."""
        period_ns = self._period_us * 1000
        start_ns, sequence = time.monotonic_ns(), 0
        while True:
            late = (time.monotonic_ns() - start_ns) // period_ns - sequence
            for missed in range(min(late, MISSED_TICKS_MAX)):
                self._miss(self._tick_at(start_ns, sequence + missed))
            sequence += max(0, late)
            if self._view is not None and not self._spool.is_full:
                tick = self._tick_at(start_ns, sequence)
                for watched in self._watched.values():
                    watched.issue(sequence)
                self._issue(tick, list(self._watched))
            sequence += 1
            await asyncio.sleep((start_ns + sequence * period_ns - time.monotonic_ns()) / 1e9)

    def _tick_at(self, start_ns: int, sequence: int) -> Tick:
        issued_ns = start_ns + sequence * self._period_us * 1000
        return Tick(sequence, issued_ns, self._clock.at_us(issued_ns), issued_ns / 1e9 + self._lambda_us / 1e6)

    def _miss(self, tick: Tick) -> None:
        """A round that a stall of our own kept from being issued."""
        for shard, watched in self._watched.items():
            watched.issue(tick.sequence)
            self._decide(tick, shard, Outcome.VOID, tick.issued_us + self._lambda_us, code=STALLED)

    def _issue(self, tick: Tick, shards: Iterable[Shard]) -> None:
        view = self._view
        assert view is not None  # noqa: S101 - no round begins before the first view
        by_leader: dict[str | None, list[Shard]] = defaultdict(list)
        for shard in shards:
            told = view.shards.get(shard)
            if told is not None:
                by_leader[told.leader].append(shard)
        for leader, led in by_leader.items():
            self._spawn(self._wait_to_be_told(tick, led) if leader is None else self._probe(tick, leader, led, view))

    async def _probe(self, tick: Tick, leader: str, shards: list[Shard], view: View) -> None:
        """Asks one leader about its partitions and decides their probes."""
        try:
            reply = await self._door.positions(leader, {shard: view.shards[shard].term for shard in shards}, tick.deadline)
        except AskFailed as error:
            now_us = self._clock.now_us()
            for shard in shards:
                self._decide(tick, shard, error.outcome, now_us, code=error.code, leader=leader)
            return
        unknown = [shard for shard, position in reply.body.items() if position.is_unknown]
        for shard, position in reply.body.items():
            if not position.is_unknown:
                self._take_position(tick, shard, leader, position, reply)
        if unknown:
            await self._wait_to_be_told(tick, unknown, reply.body[unknown[0]].code)

    def _take_position(self, tick: Tick, shard: Shard, leader: str, position: Position, reply: Timed[Any]) -> None:
        sent_us, received_us = self._clock.at_us(reply.sent_ns), self._clock.at_us(reply.received_ns)
        self._decide(
            tick,
            shard,
            position.outcome,
            received_us,
            code=position.code,
            is_answered=True,
            leader=leader,
            term=position.term,
            position=position.value,
            sent_at_us=sent_us,
        )
        watched = self._watched.get(shard)
        if watched is not None and position.value is not None and position.term is not None:
            watched.answered(position.term, position.value, sent_us, received_us)

    async def _wait_to_be_told(self, tick: Tick, shards: list[Shard], code: str | None = None) -> None:
        """Partitions without a leader, or that their leader does not know (`code`): what are clients told after the issue?"""
        self._hurry.set()
        try:
            async with asyncio.timeout_at(tick.deadline), self._viewed:
                await self._viewed.wait_for(lambda: self._view is not None and self._view.sent_ns >= tick.issued_ns)
        except TimeoutError:
            for shard in shards:
                self._decide(tick, shard, Outcome.UNKNOWN, tick.issued_us + self._lambda_us, code=NOT_TOLD)
            return
        view = self._view
        assert view is not None  # noqa: S101 - this is what was waited for
        told = {shard: view.shards[shard] for shard in shards if shard in view.shards}
        led = [shard for shard, one in told.items() if one.leader is not None and code is None]
        for shard in told.keys() - set(led):
            at_us = self._clock.at_us(view.received_ns)
            self._decide(tick, shard, Outcome.REJECTED, at_us, code=code or NO_LEADER, is_answered=True)
        if led:
            self._issue(tick, led)

    def _decide(self, tick: Tick, shard: Shard, outcome: Outcome, decided_us: int, **fields: Any) -> None:
        """Writes down what became of a probe: by lambda at the latest, and only if we were there to see it."""
        watched, view = self._watched.get(shard), self._view
        if watched is None or view is None or shard not in view.shards:
            return  # deleted meanwhile
        limit_us = tick.issued_us + self._lambda_us
        if decided_us > limit_us:
            outcome, decided_us, fields = Outcome.UNKNOWN, limit_us, {"code": TIMED_OUT, "leader": fields.get("leader")}
        if outcome != Outcome.ACKED:
            self._notice_stall()
            if self._stalls.was_stalled(tick.issued_us, decided_us):
                outcome, fields = Outcome.VOID, {"code": STALLED}
            elif outcome != Outcome.VOID:
                self._troubled_us = self._clock.now_us()
                self._hurry.set()
        told = view.shards[shard]
        probe = Decided(tick.sequence, tick.issued_us, decided_us, outcome, isr=told.isr, replicas=told.replicas, **fields)
        self._write(watched.decide(probe))

    # elections

    async def _ask_questions(self) -> None:
        """Asks new leaders where old terms end, each of them on its own, until they have answered."""
        while True:
            await asyncio.sleep(QUESTION_SECONDS)
            view = self._view
            if view is None or not self._door.capabilities.has_term_ends:
                continue
            by_leader: dict[str, list[Shard]] = defaultdict(list)
            for shard, watched in self._watched.items():
                told = view.shards.get(shard)
                # Not before clients are told of the newer term: the old leader would answer that nothing is missing.
                if watched.questions and told and told.leader and (told.term or 0) > watched.questions[0].term:
                    by_leader[told.leader].append(shard)
            for leader in by_leader.keys() - self._asked:
                self._asked.add(leader)
                self._spawn(self._ask(leader, by_leader[leader], view))

    async def _ask(self, leader: str, shards: list[Shard], view: View) -> None:
        try:
            # The oldest question first; a partition whose leader moved again while it was open has more than one.
            questions = {shard: (view.shards[shard].term or 0, self._watched[shard].questions[0].term) for shard in shards}
            reply = await self._door.term_ends(leader, questions, time.monotonic() + ANSWER_SECONDS)
        except AskFailed:
            self._hurry.set()
        else:
            for shard, end in reply.body.items():
                self._take_end(shard, leader, questions[shard][0], end, reply)
        finally:
            self._asked.discard(leader)

    def _take_end(self, shard: Shard, leader: str, new_term: int, end: TermEnd, reply: Timed[Any]) -> None:
        watched = self._watched.get(shard)
        if watched is None or not watched.questions:
            return
        question = watched.questions[0]
        if end.code is not None:
            self._hurry.set()  # it is not the leader (any more), or not yet: asked again
            return
        if end.value is None:
            watched.questions.remove(question)  # its log begins after the old term: nothing can be said
            return
        verdict = watched.ended(question, end.value)
        self._spool.write(
            EpochEnd,
            resource=shard.resource,
            shard=shard.shard,
            term=question.term,
            new_term=new_term,
            leader=leader,
            high_watermark_max=str(question.high_watermark_max),
            end_position=str(end.value),
            lost_records=verdict.lost_records,
            lost_started_at_us=verdict.lost_started_at_us,
            lost_ended_at_us=verdict.lost_ended_at_us,
            started_at_us=self._clock.at_us(reply.sent_ns),
            ended_at_us=self._clock.at_us(reply.received_ns),
        )
