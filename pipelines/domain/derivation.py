r"""What follows from the facts of one cluster? Everything derived, once, in the one order in which each needs the others.

    facts -> outages -> absences of brokers -> windows of every partition -> causes and boundaries -> losses -> incidents
         \-> spans out of the ISR

Silver's tables are rows of this; the fast lane, which has only probes, computes the first step. Nothing here knows of Spark.
"""

from dataclasses import dataclass

from pipelines.domain.brokers import Absence, absences
from pipelines.domain.data_loss import Loss, losses
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.incidents import Incident, incidents
from pipelines.domain.leadership import PartitionWindow, partition_windows
from pipelines.domain.phases import Recovery, explain, recovery
from pipelines.domain.replication import OutOfSync, out_of_sync
from pipelines.domain.unavailability import Outage, outages


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
    broker_absences = absences(facts, by_stream)
    windows = partition_windows(facts, by_stream, broker_absences)
    explained = [
        _explained(facts, stream, outage, broker_absences, windows) for stream, found in by_stream.items() for outage in found
    ]
    clean = frozenset((one.stream, one.outage.first_bad_issued_us) for one in explained if one.recovery.is_clean_election)
    spans = [(one.outage.start, one.outage.end) for one in explained] + [(one.start, one.end) for one in windows]
    return Derivation(
        facts,
        explained,
        [(one, _why(facts, one, broker_absences, windows)) for one in windows],
        out_of_sync(facts, seeds),
        losses(facts, by_stream, clean),
        incidents(facts.cluster_id, spans),
    )


def _explained(
    facts: Facts, stream: Stream, outage: Outage, broker_absences: list[Absence], windows: list[PartitionWindow]
) -> Explained:
    run = facts.probes[stream][-1]
    why = recovery(facts, stream, outage, broker_absences, windows)
    return Explained(stream, outage, why, run.period_us, run.lambda_us, run.clock_id)


def _why(facts: Facts, one: PartitionWindow, broker_absences: list[Absence], windows: list[PartitionWindow]) -> Recovery:
    kind = "durable_write" if one.window == "acks_all_stalled" else "leader"
    codes = one.seen.codes if one.seen else ()
    return explain(facts, one.partition, kind, one.start, one.end, codes, broker_absences, windows)
