"""Histories of drills, made by hand: a leader is killed at 10 s, and everything is as it should be; tests then make something wrong."""

from dataclasses import replace

from pipelines.drills.history import Act, History, Witnessed
from pipelines.drills.records import Ack, Stored

SECOND = 1_000_000
KILLED_AT = 10 * SECOND
BACK_AT = 19 * SECOND
PLACEMENT = {
    "witness-all/0": {"leader": "2", "isr": ["1", "2", "3"], "replicas": ["2", "3", "1"]},
    "witness-all/1": {"leader": "1", "isr": ["1", "2", "3"], "replicas": ["1", "2", "3"]},
    "canary-durable/0": {"leader": "2", "isr": ["1", "2", "3"], "replicas": ["2", "3", "1"]},
    "canary-durable/1": {"leader": "3", "isr": ["1", "2", "3"], "replicas": ["3", "2", "1"]},
}


def outage(resource="witness-all", shard="0", kind="leader", lane="watch", **more):
    """An outage that begins in [9.95, 10.05] s and ends in [18.9, 19.1] s."""
    return {
        "outage_id": f"{resource}/{shard}/{kind}/{lane}",
        "resource": resource,
        "shard": shard,
        "kind": kind,
        "lane": lane,
        "started_at_min": KILLED_AT - 50_000,
        "started_at_max": KILLED_AT + 50_000,
        "ended_at_min": BACK_AT - 100_000,
        "ended_at_max": BACK_AT + 100_000,
        "rto_ms_min": 8_850.0,
        "rto_ms_max": 9_150.0,
        "lost_records_max": None,
        "leader_before": "2",
        "leader_after": "3",
        "cause": "leader_failed",
        "detection_ms_min": 8_000.0,
        "detection_ms_max": 8_100.0,
        "codes": ["CONNECTION_REFUSED", "NOT_LEADER_OR_FOLLOWER"],
        **more,
    }


def loss(resource="witness-all", shard="0", verdict="LOST", evidence="epoch_end", **more):
    """A finding about four committed records."""
    return {
        "resource": resource,
        "shard": shard,
        "kind": "durable_write",
        "lane": "watch",
        "verdict": verdict,
        "evidence": evidence,
        "records_min": 4,
        "records_max": None,
        "rpo_ms_min": 0.0,
        "rpo_ms_max": None,
        "acked_from_at": 5 * SECOND,
        "acked_to_at": 6 * SECOND,
        "first_position": "7",
        "last_position": "9",
        "checked_at": 25 * SECOND,
        **more,
    }


def acks(partition=0):
    """An acknowledgement every 100 ms, 3 ms after the append, but for the 9 s in which the partition was not served."""
    times = [*range(1_000, 10_000, 100), *range(19_050, 30_000, 100)]
    return tuple(Ack(partition, offset, f"{partition}.{offset}", at + 3) for offset, at in enumerate(times))


def on_disk(acked):
    """What is stored when nothing is gone: each record was appended 3 ms before its acknowledgement."""
    return tuple(Stored(one.partition, one.offset, one.value, one.at_ms - 3) for one in acked)


def history(**more):
    """A leader is killed, nothing is lost, and everything that we say is true."""
    acked = acks()
    found = History(
        drill="leader-killed",
        mode="kraft",
        cluster_id="c1",
        steady_at_us=2 * SECOND,
        ended_at_us=30 * SECOND,
        clock_error_us=100,
        acts=(
            Act("kill", "2", "victim", KILLED_AT, KILLED_AT + 60, KILLED_AT + 9_000, stops=True, placement=PLACEMENT),
            Act("start", "2", "start", 20 * SECOND, 20 * SECOND + 60, 24 * SECOND),
        ),
        roles={"victim": ["2"]},
        witnesses=(Witnessed("witness-all", -1, acked, on_disk(acked)),),
        tables={
            "gold.outages": [
                outage(),
                outage("canary-durable", "0", "durable_write", "raw"),
                outage("canary-durable", "1", "durable_write", "raw", cause="isr_member_dead"),
            ],
            "gold.losses": [],
            "gold.availability": [outage(coverage_ratio=0.999)],
            "silver.events": [],
        },
    )
    return replace(found, **more)


def with_rows(found, table, rows):
    """The history with other rows in a table."""
    return replace(found, tables={**found.tables, table: rows})


def with_witness(found, **more):
    """The history with another witness."""
    return replace(found, witnesses=(replace(found.witnesses[0], **more),))
