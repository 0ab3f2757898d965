"""The watch asks every leader about every partition it leads, is held up by none, and says what it saw."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from time import monotonic, monotonic_ns

from pipelines.brokers.base import AskFailed, Capabilities, Position, Shard, ShardView, TermEnd, Timed, View
from pipelines.collect.lifecycle import StatusLines
from pipelines.collect.watch import STALLED, Watch, WatchConfig
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Blind, EpochEnd, LeaderSeen, Observation, Outcome, Probes, Status
from pipelines.domain.unavailability import longest_runs
from tests.collect.test_spool import landed

PERIOD_MS = 200
LIMIT_SECONDS = 15.0
A0, A1, B0 = Shard("a", "0"), Shard("a", "1"), Shard("b", "0")
Behaviour = Callable[[Mapping[Shard, int | None]], Awaitable[dict[Shard, Position]]]


@dataclass
class SimulatedCluster:
    """A cluster whose brokers do as they are told: `led` is what clients are told, `high` how far each partition goes."""

    led: dict[Shard, ShardView] = field(default_factory=dict)
    high: dict[Shard, int] = field(default_factory=dict)
    ends: dict[tuple[Shard, int], int] = field(default_factory=dict)
    broken: dict[str, Behaviour] = field(default_factory=dict)
    asked_ends: list[tuple[str, int, int]] = field(default_factory=list)
    views: int = 0
    is_mute: bool = False
    capabilities = Capabilities(has_term_ends=True)

    def lead(self, shard: Shard, leader: str | None, term: int = 0, identity: str = "i") -> None:
        self.led[shard] = ShardView(leader, term, ("1", "2"), ("1", "2"), identity)
        self.high.setdefault(shard, 10)

    async def view(self, deadline: float) -> View:
        sent = monotonic_ns()
        if self.is_mute:
            raise AskFailed("nobody answers", "TIMED_OUT", Outcome.UNKNOWN)
        self.views += 1
        await asyncio.sleep(0)
        return View("c", dict(self.led), sent, monotonic_ns())

    async def positions(self, broker: str, shards: Mapping[Shard, int | None], deadline: float) -> Timed[dict[Shard, Position]]:
        sent = monotonic_ns()
        if broker in self.broken:
            try:
                async with asyncio.timeout_at(deadline):
                    body = await self.broken[broker](shards)
            except TimeoutError:
                raise AskFailed("no answer", "TIMED_OUT", Outcome.UNKNOWN) from None
        else:
            unknown = Position(Outcome.REJECTED, code="UNKNOWN_TOPIC_OR_PARTITION", is_unknown=True)
            body = {
                shard: Position(Outcome.ACKED, self.high[shard], self.led[shard].term) if shard in self.led else unknown
                for shard in shards
            }
        return Timed(body, sent, monotonic_ns())

    async def term_ends(self, broker: str, shards: Mapping[Shard, tuple[int, int]], deadline: float) -> Timed[dict[Shard, TermEnd]]:
        sent = monotonic_ns()
        self.asked_ends += [(broker, current, old) for current, old in shards.values()]
        body = {
            shard: TermEnd(self.ends.get((shard, old)), old, None if (shard, old) in self.ends else "NOT_LEADER_OR_FOLLOWER")
            for shard, (_, old) in shards.items()
        }
        return Timed(body, sent, monotonic_ns())

    async def close(self) -> None:
        """Nothing to end."""


async def hangs(_: Mapping[Shard, int | None]) -> dict[Shard, Position]:
    await asyncio.Event().wait()
    raise AssertionError


async def refuses(_: Mapping[Shard, int | None]) -> dict[Shard, Position]:
    raise AskFailed("nobody listens", "CONNECTION_REFUSED", Outcome.REJECTED)


def answering(position: Position) -> Behaviour:
    async def answer(shards: Mapping[Shard, int | None]) -> dict[Shard, Position]:
        return dict.fromkeys(shards, position)

    return answer


class Running:
    """A watch of a simulated cluster, and what it has written down so far."""

    def __init__(self, folder: Path, cluster: SimulatedCluster) -> None:
        self.folder = folder
        self.cluster = cluster

    def records(self) -> list[Observation]:
        return landed(self.folder) if self.folder.is_dir() else []

    def runs(self, shard: Shard) -> list[Probes]:
        found = [one for one in self.records() if isinstance(one, Probes) and (one.resource, one.shard) == shard]
        return longest_runs(found)

    def outcomes(self, shard: Shard) -> list[tuple[str, str | None]]:
        return [(one.outcome, one.code) for one in self.runs(shard)]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = monotonic() + LIMIT_SECONDS
        while not condition():
            assert monotonic() < deadline, f"waited {LIMIT_SECONDS} s for {what}; there is {self.records()}"
            await asyncio.sleep(0.02)

    async def rounds(self, count: int) -> None:
        """Lets so many periods pass."""
        await asyncio.sleep(count * PERIOD_MS / 1000)


def watch(folder: Path, cluster: SimulatedCluster, story: Callable[[Running], Awaitable[None]]) -> Running:
    """Runs a watch while the story is told; every run of probes is without gaps at its end."""
    anchor = Anchor.now()
    config = WatchConfig(
        system="kafka",
        cluster_id="c",
        prober_id="p",
        spool=str(folder / "landing"),
        anchor=anchor.text(),
        bootstrap="nowhere:1",
        period_ms=PERIOD_MS,
        lambda_ms=PERIOD_MS,
        flush_seconds=0.1,
        rotate_ms=20,
        spool_reserve_bytes=0,
        status_seconds=0.05,
    )
    running = Running(folder / "landing", cluster)

    async def play() -> None:
        stopped = threading.Event()
        with config.open_spool("watch") as spool:
            status = StatusLines(spool, anchor, config.status_seconds)
            watching = asyncio.create_task(Watch(config, cluster, spool, status).run(stopped.is_set))
            telling = asyncio.create_task(story(running))
            await asyncio.wait({watching, telling}, return_when=asyncio.FIRST_COMPLETED)
            stopped.set()
            await watching
            await telling
            status.stopped()

    asyncio.run(play())
    for shard in {Shard(one.resource, one.shard) for one in running.records() if isinstance(one, Probes)}:
        runs = running.runs(shard)
        assert all(after.first_sequence > before.last_sequence for before, after in pairwise(runs))
    return running


def test_a_broker_that_hangs_holds_up_nobody_but_itself(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")
    cluster.lead(B0, "2")

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)), "the first answer")
        cluster.broken["1"] = hangs
        await running.until(lambda: ("UNKNOWN", "TIMED_OUT") in running.outcomes(A0), "a silence")
        await running.rounds(4)
        del cluster.broken["1"]
        await running.until(lambda: running.outcomes(A0)[-1][0] == "ACKED", "its return")

    running = watch(tmp_path, cluster, story)
    (hung,) = [one for one in running.runs(A0) if one.outcome == "UNKNOWN"]
    assert hung.count >= 4
    assert not hung.is_answered
    assert hung.last_decided_at_us - hung.last_issued_at_us == PERIOD_MS * 1000
    assert running.outcomes(B0) == [("ACKED", None)]
    good = running.runs(B0)[0]
    assert good.latency_us_max is not None
    assert good.latency_us_max < PERIOD_MS * 1000


def test_a_refusal_is_decided_at_once_and_makes_the_watch_look_who_leads_now(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1", term=3)

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)), "the first answer")
        await running.rounds(2)
        before = cluster.views
        cluster.broken["1"] = refuses
        await running.until(lambda: ("REJECTED", "CONNECTION_REFUSED") in running.outcomes(A0), "a refusal")
        await running.rounds(2)
        assert cluster.views - before >= 3
        cluster.ends[A0, 3] = 10
        cluster.lead(A0, "2", term=4)
        await running.until(lambda: running.outcomes(A0)[-1][0] == "ACKED", "the new leader's answer")
        await running.until(lambda: any(isinstance(one, EpochEnd) for one in running.records()), "the end of the old epoch")

    running = watch(tmp_path, cluster, story)
    refused = running.runs(A0)[1]
    assert (refused.leader, refused.is_answered) == ("1", False)
    assert refused.last_decided_at_us - refused.last_issued_at_us < PERIOD_MS * 1000
    (seen,) = [one for one in running.records() if isinstance(one, LeaderSeen)]
    assert (seen.previous_leader, seen.leader, seen.term) == ("1", "2", 4)
    assert seen.started_at_us < seen.ended_at_us
    (end,) = [one for one in running.records() if isinstance(one, EpochEnd)]
    assert (end.term, end.new_term, end.leader, end.lost_records) == (3, 4, "2", 0)
    assert running.runs(A0)[-1].term == 4


def test_committed_records_that_a_new_leader_does_not_have_are_lost_and_counted(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")
    cluster.high[A0] = 50

    async def story(running: Running) -> None:
        await running.until(lambda: any(one.last_position == "50" for one in running.runs(A0)), "the position before")
        cluster.high[A0] = 150
        await running.until(lambda: any(one.last_position == "150" for one in running.runs(A0)), "the position that is lost")
        cluster.high[A0] = 50
        cluster.lead(A0, "2", term=1)
        await running.until(lambda: bool(cluster.asked_ends), "the question")
        cluster.ends[A0, 0] = 50
        await running.until(lambda: any(isinstance(one, EpochEnd) for one in running.records()), "the verdict")

    running = watch(tmp_path, cluster, story)
    (end,) = [one for one in running.records() if isinstance(one, EpochEnd)]
    assert (end.lost_records, end.high_watermark_max, end.end_position) == (100, "150", "50")
    assert end.lost_started_at_us is not None
    assert end.lost_ended_at_us is not None
    assert end.lost_started_at_us < end.lost_ended_at_us < end.started_at_us
    # Only the leader of the new epoch is asked: the old one would not miss anything.
    assert set(cluster.asked_ends) == {("2", 1, 0)}


def test_what_was_committed_is_not_forgotten_when_a_broker_that_just_started_tells_of_no_topic(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")
    cluster.lead(A1, "1")
    cluster.high[A0] = cluster.high[A1] = 150

    async def story(running: Running) -> None:
        await running.until(lambda: any(one.last_position == "150" for one in running.runs(A0)), "the position that is lost")
        await running.until(lambda: any(one.last_position == "150" for one in running.runs(A1)), "that of the other")
        told, cluster.led = cluster.led, {}
        views = cluster.views
        await running.until(lambda: cluster.views > views + 1, "an answer without any topic")
        cluster.led = told
        cluster.high[A0] = cluster.high[A1] = 50
        cluster.lead(A0, "2", term=3)
        cluster.lead(A1, "2", term=0, identity="made anew")
        await running.until(lambda: bool(cluster.asked_ends), "the question")
        cluster.ends[A0, 0] = 50
        await running.until(lambda: any(isinstance(one, EpochEnd) for one in running.records()), "the verdict")

    running = watch(tmp_path, cluster, story)
    (end,) = [one for one in running.records() if isinstance(one, EpochEnd)]
    assert (end.shard, end.term, end.new_term, end.lost_records) == ("0", 0, 3, 100)
    (seen,) = [one for one in running.records() if isinstance(one, LeaderSeen)]
    assert (seen.shard, seen.previous_leader, seen.leader, seen.term) == ("0", "1", "2", 3)


def test_a_partition_without_a_leader_is_rejected_in_a_broker_s_own_words(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, None)

    async def story(running: Running) -> None:
        await running.until(lambda: ("REJECTED", "LEADER_NOT_AVAILABLE") in running.outcomes(A0), "a rejection")
        cluster.lead(A0, "1", term=1)
        await running.until(lambda: running.outcomes(A0)[-1][0] == "ACKED", "its leader's answer")

    running = watch(tmp_path, cluster, story)
    assert running.runs(A0)[0].is_answered
    assert running.runs(A0)[0].leader is None


def test_a_partition_that_was_deleted_ends_without_an_outage_and_a_new_one_of_its_name_begins(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")
    cluster.lead(B0, "1")

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)) and bool(running.runs(B0)), "the first answers")
        cluster.broken["1"] = answering(Position(Outcome.REJECTED, code="UNKNOWN_TOPIC_OR_PARTITION", is_unknown=True))
        del cluster.led[A0]
        await running.until(lambda: ("REJECTED", "UNKNOWN_TOPIC_OR_PARTITION") in running.outcomes(B0), "a rejection of the other")
        del cluster.broken["1"]
        cluster.lead(A0, "1", identity="made anew")
        cluster.lead(A1, "1")
        await running.until(lambda: len(running.runs(A0)) > 1 and bool(running.runs(A1)), "the new ones")

    running = watch(tmp_path, cluster, story)
    assert set(running.outcomes(A0)) == {("ACKED", None)}
    assert ("REJECTED", "UNKNOWN_TOPIC_OR_PARTITION") in running.outcomes(B0)


def test_what_we_may_not_ask_is_void_and_no_outage(tmp_path: Path) -> None:
    cluster = SimulatedCluster(broken={"1": answering(Position(Outcome.VOID, code="TOPIC_AUTHORIZATION_FAILED"))})
    cluster.lead(A0, "1")

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)), "an outcome")

    assert watch(tmp_path, cluster, story).outcomes(A0) == [("VOID", "TOPIC_AUTHORIZATION_FAILED")]


def test_a_stall_of_our_own_is_blindness_and_what_it_left_unanswered_is_void(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)), "the first answer")
        threading.Event().wait(5 * PERIOD_MS / 1000)
        await running.until(lambda: any(isinstance(one, Blind) for one in running.records()), "the blindness")
        await running.until(lambda: running.outcomes(A0)[-1][0] == "ACKED", "the next answer")

    running = watch(tmp_path, cluster, story)
    stalls = [one for one in running.records() if isinstance(one, Blind)]
    assert max(one.ended_at_us - one.started_at_us for one in stalls) >= 4 * PERIOD_MS * 1000
    assert {code for outcome, code in running.outcomes(A0) if outcome != "ACKED"} == {STALLED}
    runs = running.runs(A0)
    assert all(after.first_sequence == before.last_sequence + 1 for before, after in pairwise(runs))


def test_when_nobody_says_who_leads_the_status_says_so(tmp_path: Path) -> None:
    cluster = SimulatedCluster(is_mute=True)

    async def story(running: Running) -> None:
        await running.until(lambda: any(isinstance(one, Status) and one.state == "degraded" for one in running.records()), "the word")
        cluster.is_mute = False
        cluster.lead(A0, "1")
        await running.until(lambda: bool(running.runs(A0)), "an answer")

    running = watch(tmp_path, cluster, story)
    states = [one.state for one in running.records() if isinstance(one, Status)]
    assert states[-1] == "stopped"
    assert "degraded" in states


def test_an_answer_that_comes_after_lambda_is_no_good_answer(tmp_path: Path) -> None:
    cluster = SimulatedCluster()
    cluster.lead(A0, "1")

    async def late(shards: Mapping[Shard, int | None]) -> dict[Shard, Position]:
        await asyncio.shield(asyncio.sleep(PERIOD_MS / 1000 * 0.9))
        return {shard: replace(Position(Outcome.ACKED, 10, 0)) for shard in shards}

    async def story(running: Running) -> None:
        await running.until(lambda: bool(running.runs(A0)), "the first answer")
        cluster.broken["1"] = late
        await running.rounds(6)

    for one in watch(tmp_path, cluster, story).runs(A0):
        if one.outcome == "ACKED":
            assert one.latency_us_max is not None
            assert one.latency_us_max <= PERIOD_MS * 1000
        else:
            assert one.last_decided_at_us - one.last_issued_at_us <= PERIOD_MS * 1000
