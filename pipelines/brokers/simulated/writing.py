"""How is what was seen written down? As the real collectors do it: in runs, under envelopes, by the clock of who saw it.

The rule: decided probes go through the span builder of the real collectors, which is flushed at odd moments; a prober that is killed
takes with it what was not decided, written or flushed yet. A prober whose clock is off writes its own time.

Example: a prober that is killed at 30 s has written what its last flush at 24.1 s held, and the runs that began or ended since.
"""

import random
from collections.abc import Iterable
from typing import Any

from pipelines.brokers.simulated.hosts import HostClocks, moved
from pipelines.brokers.simulated.observers import Boot
from pipelines.brokers.simulated.probing import Probing
from pipelines.domain.observations import LateAcks, Observation, Outcome, Probes
from pipelines.domain.spans import Decided, LateAck, Line, SpanBuilder, late_runs

SYSTEM = "simulated"


class Pen:
    """Writes observations under the envelopes of their collectors."""

    def __init__(self, clocks: HostClocks, cluster_id: str) -> None:
        self.observations: list[Observation] = []
        self.clocks = clocks
        self.cluster_id = cluster_id
        self._sequences: dict[tuple[str, str], int] = {}

    def write(self, record: type[Any], collector: str, prober_id: str, boot_id: str, **fields: Any) -> Any:
        """One record; its instants are given on the first prober's clock."""
        return self.noted(record, collector, prober_id, boot_id, **moved(fields, self.clocks.of_prober(prober_id)))

    def noted(self, record: type[Any], collector: str, prober_id: str, boot_id: str, **fields: Any) -> Any:
        """One record; its instants are given on its prober's clock."""
        key = (prober_id, boot_id)
        seq = self._sequences[key] = self._sequences.get(key, -1) + 1
        one = record(
            system=SYSTEM,
            cluster_id=self.cluster_id,
            collector=collector,
            prober_id=prober_id,
            boot_id=boot_id,
            clock_id=self.clocks.clock_id(prober_id),
            seq=seq,
            **fields,
        )
        self.observations.append(one)
        return one

    def probing(self, probing: Probing, rng: random.Random) -> list[Probes]:
        """Everything that one lane of one partition brought. Returns its runs."""
        name = probing.observer.prober_id
        collector = name.partition("-")[0]
        runs = [self.write(Probes, collector, name, boot_id, **line) for boot_id, line in _lines(probing, rng)]
        for boot_id, line in _late_lines(probing):
            self.write(LateAcks, collector, name, boot_id, **line)
        return runs


def _place(probing: Probing) -> Line:
    partition = probing.service.partition
    return {"resource": partition.resource, "shard": partition.shard, "kind": probing.kind, "lane": probing.lane}


def _lines(probing: Probing, rng: random.Random) -> list[tuple[str, Line]]:
    lines = []
    for boot, probes in probing.decided:
        lines += [(boot.boot_id, line) for line in _of_boot(probing, boot, probes, rng)]
    return lines


def _of_boot(probing: Probing, boot: Boot, probes: Iterable[Decided], rng: random.Random) -> list[Line]:
    scenario = probing.scenario
    builder = SpanBuilder(
        **_place(probing),
        period_us=probing.period_us,
        lambda_us=probing.lambda_us,
        has_contiguous_positions=probing.writes and scenario.is_cut_at_positions,
    )
    lines: list[Line] = []
    flush_at = boot.begin_us + rng.randint(0, scenario.flush_us)
    known_at = 0
    for probe in probes:
        known_at = max(known_at, probe.decided_at_us)
        if boot.is_crash and known_at > boot.end_us:
            return lines
        while flush_at < known_at:
            lines += builder.flush()
            flush_at += rng.randint(1, scenario.flush_us)
        lines += builder.add(_placed(probing, probe) if probing.writes and probe.outcome == Outcome.ACKED else probe)
    if not boot.is_crash:
        lines += builder.close()
    return lines


def _placed(probing: Probing, probe: Decided) -> Decided:
    """The probe with the position of its record, which is known by now."""
    return Decided(*probe[:11], probing.appended[int(probe.position or 0)].position, *probe[12:])


def _late_lines(probing: Probing) -> Iterable[tuple[str, Line]]:
    """Late acknowledgements as runs, by run of the prober."""
    acks: dict[str, list[LateAck]] = {}
    late = [*probing.late, *((record, issued, record.appended_us) for record, issued in probing.in_vain)]
    for record, issued, late_us in late:
        acks.setdefault(record.boot_id, []).append(LateAck(record.sequence, issued, late_us, record.position))
    for boot_id, of_boot in acks.items():
        for line in late_runs(of_boot):
            yield boot_id, _place(probing) | line
