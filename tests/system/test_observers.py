"""The watch and the control plane see what happens to a real cluster of 1,000 partitions: nothing missed, nothing invented.

One history for all tests: broker 2 is paused until it is out of every ISR, 100 records are acknowledged by broker 1 alone, broker 1 is
killed with -9 and broker 2 goes on: it leads a partition whose last 100 committed records it does not have.
"""

import contextlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.batches import read
from pipelines.brokers.kafka.check import check, check_controllers
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.connection import Connection
from pipelines.collect.config import CollectorConfig
from pipelines.collect.control_plane import ControlPlaneConfig
from pipelines.collect.watch import WatchConfig
from pipelines.domain.landing import decode
from pipelines.domain.observations import Control, EpochEnd, LeaderSeen, Observation, Probes, Status
from pipelines.domain.unavailability import longest_runs
from pipelines.errors import ConnectionFailed, Unauthorised
from pipelines.lab import Fault, Lab, LabSpec, Login
from pipelines.processes import Child, spawn, wait_until
from tests.brokers.kafka_logs import definitions
from tests.brokers.test_replay import assert_says, decoded

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

TOPICS, PARTITIONS_EACH = 100, 10
LOST = Shard("unclean", "0")
KEPT, GONE = 50, 100
SECOND_US = 1_000_000
DUMPED = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?(?:payload|LeaderChange): (\{.*\})$")


@dataclass
class History:
    """What was done, and what each observer wrote down of it."""

    records: dict[str, list[Observation]] = field(default_factory=dict)
    paused: Fault | None = None
    killed: Fault | None = None
    sent_at_us: tuple[int, int] = (0, 0)
    exit_codes: dict[str, int] = field(default_factory=dict)
    watch_cpu_share: float = 0.0
    dump: list[tuple[int, int, dict[str, object]]] = field(default_factory=list)
    segment: bytes = b""
    checks: dict[str, str] = field(default_factory=dict)


class Observers:
    """The collectors, each a process of its own, as they run in production."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: dict[str, Child] = {}

    def start(self, name: str, collector: str, config: CollectorConfig) -> None:
        path = self.folder / f"{name}.json"
        path.write_text(config.to_json())
        command = [sys.executable, "-m", "pipelines", "collect", collector, str(path)]
        self.children[name] = spawn(name, command, self.folder / f"{name}.log")

    def records(self, name: str) -> list[Observation]:
        files = sorted((self.folder / f"landing-{name}").glob("*.jsonl"))
        return [decode(line) for one in files for line in one.read_text().splitlines()]

    def watch_everything(self) -> bool:
        watched = {(one.resource, one.shard) for one in self.records("watch") if isinstance(one, Probes)}
        return len(watched) > TOPICS * PARTITIONS_EACH

    def gave_a_verdict(self) -> bool:
        return any(isinstance(one, EpochEnd) and one.resource == LOST.resource for one in self.records("watch"))

    def last_position(self, name: str) -> int:
        return max((int(one.position or 0) for one in self.records(name) if isinstance(one, Control)), default=-1)

    def states(self) -> dict[Shard, tuple[str | None, tuple[str, ...]]]:
        """Leader and ISR of every partition of which something was decided. Clients that ask a broker that hangs would hang, too."""
        told = [one for one in self.records("log") if isinstance(one, Control) and one.resource and one.shard]
        return {Shard(one.resource or "", one.shard or ""): (one.leader, one.isr or ()) for one in told}

    def close(self) -> None:
        for child in self.children.values():
            child.stop()

    def saw(self, high_watermark: int) -> bool:
        runs = [one for one in self.records("watch") if isinstance(one, Probes) and one.resource == LOST.resource]
        return any(one.last_position == str(high_watermark) for one in runs)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    spec = LabSpec(login=Login.new("SCRAM-SHA-512"), properties={"unclean.leader.election.interval.ms": "2000"})
    with Lab(spec, say=lambda _: None) as lab, contextlib.closing(Observers(tmp_path_factory.mktemp("observers"))) as observers:
        yield told(lab, observers)


def told(lab: Lab, observers: Observers) -> History:
    made = History()
    for number in range(TOPICS):
        lab.admin.create_topic(f"u{number:03d}", partitions=PARTITIONS_EACH, replicas=3)
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    lab.admin.create_assigned_topic(LOST.resource, [[1, 2]], settings)
    lab.wait_until_in_sync(120)
    start_all(lab, observers)
    wait_until(observers.watch_everything, 30, "the first round of the watch")
    produce(lab, KEPT)
    wait_until(lambda: observers.saw(KEPT), 30, "the watch to see what is kept")
    made.watch_cpu_share = cpu_share(observers.children["watch"].pid)

    made.paused = lab.pause(lab.node(2))
    wait_until(lambda: observers.states().get(LOST) == ("1", ("1",)), 60, "broker 2 to be out of the ISR")
    # The next run of this collector must go on where this one had got to.
    observers.children.pop("fetch").kill()
    before_us = lab.anchor.now_us()
    produce(lab, GONE)
    made.sent_at_us = (before_us, lab.anchor.now_us())
    wait_until(lambda: observers.saw(KEPT + GONE), 30, "the watch to see what will be lost")
    made.killed = lab.kill(lab.node(1))
    lab.resume(lab.node(2))
    wait_until(lambda: observers.states()[LOST][0] == "2", 60, "the unclean election")
    lab.start(lab.node(1))
    lab.wait_until_in_sync(90)
    observers.start("fetch", "control-plane", fetching(lab, observers.folder))
    last = observers.last_position("log")
    wait_until(observers.gave_a_verdict, 30, "the watch's verdict")
    wait_until(lambda: observers.last_position("fetch") >= last, 30, "the reader from afar to catch up")
    made.exit_codes = {name: child.stop() for name, child in observers.children.items()}
    made.records = {name: observers.records(name) for name in ("watch", "fetch", "log", "poll")}
    made.segment = (lab.node(3).metadata_log_dir / "00000000000000000000.log").read_bytes()
    made.dump = dumped(lab, made.segment, observers.folder)
    made.checks = checked(lab, observers.folder)
    return made


def start_all(lab: Lab, observers: Observers) -> None:
    folder = observers.folder
    common = {
        "system": "kafka",
        "cluster_id": lab.cluster_id,
        "anchor": lab.anchor.text(),
        "bootstrap": lab.bootstrap,
        "spool_reserve_bytes": 0,
    }
    watch = WatchConfig(
        **{**common, "bootstrap": lab.secure_bootstrap},
        prober_id="watch",
        spool=str(folder / "landing-watch"),
        command_config=str(lab.client_properties),
        flush_seconds=2.0,
    )
    log = ControlPlaneConfig(
        **common,
        prober_id="log",
        spool=str(folder / "landing-log"),
        state_folder=str(folder / "state-log"),
        metrics=tuple(lab.jolokia_urls),
        settings=(f"metadata_log={lab.node(3).metadata_log_dir}",),
    )
    poll = ControlPlaneConfig(**common, prober_id="poll", spool=str(folder / "landing-poll"), state_folder=str(folder / "state-poll"))
    observers.start("watch", "watch", watch)
    observers.start("fetch", "control-plane", fetching(lab, folder))
    observers.start("log", "control-plane", log)
    observers.start("poll", "control-plane", poll)


def fetching(lab: Lab, folder: Path) -> ControlPlaneConfig:
    # One address is enough: the log itself says where the other controllers are.
    return ControlPlaneConfig(
        system="kafka",
        cluster_id=lab.cluster_id,
        anchor=lab.anchor.text(),
        bootstrap=lab.bootstrap,
        spool_reserve_bytes=0,
        prober_id="fetch",
        spool=str(folder / "landing-fetch"),
        state_folder=str(folder / "state-fetch"),
        settings=(f"controllers={lab.controllers[2]}",),
        keep_seconds=1.0,
    )


def produce(lab: Lab, count: int) -> None:
    producer = Producer({**lab.librdkafka, "acks": "all"})
    for number in range(count):
        producer.produce(LOST.resource, str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def cpu_share(pid: int) -> float:
    """The part of one core that the process used over some seconds; psutil waits for them."""
    return float(psutil.Process(pid).cpu_percent(5.0)) / 100


def dumped(lab: Lab, segment: bytes, folder: Path) -> list[tuple[int, int, dict[str, object]]]:
    """What Kafka's own tool reads in the segment: offset, timestamp in ms, fields."""
    path = folder / "00000000000000000000.log"
    path.write_bytes(segment)
    tool = lab.run_tool(
        "org.apache.kafka.tools.DumpLogSegments", ["--cluster-metadata-decoder", "--files", str(path)], folder / "dump.txt"
    )
    assert tool.wait(60) == 0, tool.log_tail()
    found = []
    for line in (folder / "dump.txt").read_text().splitlines():
        match = DUMPED.match(line)
        if match is not None:
            body = json.loads(match[3])
            found.append((int(match[1]), int(match[2]), body.get("data", body)))
    return found


def checked(lab: Lab, folder: Path) -> dict[str, str]:
    """What the first contact says of ways in that are right, and of such that are not."""
    properties = lab.client_properties.read_text()
    password = lab.spec.login.password if lab.spec.login else ""
    said = {"right": check(load(lab.secure_bootstrap, lab.client_properties)).cluster_id}
    wrong = {
        "password": (lab.secure_bootstrap, properties.replace(password, "wrong"), Unauthorised),
        "authority": (lab.secure_bootstrap, re.sub(r"(?m)^ssl\.truststore.*\n", "", properties), Unauthorised),
        "no tls": (lab.secure_bootstrap, "", ConnectionFailed),
        "tls where there is none": (lab.bootstrap, properties, ConnectionFailed),
        "controller": (lab.controllers[0], "", ConnectionFailed),
    }
    for name, (bootstrap, text, kind) in wrong.items():
        path = folder / "wrong.properties"
        path.write_text(text)
        with pytest.raises(kind) as caught:
            check(load(bootstrap, path))
        said[name] = str(caught.value)
        assert password not in said[name]
    assert check(Connection.plain(lab.bootstrap)).unreachable == {}
    check_controllers(Connection.plain(",".join(lab.controllers)))
    with pytest.raises(ConnectionFailed) as caught:
        check_controllers(Connection.plain(lab.bootstrap))
    said["no controller"] = str(caught.value)
    return said


def runs_of(history: History) -> dict[Shard, list[Probes]]:
    found: dict[Shard, list[Probes]] = {}
    for one in history.records["watch"]:
        if isinstance(one, Probes):
            found.setdefault(Shard(one.resource, one.shard), []).append(one)
    return {shard: longest_runs(runs) for shard, runs in found.items()}


def led_by_the_killed(history: History) -> set[Shard]:
    """The partitions that broker 1 led when it was killed, by the controller's own record, and had led for a while."""
    assert history.killed is not None
    killed_us = history.killed.before_at_us
    led: dict[Shard, tuple[str | None, int]] = {}
    for one in decisions(history, "log").values():
        if one.resource is not None and one.shard is not None and one.ended_at_us < killed_us:
            shard = Shard(one.resource, one.shard)
            if one.leader != one.previous_leader:
                led[shard] = (one.leader, one.ended_at_us)
            led.setdefault(shard, (one.leader, 0))
    return {shard for shard, (leader, since_us) in led.items() if leader == "1" and since_us < killed_us - 3 * SECOND_US}


def decisions(history: History, name: str) -> dict[tuple[object, ...], Control]:
    return {
        (one.position, one.event, one.broker, one.resource, one.shard): one for one in history.records[name] if isinstance(one, Control)
    }


# --- the watch ------------------------------------------------------------------------------------------------------------


def test_every_partition_of_every_topic_is_watched_without_a_gap(history: History) -> None:
    runs = runs_of(history)

    assert len(runs) == TOPICS * PARTITIONS_EACH + 1
    for of_shard in runs.values():
        assert all(after.first_sequence == before.last_sequence + 1 for before, after in pairwise(of_shard))
    assert history.watch_cpu_share < 0.3, "a thousand partitions cost some 4 % of a core"


def test_committed_records_that_were_lost_are_counted_and_others_are_not_invented(history: History) -> None:
    ends = [one for one in history.records["watch"] if isinstance(one, EpochEnd)]
    (lost,) = [one for one in ends if one.lost_records]

    assert Shard(lost.resource, lost.shard) == LOST
    assert (lost.high_watermark_max, lost.end_position, lost.lost_records) == (str(KEPT + GONE), str(KEPT), GONE)
    assert lost.leader == "2"
    assert lost.lost_started_at_us is not None
    assert lost.lost_ended_at_us is not None
    first, last = history.sent_at_us
    assert lost.lost_started_at_us <= first < last
    assert first < lost.lost_ended_at_us < lost.started_at_us
    assert led_by_the_killed(history) <= {Shard(one.resource, one.shard) for one in ends}


def test_a_dead_leader_is_seen_within_a_period_and_its_successor_after_clients_were_told(history: History) -> None:
    assert history.killed is not None
    killed_us = history.killed.after_at_us
    runs = runs_of(history)
    later = [one for one in history.records["watch"] if isinstance(one, LeaderSeen) and one.ended_at_us > killed_us]
    seen = {(one.resource, one.shard): one for one in reversed(later)}
    moved = led_by_the_killed(history)
    assert len(moved) > TOPICS
    for shard in moved:
        bad = next(one for one in runs[shard] if one.outcome != "ACKED" and one.started_at_us > killed_us)
        assert (bad.leader, bad.is_answered) == ("1", False)
        assert bad.started_at_us - killed_us <= 1_000_000
        told_of = seen[shard.resource, shard.shard]
        assert told_of.previous_leader == "1"
        good = next(one for one in runs[shard] if one.outcome == "ACKED" and one.started_at_us > bad.started_at_us)
        assert good.leader != "1"
        assert good.ended_at_us > told_of.started_at_us > killed_us


def test_a_broker_that_hangs_spoils_no_answer_of_another(history: History) -> None:
    assert history.paused is not None
    assert history.killed is not None
    paused_us, killed_us = history.paused.after_at_us, history.killed.before_at_us
    spoiled = Counter(
        (one.outcome, one.code, one.leader)
        for runs in runs_of(history).values()
        for one in runs
        if paused_us < one.started_at_us < killed_us and one.leader == "3" and one.outcome not in ("ACKED", "VOID")
    )
    # Partitions that come to 3 from 2 are asked of 3 as soon as clients are told, a moment before 3 itself knows.
    assert {code for _, code, _ in spoiled} <= {"UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER", "OFFSET_NOT_AVAILABLE"}


# --- the control plane ----------------------------------------------------------------------------------------------------


def test_what_is_read_from_afar_and_from_a_node_s_folder_is_the_same(history: History) -> None:
    from_afar, from_folder = decisions(history, "fetch"), decisions(history, "log")

    assert {one.source for one in from_afar.values()} == {"metadata_fetch"}
    assert {one.source for one in from_folder.values()} == {"metadata_log"}
    assert len(from_folder) > TOPICS * PARTITIONS_EACH
    # Also what was decided while the reader from afar was dead.
    assert from_folder.keys() <= from_afar.keys()
    for key, one in from_folder.items():
        other = from_afar[key]
        for name in ("started_at_us", "ended_at_us", "leader", "previous_leader", "term", "isr", "previous_isr", "is_unclean"):
            assert getattr(one, name) == getattr(other, name), (key, name)
        assert not one.is_provisional
        assert one.ended_at_us - one.started_at_us == 999 or one.event == "controller_silent"


def test_the_unclean_election_and_the_fences_are_recorded_with_the_controller_s_time(history: History) -> None:
    assert history.paused is not None
    assert history.killed is not None
    told = list(decisions(history, "log").values())
    (unclean,) = [one for one in told if one.is_unclean]

    assert (unclean.resource, unclean.previous_leader, unclean.leader) == (LOST.resource, "1", "2")
    assert unclean.started_at_us > history.killed.before_at_us
    fence = next(one for one in told if one.event == "broker_fenced" and one.broker == "2")
    assert 5_000_000 < fence.started_at_us - history.paused.after_at_us < 25_000_000
    assert any(one.event == "broker_registered" and one.broker == "1" for one in told)


def test_polling_ends_in_the_same_state_and_its_bounds_hold(history: History) -> None:
    exact, polled = decisions(history, "log").values(), [one for one in history.records["poll"] if isinstance(one, Control)]

    assert {one.source for one in polled} == {"admin_poll"}
    for shard in [LOST, Shard("u000", "0"), Shard("u099", "9")]:
        of_exact = [one for one in exact if (one.resource, one.shard) == shard]
        # A topic that was made just before may be news to a broker that lags; to the log it is state.
        of_polled = [one for one in polled if (one.resource, one.shard) == shard and one.event == "partition_changed"]
        assert state(of_polled[-1]) == state(of_exact[-1])
        for one in of_polled:
            causes = [two for two in of_exact if state(two) == state(one)]
            assert any(one.started_at_us <= two.ended_at_us and two.started_at_us <= one.ended_at_us for two in causes), (one, causes)
            assert one.eligible_replicas is None


def state(one: Control) -> tuple[object, ...]:
    return one.leader, one.term, sorted(one.isr or ())


def test_every_record_is_decoded_as_kafka_s_own_tool_decodes_it(history: History) -> None:
    known = definitions()
    dump = {offset: (timestamp_ms, fields) for offset, timestamp_ms, fields in history.dump}
    batches, _ = read(history.segment)
    assert len(dump) > TOPICS * PARTITIONS_EACH
    for one in batches:
        for index, (_, value) in enumerate(one.records):
            timestamp_ms, fields = dump.pop(one.base_offset + index)
            assert timestamp_ms == one.timestamp_ms
            assert_says(decoded(known, one.is_control, value or b""), fields)
    assert dump == {}


# --- both -----------------------------------------------------------------------------------------------------------------


def test_every_observer_stops_cleanly_and_says_so(history: History) -> None:
    assert history.exit_codes == dict.fromkeys(("watch", "fetch", "log", "poll"), 0)
    for records in history.records.values():
        last = max((one for one in records if isinstance(one, Status)), key=lambda one: (one.ended_at_us, one.seq))
        assert last.state == "stopped"


def test_the_first_contact_says_what_is_wrong_in_one_line(history: History) -> None:
    said = history.checks

    assert "refuses user" in said["password"]
    assert "its certificate is refused" in said["authority"]
    assert "speaks TLS; set security.protocol" in said["no tls"]
    assert "is security.protocol right" in said["tls where there is none"]
    assert "give it as --controller" in said["controller"]
    assert "a broker's listener, not a controller's" in said["no controller"]
    assert not any("\n" in line for line in said.values())
