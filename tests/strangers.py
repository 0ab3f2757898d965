"""Landings as somebody would write them who has read docs/landing-format.md and nothing else of ours: JSON, line by line.

Nothing here uses the collectors' own code. A history is a service whose state is known at every instant (`Service`), a prober that asks
it and writes down what it sees (`Landing.probe`), and whatever other lines a test adds. Instants are seconds from the history's begin.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.domain.derivation import Derivation, derive
from pipelines.domain.facts import Facts
from pipelines.domain.landing import BadLine, decode

BEGIN_US = 1_795_000_000_000_000
SERVED, REFUSED, HUNG = "served", "refused", "hung"

Span = tuple[float, float]


def us(seconds: float) -> int:
    """An instant of a history, in microseconds since the epoch."""
    return BEGIN_US + round(seconds * 1_000_000)


@dataclass(frozen=True)
class Service:
    """One partition's service: what it does at each instant. `down` are (from, to, how, code); served outside of them."""

    down: tuple[tuple[float, float, str, str], ...] = ()

    def state(self, at: float) -> tuple[str, str, float]:
        """How it is, the code that a client is told, and until when."""
        for begin, end, how, code in self.down:
            if begin <= at < end:
                return how, code, end
        return SERVED, "", float("inf")


@dataclass(frozen=True)
class Asked:
    """One probe and what became of it. Instants in seconds."""

    sequence: int
    issued: float
    decided: float
    outcome: str
    code: str | None = None
    is_answered: bool = False
    position: int | None = None
    leader: str | None = None
    term: int | None = None
    late: float | None = None


@dataclass
class Landing:
    """Lines of one landing, in the order of writing."""

    cluster_id: str = "c-1"
    lines: list[dict[str, Any]] = field(default_factory=list)
    seqs: dict[tuple[str, str], int] = field(default_factory=dict)

    def line(self, record: str, *, prober: str = "p1", boot: str = "b1", clock: str = "k1", **fields: Any) -> "Landing":
        """One line under the next number of its writer. Fields that end in `_at` are seconds; None is left out."""
        key = (prober, boot)
        seq = self.seqs[key] = self.seqs.get(key, -1) + 1
        who = {"system": "kafka", "cluster_id": self.cluster_id, "collector": "canary", "prober_id": prober}
        envelope = {"format": 1, "record": record, **who, "boot_id": boot, "clock_id": clock, "seq": seq}
        told = {
            f"{name}_us" if name.endswith("_at") else name: us(value) if name.endswith("_at") else value
            for name, value in fields.items()
            if value is not None
        }
        self.lines.append(envelope | told)
        return self

    def control(self, event: str, at: float, **fields: Any) -> "Landing":
        """A decision that was read from the metadata log, by a collector whose clock is the controller's."""
        stamp = round(at * 1000) / 1000
        told = {"source": "metadata_fetch", "started_at": stamp, "ended_at": stamp + 0.000999, "seen_at": stamp + 0.005} | fields
        return self.line("control", **({"prober": "ctl"} | {"event": event} | told))

    def asked(
        self,
        resource: str,
        shard: str,
        kind: str,
        probes: Iterable[Asked],
        *,
        period: float = 0.1,
        lam: float = 1.0,
        style: str = "naive",
        **who: Any,
    ) -> "Landing":
        """Writes probes down as runs; `style`: a line a probe (single), cut at changes only (naive), and with open lines (growing)."""
        lane = {"write": "raw", "durable_write": "raw", "read": "read", "leader": "watch"}[kind]
        place = {"resource": resource, "shard": shard, "kind": kind, "lane": lane}
        run: list[Asked] = []
        for probe in probes:
            if run and (style == "single" or not _continues(run[-1], probe, period)):
                self._run(run, place, period, lam, who)
                run = []
            run.append(probe)
            if style == "growing" and len(run) % 7 == 1:
                self._run(run, place, period, lam, {**who, "is_open": True})
        if run:
            self._run(run, place, period, lam, who)
        return self

    def _run(self, run: list[Asked], place: dict[str, str], period: float, lam: float, who: dict[str, Any]) -> None:
        first, last = run[0], run[-1]
        latencies = [round((one.decided - one.issued) * 1e6) for one in run]
        is_acked = first.outcome == "ACKED"
        self.line(
            "probes",
            **place,
            outcome=first.outcome,
            code=first.code,
            is_answered=first.is_answered,
            count=len(run),
            first_sequence=first.sequence,
            last_sequence=last.sequence,
            started_at=first.issued,
            last_issued_at=last.issued,
            first_decided_at=first.decided,
            last_decided_at=last.decided,
            earliest_decided_at=min(one.decided for one in run),
            ended_at=max(one.decided for one in run),
            period_us=round(period * 1e6),
            lambda_us=round(lam * 1e6),
            latency_us_min=min(latencies) if is_acked else None,
            latency_us_max=max(latencies) if is_acked else None,
            first_position=None if first.position is None else str(first.position),
            last_position=None if last.position is None else str(last.position),
            leader=first.leader,
            term=first.term,
            **who,
        )

    def probe(self, resource: str, shard: str, kind: str, service: Service, until: float, **how: Any) -> list[Asked]:
        """Asks a service and writes it down."""
        who = {name: how.pop(name) for name in ("prober", "boot", "clock", "style") if name in how}
        found = asks(service, until, **how)
        self.asked(resource, shard, kind, found, period=how.get("period", 0.1), lam=how.get("lam", 1.0), **who)
        return found

    def texts(self) -> list[str]:
        """The lines as text."""
        return [json.dumps(one, ensure_ascii=False) for one in self.lines]

    def derived(self, texts: Sequence[str] | None = None) -> Derivation:
        """Everything that follows from the lines that are good."""
        return derive(Facts.of(good(self.texts() if texts is None else texts)), [])


def good(texts: Iterable[str]) -> list[Any]:
    """The observations of the good lines."""
    found = []
    for text in texts:
        try:
            found.append(decode(text))
        except BadLine:
            continue
    return found


def _continues(last: Asked, probe: Asked, period: float) -> bool:
    def said(one: Asked) -> tuple[Any, ...]:
        return one.outcome, one.code, one.is_answered, one.leader, one.term, one.position is None

    is_next = probe.sequence == last.sequence + 1 and abs(probe.issued - last.issued - period) < 1e-7
    is_stored_next = last.position is None or probe.position is None or probe.position == last.position + 1
    return said(last) == said(probe) and is_next and is_stored_next


def asks(
    service: Service,
    until: float,
    *,
    begin: float = 0.0,
    period: float = 0.1,
    lam: float = 1.0,
    seed: int = 1,
    pauses: Sequence[Span] = (),
    lost: Sequence[Span] = (),
    slow: float = 0.006,
    leader: Any = None,
    term: Any = None,
    stores: bool = True,
    first_sequence: int = 0,
    first_position: int = 0,
) -> list[Asked]:
    """What a prober is answered. `pauses`: it stood still; `lost`: what it issued then was never written down."""
    rng = random.Random(seed)
    found: list[Asked] = []
    position = first_position
    count = round((until - begin) / period)
    for index in range(count):
        issued = round(begin + index * period, 6)
        one = _one(service, first_sequence + index, issued, lam, rng.uniform(0.001, slow), pauses)
        if one.outcome == "ACKED" and stores:
            one = Asked(**{**_dict(one), "position": position})
            position += 1
        told = leader(issued) if callable(leader) else leader
        epoch = term(issued) if callable(term) else term
        one = Asked(**{**_dict(one), "leader": told, "term": epoch})
        # What is decided after the end of the history has not been seen.
        if one.decided <= until and not any(a <= issued < b for a, b in lost):
            found.append(one)
    return found


def _dict(one: Asked) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _one(service: Service, sequence: int, issued: float, lam: float, latency: float, pauses: Sequence[Span]) -> Asked:
    def is_paused(at: float) -> bool:
        return any(a <= at < b for a, b in pauses)

    if is_paused(issued) or is_paused(issued + lam):
        return Asked(sequence, issued, round(issued + lam, 6), "VOID", "STALLED")
    at = issued + latency / 2
    how, code, end = service.state(at)
    while how == HUNG and end < issued + lam:
        at = end + latency / 4
        how, code, end = service.state(at)
    answered = round(max(at, issued) + latency / 2, 6)
    for a, b in pauses:
        if a <= answered < b:
            answered = round(b + 0.0005, 6)
    if how == HUNG or answered > issued + lam:
        return Asked(sequence, issued, round(issued + lam, 6), "UNKNOWN", "TIMED_OUT", late=end + 0.01 if how == HUNG else answered)
    if how == REFUSED:
        return Asked(sequence, issued, answered, "REJECTED", code or "CONNECTION_REFUSED", code not in ("", "CONNECTION_REFUSED"))
    return Asked(sequence, issued, answered, "ACKED", None, True)
