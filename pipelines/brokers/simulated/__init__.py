"""A broker cluster whose truth is known: seeded, in memory, as fast as its probes can be counted.

What no real cluster can give is the instant at which it really stopped serving. This one scripts it: brokers are killed, hang,
leave in order, lag; a controller notices late, elects, sometimes uncleanly; metadata reaches brokers and clients later still;
followers lag, logs are cut back, acknowledgements get lost; the prober stalls, is cut off, is killed. Collectors see what they
would see of it and write the records of `pipelines.domain.observations`, with the same span builder as the real ones.

    scenario (faults, timings) -> cluster (what happened) -> service (what was served: the truth) -> observers (what was seen)

`simulate(seed)` makes one `History`: observations and truth. `judge` holds what the domain derives from the observations against the
truth. `python -m pipelines.brokers.simulated` (`make truth`) does so for thousands of outages and prints a table.

Pure: no clock, no I/O; time is whole microseconds; the seed reproduces a history exactly. The probes respect the assumptions (A) and
(H) of the interval of an outage (ARCHITECTURE.md) unless a scenario is `short`, which breaks (H) on purpose.
"""

from pipelines.brokers.simulated.history import History, simulate
from pipelines.brokers.simulated.judge import Judgement, judge, judge_reported
from pipelines.brokers.simulated.scenario import Fault, Scenario, random_scenario

__all__ = ["Fault", "History", "Judgement", "Scenario", "judge", "judge_reported", "random_scenario", "simulate"]
