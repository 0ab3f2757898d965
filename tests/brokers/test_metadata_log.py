"""A node's own metadata log is followed through torn batches, new segments, truncation and deletion."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.brokers.base import Decision, Decisions
from pipelines.brokers.kafka.batches import DamagedLog, read
from pipelines.brokers.kafka.definitions import Definitions
from pipelines.brokers.kafka.metadata_log import MetadataLog, folder_of
from pipelines.errors import UsageError
from tests.brokers.kafka_logs import GOLDEN, batch_bytes, definitions, golden_folder
from tests.brokers.test_replay import NOW, TOPIC, change, no_op, partition, record

LIMIT_SECONDS = 10.0
FIRST = "00000000000000000000.log"


@pytest.fixture(scope="module")
def defined() -> Definitions:
    return definitions()


class Reader:
    """Follows a log in a task of its own and collects what it gives."""

    def __init__(self, log: MetadataLog, saved: str | None = None) -> None:
        self.log = log
        self.got: list[Decisions] = []
        self._task = asyncio.create_task(self._read(saved))

    @property
    def decisions(self) -> list[Decision]:
        return [one for each in self.got for one in each.decisions]

    @property
    def positions(self) -> list[str | None]:
        return [one.position for one in self.decisions]

    async def _read(self, saved: str | None) -> None:
        async for decided in self.log.follow(saved):
            self.got.append(decided)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                assert not self._task.done(), self._task.exception()
                await asyncio.sleep(0.005)
        assert condition(), what

    async def stop(self) -> str | None:
        saved = self.log.saved()
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.log.close()
        return saved


def follow(log: MetadataLog, saved: str | None = None) -> Reader:
    return Reader(log, saved)


def first_batch(defined: Definitions) -> bytes:
    return batch_bytes(
        0,
        NOW,
        [
            record(defined, "TopicRecord", 0, name="orders", topic_id=TOPIC),
            partition(defined, leader=2, leader_epoch=4, isr=[2, 3, 1], replicas=[2, 3, 1]),
        ],
    )


def folder_with(tmp_path: Path, data: bytes) -> Path:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / FIRST).write_bytes(data)
    return folder


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_whole_batches_are_read_and_a_torn_one_is_left(defined: Definitions) -> None:
    data = first_batch(defined) + batch_bytes(2, NOW, [change(defined, leader=3)])
    whole, used = read(data)
    assert (len(whole), used) == (2, len(data))
    for cut in range(len(data)):
        batches, used = read(data[:cut])
        assert used == sum(one.size for one in batches)
        assert len(batches) == (1 if cut >= whole[0].size else 0)


def test_a_damaged_batch_at_the_end_is_not_there_yet_and_one_in_the_middle_is_an_error(defined: Definitions) -> None:
    first, second = first_batch(defined), batch_bytes(2, NOW, [change(defined, leader=3)])
    broken = second[:-3] + b"\0\0\0"

    assert len(read(first + broken)[0]) == 1
    with pytest.raises(DamagedLog, match="offset 2"):
        read(first + broken + second)
    assert read(b"\0" * 4096) == ([], 0)


def test_a_folder_without_a_log_is_said_at_once(tmp_path: Path, defined: Definitions) -> None:
    with pytest.raises(UsageError, match=r"--metadata-log .*no __cluster_metadata-0 in it"):
        MetadataLog(tmp_path, defined)
    folder = golden_folder("snapshots", tmp_path)
    assert folder_of(tmp_path) == folder_of(folder) == folder


def test_a_recorded_log_with_snapshot_and_rotation_ends_where_kafka_had_it(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = golden_folder("snapshots", tmp_path)
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01, from_begin=True))
        await reader.until(lambda: "88" in reader.positions, "the last partition that was created")
        # The snapshot at 68 is state; what follows it is read from the first segment, and then from the second.
        assert reader.positions[0] == "70"
        assert {one.resource for one in reader.decisions} == {"t3", "t5", "later"}
        assert all(one.is_provisional for one in reader.got if one.decisions)
        await reader.stop()

    asyncio.run(story())


def test_a_torn_batch_is_read_when_it_is_whole(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        path = folder_with(tmp_path, first_batch(defined)) / FIRST
        reader = follow(MetadataLog(tmp_path, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        more = batch_bytes(2, NOW + 1, [change(defined, leader=3)])
        append(path, more[:40])
        await reader.until(lambda: len(reader.got) > 1, "another sign of life")
        assert reader.decisions == []
        append(path, more[40:])
        await reader.until(lambda: reader.positions == ["2"], "the batch")
        await reader.stop()

    asyncio.run(story())


def test_a_new_segment_is_gone_on_with(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = folder_with(tmp_path, first_batch(defined))
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        append(folder / FIRST, batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        (folder / "00000000000000000003.log").write_bytes(batch_bytes(3, NOW + 2, [change(defined, leader=1)]))
        await reader.until(lambda: reader.positions == ["2", "3"], "both batches")
        (folder / FIRST).unlink()
        append(folder / "00000000000000000003.log", batch_bytes(4, NOW + 3, [change(defined, leader=2)]))
        await reader.until(lambda: reader.positions == ["2", "3", "4"], "the batch after the first segment was deleted")
        await reader.stop()

    asyncio.run(story())


def test_a_truncated_log_is_read_again_and_only_what_is_new_is_told(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = folder_with(tmp_path, first_batch(defined))
        path = folder / FIRST
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        kept = batch_bytes(2, NOW + 1, [change(defined, leader=3)])
        append(path, kept + batch_bytes(3, NOW + 2, [change(defined, leader=1)]))
        await reader.until(lambda: reader.positions == ["2", "3"], "what will be undone")
        replaced = batch_bytes(3, NOW + 5, [no_op(), change(defined, isr=[3])], epoch=2)
        path.write_bytes(first_batch(defined) + kept + replaced)
        await reader.until(lambda: reader.positions == ["2", "3", "4"], "what took its place")
        last = reader.decisions[-1]
        assert (last.leader, last.term, last.previous_isr) == ("3", 5, ("2", "3", "1"))
        await reader.stop()

    asyncio.run(story())


def test_a_deleted_stretch_is_told_by_the_snapshot_with_wide_bounds(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        early = tmp_path / "early"
        early.mkdir()
        folder = golden_folder("snapshots", early)
        (folder / "00000000000000000068-0000000001.checkpoint").unlink()
        (folder / "00000000000000000081.log").unlink()
        cut = (folder / FIRST).read_bytes()
        batches, _ = read(cut)
        (folder / FIRST).write_bytes(cut[: sum(one.size for one in batches if one.next_offset <= 40)])
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        saved = await reader.stop()

        late = tmp_path / "late"
        late.mkdir()
        folder = golden_folder("snapshots", late)
        (folder / FIRST).unlink()
        append(folder / "00000000000000000068.log", b"")
        again = follow(MetadataLog(folder, defined, poll_seconds=0.01), saved)
        await again.until(lambda: any(one.is_cut for one in again.got), "the cut")
        (cut_one,) = [one for one in again.got if one.is_cut]
        assert {one.position for one in cut_one.decisions} == {"67"}
        assert {one.resource for one in cut_one.decisions} >= {"t4"}
        await again.stop()

    asyncio.run(story())


def test_a_restart_goes_on_where_it_was_saved(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = folder_with(tmp_path, first_batch(defined) + batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        saved = await reader.stop()
        append(folder / FIRST, batch_bytes(3, NOW + 2, [change(defined, leader=1)]))
        again = follow(MetadataLog(folder, defined, poll_seconds=0.01), saved)
        await again.until(lambda: again.positions == ["3"], "what was decided while nobody read")
        assert (again.decisions[0].previous_leader, again.decisions[0].term) == ("3", 6)
        await again.stop()

    asyncio.run(story())


def test_a_restart_after_a_truncation_does_not_go_on_in_another_history(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = folder_with(tmp_path, first_batch(defined) + batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        saved = await reader.stop()
        other = batch_bytes(2, NOW + 9, [change(defined, isr=[2])], epoch=2) + batch_bytes(
            3, NOW + 9, [change(defined, leader=1)], epoch=2
        )
        (folder / FIRST).write_bytes(first_batch(defined) + other)
        again = follow(MetadataLog(folder, defined, poll_seconds=0.01), saved)
        await again.until(lambda: "3" in again.positions, "the other history")
        assert again.decisions[-1].term == 5
        await again.stop()

    asyncio.run(story())


class Mark:
    """A high watermark that the test moves."""

    def __init__(self) -> None:
        self.value: int | None = 0
        self.is_stopped = False

    def known(self) -> int | None:
        return self.value

    def stop(self) -> None:
        self.is_stopped = True


def test_with_a_high_watermark_nothing_goes_out_before_it_is_committed(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        mark = Mark()
        folder = folder_with(tmp_path, first_batch(defined) + batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        reader = follow(MetadataLog(folder, defined, mark, poll_seconds=0.01, from_begin=True))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        assert reader.decisions == []
        mark.value = 2
        await reader.until(lambda: reader.positions == ["1"], "what is committed")
        mark.value = 3
        await reader.until(lambda: reader.positions == ["1", "2"], "the rest")
        assert not any(one.is_provisional for one in reader.got)
        await reader.stop()
        assert mark.is_stopped

    asyncio.run(story())


@pytest.mark.parametrize(("known", "news"), [(None, ["3"]), (2, ["2", "3"]), (3, ["3"])])
def test_what_is_there_before_anybody_said_how_far_it_is_committed_is_state(
    tmp_path: Path, defined: Definitions, known: int | None, news: list[str]
) -> None:
    async def story() -> None:
        mark = Mark()
        mark.value = known
        folder = folder_with(tmp_path, first_batch(defined) + batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        reader = follow(MetadataLog(folder, defined, mark, poll_seconds=0.01))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        append(folder / FIRST, batch_bytes(3, NOW + 2, [change(defined, leader=1)]))
        mark.value = 4
        await reader.until(lambda: "3" in reader.positions, "what was decided after")
        assert reader.positions == news
        await reader.stop()

    asyncio.run(story())


def test_a_folder_that_vanishes_is_trouble_and_no_crash(tmp_path: Path, defined: Definitions) -> None:
    async def story() -> None:
        folder = folder_with(tmp_path, first_batch(defined))
        reader = follow(MetadataLog(folder, defined, poll_seconds=0.01, from_begin=True))
        await reader.until(lambda: bool(reader.got), "the first sign of life")
        folder.rename(tmp_path / "gone")
        await reader.until(lambda: reader.got[-1].trouble is not None, "the trouble")
        (tmp_path / "gone").rename(folder)
        append(folder / FIRST, batch_bytes(2, NOW + 1, [change(defined, leader=3)]))
        await reader.until(lambda: "2" in reader.positions, "its return")
        await reader.stop()

    asyncio.run(story())


def test_the_recordings_are_small() -> None:
    assert sum(one.stat().st_size for one in GOLDEN.rglob("*") if one.is_file()) < 100_000
