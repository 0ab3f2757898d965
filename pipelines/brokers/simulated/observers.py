"""Who looks at the simulated cluster? Its probers and its watch: when they run, when they stand still, what clients are told.

The rule: a prober runs in boots, one after the other; one that crashes loses what it had not written. The watch, the reader of the
control plane and the read-back stand on the first prober's host and run from begin to end.

Example: a crash of the prober at 30 s for 5 s makes two boots, [0, 30) and [35, end), and the first one's last lines are missing.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.brokers.simulated.cluster import CANARY, WATCH, Trace
from pipelines.brokers.simulated.hosts import number_of
from pipelines.brokers.simulated.scenario import Fault, Scenario
from pipelines.domain.facts import Partition
from pipelines.domain.spans import Line


@dataclass(frozen=True, slots=True)
class Boot:
    """One run of a prober. One that crashes loses what it had not written."""

    boot_id: str
    begin_us: int
    end_us: int
    is_crash: bool


@dataclass(frozen=True, slots=True)
class Observer:
    """A prober, or the watch: its runs, and the spans in which it stood still. Clients are told of leaders under the same name."""

    prober_id: str
    boots: tuple[Boot, ...]
    stalls: tuple[tuple[int, int], ...]


def probers(scenario: Scenario) -> list[Observer]:
    """Everybody who writes and reads."""
    return [_disturbed(scenario, one) for one in scenario.clients if one != WATCH]


def watch(scenario: Scenario) -> Observer:
    """Who asks the leaders."""
    return Observer(WATCH, (Boot(f"{WATCH}-0", 0, scenario.end_us, is_crash=False),), ())


def _disturbed(scenario: Scenario, prober_id: str) -> Observer:
    boots: list[Boot] = []
    begin = 0
    stalls: list[tuple[int, int]] = []
    for fault in _of_prober(scenario, prober_id):
        end = fault.at_us + fault.duration_us
        if fault.kind == "stall":
            stalls.append((fault.at_us, end))
        elif fault.at_us > begin:
            boots.append(Boot(f"{prober_id}-b{len(boots)}", begin, fault.at_us, fault.kind == "crash"))
            begin = end
    boots.append(Boot(f"{prober_id}-b{len(boots)}", begin, scenario.end_us, is_crash=False))
    return Observer(prober_id, tuple(boots), tuple(stalls))


def _of_prober(scenario: Scenario, prober_id: str) -> list[Fault]:
    own = (one for one in scenario.faults if one.kind in ("stall", "restart", "crash"))
    return sorted((one for one in own if number_of(one.target) == number_of(prober_id)), key=lambda one: one.at_us)


def leader_seen(trace: Trace, partition: Partition, rng: random.Random) -> Iterator[Line]:
    """When clients were told of another leader, as the watch sees it."""
    told = trace.told[WATCH]
    for before, (at_us, batch) in enumerate(list(zip(told.times, told.values, strict=True))[1:]):
        old, new = trace.version(partition, told.values[before]), trace.version(partition, batch)
        if old.leader != new.leader:
            yield {
                "resource": partition.resource,
                "shard": partition.shard,
                "leader": new.leader,
                "previous_leader": old.leader,
                "term": new.term,
                "started_at_us": max(told.times[before], at_us - rng.randint(1_000, 200_000)),
                "ended_at_us": at_us,
            }


__all__ = ["CANARY", "WATCH", "Boot", "Observer", "leader_seen", "probers", "watch"]
