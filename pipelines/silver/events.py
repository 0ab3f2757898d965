"""silver.events: what happened, in the order of time, for people: control plane, clients, faults, blindness, silent brokers."""

from collections.abc import Iterator

from pipelines.domain.derivation import Derivation
from pipelines.domain.facts import Facts
from pipelines.domain.incidents import incident_of
from pipelines.domain.intervals import Bounds
from pipelines.domain.names import identity
from pipelines.domain.observations import Blind, BrokerMetrics, Control, EpochEnd, Fault, LeaderSeen, Observation, Outcome
from pipelines.silver.base import Row, cluster, instant, lasting

TABLE = "silver.events"
COLUMN = "happened_at_max"
RULE_VERSION = "events-3"

NOTHING: Row = dict.fromkeys(
    ("resource", "shard", "broker", "leader", "previous_leader", "term", "isr", "previous_isr", "position", "source", "detail")
)


def rows(derivation: Derivation) -> Iterator[Row]:
    """One row per event."""
    facts = derivation.facts
    silent = [one for one in facts.broker_metrics if one.outcome != Outcome.ACKED]
    seen: list[Control | LeaderSeen | EpochEnd | Fault | Blind | BrokerMetrics] = [
        *facts.controls,
        *facts.leader_seen,
        *facts.epoch_ends,
        *facts.faults,
        *facts.blinds,
        *silent,
    ]
    for one in seen:
        yield {
            **NOTHING,
            **cluster(facts),
            "event_id": identity(one.prober_id, one.boot_id, one.seq),
            "happened_at_min": instant(one.started_at_us),
            "happened_at_max": instant(one.ended_at_us),
            "source": f"{one.collector} {one.prober_id}",
            **_particulars(one),
            **_clock(facts, one),
            "incident_id": incident_of(
                derivation.incidents, Bounds(one.started_at_us, one.started_at_us), Bounds(one.ended_at_us, one.ended_at_us)
            ),
            "rule_version": RULE_VERSION,
        }


def _particulars(one: Control | LeaderSeen | EpochEnd | Fault | Blind | BrokerMetrics) -> Row:
    match one:
        case Control():
            return _control(one)
        case LeaderSeen():
            return {
                "event": "leader_seen",
                "resource": one.resource,
                "shard": one.shard,
                "leader": one.leader,
                "previous_leader": one.previous_leader,
                "term": one.term,
                "detail": f"clients are told leader {one.leader or 'none'} instead of {one.previous_leader or 'none'}",
            }
        case EpochEnd():
            verdict = f"{one.lost_records} committed records are gone" if one.lost_records else "no committed record is gone"
            return {
                "event": "epoch_end",
                "resource": one.resource,
                "shard": one.shard,
                "leader": one.leader,
                "term": one.new_term,
                "detail": f"epoch {one.term} ends at {one.end_position}, committed up to {one.high_watermark_max}: {verdict}",
            }
        case Fault():
            effect = "seen to have taken effect" if one.is_verified else "not seen to have taken effect"
            return {"event": "fault", "broker": one.target, "detail": f"{one.fault} of {one.target}, {effect}"}
        case Blind():
            return {"event": "blind", "detail": f"the prober could not see: {one.cause}"}
        case BrokerMetrics():
            return {"event": "broker_silent", "broker": one.broker, "detail": f"metrics not answered: {one.code or one.outcome}"}


def _clock(facts: Facts, one: Observation) -> Row:
    """What placed an event that another host stamped; all None where our own clock did."""
    host = one.stamped_by if isinstance(one, Control) else None
    used = facts.clocks.used(host, one.clock_id, one.seen_at_us) if isinstance(one, Control) and host is not None else None
    return {
        "clock_host": host,
        "clock_method": used.method if used else None,
        **lasting("clock_offset", used.offset if used else Bounds(None, None)),
        "clock_lines": list(used.lines) if used else None,
    }


def _control(one: Control) -> Row:
    return {
        "event": str(one.event),
        "resource": one.resource,
        "shard": one.shard,
        "broker": one.broker,
        "leader": one.leader,
        "previous_leader": one.previous_leader,
        "term": one.term,
        "isr": None if one.isr is None else list(one.isr),
        "previous_isr": None if one.previous_isr is None else list(one.previous_isr),
        "position": one.position,
        "source": one.source,
        "detail": _said(one),
    }


def _said(one: Control) -> str:
    if one.resource is None:
        return f"{one.event.replace('_', ' ')}: {one.broker or ''}".strip(": ")
    parts = []
    if one.leader != one.previous_leader:
        parts.append(f"leader {one.previous_leader or 'none'} -> {one.leader or 'none'}")
    if one.isr != one.previous_isr and one.isr is not None and one.previous_isr is not None:
        parts.append(f"ISR {','.join(one.previous_isr)} -> {','.join(one.isr)}")
    if one.is_unclean:
        parts.append("unclean")
    return "; ".join(parts) or one.event.replace("_", " ")
