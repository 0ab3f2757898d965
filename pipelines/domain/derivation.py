r"""What follows from the facts of one cluster? Everything derived, once, in the one order in which each needs the others.

    facts -> outages -> absences of brokers -> windows of every partition -> causes and boundaries -> losses -> incidents
         |          \-> views of several probers, service-side windows          \-> windows of the controller
         \-> spans out of the ISR                                                          all of it -> findings

Where probers read clocks of their own, each one's outages and losses are derived on its own timeline, and what belongs to the cluster
on the main one (see `timelines`).

Silver's tables are rows of this; the fast lane, which has only probes, computes the first step. Nothing here knows of Spark.
"""

from dataclasses import dataclass

from pipelines.domain.brokers import Absence, absences
from pipelines.domain.committed import committed_losses, proofs_of_loss
from pipelines.domain.controllers import ControllerWindow, controller_windows
from pipelines.domain.data_loss import Loss, losses
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.findings import Finding, findings
from pipelines.domain.incidents import Incident, incident_of, incidents
from pipelines.domain.intervals import Bounds
from pipelines.domain.isolation import isolation_windows
from pipelines.domain.laggards import laggards
from pipelines.domain.leadership import leader_windows
from pipelines.domain.min_isr import min_isr_windows
from pipelines.domain.observations import EpochEnd
from pipelines.domain.phases import PROBER_ALONE, Evidence, Recovery
from pipelines.domain.replication import OutOfSync, out_of_sync
from pipelines.domain.stalls import stall_windows
from pipelines.domain.timelines import Timeline, shifted, timelines, told_on
from pipelines.domain.unavailability import Outage, outages
from pipelines.domain.views import SINGLE, ServiceWindow, View, service_windows, views
from pipelines.domain.windows import PartitionWindow


@dataclass(frozen=True, slots=True)
class Explained:
    """An outage of a stream with its cause and boundaries, and what other probers say of it."""

    stream: Stream
    outage: Outage
    recovery: Recovery
    view: View
    period_us: int
    lambda_us: int
    clock_id: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """Everything that follows from the facts of one cluster."""

    facts: Facts
    outages: list[Explained]
    windows: list[tuple[PartitionWindow, Recovery]]
    service_windows: list[ServiceWindow]
    controllers: list[ControllerWindow]
    out_of_sync: list[OutOfSync]
    losses: list[Loss]
    findings: list[Finding]
    incidents: list[Incident]
    apart: dict[str, Bounds]
    """By prober whose clock is not of the main timeline, where it is known: what is to be added to an instant to have it there."""

    def incident_of(self, prober_id: str | None, start: Bounds, end: Bounds) -> str | None:
        """The incident that a span belongs to, which stands on the clock of a prober, or on the main timeline."""
        return incident_of(self.incidents, *_on_main(self.apart, prober_id, start, end))


def derive(facts: Facts, seeds: list[OutOfSync]) -> Derivation:
    """Derives everything; `seeds` are the spans out of the ISR that were open when the facts begin."""
    by_stream = {stream: found for stream, runs in facts.probes.items() if (found := list(outages(runs)))}
    seen = views(facts, by_stream)
    lines = timelines(facts)
    main, *others = [_Told.of(told_on(facts, one) if len(lines) > 1 else facts, by_stream, seen) for one in lines]
    everybody = (main, *others)
    out = out_of_sync(main.facts, seeds)
    controllers = list(controller_windows(main.facts, main.evidence.absences, main.windows))
    explained = [one for told in everybody for one in told.explained]
    apart = _apart(facts, lines)
    proofs = proofs_of_loss(facts)
    spans = [_on_main(apart, one.stream.prober_id, one.outage.start, _end(one.outage)) for one in explained]
    spans += [(one.start, one.end) for one in main.windows] + [(one.start, one.end) for one in controllers]
    return Derivation(
        facts,
        explained,
        [(one, main.evidence.of_window(one)) for one in main.windows],
        list(service_windows(facts, by_stream)),
        controllers,
        out,
        sorted(
            (loss for told in everybody for loss in told.losses(proofs)),
            key=lambda one: (one.checked_at_us, one.stream, one.first_position or 0),
        ),
        findings(facts, main.facts, by_stream, seen, main.absences, out),
        incidents(facts.cluster_id, spans),
        apart,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What follows on one timeline."""

    facts: Facts
    outages: dict[Stream, list[Outage]]
    absences: list[Absence]
    evidence: Evidence
    windows: list[PartitionWindow]
    explained: list[Explained]

    @classmethod
    def of(cls, facts: Facts, by_stream: dict[Stream, list[Outage]], seen: dict[tuple[Stream, int], View]) -> "_Told":
        own = {stream: found for stream, found in by_stream.items() if stream in facts.probes}
        gone = absences(facts, own)
        shown = {stream: [one for one in found if not _is_contradicted(seen, stream, one)] for stream, found in own.items()}
        confirmed = [one for one in gone if one.is_confirmed]
        evidence = Evidence(facts, confirmed, laggards(facts, shown, confirmed))
        windows = [
            *leader_windows(facts, shown, evidence.absences),
            *stall_windows(facts, shown, [*evidence.absences, *evidence.laggards]),
            *isolation_windows(facts, shown, evidence.absences),
            *min_isr_windows(facts, shown),
        ]
        windows.sort(key=lambda one: (one.start.high or 0, one.window, one.partition))
        for window in windows:
            evidence.windows.setdefault(window.partition, []).append(window)
        explained = [
            _explained(evidence, stream, outage, seen.get((stream, outage.first_bad_issued_us), SINGLE))
            for stream, found in own.items()
            for outage in found
        ]
        return cls(facts, own, gone, evidence, windows, explained)

    def losses(self, proofs: list[EpochEnd]) -> list[Loss]:
        """What became of what its probers wrote, and of what users did; `proofs` are all ends of epochs that prove a loss."""
        clean = frozenset((one.stream, one.outage.first_bad_issued_us) for one in self.explained if one.recovery.is_clean_election)
        return [*losses(self.facts, self.outages, clean), *committed_losses(self.facts, self.windows, proofs)]


def _apart(facts: Facts, lines: list[Timeline]) -> dict[str, Bounds]:
    """How far the instants of the probers of other timelines are off the main one."""
    found = {}
    for stream, runs in facts.probes.items() if len(lines) > 1 else ():
        clock_id = runs[-1].clock_id
        away = None if clock_id in lines[0].clock_ids else lines[0].apart(facts, clock_id)
        if away is not None:
            found[stream.prober_id] = away
    return found


def _on_main(apart: dict[str, Bounds], prober_id: str | None, start: Bounds, end: Bounds) -> tuple[Bounds, Bounds]:
    away = apart.get(prober_id) if prober_id is not None else None
    return (start, end) if away is None else (shifted(start, away), shifted(end, away))


def _is_contradicted(seen: dict[tuple[Stream, int], View], stream: Stream, outage: Outage) -> bool:
    """Whether another prober was served in the middle of it: it was, in part at least, the prober's own trouble, and its bounds are not
    the partition's."""
    return bool(seen.get((stream, outage.first_bad_issued_us), SINGLE).contradicted_by)


def _explained(evidence: Evidence, stream: Stream, outage: Outage, view: View) -> Explained:
    run = evidence.facts.probes[stream][-1]
    recovery = evidence.of_outage(stream, outage)
    if view.is_proven_alone:
        recovery = Recovery(PROBER_ALONE, None, is_clean_election=recovery.is_clean_election)
    return Explained(stream, outage, recovery, view, run.period_us, run.lambda_us, run.clock_id)


def _end(outage: Outage) -> Bounds:
    """The end as far as an incident goes: an outage that was cut by another clock does not go on for ever."""
    return Bounds(outage.last_bad_issued_us, outage.last_bad_issued_us + outage.gap_us) if outage.is_cut else outage.end
