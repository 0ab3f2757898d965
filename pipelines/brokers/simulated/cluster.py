"""What happened to the cluster? Faults in, a trace out: process states, decisions of the controller, who knew of them when.

The rule is Kafka's, as far as an outage depends on it. A broker that stops is fenced after its session: one batch of the metadata
log takes it out of every ISR and names new leaders, the fencing follows. A partition whose ISR is only that broker has no leader
until it returns, or, where unclean elections are allowed, until another replica is elected. A broker that leaves in order hands
its partitions over before it stops. A broker that returns is unfenced, takes the log in and joins the ISRs. Decisions reach each
broker and each client later, each at its own instant; only a move in order is followed by all brokers at once, so that it leaves
no gap but the clients' own. A topic that is deleted has no leader until it is made anew, with epochs and positions from 0.

Example: broker 2 killed at 10 s with a session of 9 s is fenced at about 18 s; every broker that is up follows within milliseconds.
"""

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.brokers.simulated.quorum import UP, Controlled, Write
from pipelines.brokers.simulated.scenario import CONTROLLER, PROBER, Fault, Scenario
from pipelines.brokers.simulated.steps import Steps
from pipelines.domain.facts import Partition
from pipelines.domain.observations import ControlEvent

HUNG, DEAD = "hung", "dead"
CANARY, WATCH = "canary", "watch"

Changes = Mapping[Partition, tuple[str | None, tuple[str, ...], bool]]
"""By partition: the leader and the ISR that it gets, and whether that is an unclean election."""


@dataclass(frozen=True, slots=True)
class Version:
    """A state of a partition, as the controller decided it in a batch of the metadata log."""

    batch: int
    decided_us: int
    leader: str | None
    term: int
    isr: tuple[str, ...]
    is_unclean: bool = False
    topic: int = 0
    """How often the topic had been made anew."""
    is_removed: bool = False


def topic_id(partition: Partition, topic: int) -> str:
    """The identity of a topic that was made anew so often."""
    return f"{partition.resource}#{topic}"


@dataclass(slots=True)
class Trace:
    """What happened. `applied` and `told` say which batch a broker followed, or a client knew, at any time."""

    replicas: dict[Partition, tuple[str, ...]]
    versions: dict[Partition, list[Version]]
    states: dict[str, Steps[str]]
    lagging: dict[str, Steps[bool]]
    applied: dict[str, Steps[int]]
    told: dict[str, Steps[int]]
    cut: dict[tuple[str, str], Steps[bool]]
    decided: list[int] = field(default_factory=lambda: [0])
    log: list[Write] = field(default_factory=list)
    without_controller: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def controls(self) -> list[dict[str, Any]]:
        """The events of the log, with the instants at which they were decided."""
        return [{**one.event, "decided_us": one.at_us} for one in self.log if one.event is not None]

    def known_by(self, knower: Steps[int], partition: Partition, at_us: int) -> Version:
        """The state of a partition as a broker or a client knew it."""
        return self.version(partition, knower.at(at_us))

    def version(self, partition: Partition, batch: int) -> Version:
        """The state of a partition after a batch."""
        versions = self.versions[partition]
        return versions[bisect_right(versions, batch, key=lambda one: one.batch) - 1]

    def current(self, partition: Partition, at_us: int) -> Version:
        """The state of a partition that the controller had decided by an instant."""
        versions = self.versions[partition]
        return versions[max(0, bisect_right(versions, at_us, key=lambda one: one.decided_us) - 1)]

    def is_fetching(self, broker: str, at_us: int) -> bool:
        """Whether a broker takes in what its leaders write."""
        return self.states[broker].at(at_us) == UP and not self.lagging[broker].at(at_us)

    def last_fetching(self, broker: str, by_us: int) -> int:
        """The last instant not after `by_us` at which a broker was fetching."""
        instant = by_us
        while not self.is_fetching(broker, instant):
            changes = (self.states[broker], self.lagging[broker])
            instant = max(steps.times[bisect_right(steps.times, instant) - 1] for steps in changes) - 1
        return instant

    def boundaries(self, partition: Partition) -> list[int]:
        """Every instant at which something may have changed for a partition."""
        replicas = self.replicas[partition]
        instants: set[int] = set()
        for broker in replicas:
            instants.update(self.states[broker].times, self.lagging[broker].times)
            for client in self.told:
                instants.update(self.cut[client, broker].times)
        for version in self.versions[partition][1:]:
            instants.add(version.decided_us)
            knowers = [*(self.applied[broker] for broker in replicas), *self.told.values()]
            instants.update(at for steps in knowers if (at := _first_at_least(steps, version.batch)) is not None)
        return sorted(at for at in instants if at > -(2**61))


def _first_at_least(steps: Steps[int], batch: int) -> int | None:
    index = next((index for index, value in enumerate(steps.values) if value >= batch), None)
    return None if index is None else steps.times[index]


class Cluster(Controlled):
    """The cluster. `run` plays a scenario's faults on some partitions and returns the trace."""

    decides = frozenset(
        {
            "_fence",
            "_unfence",
            "_register",
            "_shrink",
            "_expand",
            "_elect_unclean",
            "_rebalance",
            "_terminate",
            "_exit",
            "_recreate",
            "_make",
        }
    )

    def __init__(self, scenario: Scenario, rng: random.Random, partitions: dict[Partition, tuple[str, ...]]) -> None:
        super().__init__(scenario, rng)
        self._fenced: set[str] = set()
        self._stops = dict.fromkeys(self.states, 0)
        self.trace = Trace(
            replicas=partitions,
            versions={one: [Version(0, 0, replicas[0], 1, tuple(sorted(replicas)))] for one, replicas in sorted(partitions.items())},
            states=self.states,
            lagging={one: Steps(False) for one in scenario.brokers},
            applied={one: Steps(0) for one in scenario.brokers},
            told={one: Steps(0) for one in scenario.clients},
            cut={(client, broker): Steps(False) for client in scenario.clients for broker in scenario.brokers},
            log=self.log,
            without_controller=self.without,
        )

    def run(self, faults: Iterable[Fault]) -> Trace:
        """Plays the faults up to the scenario's end."""
        for fault in faults:
            if fault.kind == "cut":
                self._at(fault.at_us, self._cut, fault)
            elif not fault.target.startswith(PROBER):
                self._at(fault.at_us, getattr(self, f"_{fault.kind}"), fault.target, fault.duration_us)
        self.play(self.scenario.end_us)
        return self.trace

    # --- faults -------------------------------------------------------------------------------------------------------

    def _kill(self, target: str, away_us: int) -> None:
        broker = self._meant(target)
        if self.trace.states[broker].last != DEAD:
            self._stopped(broker, DEAD)
            self._at(self.now_us + away_us, self._start, broker)

    def _hang(self, target: str, away_us: int) -> None:
        broker = self._meant(target)
        if self.trace.states[broker].last == UP:
            self._stopped(broker, HUNG)
            self._at(self.now_us + away_us, self._resume, broker, self._stops[broker])

    def _terminate(self, broker: str, away_us: int) -> None:
        self._record(ControlEvent.BROKER_SHUTTING_DOWN, broker=broker)
        moves = {}
        for partition, version in self._current():
            others = tuple(one for one in version.isr if one != broker)
            if broker in version.isr and others:
                leader = self._elected(partition, others) if version.leader == broker else version.leader
                moves[partition] = (leader, others, False)
        handed_over = self._move(moves)
        exits = handed_over + self.rng.randint(1, self.scenario.gap_us)
        self._at(exits, self._exit, broker)
        self._at(max(exits, self.now_us) + away_us, self._start, broker)

    def _exit(self, broker: str) -> None:
        self._stopped(broker, DEAD)
        self._fence(broker, self._stops[broker])

    def _lag(self, broker: str, length_us: int) -> None:
        self.trace.lagging[broker].set(self.now_us, True)
        self._at(self.now_us + self.scenario.lag_time_us, self._shrink, broker)
        self._at(self.now_us + length_us, self._catch_up, broker)

    def _cut(self, fault: Fault) -> None:
        for client in self.scenario.clients_of(fault.by):
            steps = self.trace.cut[client, fault.target]
            steps.set(self.now_us, True)
            self._at(self.now_us + fault.duration_us, steps.set, self.now_us + fault.duration_us, False)

    def _rebalance(self, broker: str, _: int) -> None:
        moves = {}
        for partition, version in self._current():
            is_preferred = self.trace.replicas[partition][0] == broker
            if is_preferred and version.leader != broker and broker in version.isr and self._is_up(broker):
                moves[partition] = (broker, version.isr, False)
        if moves:
            self._move(moves)

    def _recreate(self, topic: str, away_us: int) -> None:
        batch = self._next_batch()
        for partition, version in list(self._of_topic(topic)):
            state = Version(batch, self.now_us, None, version.term, (), topic=version.topic, is_removed=True)
            self.trace.versions[partition].append(state)
            self._record(
                ControlEvent.PARTITION_REMOVED,
                **self._place(partition, version),
                previous_leader=version.leader,
                term=version.term,
                previous_isr=version.isr,
            )
        self._follow(batch)
        self._at(self.now_us + away_us, self._make, topic)

    # --- what follows from them ---------------------------------------------------------------------------------------

    def _stopped(self, broker: str, state: str) -> None:
        self.trace.states[broker].set(self.now_us, state)
        self._stops[broker] += 1
        self._controller_stopped(broker)
        if broker in self.scenario.brokers:
            session = self.scenario.session_us
            self._after(session - session // 20, session, self._fence, broker, self._stops[broker])

    def _start(self, broker: str) -> None:
        if self.trace.states[broker].last == DEAD:
            self.trace.states[broker].set(self.now_us, UP)
            self._stops[broker] += 1
            if broker in self.scenario.brokers:
                self._apply(broker, len(self.trace.decided) - 1)  # it takes the metadata log in before it serves
                self._after(0, 0, self._register, broker, self._stops[broker])

    def _register(self, broker: str, stop: int) -> None:
        if self._stops[broker] == stop:
            self._record(ControlEvent.BROKER_REGISTERED, broker=broker)
            self._returned(broker)

    def _resume(self, broker: str, stop: int) -> None:
        if self.trace.states[broker].last == HUNG and self._stops[broker] == stop:
            self.trace.states[broker].set(self.now_us, UP)
            self._stops[broker] += 1
            self._controller_back(broker)
            if broker in self.scenario.brokers:
                self._returned(broker)

    def _returned(self, broker: str) -> None:
        self._after(1_000, self._soon_us, self._apply, broker, len(self.trace.decided) - 1)
        if broker in self._fenced:
            self._after(self._soon_us, 2 * self._soon_us, self._unfence, broker, self._stops[broker])

    def _fence(self, broker: str, stop: int) -> None:
        if self._stops[broker] != stop or self.trace.states[broker].last == UP or broker in self._fenced:
            return
        self._fenced.add(broker)
        changes = {}
        for partition, version in self._current():
            if broker in version.isr:
                others = tuple(one for one in version.isr if one != broker)
                leader = self._elected(partition, others) if version.leader == broker else version.leader
                changes[partition] = (leader, others or version.isr, False)
        self._commit(changes)
        self._record(ControlEvent.BROKER_FENCED, broker=broker)
        self._look_for_unclean()

    def _unfence(self, broker: str, stop: int) -> None:
        if self._stops[broker] != stop:
            return
        self._fenced.discard(broker)
        self._record(ControlEvent.BROKER_UNFENCED, broker=broker)
        self._commit(
            {
                partition: (broker, version.isr, False)
                for partition, version in self._current()
                if version.leader is None and broker in version.isr
            }
        )
        self._look_for_unclean()
        self._after(self._soon_us, 3 * self._soon_us, self._expand)

    def _shrink(self, broker: str) -> None:
        if not self.trace.lagging[broker].last:
            return
        changes = {}
        for partition, version in self._current():
            if broker in version.isr and version.leader not in (None, broker):
                changes[partition] = (version.leader, tuple(one for one in version.isr if one != broker), False)
        self._commit(changes)

    def _catch_up(self, broker: str) -> None:
        self.trace.lagging[broker].set(self.now_us, False)
        self._after(self._soon_us, 3 * self._soon_us, self._expand)

    def _expand(self) -> None:
        """Replicas that fetch from a leader that serves join its ISR; what cannot yet is tried again."""
        changes = {}
        for partition, version in self._current():
            joining = [one for one in self.trace.replicas[partition] if one not in version.isr and self._may_join(one)]
            if joining and version.leader is not None and self._is_up(version.leader):
                changes[partition] = (version.leader, tuple(sorted((*version.isr, *joining))), False)
        self._commit(changes)
        if any(len(version.isr) < len(self.trace.replicas[partition]) for partition, version in self._current()):
            self._after(self.scenario.run_us // 2, self.scenario.run_us, self._expand)

    def _make(self, topic: str) -> None:
        """Makes a topic that was deleted anew, as soon as every partition of it can have a leader."""
        places = [one for one in self.trace.replicas if one.resource == topic]
        able = {
            partition: [one for one in self.trace.replicas[partition] if one not in self._fenced and self._is_up(one)]
            for partition in places
        }
        if not all(able.values()):
            self._after(self.scenario.run_us // 2, self.scenario.run_us, self._make, topic)
            return
        batch = self._next_batch()
        for partition in places:
            number = self.trace.versions[partition][-1].topic + 1
            version = Version(batch, self.now_us, able[partition][0], 0, tuple(sorted(able[partition])), topic=number)
            self.trace.versions[partition].append(version)
            self._record(
                ControlEvent.PARTITION_CREATED,
                **self._place(partition, version),
                leader=version.leader,
                term=version.term,
                isr=version.isr,
                replicas=self.trace.replicas[partition],
            )
        self._follow(batch)
        self._after(self._soon_us, 3 * self._soon_us, self._expand)

    def _look_for_unclean(self) -> None:
        if self.scenario.is_unclean_allowed and any(version.leader is None for _, version in self._current()):
            self._at(self.now_us + self.scenario.unclean_after_us, self._elect_unclean)

    def _elect_unclean(self) -> None:
        changes = {}
        for partition, version in self._current():
            able = [one for one in self.trace.replicas[partition] if one not in self._fenced and self._is_up(one)]
            if version.leader is None and able:
                changes[partition] = (able[0], (able[0],), able[0] not in version.isr)
        self._commit(changes)
        self._after(self._soon_us, 3 * self._soon_us, self._expand)

    # --- the metadata log ---------------------------------------------------------------------------------------------

    def _commit(self, changes: Changes) -> int | None:
        """Decides changes as one batch, which each broker and client follows when it comes to know of it."""
        batch = self._decide(changes)
        if batch is not None:
            self._follow(batch)
        return batch

    def _follow(self, batch: int) -> None:
        for broker in self.scenario.brokers:
            self._after(500, self._soon_us, self._apply, broker, batch)
        for client in self.scenario.clients:
            self._after(500, self.scenario.lambda_us // 2, self._tell, client, batch)

    def _next_batch(self) -> int:
        self.trace.decided.append(self.now_us)
        return len(self.trace.decided) - 1

    def _move(self, changes: Changes) -> int:
        """Moves leaders in order: all brokers follow at once, clients at the same time or noticeably later. Returns when all know."""
        batch = self._decide(changes)
        if batch is None:
            return self.now_us
        followed = self.now_us + self.rng.randint(500, self._soon_us)
        for broker in self.scenario.brokers:
            self._at(followed, self._apply, broker, batch)
        known = followed
        for client in self.scenario.clients:
            gap_us = self.scenario.watch_gap_us if client == WATCH else self.scenario.gap_us
            if self.scenario.is_short:
                told = followed + self.rng.randint(0, 2 * gap_us)
            else:
                told = followed + self.rng.choice((0, self.rng.randint(2 * gap_us + 1, 3 * gap_us)))
            self._at(told, self._tell, client, batch)
            known = max(known, told)
        return known

    def _decide(self, changes: Changes) -> int | None:
        real = {}
        for partition, (leader, isr, is_unclean) in changes.items():
            before = self.trace.versions[partition][-1]
            if (leader, isr) != (before.leader, before.isr):
                real[partition] = (before, leader, isr, is_unclean)
        if not real:
            return None
        batch = self._next_batch()
        for partition, (before, leader, isr, is_unclean) in sorted(real.items()):
            term = before.term + (leader != before.leader)
            version = Version(batch, self.now_us, leader, term, isr, is_unclean, before.topic)
            self.trace.versions[partition].append(version)
            self._record(
                ControlEvent.PARTITION_CHANGED,
                **self._place(partition, version),
                leader=leader,
                previous_leader=before.leader,
                term=term,
                isr=isr,
                previous_isr=before.isr,
                replicas=self.trace.replicas[partition],
                is_unclean=is_unclean if leader != before.leader and leader is not None else None,
            )
        return batch

    def _apply(self, broker: str, batch: int) -> None:
        steps = self.trace.applied[broker]
        if self._is_up(broker) and batch > steps.last:
            steps.set(self.now_us, batch)

    def _tell(self, client: str, batch: int) -> None:
        steps = self.trace.told[client]
        if batch > steps.last:
            steps.set(self.now_us, batch)

    def _meant(self, target: str) -> str:
        """The node that a fault means: whoever is the controller just then, or the one that is named."""
        return self.active if target == CONTROLLER else target

    # --- small questions ----------------------------------------------------------------------------------------------

    @property
    def _soon_us(self) -> int:
        return max(1_000, self.scenario.lambda_us // 20)

    def _current(self) -> Iterator[tuple[Partition, Version]]:
        for partition, versions in self.trace.versions.items():
            if not versions[-1].is_removed:
                yield partition, versions[-1]

    def _of_topic(self, topic: str) -> Iterator[tuple[Partition, Version]]:
        return ((partition, version) for partition, version in self._current() if partition.resource == topic)

    def _place(self, partition: Partition, version: Version) -> dict[str, Any]:
        return {"resource": partition.resource, "shard": partition.shard, "topic_id": topic_id(partition, version.topic)}

    def _is_up(self, broker: str) -> bool:
        return self.trace.states[broker].last == UP

    def _may_join(self, broker: str) -> bool:
        return broker not in self._fenced and self._is_up(broker) and not self.trace.lagging[broker].last

    def _elected(self, partition: Partition, candidates: tuple[str, ...]) -> str | None:
        able = [one for one in self.trace.replicas[partition] if one in candidates and one not in self._fenced]
        return able[0] if able else None
