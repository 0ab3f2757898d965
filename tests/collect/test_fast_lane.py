"""The fast lane says what is down, tells of it in time, and never takes silence for good news."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.collect.fast_lane import RECENT_MAX, Deliver, FastLane, Ticker
from pipelines.collect.firing import Alert, Rules
from pipelines.domain.facts import Stream
from pipelines.domain.health import LiveView
from pipelines.domain.names import outage_id
from pipelines.domain.observations import Blind, Probes
from pipelines.domain.spans import Decided, Line, SpanBuilder
from pipelines.domain.unavailability import Outage, longest_runs, outages
from tests.domain import test_spans as spans

MS = 1000
SECOND = 1_000_000
PERIOD = 100 * MS
LAMBDA = SECOND
TICK = 200 * MS
THRESHOLD = 5 * SECOND
LATENCY = 2 * MS
START = 1_790_000_000_000_000
ENVELOPE = {"system": "kafka", "cluster_id": "c", "collector": "canary", "prober_id": "p", "boot_id": "b", "clock_id": "k"}
IDENTITY = {name: ENVELOPE[name] for name in ("system", "cluster_id", "prober_id", "boot_id")}


class HandClock:
    def __init__(self, now: int = START) -> None:
        self.now = now

    def now_us(self) -> int:
        return self.now


class Prober:
    """Probes a few partitions as the canary does, on a clock that is moved by hand: outcomes come when they are known, lines when they
    are due, ticks every 200 ms. `served` says which partition is served now, by its shard."""

    def __init__(self, folder: Path, shards: int = 1, *, rules: Rules | None = None, deliver: Deliver | None = None) -> None:
        self.clock = HandClock()
        self.told: list[list[Alert]] = []
        self.live = folder / "p.json"
        self.lane = FastLane(
            identity=IDENTITY, clock=self.clock, live=self.live, rules=rules or Rules(), deliver=deliver or self.told.append
        )
        self.shards = [str(number) for number in range(shards)]
        self.down: dict[str, str] = {}
        self.is_probing = True
        self._builders = {shard: self._builder(shard) for shard in self.shards}
        self._decisions: list[tuple[int, str, Decided]] = []
        self._sequence = 0
        self._seq = 0

    def _builder(self, shard: str) -> SpanBuilder:
        return SpanBuilder(resource="t", shard=shard, kind="write", lane="raw", period_us=PERIOD, lambda_us=LAMBDA)

    def run_for(self, seconds: float) -> None:
        """Time passes, in steps of the period; ticks are as many as fit."""
        for _ in range(round(seconds * SECOND / PERIOD)):
            if self.is_probing:
                self._issue()
            self.clock.now += PERIOD
            self._decide()
            if (self.clock.now - START) // PERIOD % 10 == 0:
                for shard, builder in self._builders.items():
                    if self.is_probing and shard in self.down:
                        self._take(builder.flush())
            if (self.clock.now - START) % TICK == 0:
                self.lane.tick()

    def _issue(self) -> None:
        for shard in self.shards:
            issued, how = self.clock.now, self.down.get(shard)
            outcome, code, after = {
                None: ("ACKED", None, LATENCY),
                "hang": ("UNKNOWN", "_MSG_TIMED_OUT", LAMBDA),
                "refuse": ("REJECTED", "NOT_LEADER_OR_FOLLOWER", LATENCY),
                "void": ("VOID", "QUOTA", LATENCY),
            }[how]
            self._decisions.append((issued + after, shard, Decided(self._sequence, issued, issued + after, outcome, code)))
        self._sequence += 1

    def _decide(self) -> None:
        known = [one for one in self._decisions if one[0] <= self.clock.now]
        self._decisions = [one for one in self._decisions if one[0] > self.clock.now]
        for _, shard, probe in sorted(known, key=lambda one: (one[2].sequence, one[1])):
            self._take(self._builders[shard].add(probe))

    def _take(self, lines: list[Line]) -> None:
        for line in lines:
            self.lane.take(Probes(**ENVELOPE, seq=self._seq, **line))
            self._seq += 1

    def grow(self) -> None:
        """Every open run is written again, as long as it is now."""
        for builder in self._builders.values():
            self._take(builder.flush())

    def changes(self) -> list[tuple[str, float]]:
        """State and second of each change of an alert that was told; those that are only repeated are left out."""
        seen: dict[str, str] = {}
        found = []
        for alerts in self.told:
            for alert in alerts:
                if seen.get(alert.alert_id) != alert.state:
                    seen[alert.alert_id] = alert.state
                    found.append((alert.state, alert.alert_id))
        return found

    def view(self) -> dict[str, Any]:
        document = json.loads(self.live.read_text())
        LiveView.parse(document)
        return document


@pytest.mark.parametrize("how", ["hang", "refuse"])
@pytest.mark.parametrize("first_tick", [0, PERIOD])
def test_an_alert_fires_within_lambda_and_a_period_and_a_tick_of_passing_its_threshold(
    tmp_path: Path, how: str, first_tick: int
) -> None:
    prober = Prober(tmp_path)
    prober.run_for(3 + first_tick / SECOND)
    down_at = prober.clock.now
    prober.down["0"] = how
    while not prober.told:
        prober.run_for(0.1)
        assert prober.clock.now - down_at <= THRESHOLD + LAMBDA + PERIOD + TICK
    assert prober.clock.now - down_at >= THRESHOLD
    assert [(one.state, one.stream.shard) for one in prober.told[0]] == [("firing", "0")]


def test_nothing_fires_for_an_outage_below_the_threshold_or_for_a_kind_that_is_not_named(tmp_path: Path) -> None:
    short = Prober(tmp_path)
    short.run_for(1)
    short.down["0"] = "refuse"
    short.run_for(4.5)
    short.down.clear()
    short.run_for(10)
    assert short.told == []
    assert [row["is_alerting"] for row in short.view()["recent"]] == [False]

    unnamed = Prober(tmp_path, rules=Rules(after_seconds={"read": 1.0}))
    unnamed.run_for(1)
    unnamed.down["0"] = "refuse"
    unnamed.run_for(10)
    assert unnamed.told == []


def test_an_alert_is_resolved_when_the_partition_is_served_again_and_says_how_long_it_lasted(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(9)
    prober.down.clear()
    prober.run_for(0.4)
    assert [state for state, _ in prober.changes()] == ["firing", "resolved"]
    resolved = prober.told[-1][0]
    assert resolved.summary == "write of t/0 (raw) is served again after 8.8 to 9.2 s"
    assert resolved.resolved_at_us is not None
    assert resolved.resolved_at_us - resolved.started_at_us <= 9 * SECOND + PERIOD + TICK


def test_a_flap_that_opens_the_same_outage_again_fires_again_under_its_name(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(8)
    prober.down.clear()
    prober.run_for(0.4)
    prober.down["0"] = "refuse"
    prober.run_for(1)
    states, names = zip(*prober.changes(), strict=True)
    assert states == ("firing", "resolved", "firing")
    assert len(set(names)) == 1


def test_every_message_also_repeats_what_is_unresolved(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=2)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(2)
    prober.down["1"] = "refuse"
    prober.run_for(6)
    assert [sorted(one.stream.shard for one in alerts) for alerts in prober.told] == [["0"], ["0", "1"]]


def test_while_the_prober_is_blind_alerts_and_view_say_unmeasured_and_nothing_is_resolved(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=3)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(8)
    assert prober.view()["streams"] == {"up": 2, "down": 1, "unmeasured": 0}

    stalled_at = prober.clock.now
    prober.clock.now += 4 * SECOND
    prober.lane.blind(Blind(**ENVELOPE, seq=10**6, cause="stall", started_at_us=stalled_at, ended_at_us=prober.clock.now))
    prober.lane.tick()
    assert prober.view()["state"] == "blind"
    assert prober.view()["blind_since_us"] == stalled_at
    assert prober.view()["streams"] == {"up": 0, "down": 0, "unmeasured": 3}
    assert [state for state, _ in prober.changes()] == ["firing", "unmeasured"]

    prober.run_for(3)
    assert prober.view()["state"] == "measuring"
    assert [state for state, _ in prober.changes()] == ["firing", "unmeasured", "firing"]


def test_a_prober_whose_loop_hangs_is_blind_and_its_last_view_is_not_repeated_as_the_present(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.lane.beat()
    prober.run_for(0.4)
    assert prober.view()["streams"]["up"] == 1
    hung_at = START
    prober.is_probing = False
    prober.run_for(1.6)
    assert prober.view()["state"] == "blind"
    assert prober.view()["blind_since_us"] == hung_at
    assert prober.view()["streams"] == {"up": 0, "down": 0, "unmeasured": 1}
    prober.lane.beat()
    prober.run_for(0.2)
    assert prober.view()["state"] == "measuring"


def test_stalls_too_short_to_matter_hold_no_alert_back(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    for number in range(12):
        prober.run_for(0.5)
        now = prober.clock.now
        prober.lane.blind(Blind(**ENVELOPE, seq=10**6 + number, cause="stall", started_at_us=now - 60 * MS, ended_at_us=now))
    assert [state for state, _ in prober.changes()] == ["firing"]
    assert prober.view()["state"] == "measuring"


def test_a_stream_with_nothing_but_void_probes_is_unmeasured_and_so_is_its_alert(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=2)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(7)
    prober.down["0"] = "void"
    prober.run_for(1)
    assert [state for state, _ in prober.changes()] == ["firing"]
    assert prober.view()["streams"] == {"up": 1, "down": 0, "unmeasured": 1}
    prober.run_for(30)
    assert [state for state, _ in prober.changes()] == ["firing", "unmeasured"]
    prober.down.clear()
    prober.run_for(2)
    assert [state for state, _ in prober.changes()] == ["firing", "unmeasured", "resolved"]


def test_void_probes_never_pass_a_threshold(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(3)
    prober.down["0"] = "void"
    prober.run_for(20)
    assert prober.told == []


def test_a_stopped_prober_says_that_it_knows_nothing_any_more(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=2)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(7)
    prober.lane.stop()
    assert prober.view()["state"] == "stopped"
    assert prober.view()["streams"] == {"up": 0, "down": 0, "unmeasured": 2}
    assert [state for state, _ in prober.changes()] == ["firing", "unmeasured"]


@pytest.mark.parametrize("is_stopped_in_order", [True, False])
def test_an_alert_outlives_the_prober_that_raised_it_and_is_resolved_by_the_next(tmp_path: Path, is_stopped_in_order: bool) -> None:
    first = Prober(tmp_path)
    first.run_for(1)
    first.down["0"] = "refuse"
    first.run_for(7)
    if is_stopped_in_order:
        first.lane.stop()
    fired = first.told[0][0].alert_id

    second = Prober(tmp_path)
    second.lane.adopt()
    second.clock.now = first.clock.now // SECOND * SECOND
    second.is_probing = False
    second.run_for(1)
    assert [(one["alert_id"], one["state"]) for one in second.view()["alerts"]] == [(fired, "unmeasured")]
    second.is_probing = True
    second.down["0"] = "refuse"
    second.run_for(8)
    assert [(one["alert_id"], one["state"]) for one in second.view()["alerts"]] == [(fired, "firing")]
    second.down.clear()
    second.run_for(2)
    assert [(one["alert_id"], one["state"]) for one in second.view()["alerts"]] == [(fired, "resolved")]


def test_a_live_file_of_another_cluster_or_one_that_is_damaged_is_not_adopted(tmp_path: Path) -> None:
    for content in (
        "{",
        "[]",
        '{"cluster_id":"c"}',
        '{"cluster_id":"other","alerts":[{"state":"firing"}]}',
        '{"cluster_id":"c","alerts":[7]}',
    ):
        prober = Prober(tmp_path)
        prober.live.write_text(content)
        prober.lane.adopt()
        prober.run_for(1)
        assert prober.view()["alerts"] == []


@settings(max_examples=60, deadline=None)
@given(probes=spans.histories(), flush_after=st.frozensets(st.integers(0, 60)))
def test_the_live_windows_are_those_of_the_record(
    tmp_path_factory: pytest.TempPathFactory, probes: list[Decided], flush_after: frozenset[int]
) -> None:
    lines = spans.written(probes, flush_after)
    records = [Probes(**spans.ENVELOPE, seq=seq, **line) for seq, line in enumerate(lines)]
    live = tmp_path_factory.mktemp("live") / "p.json"
    identity = {"system": "kafka", "cluster_id": "c", "prober_id": "p", "boot_id": "b"}
    lane = FastLane(identity=identity, clock=HandClock(), live=live, rules=Rules(), deliver=lambda _: None)
    for record in records:
        lane.take(record)
    lane.tick()
    document = json.loads(live.read_text())
    LiveView.parse(document)
    seen = sorted(document["open"] + document["recent"], key=lambda row: row["started_at_max_us"])
    expected = list(outages(longest_runs(records)))
    assert [shown(row) for row in seen] == [told(outage) for outage in expected]


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("outage_id", "started_at_min_us", "started_at_max_us", "ended_at_min_us", "ended_at_max_us", "rto_ms_min", "rto_ms_max")
    return tuple(row[name] for name in names)


def told(outage: Outage) -> tuple[Any, ...]:
    return (
        outage_id("c", Stream("t", "0", "write", "raw", "p"), outage),
        outage.start.low,
        outage.start.high,
        None if outage.is_open else outage.end.low,
        outage.end.high,
        (outage.rto.low or 0) / 1000,
        None if outage.rto.high is None else outage.rto.high / 1000,
    )


def test_an_outage_is_listed_once_however_often_the_run_behind_it_grows(tmp_path: Path) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(7)
    prober.down.clear()
    for _ in range(8):
        prober.run_for(1)
        prober.grow()
    rows = prober.view()["recent"]
    assert [(row["rto_ms_min"], row["is_alerting"]) for row in rows] == [(6898.0, False)]
    assert prober.view()["open"] == []


def test_the_view_keeps_the_last_outages_and_every_unresolved_alert_however_long_it_lives(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=2, rules=Rules(after_seconds={"write": 0.5}))
    prober.run_for(1)
    prober.down["1"] = "refuse"
    for _ in range(RECENT_MAX + 5):
        prober.down["0"] = "refuse"
        prober.run_for(3)
        prober.down.pop("0")
        prober.run_for(3)
        prober.grow()
    view = prober.view()
    assert len(view["recent"]) == RECENT_MAX
    assert len(view["alerts"]) == RECENT_MAX
    assert [(one["shard"], one["state"]) for one in view["alerts"] if one["state"] != "resolved"] == [("1", "firing")]


def test_a_reader_finds_the_live_file_whole_at_every_moment(tmp_path: Path) -> None:
    prober = Prober(tmp_path, shards=40)
    prober.run_for(0.2)
    is_over = threading.Event()
    broken: list[str] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        while not is_over.is_set():
            text = prober.live.read_text()
            reads += 1
            try:
                LiveView.parse(json.loads(text))
            except (ValueError, KeyError, TypeError) as error:
                broken.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        prober.down = {str(shard): "refuse" for shard in range(number % 40)}
        prober.run_for(0.2)
    is_over.set()
    reader.join()
    assert broken == []
    assert reads > 0
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_alerts_go_out_although_the_disk_does_not_take_the_view(tmp_path: Path) -> None:
    prober = Prober(tmp_path / "gone")
    prober.run_for(1)
    prober.down["0"] = "refuse"
    prober.run_for(7)
    assert [state for state, _ in prober.changes()] == ["firing"]


def test_the_prober_never_waits_for_the_disk_that_holds_the_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prober = Prober(tmp_path)
    prober.run_for(1)
    is_writing, may_go_on = threading.Event(), threading.Event()
    write = Path.write_text

    def slow(path: Path, *args: Any, **kwargs: Any) -> int:
        is_writing.set()
        assert may_go_on.wait(30)
        return write(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", slow)
    prober.clock.now += SECOND
    ticker = threading.Thread(target=prober.lane.tick)
    ticker.start()
    assert is_writing.wait(30)
    prober.grow()
    may_go_on.set()
    ticker.join()


def test_a_fast_lane_that_fails_ends_its_process_and_says_why(tmp_path: Path) -> None:
    asked = threading.Event()
    earlier = signal.signal(signal.SIGTERM, lambda *_: asked.set())

    def fail(_: list[Alert]) -> None:
        raise RuntimeError("a bug")

    prober = Prober(tmp_path, rules=Rules(after_seconds={"write": 0.1}), deliver=fail)
    prober.down["0"] = "refuse"
    prober.run_for(0.1)
    prober.clock.now += SECOND
    try:
        with pytest.raises(RuntimeError, match="a bug"), Ticker(prober.lane, every_seconds=0.01):
            assert asked.wait(30)
    finally:
        signal.signal(signal.SIGTERM, earlier)


def test_a_ticker_writes_the_view_makes_its_folder_and_leaves_it_stopped(tmp_path: Path) -> None:
    live = tmp_path / "live" / "p.json"
    lane = FastLane(identity=IDENTITY, clock=HandClock(), live=live, rules=Rules(), deliver=lambda _: None)
    with Ticker(lane, every_seconds=0.01):
        pass
    assert json.loads(live.read_text())["state"] == "stopped"
