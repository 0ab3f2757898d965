"""Which probes bound an outage? Their names, so that anybody can find the lines that an RTO rests on.

The rule: the bounds of an outage (see `unavailability`) are instants of four probes: S was issued at the start's minimum, B1 is the
first bad one, Bn was issued at the end's minimum, T was answered at the end's maximum. A probe is named by the run of its prober and
its sequence, `boot_id/sequence`. Lines are runs of probes that were issued one period apart, and runs of one prober do not overlap:
the run that holds an issue is found by its start, and the probe's place in it by counting periods.

Worked example, P = 100 ms: a run of boot 7f3c begins with sequence 40 at 0 ms; the probe issued at 300 ms is `7f3c/43`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.domain.goods import is_good
from pipelines.domain.observations import Outcome, Probes
from pipelines.domain.unavailability import Outage


@dataclass(frozen=True, slots=True)
class Bounding:
    """The names of S, B1, Bn and T, and the clock by which their instants are given; None where there is no such probe."""

    clock_id: str
    last_good: str | None
    first_bad: str | None
    last_bad: str | None
    first_good: str | None


def bounding(runs: Sequence[Probes], outage: Outage) -> Bounding:
    """Names the probes that bound an outage of a stream.

    Args:
        runs: the stream's runs, as `Facts.probes` has them, at least one.
        outage: one of the outages that follow from them.
    """
    bads = sorted((run for run in runs if not is_good(run) and run.outcome != Outcome.VOID), key=lambda run: run.started_at_us)
    first = _holding(bads, outage.first_bad_issued_us)
    clock_id = first.clock_id if first else runs[-1].clock_id
    goods = sorted((run for run in runs if is_good(run) and run.clock_id == clock_id), key=lambda run: run.started_at_us)
    return Bounding(
        clock_id,
        _name(goods, outage.before.issued_us if outage.before else None),
        _name(bads, outage.first_bad_issued_us),
        _name(bads, outage.last_bad_issued_us),
        _name(goods, outage.after.issued_us if outage.after else None),
    )


def _holding(runs: Sequence[Probes], issued_us: int) -> Probes | None:
    """The run in which a probe was issued at that instant; None where a collector wrote what cannot be."""
    index = bisect_right(runs, issued_us, key=lambda run: run.started_at_us)
    return next((run for run in reversed(runs[:index]) if run.last_issued_at_us >= issued_us), None)


def _name(runs: Sequence[Probes], issued_us: int | None) -> str | None:
    run = None if issued_us is None else _holding(runs, issued_us)
    if run is None or issued_us is None:
        return None
    index = round((issued_us - run.started_at_us) / max(1, run.period_us))
    return f"{run.boot_id}/{min(run.first_sequence + index, run.last_sequence)}"
