"""Is every acknowledged record that is gone found to be lost, and no other?

The rule: the number of records that are reported lost lies between those that are certainly gone from what was read back, and all that
are gone. What was deleted with its topic is not lost, and is told where nobody had read it before. What is said to be present is there,
and the span of what is lost is not longer than said.

Example: 40 acknowledged records were cut off, 38 of them below the end of the last read-back: 38 to 40 are to be reported.
"""

from collections.abc import Iterator

from pipelines.brokers.simulated.history import History
from pipelines.brokers.simulated.judgement import Judgement, name_of
from pipelines.brokers.simulated.logs import Record
from pipelines.brokers.simulated.reported import Found, Reported
from pipelines.brokers.simulated.scenario import USER_TOPIC
from pipelines.domain.data_loss import DELETED_BY_POLICY, EPOCH_END, LOST, PRESENT, TOPIC_DELETED
from pipelines.domain.facts import Facts, Stream
from pipelines.domain.ledger import Acked, Ledger, acked_runs
from pipelines.domain.observations import Lane, ReadBack
from pipelines.domain.sequences import common, minus, union


def judge_losses(history: History, facts: Facts, reported: Reported, found: Judgement) -> None:
    """Holds every finding about acknowledged records against the logs."""
    known: set[str] = set()
    for stream in (stream for stream in history.truth.lanes if stream.lane == Lane.RAW):
        gone = history.truth.gone[stream.partition]
        acked = acked_runs(facts.probes.get(stream, []), facts.late_acks.get(stream, []))
        ledgers = {boot_id: Ledger.of(boot_id, acked) for boot_id in {run.boot_id for run in acked}}
        is_timed = _is_timed(history, facts, stream)
        lost = {(one.boot_id, one.sequence): one for one in gone if _was_acked(ledgers.get(one.boot_id), one.sequence)}
        last = max((one for one in facts.readbacks if _is_of(one, stream)), key=lambda one: one.ended_at_us)
        of_last = [one for one in lost.values() if one.topic == history.truth.topics[stream.partition]]
        certain = [one for one in of_last if _is_within(ledgers[one.boot_id].run_of(one.sequence), one.position, last)]
        known |= ledgers.keys()
        findings = [one for one in reported.losses if _is_about(one, stream, ledgers)]
        count = sum(one.records.low or 0 for one in findings if one.verdict == LOST)
        found.lost_records += count
        name = f"seed {history.seed}: {'/'.join(name_of(stream))}"
        removed = {(one.boot_id, one.sequence) for one in history.truth.removed[stream.partition]}
        found.deleted_records += sum(_was_acked(ledgers.get(boot_id), sequence) for boot_id, sequence in removed)
        if is_timed:
            found.violations += [f"{name}: {text}" for text in _untold(facts, stream, removed, ledgers, findings)]
        else:
            certain = []
        if not len(certain) <= count <= len(lost):
            found.violations.append(f"{name}: {count} records are reported lost, {len(certain)} to {len(lost)} are")
        for one in findings:
            text = _contradiction(one, lost, removed, ledgers[one.boot_id])
            if text:
                found.violations.append(f"{name}: {text}")
    strange = [one for one in reported.losses if one.evidence != EPOCH_END and one.boot_id not in known]
    if strange:
        found.violations.append(f"seed {history.seed}: {len(strange)} findings are about records that nobody wrote, as {strange[0]}")
    users = [of for partition, of in history.truth.trace.versions.items() if partition.resource == USER_TOPIC]
    expected = sum(version.is_unclean for of in users for version in of)
    committed = sum(1 for one in reported.losses if one.evidence == EPOCH_END)
    if expected != committed:
        found.violations.append(f"seed {history.seed}: {committed} losses of users' records are reported, {expected} happened")


def _is_about(one: Found, stream: Stream, ledgers: dict[str, Ledger]) -> bool:
    is_of_lane = (one.partition, one.kind, one.lane) == (stream.partition, stream.kind, stream.lane)
    return is_of_lane and one.boot_id in ledgers


def _is_timed(history: History, facts: Facts, stream: Stream) -> bool:
    """Whether anybody knows what the prober had written before a read-back: their clocks may have nothing in common."""
    clocks = history.truth.clocks
    own, other = clocks.clock_id(stream.prober_id), clocks.clock_id("readback")
    return facts.clocks.between(own, other) is not None


def _is_within(run: Acked, position: int, readback: ReadBack) -> bool:
    """Whether a record was certainly within what was read: nobody knows where exactly it was stored amid those of others."""
    begin, end = int(readback.log_start_position), int(readback.to_position)
    at_last = run.position(run.last_sequence)
    is_known = at_last - run.first_position == run.last_sequence - run.first_sequence
    return begin <= position < end and (is_known or (begin <= run.first_position and at_last < end))


def _was_acked(ledger: Ledger | None, sequence: int) -> bool:
    if ledger is None:
        return False
    try:
        ledger.run_of(sequence)
    except KeyError:
        return False
    return True


def _is_of(readback: ReadBack, stream: Stream) -> bool:
    return (readback.resource, readback.shard, readback.kind, readback.lane) == name_of(stream)


def _untold(
    facts: Facts, stream: Stream, removed: set[tuple[str, int]], ledgers: dict[str, Ledger], findings: list[Found]
) -> Iterator[str]:
    """Records that were deleted with their topic before anybody read them, and of which nothing is said."""
    for boot_id, ledger in ledgers.items():
        of_boot = union((sequence, sequence) for boot, sequence in removed if boot == boot_id)
        named = [(run.first_sequence, run.last_sequence) for run in ledger.runs if run.topic_id is not None]
        read = [found for one in facts.readbacks if _is_of(one, stream) for found in ledger.found_in(one)]
        told = [about for one in findings if one.boot_id == boot_id and (about := one.sequences(ledger)) is not None]
        untold = minus(common(of_boot, named), [*read, *told])
        if untold:
            yield f"records {untold} of {boot_id} were deleted with their topic, of which nothing is said"


def _contradiction(one: Found, lost: dict[tuple[str, int], Record], removed: set[tuple[str, int]], ledger: Ledger) -> str | None:
    """What the truth says against a finding; None when it holds."""
    about = one.sequences(ledger)
    if about is None:
        return f"{one} is about records that were not acknowledged"
    first, last = about
    inside = sorted(sequence for boot_id, sequence in lost if boot_id == one.boot_id and first <= sequence <= last)
    if one.verdict == PRESENT and inside:
        return f"{len(inside)} records of {first} to {last} are gone, said to be present"
    if one.reason == TOPIC_DELETED and one.verdict == DELETED_BY_POLICY:
        about_removed = [(sequence, sequence) for boot_id, sequence in removed if boot_id == one.boot_id]
        others = minus(common(ledger.sequences, [(first, last)]), [*about_removed, *((at, at) for at in inside)])
        return f"{others} of {one.boot_id} are said to be deleted with their topic, which they were not" if others else None
    if one.verdict == LOST:
        if len(inside) < (one.records.low or 0):
            return f"{one.records.low} records of {first} to {last} are said to be lost, {len(inside)} are"
        span = ledger.issued_us(inside[-1]) - ledger.issued_us(inside[0])
        if one.span.high is not None and span > one.span.high:
            return f"lost records span {span} us, said is at most {one.span.high}"
    return None
