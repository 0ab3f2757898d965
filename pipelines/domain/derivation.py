r"""What follows from the facts of one cluster? Everything derived, once, in the one order in which each needs the others.

    facts -> outages -> absences of brokers -> windows of every partition -> causes and boundaries -> losses -> incidents
         \-> spans out of the ISR

Silver's tables are rows of this; the fast lane, which has only probes, computes the first step. Nothing here knows of Spark.
"""

from dataclasses import dataclass

from pipelines.domain.brokers import absences
from pipelines.domain.data_loss import Loss, losses
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.incidents import Incident, incidents
from pipelines.domain.intervals import Bounds
from pipelines.domain.leadership import leader_windows
from pipelines.domain.phases import Evidence, Recovery
from pipelines.domain.replication import OutOfSync, out_of_sync
from pipelines.domain.stalls import stall_windows
from pipelines.domain.unavailability import Outage, outages
from pipelines.domain.windows import PartitionWindow


@dataclass(frozen=True, slots=True)
class Explained:
    """An outage of a stream with its cause and boundaries."""

    stream: Stream
    outage: Outage
    recovery: Recovery
    period_us: int
    lambda_us: int
    clock_id: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """Everything that follows from the facts of one cluster."""

    facts: Facts
    outages: list[Explained]
    windows: list[tuple[PartitionWindow, Recovery]]
    out_of_sync: list[OutOfSync]
    losses: list[Loss]
    incidents: list[Incident]


def derive(facts: Facts, seeds: list[OutOfSync]) -> Derivation:
    """Derives everything; `seeds` are the spans out of the ISR that were open when the facts begin."""
    by_stream = {stream: found for stream, runs in facts.probes.items() if (found := list(outages(runs)))}
    evidence = Evidence(facts, absences(facts, by_stream))
    windows = [*leader_windows(facts, by_stream, evidence.absences), *stall_windows(facts, by_stream, evidence.absences)]
    windows.sort(key=lambda one: (one.start.high or 0, one.window, one.partition))
    for window in windows:
        evidence.windows.setdefault(window.partition, []).append(window)
    explained = [_explained(evidence, stream, outage) for stream, found in by_stream.items() for outage in found]
    clean = frozenset((one.stream, one.outage.first_bad_issued_us) for one in explained if one.recovery.is_clean_election)
    spans = [(one.outage.start, _end(one.outage)) for one in explained] + [(one.start, one.end) for one in windows]
    return Derivation(
        facts,
        explained,
        [(one, evidence.of_window(one)) for one in windows],
        out_of_sync(facts, seeds),
        losses(facts, by_stream, clean),
        incidents(facts.cluster_id, spans),
    )


def _explained(evidence: Evidence, stream: Stream, outage: Outage) -> Explained:
    run = evidence.facts.probes[stream][-1]
    return Explained(stream, outage, evidence.of_outage(stream, outage), run.period_us, run.lambda_us, run.clock_id)


def _end(outage: Outage) -> Bounds:
    """The end as far as an incident goes: an outage that was cut by another clock does not go on for ever."""
    return Bounds(outage.last_bad_issued_us, outage.last_bad_issued_us + outage.gap_us) if outage.is_cut else outage.end
