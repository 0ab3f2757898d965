"""Is what we say true? Every drill, whatever it expects, is held against its injector and its witnesses. Pure: data in, claims out.

What is provable, and is therefore what is asked (a, c as in `witness`; e the measured error between the two clocks, plus 1 ms):

- *Never down while it served.* For an outage of a witness's partition, [started_at_max, ended_at_min) is certainly not served. A leader
  that appended at a was serving: a must not lie more than e inside. With acks=all the last replica answered in [a, c + 1 ms]: that span
  must not lie more than e inside. c alone is not asked: it may come long after the append.
- *Never without a leader while it was read.* A record that was appended at a and that a consumer had at c was read in [a, c + 1 ms].
  What was read is committed: where it is gone, for longer than 3 s of it, a LOST row says so.
- *Never silent for longer than we say.* Between two acknowledgements of a partition lie its outages, and what its client adds
  (`CLIENT_ADDS_MS`), and what this host took from both of us (blind time of the prober). A silence longer than that and two periods of
  the watch that touches no outage of ours was missed by us.
- *Gone is gone.* No row says fewer lost records than are gone at most, nor more than are gone at least, nor a span that cannot be.
  Committed records (acks=all) that were acknowledged for more than 3 s before they were gone had been seen committed: a LOST row.
- *A fault is where the outage begins.* A broker that is killed or stopped at an instant within [before, verified] is the reason for
  what it led or followed: the bounds of those starts must share an instant with [before, verified]. They need not contain it whole.
- *Nothing begins before the fault*: in steady state there is no outage.
- *What was measured was measured*: coverage.

Example: an outage that is certain in [1.2 s, 9.1 s] and a record that the leader appended at 5.0 s: the outage is wrong.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from pipelines.drills.claims import Claim, claim
from pipelines.drills.history import Act, History, Row, Witnessed
from pipelines.drills.records import CLIENT_ADDS_MS, REQUEST_MS, Ack, Consumed, Stored

OUTAGES, LOSSES, AVAILABILITY, EVENTS = "gold.outages", "gold.losses", "gold.availability", "silver.events"
OF_ACKS = {-1: ("durable_write", "leader", "write"), 1: ("leader", "write")}
"""The kinds of service without which a record of these acks is not acknowledged."""
OF_READS = ("leader", "read")
"""The kinds of service without which nothing is read."""
UNSEEN_MS = 4_000
"""The watch asks once a second and waits a second: shorter outages of a partition that nobody writes to for us may go unseen."""
SAMPLED_US = 3_000_000
"""By then a committed record has been seen below the high watermark: the watch asks every second and waits a second."""
AFTER_US = 3_000_000
"""Outages that begin later than this after a fault are not asked whether it is where they begin."""
PROBED = ("raw", "read")
DELETING = ("delete-topic", "delete-records", "alter-topic")
"""Actions after which records may be gone because somebody wanted it."""


def always(history: History, coverage: float) -> list[Claim]:
    """The claims that every drill must meet."""
    found: list[Claim] = []
    for witness in history.witnesses:
        found += [_never_down_while_served(history, witness), _never_silent_for_longer(history, witness), _gone(history, witness)]
        if witness.consumed:
            found += [_never_down_while_read(history, witness), _read_and_gone(history, witness)]
    found += [_canary_records(history), _faults_begin_outages(history), _nothing_before(history), _coverage(history, coverage)]
    return found


# --- acknowledgements -------------------------------------------------------------------------------------------------


def _never_down_while_served(history: History, witness: Witnessed) -> Claim:
    spans = [row for row in _rows_of(history, witness) if _certain(row) is not None]
    # With acks=1 the append alone proves that the leader served; with acks=all the last replica answered by the acknowledgement.
    wrong = _inside(history, witness, spans, witness.acked, "acknowledged at", lambda row: row["kind"] == "durable_write")
    return claim(
        f"{witness.topic}: never down while it served",
        "no record appended and acknowledged inside a span that we call certainly down",
        wrong,
        f"none of {len(witness.acked)} acknowledgements in {len(spans)} spans",
    )


def _never_down_while_read(history: History, witness: Witnessed) -> Claim:
    spans = [row for row in history.rows(OUTAGES) if row["resource"] == witness.topic and row["kind"] in OF_READS]
    return claim(
        f"{witness.topic}: never down while it was read",
        "no record appended and read inside a span that we call certainly down",
        _inside(history, witness, spans, witness.consumed, "read by", lambda _row: True),
        f"none of {len(witness.consumed)} records that a consumer had in {len(spans)} spans",
    )


def _inside(
    history: History,
    witness: Witnessed,
    spans: Iterable[Row],
    records: Iterable[Ack | Consumed],
    done: str,
    takes_answer: Callable[[Row], bool],
) -> list[str]:
    """The records of a witness that were appended and done within a span in which we say that it was certainly down.

    `takes_answer`: whether what contradicts the span had been done only when the client had its answer.
    """
    appended = {(one.partition, one.value): one.appended_ms * 1000 for one in witness.stored}
    error = history.clock_error_us + 1000
    wrong = []
    for row in spans:
        begin, end = _certain(row) or (0, 0)
        for one in records:
            at = appended.get((one.partition, one.value))
            if str(one.partition) != row["shard"] or at is None or at < begin + error:
                continue
            done_by = (one.at_ms + 1) * 1000 if takes_answer(row) else at + 1000
            if done_by <= end - error:
                wrong.append(
                    f"{row['shard']} {row['kind']} down for certain in [{_s(history, begin)}, {_s(history, end)}] s, but offset"
                    f" {one.offset} was appended at {_s(history, at)} s and {done} {_s(history, one.at_ms * 1000)} s"
                )
    return wrong


def _read_and_gone(history: History, witness: Witnessed) -> Claim:
    gone = {} if _is_deleted_on_purpose(history, witness) else witness.consumed_and_gone()
    wrong = []
    for partition, records in sorted(gone.items()):
        rows = [row for row in history.rows(LOSSES) if (row["resource"], row["shard"]) == (witness.topic, str(partition))]
        at = [one.at_ms for one in records]
        if (max(at) - min(at)) * 1000 > SAMPLED_US and not any(row["verdict"] == "LOST" for row in rows):
            wrong.append(f"{partition}: a consumer had {len(at)} records that are gone, and no row says LOST")
    return claim(
        f"{witness.topic}: what was read and is gone is lost",
        "a LOST row where records are gone that a consumer had",
        wrong,
        f"{sum(map(len, gone.values()))} of {len(witness.consumed)} records that a consumer had are gone",
    )


def _never_silent_for_longer(history: History, witness: Witnessed) -> Claim:
    wrong = []
    longest = 0.0
    rows = _rows_of(history, witness)
    for partition in sorted({ack.partition for ack in witness.acked}):
        of_partition = [row for row in rows if row["shard"] == str(partition)]
        for before, after in pairwise(sorted(ack.at_ms for ack in witness.acked if ack.partition == partition)):
            silence = float(after - before)
            longest = max(longest, silence)
            allowed = _explained_ms(of_partition, before * 1000, after * 1000)
            if allowed is None:
                continue
            adds = CLIENT_ADDS_MS + _blind_ms(history, before * 1000, after * 1000) + 2 * (history.clock_error_us + 1000) / 1000
            if silence > allowed + adds + (0 if allowed else UNSEEN_MS):
                said = f"outages of at most {allowed:.0f} ms" if allowed else "no outage"
                wrong.append(f"{partition} silent for {silence:.0f} ms from {_s(history, before * 1000)} s, and we say {said}")
    return claim(
        f"{witness.topic}: never silent for longer than we say",
        f"every silence within our upper bound and the {CLIENT_ADDS_MS:.0f} ms that its client adds",
        wrong,
        f"longest silence {longest:.0f} ms",
    )


def _explained_ms(rows: Iterable[Row], from_us: int, to_us: int) -> float | None:
    """For how long at most we say that a partition was not served between two acknowledgements; None: nothing bounds it."""
    spans = []
    for row in rows:
        low, high = row["started_at_min"], row["ended_at_max"]
        if (low is None or low <= to_us) and (high is None or high >= from_us):
            if low is None or high is None:
                return None
            spans.append((max(low, from_us), min(high, to_us)))
    total, reach = 0, 0
    for low, high in sorted(spans):
        total += max(0, high - max(low, reach))
        reach = max(reach, high)
    return total / 1000


# --- what is gone -----------------------------------------------------------------------------------------------------


def _gone(history: History, witness: Witnessed) -> Claim:
    if _is_deleted_on_purpose(history, witness):
        return _deleted_on_purpose(history, witness)
    gone = witness.gone()
    partitions = sorted({ack.partition for ack in witness.acked})
    wrong = [text for partition in partitions for text in _wrong_about(history, witness, partition, gone.get(partition, []))]
    if not witness.is_read:
        wrong = []
    total = sum(map(len, gone.values()))
    return claim(
        f"{witness.topic}: what is gone is what we say",
        "LOST rows where committed records are gone, none elsewhere, with counts and spans that can be",
        wrong,
        f"{total} of {len(witness.acked)} acknowledged records gone" if witness.is_read else "nobody looked: the topic is no more",
    )


def _is_deleted_on_purpose(history: History, witness: Witnessed) -> bool:
    return witness.is_compacted or any(act.action in DELETING and act.target == witness.topic for act in history.acts)


def _deleted_on_purpose(history: History, witness: Witnessed) -> Claim:
    rows = [row for row in history.rows(LOSSES) if (row["resource"], row["verdict"]) == (witness.topic, "LOST")]
    wrong = [f"{row['shard']}: {row['records_min']} records LOST" for row in rows]
    return claim(f"{witness.topic}: what people delete is not lost", "no LOST row", wrong, "none")


def _wrong_about(history: History, witness: Witnessed, partition: int, gone: list[Ack]) -> Iterator[str]:
    """Contradictions between what is gone of a partition and what the tables say."""
    lost = [
        row
        for row in history.rows(LOSSES)
        if (row["resource"], row["shard"], row["verdict"]) == (witness.topic, str(partition), "LOST")
    ]
    least = sum(row["records_min"] for row in lost)
    # What was sent and never acknowledged may have been committed and be gone as well; nobody knows of which partition it was.
    if least > len(gone) + (witness.failed if gone else 0):
        yield f"{partition}: at least {least} records LOST by our rows, {len(gone)} are gone"
    span_ms = float(gone[-1].at_ms - gone[0].at_ms) if gone else 0.0
    committed_for_us = (gone[-1].at_ms - gone[0].at_ms) * 1000 if witness.acks == -1 and gone else 0
    if committed_for_us > SAMPLED_US and not lost:
        yield f"{partition}: {len(gone)} committed records are gone, of {span_ms:.0f} ms, and no row says LOST"
    for row in lost:
        # An acknowledgement comes at most a request's limit after its issue, so spans of issues and of callbacks differ by that.
        if gone and row["rpo_ms_min"] > span_ms + REQUEST_MS:
            yield f"{partition}: {span_ms:.0f} ms of data are gone, and we say at least {row['rpo_ms_min']:.0f} ms"
        if gone and row["rpo_ms_max"] is not None and row["rpo_ms_max"] < span_ms - REQUEST_MS:
            yield f"{partition}: {span_ms:.0f} ms of data are gone, and we say at most {row['rpo_ms_max']:.0f} ms"
    for row in history.rows(OUTAGES):
        # Of a user's partition only what was committed is spoken of: what acks=1 was acknowledged for beyond that nobody has seen.
        most = None if row.get("loss_scope") == "committed" and witness.acks == 1 else row["lost_records_max"]
        if (row["resource"], row["shard"]) == (witness.topic, str(partition)) and most is not None and most < len(gone):
            yield f"{partition}: {len(gone)} acknowledged records are gone, and an outage ({row['kind']}) says at most {most}"


def _canary_records(history: History) -> Claim:
    """Of the acknowledged canaries just those are gone from the disks that we call lost; those that we call present are there.

    What was deleted (below the first offset on the disk) is not asked. A record on the disk names itself in its value.
    """
    wrong, looked = [], 0
    for topic, records in history.canaries.items():
        for shard in sorted({str(one.partition) for one in records}):
            on_disk = [one for one in records if str(one.partition) == shard]
            gone = _gone_canaries(history, topic, shard, on_disk)
            looked += len(on_disk)
            lost = [row for row in _readback(history, topic, shard) if row["verdict"] == "LOST"]
            least, most = sum(row["records_min"] for row in lost), sum(row["records_max"] or 0 for row in lost)
            if not least <= gone <= most:
                wrong.append(f"{topic}/{shard}: {gone} acknowledged canaries are gone, and we say {least} to {most}")
            present = (row for row in _readback(history, topic, shard) if row["verdict"] == "PRESENT")
            wrong += [text for row in present for text in _not_there(history, row, on_disk)]
    expected = "as many gone as we call LOST, and those that we call PRESENT there"
    return claim("canaries: what we say is lost or present", expected, wrong, f"{looked} canaries on the disks")


def _gone_canaries(history: History, topic: str, shard: str, on_disk: list[Stored]) -> int:
    """How many acknowledged canaries of a partition are not on its disk, of those that were not deleted."""
    there = {tuple(one.value.split("|")[1::4]) for one in on_disk}
    log_start = min(one.offset for one in on_disk)
    acked = {
        (run.boot_id, str(run.first_sequence + index))
        for run in history.canary_acks
        if (run.topic, run.shard) == (topic, shard)
        for index in range(run.last_sequence - run.first_sequence + 1)
        if run.first_offset + index >= log_start
    }
    return len(acked - there)


def _not_there(history: History, row: Row, on_disk: list[Stored]) -> Iterator[str]:
    """Whether the first and the last record that a row calls present are on the disk, appended when they were acknowledged."""
    appended = {one.offset: one.appended_ms * 1000 for one in on_disk}
    error = history.clock_error_us + 1000
    for name in ("first_position", "last_position"):
        found = appended.get(int(row[name]))
        if found is None or not row["acked_from_at"] - error <= found <= row["acked_to_at"] + error:
            there = "is not there" if found is None else f"was appended at {_s(history, found)} s"
            yield f"{row['resource']}/{row['shard']} offset {row[name]} is called PRESENT, and on the disk it {there}"


def _readback(history: History, topic: str, shard: str) -> list[Row]:
    rows = history.rows(LOSSES)
    return [row for row in rows if (row["resource"], row["shard"], row["evidence"]) == (topic, shard, "readback")]


# --- when it began ----------------------------------------------------------------------------------------------------


def _faults_begin_outages(history: History) -> Claim:
    stops = [act for act in history.acts if act.stops]
    wrong, caused = [], 0
    for act in stops:
        for row in _rows_caused(history, act):
            caused += 1
            low, high = row["started_at_min"], row["started_at_max"]
            if low is not None and low > act.verified_at_us + 1000:
                wrong.append(
                    f"{_place(row)} begins in [{_s(history, low)}, {_s(history, high)}] s,"
                    f" after {act.action} of {act.target} had been seen at {_s(history, act.verified_at_us)} s"
                )
    return claim(
        "faults begin outages",
        "the start of each outage of what a stopped broker led or followed is where the fault was",
        wrong,
        f"{caused} outages of {len(stops)} stopping faults",
    )


def _rows_caused(history: History, act: Act) -> Iterator[Row]:
    """The first outage at or after the fault of each probed stream that needs the target."""
    led, followed = act.led(), act.followed()
    first: dict[tuple[str | None, ...], Row] = {}
    for row in history.rows(OUTAGES):
        shard = (row["resource"], row["shard"])
        needs = shard in led or (shard in followed and row["kind"] == "durable_write")
        if row["lane"] not in PROBED or not needs or row["started_at_max"] is None or row["started_at_max"] < act.before_at_us:
            continue
        key = (*shard, row["kind"], row["lane"], row.get("prober_id"))
        if key not in first or row["started_at_max"] < first[key]["started_at_max"]:
            first[key] = row
    for row in first.values():
        if row["started_at_min"] is None or row["started_at_min"] <= act.verified_at_us + AFTER_US:
            yield row


def _nothing_before(history: History) -> Claim:
    until = min((act.before_at_us for act in history.acts), default=history.ended_at_us)
    wrong = [
        f"{_place(row)} begins by {_s(history, row['started_at_max'])} s"
        for row in history.rows(OUTAGES)
        if row["started_at_max"] is not None and history.steady_at_us <= row["started_at_max"] < until
    ]
    return claim(
        "nothing before the fault", "no outage begins in steady state", wrong, f"none in {(until - history.steady_at_us) / 1e6:.1f} s"
    )


def _coverage(history: History, least: float) -> Claim:
    rows = history.rows(AVAILABILITY)
    if not rows:
        return Claim("coverage", f"{least:.0%} on every stream", "nothing was measured", False)
    lowest = min(rows, key=lambda row: row["coverage_ratio"])
    found = f"{lowest['coverage_ratio']:.1%} at least, on {_place(lowest)}"
    return Claim("coverage", f"{least:.0%} or more on every stream", found, lowest["coverage_ratio"] >= least)


# --- helpers ----------------------------------------------------------------------------------------------------------


def _rows_of(history: History, witness: Witnessed) -> list[Row]:
    kinds = OF_ACKS[witness.acks]
    return [row for row in history.rows(OUTAGES) if row["resource"] == witness.topic and row["kind"] in kinds]


def _certain(row: Row) -> tuple[int, int] | None:
    begin, end = row["started_at_max"], row["ended_at_min"]
    return None if begin is None or end is None or end <= begin else (begin, end)


def _blind_ms(history: History, from_us: int, to_us: int) -> float:
    """For how long our own prober says that it was held up: so was everything else on this host."""
    spans = (
        (max(row["happened_at_min"], from_us), min(row["happened_at_max"], to_us))
        for row in history.rows(EVENTS)
        if row["event"] == "blind"
    )
    return float(sum(max(0, high - low) for low, high in spans)) / 1000


def _place(row: Row) -> str:
    return f"{row['resource']}/{row['shard']} {row['kind']} {row['lane']}"


def _s(history: History, at_us: int) -> str:
    """An instant as seconds since steady state."""
    return f"{(at_us - history.steady_at_us) / 1e6:.3f}"
