"""The control plane is read at the best place that works, and nothing is lost over a restart."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from pipelines.brokers.base import BadPosition, ControlSource, Decision, Decisions
from pipelines.collect.control_plane import ControlPlane, ControlPlaneConfig, PositionFile
from pipelines.collect.lifecycle import StatusLines
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Blind, Control, ControlEvent, Observation, Status
from pipelines.errors import ConnectionFailed, LastackError, Unauthorised
from tests.collect.test_spool import landed

LIMIT_SECONDS = 10.0


class SimulatedSource:
    """A source whose decisions are the numbers from its position on, one every few milliseconds."""

    def __init__(self, name: str, fails_with: Exception | None = None) -> None:
        self.name = name
        self.next = 0
        self.was_closed = False
        self._fails_with = fails_with

    async def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
        if saved == "garbage":
            raise BadPosition("the position is no good")
        if self._fails_with is not None:
            raise self._fails_with
        self.next = int(saved or 0)
        while True:
            decision = Decision(
                event=ControlEvent.BROKER_FENCED.value, started_at_us=self.next, ended_at_us=self.next + 999, position=str(self.next)
            )
            self.next += 1
            yield Decisions((decision,), is_provisional=self.name == "metadata_log")
            await asyncio.sleep(0.005)

    def saved(self) -> str | None:
        return str(self.next)

    async def close(self) -> None:
        self.was_closed = True


class Running:
    """A collector that runs, and what it has written down so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def records(self) -> list[Observation]:
        return landed(self.folder) if self.folder.is_dir() else []

    def controls(self) -> list[Control]:
        return [one for one in self.records() if isinstance(one, Control)]

    def messages(self) -> set[str | None]:
        return {one.message for one in self.records() if isinstance(one, Status)}

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.01)
        assert condition(), what


def read(
    tmp_path: Path, sources: list[Callable[[], ControlSource]], story: Callable[[Running], Awaitable[None]], landing: str = "landing"
) -> Running:
    anchor = Anchor.now()
    config = ControlPlaneConfig(
        system="kafka",
        cluster_id="c",
        prober_id="p",
        spool=str(tmp_path / landing),
        state_folder=str(tmp_path / "state"),
        anchor=anchor.text(),
        bootstrap="nowhere:1",
        keep_seconds=0.05,
        rotate_ms=20,
        spool_reserve_bytes=0,
    )
    running = Running(tmp_path / landing)

    async def play() -> None:
        stopped = threading.Event()
        with config.open_spool("control_plane") as spool:
            status = StatusLines(spool, anchor, 0.05)
            reading = asyncio.create_task(ControlPlane(config, sources, spool, status).run(stopped.is_set))
            telling = asyncio.create_task(story(running))
            await asyncio.wait({reading, telling}, return_when=asyncio.FIRST_COMPLETED)
            stopped.set()
            await reading
            await telling

    asyncio.run(play())
    return running


def test_a_restart_goes_on_and_loses_no_decision(tmp_path: Path) -> None:
    async def story(running: Running) -> None:
        await running.until(lambda: len(running.controls()) > 40, "decisions")

    first = read(tmp_path, [lambda: SimulatedSource("metadata_fetch")], story, "first")
    second = read(tmp_path, [lambda: SimulatedSource("metadata_fetch")], story, "second")

    before = [int(one.position or -1) for one in first.controls()]
    after = [int(one.position or -1) for one in second.controls()]
    assert before == list(range(len(before)))
    # Some are written down again, under the same positions; none is left out.
    assert 0 < after[0] <= before[-1] + 1
    assert after == list(range(after[0], after[0] + len(after)))


def test_a_place_that_does_not_let_us_in_is_said_and_the_next_is_used(tmp_path: Path) -> None:
    refused = SimulatedSource("metadata_fetch", fails_with=Unauthorised("controller: CLUSTER_AUTHORIZATION_FAILED"))

    async def story(running: Running) -> None:
        await running.until(lambda: len(running.controls()) > 3, "decisions of the lesser source")

    running = read(tmp_path, [lambda: refused, lambda: SimulatedSource("admin_poll")], story)
    assert {one.source for one in running.controls()} == {"admin_poll"}
    assert "controller: CLUSTER_AUTHORIZATION_FAILED; a lesser source is used meanwhile" in running.messages()
    assert refused.was_closed


def test_the_only_place_that_cannot_be_read_ends_it_with_its_reason(tmp_path: Path) -> None:
    source = SimulatedSource("admin_poll", fails_with=ConnectionFailed("nobody there"))

    with pytest.raises(LastackError, match="nobody there"):
        read(tmp_path, [lambda: source], lambda running: running.until(lambda: False, "the end"))


def test_a_position_that_is_no_good_is_said_and_left(tmp_path: Path) -> None:
    PositionFile(tmp_path / "state" / "metadata_fetch.json", "c").save("garbage")

    async def story(running: Running) -> None:
        await running.until(lambda: len(running.controls()) > 3, "decisions")

    running = read(tmp_path, [lambda: SimulatedSource("metadata_fetch")], story)
    assert running.controls()[0].position == "0"
    assert "the position is no good" in running.messages()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9}', '{"format": 1, "cluster_id": "c", "saved": 5}'])
def test_a_position_file_that_cannot_be_used_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)

    assert PositionFile(tmp_path / "x.json", "c").load() is None


def test_a_position_belongs_to_one_cluster(tmp_path: Path) -> None:
    file = PositionFile(tmp_path / "made" / "x.json", "c")
    file.save("17")
    file.save(None)

    assert file.load() == "17"
    assert PositionFile(tmp_path / "made" / "x.json", "another").load() is None


def test_what_can_still_be_undone_says_so_and_a_cut_is_blindness(tmp_path: Path) -> None:
    class CutSource(SimulatedSource):
        async def follow(self, saved: str | None) -> AsyncIterator[Decisions]:
            yield Decisions((Decision(event="broker_fenced", started_at_us=5, ended_at_us=9, position="1"),), is_cut=True)
            async for decided in super().follow(saved):
                yield decided

    async def story(running: Running) -> None:
        await running.until(lambda: len(running.controls()) > 3, "decisions")

    running = read(tmp_path, [lambda: CutSource("metadata_log")], story)
    assert [one.is_provisional for one in running.controls()[:3]] == [False, True, True]
    (blind,) = [one for one in running.records() if isinstance(one, Blind)]
    assert (blind.cause, blind.started_at_us) == ("stopped", 5)
