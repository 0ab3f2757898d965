"""Does the truth lie within what was derived? A history's truth against the windows and losses that follow from its observations.

The rule, for every lane: each reported outage claims one not-served span (or some, where it says so: flapping, or the prober was
blind); the span's begin lies in its start bounds, its end in its end bounds, its length in its RTO bounds. Every span that (H) allows
to be seen, and that the prober was there to see, is claimed by exactly one outage. Windows of partitions are held against the truth of
the partition, or of what the watch was served, whichever they claim; lost records are counted.

Example: a span [10.000, 19.200] s and an outage with start [9.9, 10.05], end [19.15, 19.27]: it holds, and is 0.27 s wide.
"""

from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judge_controllers import judge_controllers
from pipelines.brokers.simulated.judge_lanes import judge_lanes
from pipelines.brokers.simulated.judge_losses import judge_losses
from pipelines.brokers.simulated.judge_service import judge_service
from pipelines.brokers.simulated.judge_windows import judge_windows
from pipelines.brokers.simulated.judgement import Judgement
from pipelines.brokers.simulated.reported import Reported
from pipelines.domain.derivation import Derivation
from pipelines.domain.facts import Facts

__all__ = ["Judgement", "judge", "judge_reported"]


def judge(history: History, derivation: Derivation) -> Judgement:
    """Holds a derivation of a history's observations against its truth."""
    return judge_reported(history, derivation.facts, Reported.of(derivation))


def judge_reported(history: History, facts: Facts, reported: Reported) -> Judgement:
    """Holds what is reported of a history against its truth; `facts` are those of the history's own observations."""
    found = Judgement()
    judge_lanes(history, reported, found)
    judge_windows(history, reported, found)
    judge_service(history, facts, reported, found)
    judge_controllers(history, reported, found)
    judge_losses(history, facts, reported, found)
    return found
