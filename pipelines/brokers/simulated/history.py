"""A whole history: what collectors wrote of a simulated cluster, and what was true.

The rule: one seed, one history. `simulate` draws a scenario (or takes one), plays it, lets every observer look, and writes their
observations as the real collectors would, each in the order of its own writing. `History.truth` holds what no collector can know.

Example: `simulate(7).observations` fed through `Facts.of` and `derive` gives windows; `judge` says whether the truth of seed 7 lies
within them.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pipelines.brokers.simulated.cluster import CANARY, WATCH, Cluster, Trace, topic_id
from pipelines.brokers.simulated.hosts import HostClocks, book_of_answers, book_of_probes
from pipelines.brokers.simulated.logs import Log, Record, cuts_of
from pipelines.brokers.simulated.observers import Observer, leader_seen, probers, watch
from pipelines.brokers.simulated.probing import Probing
from pipelines.brokers.simulated.quorum import UP
from pipelines.brokers.simulated.reading import controls
from pipelines.brokers.simulated.scenario import DURABLE_TOPIC, PROBER, USER_TOPIC, WRITE_TOPIC, Scenario, random_scenario
from pipelines.brokers.simulated.service import Down, Service
from pipelines.brokers.simulated.writing import Pen
from pipelines.domain.facts import Partition, Stream
from pipelines.domain.observations import (
    Blind,
    ClockSeen,
    Control,
    EpochEnd,
    Fault,
    Kind,
    Lane,
    LeaderSeen,
    Observation,
    ReadBack,
    Status,
)

ANSWER_US = 5_000
CLUSTER_ID = "simulated"


@dataclass(slots=True)
class Truth:
    """What really happened. Spans of `lanes` are by stream, of `leaderless` by partition, of `stalled` by partition and broker.

    All of it is told on the first prober's clock; `clocks` says how far the others are off.
    """

    trace: Trace
    clocks: HostClocks
    lanes: dict[Stream, list[Down]] = field(default_factory=dict)
    leaderless: dict[Partition, list[Down]] = field(default_factory=dict)
    served_nobody: dict[Partition, list[Down]] = field(default_factory=dict)
    """When no client reached a leader of the partition."""
    stalled: dict[tuple[Partition, str], list[Down]] = field(default_factory=dict)
    unfollowed: dict[tuple[Partition, str], list[Down]] = field(default_factory=dict)
    """As `stalled`, also while the broker was only too slow."""
    gone: dict[Partition, list[Record]] = field(default_factory=dict)
    removed: dict[Partition, list[Record]] = field(default_factory=dict)
    """Records that were deleted with their topic: not lost."""
    topics: dict[Partition, int] = field(default_factory=dict)
    """How often the topic of a partition that is written to had been made anew in the end."""
    blind: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """Observations and truth of one seed."""

    seed: int
    scenario: Scenario
    observations: list[Observation]
    truth: Truth


def simulate(
    seed: int, scenario: Scenario | None = None, *, incidents: int = 4, is_short: bool = False, cluster_id: str = CLUSTER_ID
) -> History:
    """The history of a seed. Without a scenario the seed draws one of some incidents."""
    rng = random.Random(seed)  # noqa: S311 - nothing here is a secret
    scenario = scenario or random_scenario(rng, incidents=incidents, is_short=is_short)
    partitions = _partitions(scenario, rng)
    trace = Cluster(scenario, rng, partitions).run(scenario.faults)
    return History(seed, scenario, *_seen(scenario, rng, trace, cluster_id))


def _partitions(scenario: Scenario, rng: random.Random) -> dict[Partition, tuple[str, ...]]:
    """Leaders in turn, as brokers place them; replicas behind them."""
    found = {}
    counts = {
        WRITE_TOPIC: scenario.write_partitions,
        DURABLE_TOPIC: scenario.durable_partitions,
        USER_TOPIC: scenario.user_partitions,
    }
    for topic, count in counts.items():
        first = rng.randrange(len(scenario.brokers))
        for shard in range(count):
            order = [scenario.brokers[(first + shard + n) % len(scenario.brokers)] for n in range(len(scenario.brokers))]
            found[Partition(topic, str(shard))] = tuple(order[: scenario.replication_factor])
    return found


def _seen(scenario: Scenario, rng: random.Random, trace: Trace, cluster_id: str) -> tuple[list[Observation], Truth]:
    clocks = HostClocks(scenario)
    canaries = probers(scenario)
    truth = Truth(trace, clocks, blind={WATCH: [], **{one.prober_id: _blind(scenario, one) for one in canaries}})
    pen = Pen(clocks, cluster_id)
    for partition in trace.replicas:
        service = Service.of(scenario, trace, partition)
        truth.leaderless[partition] = service.leaderless()
        truth.served_nobody[partition] = service.served_nobody()
        for broker in scenario.brokers:
            if downs := service.stalled(broker):
                truth.stalled[partition, broker] = downs
            if downs := service.unfollowed(broker):
                truth.unfollowed[partition, broker] = downs
        _asked(pen, truth, service, watch(scenario), Kind.LEADER, Lane.WATCH, rng)
        if partition.resource != USER_TOPIC:
            _written(pen, truth, service, canaries, rng)
            for canary in canaries:
                _asked(pen, truth, service, canary, Kind.READ, Lane.READ, rng)
    _around(pen, scenario, rng, trace, canaries)
    return pen.observations, truth


def _asked(pen: Pen, truth: Truth, service: Service, observer: Observer, kind: str, lane: str, rng: random.Random) -> None:
    """A lane that stores nothing, asked by one observer."""
    probing = Probing(service.scenario, truth.trace, service, observer, kind, lane, rng)
    probing.run()
    pen.probing(probing, rng)
    _remember(truth, probing)


def _written(pen: Pen, truth: Truth, service: Service, canaries: list[Observer], rng: random.Random) -> None:
    """The lane that writes to a canary partition: all probers write to the same log, and somebody reads it back."""
    scenario, partition = service.scenario, service.partition
    kind = Kind.WRITE if partition.resource == WRITE_TOPIC else Kind.DURABLE_WRITE
    cuts = cuts_of(truth.trace, partition, scenario.replication_us, rng, is_durable=kind == Kind.DURABLE_WRITE)
    log = Log(cuts, rng)
    asked = []
    for canary in canaries:
        one = Probing(scenario, truth.trace, service, canary, kind, Lane.RAW, rng, truth.clocks.append_time, writes=True)
        one.run()
        asked.append(one)
    appended = (record for one in asked for record in one.appended)
    in_vain = (record for one in asked for record, _ in one.in_vain)
    read_at = _read_back_at(truth.trace, partition, scenario, rng)
    for read in log.play(appended, in_vain, read_at, scenario.end_us):
        pen.write(
            ReadBack,
            "readback",
            "readback",
            "readback-0",
            resource=partition.resource,
            shard=partition.shard,
            kind=kind,
            lane=Lane.RAW,
            from_position="0",
            to_position=str(read.end),
            log_start_position=str(read.log_start),
            topic_id=topic_id(partition, read.topic) if scenario.has_topic_ids else None,
            damaged_records=0,
            runs=read.runs,
            started_at_us=read.at_us,
            ended_at_us=read.at_us + 1_000,
        )
    truth.gone[partition], truth.removed[partition], truth.topics[partition] = log.gone, log.removed, log.topic
    for one in asked:
        runs = pen.probing(one, rng)
        _remember(truth, one)
        if scenario.clocks is not None and scenario.clocks.has_book:
            name = one.observer.prober_id
            for line in book_of_probes(runs):
                pen.noted(ClockSeen, CANARY, name, f"{name}-book-{partition.resource}-{partition.shard}", **line)


def _remember(truth: Truth, probing: Probing) -> None:
    """The truth of one lane."""
    scenario, partition, prober_id = probing.scenario, probing.service.partition, probing.observer.prober_id
    gap = scenario.watch_gap_us if probing.lane == Lane.WATCH else scenario.gap_us
    stream = Stream(partition.resource, partition.shard, probing.kind, probing.lane, prober_id)
    truth.lanes[stream] = probing.service.unserved(prober_id, probing.kind, gap)


def _read_back_at(trace: Trace, partition: Partition, scenario: Scenario, rng: random.Random) -> list[int]:
    """When a canary partition is read back: now and then, as far as it has a leader that runs, and after everything."""
    tried = [rng.randrange(scenario.end_us) for _ in range(rng.randint(0, 3))]
    leaders = {at: trace.current(partition, at).leader for at in tried}
    read = [at for at, leader in leaders.items() if leader is not None and trace.states[leader].at(at) == UP]
    return sorted([*read, scenario.end_us - scenario.run_us // 4])


def _blind(scenario: Scenario, observer: Observer) -> list[tuple[int, int]]:
    """Spans in which an observer did not look, or of which its notes were lost."""
    gaps = list(observer.stalls)
    for before, after in pairwise(observer.boots):
        unwritten = scenario.flush_us if before.is_crash else 0
        gaps.append((before.end_us - unwritten - scenario.lambda_us, after.begin_us + scenario.period_us))
    return sorted(gaps)


def _around(pen: Pen, scenario: Scenario, rng: random.Random, trace: Trace, canaries: list[Observer]) -> None:
    """What is not a probe: the control plane, what clients were told, ends of epochs, faults, blindness, signs of life, clocks."""
    for fields in controls(pen.clocks, scenario, rng, trace) if scenario.has_control_plane else ():
        pen.write(Control, "control_plane", "control", "control-0", source="metadata_log", **fields)
    for partition in trace.replicas:
        for line in leader_seen(trace, partition, rng):
            pen.write(LeaderSeen, WATCH, WATCH, "watch-0", **line)
        for line in _epoch_ends(scenario, trace, partition) if partition.resource == USER_TOPIC else ():
            pen.write(EpochEnd, WATCH, WATCH, "watch-0", **line)
    for one in (one for one in scenario.faults if not one.target.startswith(PROBER)):
        fields = {"fault": one.kind, "target": one.target, "is_verified": True}
        pen.write(Fault, "drill", "drill", "drill-0", started_at_us=one.at_us, ended_at_us=one.at_us + 1_000, **fields)
    _signs_of_life(pen, canaries)
    if scenario.clocks is not None and scenario.clocks.has_response_times:
        for line in book_of_answers(scenario, trace, pen.clocks, rng):
            pen.write(ClockSeen, "metrics", "metrics", "metrics-0", **line)


def _signs_of_life(pen: Pen, canaries: list[Observer]) -> None:
    """What probers say of themselves."""
    for canary in canaries:
        name = canary.prober_id
        for begin, end in canary.stalls:
            pen.write(Blind, CANARY, name, canary.boots[0].boot_id, cause="stall", started_at_us=begin, ended_at_us=end)
        for boot in (boot for boot in canary.boots if not boot.is_crash):
            state = {"state": "stopped", "started_at_us": boot.begin_us, "ended_at_us": boot.end_us}
            pen.write(Status, CANARY, name, boot.boot_id, **state)


def _epoch_ends(scenario: Scenario, trace: Trace, partition: Partition) -> Iterator[dict[str, Any]]:
    """A user's partition takes one record a millisecond: what an unclean election cut off of it."""
    versions = trace.versions[partition]
    for former, version in pairwise(versions):
        if version.leader is None or version.leader == former.leader or version.topic != former.topic:
            continue
        # The new leader answers once it has followed its election, if it is there.
        known = trace.applied[version.leader].changes()
        asked_us = next((at for at, batch in known if trace.version(partition, batch) == version), None)
        if asked_us is None or trace.states[version.leader].at(asked_us + ANSWER_US) != UP:
            continue
        watermark = version.decided_us // 1000
        lost = scenario.session_us // 1000 if version.is_unclean else 0
        yield {
            "resource": partition.resource,
            "shard": partition.shard,
            "term": version.term - 1,
            "new_term": version.term,
            "leader": version.leader,
            "high_watermark_max": str(watermark),
            "end_position": str(watermark - lost),
            "lost_records": lost,
            "lost_started_at_us": version.decided_us - 2 * scenario.session_us if lost else None,
            "lost_ended_at_us": version.decided_us - scenario.session_us if lost else None,
            "started_at_us": asked_us,
            "ended_at_us": asked_us + ANSWER_US,
        }


def shuffled(observations: Iterable[Observation], rng: random.Random) -> list[Observation]:
    """The same observations in another order, some of them twice."""
    found = list(observations)
    found += rng.sample(found, len(found) // 10)
    rng.shuffle(found)
    return found
