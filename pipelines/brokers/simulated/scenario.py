"""What happens to the simulated cluster, and how fast everything is? A scenario, chosen by hand or by a seed.

The rule: a scenario is data. Faults name what they do, to whom, when and for how long; timings are those of a real cluster scaled
so that every not-served and every served run lasts at least 2g, as assumption (H) asks for (`short` scenarios break it). Random
scenarios are incidents in slots: each slot is long enough for the cluster to heal.

Example: `Scenario(faults=(Fault("kill", "2", 3_000_000, 40_000_000),))` kills broker 2 after 3 s and starts it again 40 s later.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

MILLISECOND = 1000

PROBER = "prober"
"""The target of faults that hit the observer and not the cluster."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `kind` is kill, hang, terminate, lag or rebalance (of a broker), cut (the prober from a broker), stall, restart or
    crash (of the prober). A killed, terminated, restarted or crashed one comes back after `duration_us`."""

    kind: str
    target: str
    at_us: int
    duration_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a history is made of, but for the seed. Durations in microseconds."""

    faults: tuple[Fault, ...] = ()
    end_us: int = 60_000_000
    brokers: tuple[str, ...] = ("1", "2", "3")
    replication_factor: int = 3
    write_partitions: int = 3
    durable_partitions: int = 3
    user_partitions: int = 3
    min_isr: int = 2
    is_unclean_allowed: bool = False
    is_short: bool = False
    period_us: int = 100_000
    lambda_us: int = 1_000_000
    watch_period_us: int = 1_000_000
    watch_lambda_us: int = 1_000_000
    session_us: int = 9_000_000
    lag_time_us: int = 9_000_000
    unclean_after_us: int = 4_000_000
    latency_us: int = 3_000
    spike_ratio: float = 0.0
    replication_us: int = 2_000
    dead_is: str = "queued"
    hears_late: bool = True
    has_control_plane: bool = True
    flush_us: int = 10_000_000

    @property
    def gap_us(self) -> int:
        """Period + lambda (g) of the lanes that write and read."""
        return self.period_us + self.lambda_us

    @property
    def watch_gap_us(self) -> int:
        """Period + lambda (g) of the watch."""
        return self.watch_period_us + self.watch_lambda_us

    @property
    def run_us(self) -> int:
        """What every served and every not-served run lasts at least, so that (H) holds for every lane."""
        return 2 * max(self.gap_us, self.watch_gap_us)


def random_scenario(rng: random.Random, *, incidents: int = 4, is_short: bool = False) -> Scenario:
    """A scenario of some incidents, by the numbers of `rng`."""
    period = rng.choice((10, 20, 50, 100, 200)) * MILLISECOND
    lambda_us = period * rng.randint(3, 12)
    watch_period = period * rng.randint(2, 8)
    run_us = 2 * max(period + lambda_us, watch_period + lambda_us)
    session = int(run_us * rng.uniform(1.6, 2.4))
    is_unclean_allowed = rng.random() < 0.4
    base = Scenario(
        user_partitions=rng.randint(1, 3),
        min_isr=1 if is_unclean_allowed else 2,
        is_unclean_allowed=is_unclean_allowed,
        is_short=is_short,
        period_us=period,
        lambda_us=lambda_us,
        watch_period_us=watch_period,
        watch_lambda_us=lambda_us,
        session_us=session,
        lag_time_us=int(run_us * rng.uniform(1.2, 2.0)),
        unclean_after_us=int(run_us * rng.uniform(0.1, 0.6)),
        latency_us=min(rng.randint(200, 4_000), period // 5),
        spike_ratio=rng.choice((0.0, 0.0, 0.002, 0.02)),
        replication_us=rng.choice((*3 * (min(1_000, period // 10),), period // 2, min(lambda_us // 4, 4 * period))),
        dead_is=rng.choice(("refused", "silent", "queued", "queued")),
        hears_late=rng.random() < 0.5,
        flush_us=period * rng.randint(2, 120),
    )
    faults: list[Fault] = []
    at_us = base.run_us
    for _ in range(incidents):
        made = _short_incident(rng, base, at_us) if is_short else rng.choices(*zip(*INCIDENTS, strict=True))[0](rng, base, at_us)
        faults += made
        at_us = max((one.at_us + one.duration_us for one in made), default=at_us) + base.session_us + 3 * base.run_us
    scenario = {name: getattr(base, name) for name in base.__dataclass_fields__}
    return Scenario(**scenario | {"faults": tuple(sorted(faults)), "end_us": at_us})


def _kill(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    broker = rng.choice(base.brokers)
    away = int(base.session_us + base.run_us * rng.uniform(1.3, 2.0))
    return [Fault("kill", broker, at_us, away), *_rebalanced(rng, base, broker, at_us + away)]


def _terminate(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    broker = rng.choice(base.brokers)
    away = int(base.run_us * rng.uniform(2.5, 4.0))
    return [Fault("terminate", broker, at_us, away), *_rebalanced(rng, base, broker, at_us + away)]


def _rebalanced(rng: random.Random, base: Scenario, broker: str, back_us: int) -> list[Fault]:
    return [Fault("rebalance", broker, back_us + 2 * base.run_us, 0)] if rng.random() < 0.6 else []


def _short_hang(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    return [Fault("hang", rng.choice(base.brokers), at_us, int(rng.uniform(1.1 * base.run_us, 0.75 * base.session_us)))]


def _long_hang(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    broker = rng.choice(base.brokers)
    away = int(base.session_us + base.run_us * rng.uniform(1.3, 2.0))
    return [Fault("hang", broker, at_us, away), *_rebalanced(rng, base, broker, at_us + away)]


def _two_killed(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    first, second = rng.sample(base.brokers, 2)
    later = at_us + rng.choice((0, int(base.session_us * rng.uniform(0.1, 2.0))))
    away = int(2 * base.session_us + base.run_us * rng.uniform(1.3, 3.0))
    return [Fault("kill", first, at_us, away), Fault("kill", second, later, away + rng.randint(0, base.run_us))]


def _unclean(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """All brokers but one hang until the ISR is that one; it is killed; the others come back and one of them is elected."""
    last, *others = rng.sample(base.brokers, len(base.brokers))
    killed = int(at_us + base.session_us + base.run_us * rng.uniform(1.3, 2.0))
    back = int(killed + base.session_us + base.run_us * rng.uniform(0.3, 1.0))
    returns = back + base.unclean_after_us + 3 * base.run_us
    hung = [Fault("hang", one, at_us + rng.randint(0, base.gap_us), 0) for one in others]
    return [
        *(Fault("hang", one.target, one.at_us, back + rng.randint(0, base.run_us // 4) - one.at_us) for one in hung),
        Fault("kill", last, killed, returns - killed),
    ]


def _lagging(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    return [Fault("lag", rng.choice(base.brokers), at_us, int(base.lag_time_us + base.run_us * rng.uniform(0.5, 2.0)))]


def _cut(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    return [Fault("cut", rng.choice(base.brokers), at_us, int(base.run_us * rng.uniform(1.1, 2.0)))]


def _stalled(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """The prober does not run for a while, alone or in the middle of something else."""
    what = rng.choice((None, _kill, _short_hang, _terminate))
    faults = what(rng, base, at_us) if what else []
    begin = at_us + rng.randint(-base.gap_us, 2 * base.session_us)
    return [*faults, Fault("stall", PROBER, max(0, begin), rng.randint(base.period_us, 3 * base.gap_us))]


def _reprobed(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """The prober is started again, alone or in the middle of something else."""
    what = rng.choice((None, _kill, _long_hang))
    faults = what(rng, base, at_us) if what else []
    begin = at_us + rng.randint(-base.gap_us, 2 * base.session_us)
    return [*faults, Fault(rng.choice(("restart", "crash")), PROBER, max(0, begin), rng.randint(base.lambda_us, 4 * base.gap_us))]


def _short_incident(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """Runs shorter than 2g, one after the other: hangs and cuts of a broker with pauses, or moves that clients learn of late."""
    broker = rng.choice(base.brokers)
    kind = rng.choice(("hang", "cut", "rebalance", "lag"))
    faults = []
    for _ in range(rng.randint(1, 8)):
        length = rng.randint(base.period_us // 4, 2 * base.gap_us)
        faults.append(Fault(kind, broker if kind != "rebalance" else rng.choice(base.brokers), at_us, length))
        at_us += length + rng.randint(base.period_us // 4, 2 * base.gap_us)
    return faults


INCIDENTS: tuple[tuple[Callable[[random.Random, Scenario, int], list[Fault]], int], ...] = (
    (_kill, 6),
    (_terminate, 3),
    (_short_hang, 4),
    (_long_hang, 4),
    (_two_killed, 2),
    (_unclean, 2),
    (_lagging, 1),
    (_cut, 2),
    (_stalled, 3),
    (_reprobed, 3),
)
"""Incidents and how often each is chosen."""
