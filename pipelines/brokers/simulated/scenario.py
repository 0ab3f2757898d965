"""What happens to the simulated cluster, and how fast everything is? A scenario, chosen by hand or by a seed.

The rule: a scenario is data. Faults name what they do, to whom, when and for how long; timings are those of a real cluster scaled
so that every not-served and every served run lasts at least 2g, as assumption (H) asks for (`short` scenarios break it). Random
scenarios are incidents in slots: each slot is long enough for the cluster to heal.

Example: `Scenario(faults=(Fault("kill", "2", 3_000_000, 40_000_000),))` kills broker 2 after 3 s and starts it again 40 s later.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

MILLISECOND = 1000

PROBER = "prober"
"""The target of faults that hit the observer and not the cluster; the second and third one are prober-2 and prober-3."""

CONTROLLER = "controller"
"""The target of faults that hit whoever is the active controller just then."""

EVERYBODY = ""

WRITE_TOPIC, DURABLE_TOPIC, USER_TOPIC = "canary-write", "canary-durable", "orders"

MINUTE, HOUR = 60_000_000, 3_600_000_000


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `kind` is kill, hang, terminate, lag or rebalance (of a broker), cut (clients from a broker: those of one prober's
    host, or everybody), recreate (of a topic), stall, restart or crash (of a prober). A killed, terminated, restarted or crashed one
    comes back, and a topic that was deleted is made anew, after `duration_us`."""

    kind: str
    target: str
    at_us: int
    duration_us: int
    by: str = EVERYBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How far the clocks of hosts are off the first prober's, and what tells of it. Durations in microseconds.

    `hosts` are (host, ((from when on, offset), ...)), `probers` the offsets of the clocks of the second and third prober; None: the
    clock of the first, under the same name. Events of the metadata log are read every `read_every_us`.
    """

    hosts: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    probers: tuple[int | None, ...] = ()
    has_append_times: bool = True
    has_response_times: bool = False
    has_book: bool = False
    read_every_us: int = 50_000


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
    has_topic_ids: bool = True
    flush_us: int = 10_000_000
    probers: int = 1
    is_cut_at_positions: bool = True
    clocks: Clocks | None = None
    controllers: tuple[str, ...] = ()
    takeover_us: int = 2_000_000
    idle_us: int = 500_000

    @property
    def clients(self) -> tuple[str, ...]:
        """Everybody who is told of leaders: the probers, and the watch, which stands on the first one's host."""
        return (*("canary" if number == 1 else f"canary-{number}" for number in range(1, self.probers + 1)), "watch")

    def clients_of(self, by: str) -> tuple[str, ...]:
        """Those who stand on the host of one of them; everybody for EVERYBODY."""
        if by == EVERYBODY:
            return self.clients
        return (by, "watch") if by == "canary" else (by,)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Everybody who has a clock that is read: brokers and controllers."""
        return (*self.brokers, *(one for one in self.controllers or ("0",) if one not in self.brokers))

    @property
    def giving_up_us(self) -> int:
        """After how long a broker is given up, at most, also where the controller stopped with it."""
        return self.session_us + (self.takeover_us if self.controllers else 0)

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
        user_partitions=rng.randint(2, 6),
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
        probers=rng.choices((1, 2, 3), (6, 3, 2))[0],
        is_cut_at_positions=rng.random() < 0.3,
        controllers=rng.choices(((), ("1", "2", "3"), ("c1", "c2", "c3")), (5, 3, 2))[0],
        takeover_us=int(run_us * rng.uniform(0.4, 1.2)),
        idle_us=max(2, run_us // 40 // MILLISECOND) * MILLISECOND,
        has_topic_ids=rng.random() < 0.7,
    )
    if base.probers == 1:
        base = replace(base, is_cut_at_positions=True)  # as the canary does where nobody else writes
    faults: list[Fault] = []
    at_us = base.run_us
    for _ in range(incidents):
        made = _short_incident(rng, base, at_us) if is_short else rng.choices(*zip(*INCIDENTS, strict=True))[0](rng, base, at_us)
        faults += made
        at_us = max((one.at_us + one.duration_us for one in made), default=at_us) + base.giving_up_us + 3 * base.run_us
    clocks = _clocks(rng, base, at_us) if rng.random() < 0.5 else None
    return replace(base, faults=tuple(sorted(faults)), end_us=at_us, clocks=clocks)


def _clocks(rng: random.Random, base: Scenario, end_us: int) -> Clocks:
    """Every host's clock is off by nothing, some ms or hours, and some are set by hours, either way; most of it can be proven."""
    hosts = []
    for host in base.hosts:
        offset = _offset(rng)
        steps = [(0, offset)]
        at_us = rng.randrange(end_us)
        while rng.random() < 0.4 and at_us < end_us:
            offset += rng.choice((-1, 1)) * rng.randint(HOUR, 5 * HOUR)
            steps.append((at_us, offset))
            at_us += rng.randint(base.session_us, end_us)
        hosts.append((host, tuple(steps)))
    has_append_times = rng.random() < 0.6
    return Clocks(
        hosts=tuple(hosts),
        probers=tuple(rng.choice((None, rng.choice((-1, 1)) * rng.randint(MINUTE, 3 * HOUR))) for _ in range(base.probers - 1)),
        has_append_times=has_append_times,
        has_response_times=rng.random() < 0.4,
        has_book=has_append_times and rng.random() < 0.5,
        read_every_us=rng.choice((10, 50, 500)) * MILLISECOND,
    )


def _offset(rng: random.Random) -> int:
    if rng.random() < 0.4:
        return 0
    return rng.choice((rng.randint(-5_000, 5_000), rng.choice((-1, 1)) * rng.randint(HOUR, 5 * HOUR)))


def _prober(rng: random.Random, base: Scenario) -> str:
    """One of the probers, as faults name it."""
    number = rng.randint(1, base.probers)
    return PROBER if number == 1 else f"{PROBER}-{number}"


def _kill(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    broker = rng.choice(base.brokers)
    away = int(base.giving_up_us + base.run_us * rng.uniform(1.3, 2.0))
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
    away = int(base.giving_up_us + base.run_us * rng.uniform(1.3, 2.0))
    return [Fault("hang", broker, at_us, away), *_rebalanced(rng, base, broker, at_us + away)]


def _two_killed(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    first, second = rng.sample(base.brokers, 2)
    later = at_us + rng.choice((0, int(base.session_us * rng.uniform(0.1, 2.0))))
    away = int(2 * base.giving_up_us + base.run_us * rng.uniform(1.3, 3.0))
    return [Fault("kill", first, at_us, away), Fault("kill", second, later, away + rng.randint(0, base.run_us))]


def _unclean(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """All brokers but one hang until the ISR is that one; it is killed; the others come back and one of them is elected."""
    last, *others = rng.sample(base.brokers, len(base.brokers))
    killed = int(at_us + base.giving_up_us + base.run_us * rng.uniform(1.3, 2.0))
    back = int(killed + base.giving_up_us + base.run_us * rng.uniform(0.3, 1.0))
    returns = back + base.unclean_after_us + 3 * base.run_us
    hung = [Fault("hang", one, at_us + rng.randint(0, base.gap_us), 0) for one in others]
    return [
        *(Fault("hang", one.target, one.at_us, back + rng.randint(0, base.run_us // 4) - one.at_us) for one in hung),
        Fault("kill", last, killed, returns - killed),
    ]


def _remade(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """Somebody deletes a topic, and makes it anew under the same name: nothing is lost that anybody was promised."""
    topic = rng.choice((WRITE_TOPIC, DURABLE_TOPIC, USER_TOPIC))
    return [Fault("recreate", topic, at_us, int(base.run_us * rng.uniform(1.3, 2.5)))]


def _lagging(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    return [Fault("lag", rng.choice(base.brokers), at_us, int(base.lag_time_us + base.run_us * rng.uniform(0.5, 2.0)))]


def _cut(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """Everybody is cut off from a broker, or the clients of one host; now and then, those of another host, too, and later."""
    who = rng.choice((EVERYBODY, *base.clients[:-1]))
    faults = [Fault("cut", rng.choice(base.brokers), at_us, int(base.run_us * rng.uniform(1.1, 2.0)), who)]
    if base.probers > 1 and who != EVERYBODY and rng.random() < 0.4:
        other = rng.choice([one for one in base.clients[:-1] if one != who])
        begin = at_us + int(base.run_us * rng.uniform(0.0, 2.5))
        faults.append(
            Fault(
                "cut", rng.choice((faults[0].target, rng.choice(base.brokers))), begin, int(base.run_us * rng.uniform(1.1, 2.0)), other
            )
        )
    return faults


def _stalled(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """The prober does not run for a while, alone or in the middle of something else."""
    what = rng.choice((None, _kill, _short_hang, _terminate))
    faults = what(rng, base, at_us) if what else []
    begin = at_us + rng.randint(-base.gap_us, 2 * base.session_us)
    return [*faults, Fault("stall", _prober(rng, base), max(0, begin), rng.randint(base.period_us, 3 * base.gap_us))]


def _reprobed(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """The prober is started again, alone or in the middle of something else."""
    what = rng.choice((None, _kill, _long_hang))
    faults = what(rng, base, at_us) if what else []
    begin = at_us + rng.randint(-base.gap_us, 2 * base.session_us)
    how = rng.choice(("restart", "crash"))
    return [*faults, Fault(how, _prober(rng, base), max(0, begin), rng.randint(base.lambda_us, 4 * base.gap_us))]


def _without_controller(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """The controller is killed, or hangs for less or for more than the others wait, alone or just before or after a broker stops."""
    if not base.controllers:
        return _kill(rng, base, at_us)
    how, away = rng.choice(
        (
            ("kill", int(base.giving_up_us + base.run_us * rng.uniform(1.3, 2.0))),
            ("hang", int(base.takeover_us * rng.uniform(0.3, 0.75))),
            ("hang", int(base.giving_up_us + base.run_us * rng.uniform(1.3, 2.0))),
        )
    )
    others = rng.choice((None, None, _kill, _short_hang))
    shift = rng.randint(0, 2 * base.takeover_us)
    return [Fault(how, CONTROLLER, at_us + shift, away), *(others(rng, base, at_us) if others else [])]


def _short_incident(rng: random.Random, base: Scenario, at_us: int) -> list[Fault]:
    """Runs shorter than 2g, one after the other: hangs and cuts of a broker with pauses, or moves that clients learn of late."""
    broker = rng.choice(base.brokers)
    kind = rng.choice(("hang", "cut", "rebalance", "lag"))
    faults = []
    for _ in range(rng.randint(1, 8)):
        length = rng.randint(base.period_us // 4, 2 * base.gap_us)
        by = rng.choice((EVERYBODY, *base.clients[:-1])) if kind == "cut" else EVERYBODY
        faults.append(Fault(kind, broker if kind != "rebalance" else rng.choice(base.brokers), at_us, length, by))
        at_us += length + rng.randint(base.period_us // 4, 2 * base.gap_us)
    return faults


INCIDENTS: tuple[tuple[Callable[[random.Random, Scenario, int], list[Fault]], int], ...] = (
    (_kill, 6),
    (_terminate, 3),
    (_short_hang, 4),
    (_long_hang, 4),
    (_two_killed, 2),
    (_unclean, 2),
    (_remade, 2),
    (_lagging, 1),
    (_cut, 2),
    (_stalled, 3),
    (_reprobed, 3),
    (_without_controller, 3),
)
"""Incidents and how often each is chosen."""
