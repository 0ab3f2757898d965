"""Histories of incidents as rows of tables, as they were measured on real clusters.

kill -9 of a broker that is also the controller, three brokers, RF 3, min ISR 2: partitions that it led are not written or read for 9
to 11 s, the others take no acks=all writes until it is fenced, 9.05 s after the kill; it is back in the ISR after 36 s. An unclean
election loses 397 of 1,717 acknowledged records that span 19.9 s.

"""

from itertools import count
from typing import Any

from pipelines.domain.intervals import Bounds, duration
from pipelines.settings import Home
from tests.lakehouses import CANARY, CLUSTER, SYSTEM, USERS, instant, leader_of, wobble, write_table
from tests.story import Story

__all__ = [
    "Story",
    "exposure",
    "killed_leader",
    "live_open",
    "open_incident",
    "prober_cut_off",
    "stranded",
    "three_probers",
    "unclean_election",
]


def killed_leader(at_us: int, incident_id: str = "20261121-031702-5d41a0") -> Story:
    """kill -9 of broker 2, leader of a third of the partitions and active controller; back after 36 s; nothing lost."""
    story = Story(at_us, incident_id)
    fence = 9.052
    fenced, elected = (fence, fence + 0.000999), (fence, fence + 0.000999)
    story.event(-0.004, "fault", "kill of 2, seen to have taken effect", 0.019, broker="2", source="drill demo")
    story.event(0.9, "broker_silent", "metrics not answered: _TRANSPORT", 9.1, broker="2", source="metrics metrics-1")
    story.event(2.031, "controller_changed", "controller changed: 3", 0.000999, broker="3", term=8, position="4702")
    story.event(fence, "broker_fenced", "broker fenced: 2", broker="2", position="4711")
    topics = dict.fromkeys(CANARY.values(), 6) | USERS
    for resource, shards in topics.items():
        for shard in range(shards):
            _loses_replica(story, resource, shard, fence)
    for (kind, lane), resource in CANARY.items():
        for shard in range(6):
            _canary_outage(story, resource, shard, kind, lane, fenced, elected)
    for resource, shards in USERS.items():
        for shard in (one for one in range(shards) if leader_of(one) == "2"):
            answered = fence + 0.3 + 0.9 * wobble(resource, shard)
            cause = ("leader_failed", "2", fenced, elected, (fence, answered))
            bounds = (-0.102, 0.051), (fence, answered)
            window_id = story.outage(resource, shard, "leader", "watch", *bounds, cause, evidence="inferred")
            _inferred_window(story, resource, shard, answered, window_id)
    story.event(24.981, "fault", "start of 2, seen to have taken effect", 0.2, broker="2", source="drill demo")
    story.event(33.4, "broker_registered", "broker registered: 2", broker="2", position="4790")
    story.event(35.2, "broker_unfenced", "broker unfenced: 2", broker="2", position="4801")
    for resource, shards in topics.items():
        for shard in range(shards):
            back = 35.9 + 0.6 * wobble("back", resource, shard)
            leader = "3" if leader_of(shard) == "2" else leader_of(shard)
            isr = sorted({"1", "3"})
            more = {"resource": resource, "shard": str(shard), "leader": leader, "previous_leader": leader}
            detail = "ISR 1,3 -> 1,2,3"
            story.event(back, "partition_changed", detail, **more, isr=[*isr, "2"], previous_isr=isr, term=5)
    story.controller((-0.102, 0.051), (2.031, 2.031999), "controller_failed", ("2", "3"), 29)
    story.clock("3", (-1.2, 3.4))
    told = {
        "control_plane": "33 replicas left their ISR: 33 fenced",
        "metrics": "IsrShrinksPerSec rose by 0 on 2 brokers",
        "evidence": ["isr window i1", "isr window i2"],
    }
    text = "the controller took replicas out of 33 ISRs; the brokers' counters show 0 shrinks in all"
    story.finding("isr_shrinks_uncounted", "IsrShrinksPerSec", (fence, fence + 0.001), text, **told)
    story.incident()
    return story


def _loses_replica(story: Story, resource: str, shard: int, fence: float) -> None:
    was = leader_of(shard)
    leader = "3" if was == "2" else was
    detail = ("leader 2 -> 3; " if was == "2" else "") + "ISR 1,2,3 -> 1,3"
    common = {"resource": resource, "shard": str(shard), "leader": leader, "previous_leader": was}
    term = 5 if was == "2" else 4
    story.event(fence, "partition_changed", detail, **common, isr=["1", "3"], previous_isr=["1", "2", "3"], term=term, position="4710")
    if was == "2":
        story.event(fence + 0.05, "leader_seen", "clients are told leader 3 instead of 2", 0.09, **common, source="canary canary-1")
        story.event(
            fence + 0.6,
            "epoch_end",
            "epoch 4 ends at 9120, committed up to 9120: no committed record is gone",
            0.004,
            **common,
            source="watch watch-1",
        )
    back = 35.9 + 0.6 * wobble("back", resource, shard)
    story.absence(resource, shard, "2", "fenced", (fence, fence + 0.000999), (back, back + 0.000999))


def _canary_outage(
    story: Story,
    resource: str,
    shard: int,
    kind: str,
    lane: str,
    fenced: tuple[float, float],
    elected: tuple[float, float],
) -> None:
    is_led = leader_of(shard) == "2"
    if not is_led and kind != "durable_write":
        story.loss(resource, shard, kind, lane, "PRESENT", None)
        return
    phase = wobble(resource, shard)
    start = (-0.098 + 0.09 * phase, 0.003 + 0.09 * phase)
    slow = 0.25 + 1.9 * wobble(lane, kind, shard) if is_led else 0.06 + 0.3 * wobble(kind, shard, lane)
    slow += 0.5 if lane == "client" else 0.0
    end = (fenced[1] + slow, fenced[1] + slow + 0.1 + 0.06 * phase)
    known = (fenced[0] + 0.05, fenced[0] + 0.05 + 0.09)
    cause = ("leader_failed", "2", fenced, elected, known) if is_led else ("isr_member_dead", "2", fenced, None, None)
    loss = {"loss_verdict": "PRESENT", "lost_records_min": 0, "lost_records_max": 0, "rpo_ms_min": 0.0, "rpo_ms_max": 104.0}
    flaps = 2 if (shard, kind) == (3, "durable_write") and lane == "raw" else 0
    outage_id = story.outage(resource, shard, kind, lane, start, end, cause, loss=loss if "write" in kind else None, flaps=flaps)
    if "write" in kind:
        story.loss(resource, shard, kind, lane, "PRESENT", outage_id)


def _inferred_window(story: Story, resource: str, shard: int, answered: float, window_id: str) -> None:
    begins, ends = Bounds(story.us(-0.102), story.us(0.051)), Bounds(story.us(9.052), story.us(answered))
    lasted = duration(begins, ends)
    wanted = ("lastack-canary-write", "1", "write", "raw")
    probed = (
        one for one in story.tables["silver.outage_windows"] if (one["resource"], one["shard"], one["kind"], one["lane"]) == wanted
    )
    first_bad_us = round(next(probed)["started_at_max"].timestamp() * 1_000_000) - 1_000
    row = {
        "window_id": window_id,
        "resource": resource,
        "shard": str(shard),
        "window": "leader_unavailable",
        "evidence": "inferred",
        "started_at_min": instant(begins.low),
        "started_at_max": instant(begins.high),
        "ended_at_min": instant(ends.low),
        "ended_at_max": instant(ends.high),
        "duration_ms_min": (lasted.low or 0) / 1000,
        "duration_ms_max": (lasted.high or 0) / 1000,
        "is_open": False,
        "leader_before": "2",
        "leader_after": "3",
        "term_before": 4,
        "term_after": 5,
        "proof": [f"lastack-canary-write/1/write/raw@{first_bad_us}", "metadata log offset 4710"],
        "kind": "leader",
        "broker": "2",
        "cause": "leader_failed",
    }
    story.add("silver.partition_windows", row)


def unclean_election(at_us: int, incident_id: str = "20261121-024009-5d41a0") -> Story:
    """A follower falls behind, the leader dies, the follower is elected uncleanly: 397 acknowledged records are gone."""
    story = Story(at_us, incident_id)
    resource = "lastack-canary-write"
    story.event(-20.1, "fault", "pause of 2, seen to have taken effect", 0.01, broker="2", source="drill unclean")
    story.event(-11.0, "broker_fenced", "broker fenced: 2", broker="2")
    story.absence(resource, 1, "2", "fenced", (-11.0, -10.999), (11.08, 11.081))
    story.event(-0.004, "fault", "kill of 1, seen to have taken effect", 0.01, broker="1", source="drill unclean")
    story.event(9.07, "broker_fenced", "broker fenced: 1", broker="1")
    story.event(
        11.08,
        "partition_changed",
        "leader 1 -> 2; ISR 1 -> 2; unclean",
        resource=resource,
        shard="1",
        leader="2",
        previous_leader="1",
        isr=["2"],
        previous_isr=["1"],
        term=6,
    )
    story.absence(resource, 1, "1", "fenced", (11.08, 11.081), None)
    lost = {"loss_verdict": "LOST", "lost_records_min": 397, "lost_records_max": 397, "rpo_ms_min": 19_802.0, "rpo_ms_max": 20_104.0}
    cause = ("leader_failed", "1", (9.07, 9.071), (11.08, 11.081), (11.1, 11.3))
    outage_id = story.outage(resource, 1, "write", "raw", (-0.05, 0.04), (11.4, 11.52), cause, loss=lost, leader_after="2")
    story.loss(
        resource,
        1,
        "write",
        "raw",
        "LOST",
        outage_id,
        records_min=397,
        records_max=397,
        rpo_ms_min=19_802.0,
        rpo_ms_max=20_104.0,
        acked_records=1_717,
        first_position="1320",
        last_position="1716",
    )
    story.incident(**lost)
    return story


def open_incident(at_us: int, lasts_seconds: float, incident_id: str = "20261121-041203-5d41a0") -> Story:
    """Broker 3 is hung: two partitions are not served, and nobody has fenced it yet."""
    story = Story(at_us, incident_id)
    story.event(0.9, "broker_silent", "metrics not answered: _TIMED_OUT", 3.0, broker="3", source="metrics metrics-1")
    for kind, lane, resource in (("write", "raw", "lastack-canary-write"), ("durable_write", "raw", "lastack-canary-durable")):
        for shard in (2, 5):
            story.outage(
                resource,
                shard,
                kind,
                lane,
                (-0.06, 0.04 + 0.02 * shard),
                (lasts_seconds, None),
                ("leader_failed", "3", None, None, None),
                is_open=True,
                codes=("_TIMED_OUT",),
            )
    story.incident(loss_verdict="UNCHECKED", lost_records_min=None, lost_records_max=None, rpo_ms_min=None, rpo_ms_max=None)
    return story


def prober_cut_off(at_us: int, incident_id: str = "20261121-050112-5d41a0") -> Story:
    """canary-2 of three is cut off for 21 s while the others are served: no outage of the service."""
    story = Story(at_us, incident_id)
    others = ["canary-1", "canary-3"]
    view = {"view": "alone", "unseen_by": others, "contradicted_by": others}
    for shard in (0, 1, 2):
        outage_id = story.outage(
            "lastack-canary-write",
            shard,
            "write",
            "raw",
            (-0.05, 0.04 + 0.01 * shard),
            (21.1, 21.2 + 0.01 * shard),
            ("prober_alone", None, None, None, None),
            prober_id="canary-2",
            view=view,
            loss={"loss_verdict": "PRESENT", "lost_records_min": 0, "lost_records_max": 0, "rpo_ms_min": 0.0, "rpo_ms_max": 104.0},
        )
        text = "canary-2 was not served (write, raw); served meanwhile: canary-1, canary-3"
        more = {"resource": "lastack-canary-write", "shard": str(shard), "clients": text, "evidence": [f"outage {outage_id}"]}
        story.finding("prober_alone", "canary-2", (0.04, 21.1), text, **more)
        story.loss("lastack-canary-write", shard, "write", "raw", "PRESENT", outage_id)
    story.incident()
    return story


def three_probers(at_us: int, incident_id: str = "20261121-060501-5d41a0") -> Story:
    """Broker 2 dies: all three probers see it on one partition, and on another canary-3 goes on being served by the old leader."""
    story = Story(at_us, incident_id)
    fenced, elected, known = (9.0, 9.001), (9.0, 9.001), (9.05, 9.14)
    cause = ("leader_failed", "2", fenced, elected, known)
    probers = ["canary-1", "canary-2", "canary-3"]
    proof = []
    for prober_id in probers:
        others = [one for one in probers if one != prober_id]
        view = {"view": "confirmed", "seen_by": others}
        place = ("lastack-canary-write", 1, "write", "raw")
        proof.append(story.outage(*place, (-0.05, 0.04), (9.2, 9.3), cause, prober_id=prober_id, view=view))
    story.service("lastack-canary-write", 1, "write", "raw", (-0.05, 0.04), (9.2, 9.3), proof, probers)
    for prober_id, other in (("canary-1", "canary-2"), ("canary-2", "canary-1")):
        view = {"view": "disputed", "seen_by": [other], "unseen_by": ["canary-3"], "contradicted_by": ["canary-3"]}
        story.outage("lastack-canary-write", 4, "write", "raw", (-0.05, 0.04), (9.2, 9.3), cause, prober_id=prober_id, view=view)
    text = "broker 2 acknowledged writes after broker 3 had been elected"
    told = {
        "control_plane": "leader 2 -> 3, epoch 5",
        "clients": "acknowledged by 2: 3 canary-3",
        "evidence": ["partition_changed at 4710"],
    }
    story.finding("old_leader_served", "2", (9.0, 9.4), text, resource="lastack-canary-write", shard="4", **told)
    story.incident(loss_verdict="UNCHECKED", lost_records_min=None, lost_records_max=None, rpo_ms_min=None, rpo_ms_max=None)
    return story


def stranded(at_us: int, incident_id: str = "20261121-070009-5d41a0") -> Story:
    """Both replicas of a partition are down: no leader, and what was acknowledged cannot be read; another topic was deleted."""
    story = Story(at_us, incident_id)
    verdict = {"loss_verdict": "STRANDED", "lost_records_min": 0, "lost_records_max": None, "rpo_ms_min": 0.0, "rpo_ms_max": None}
    cause = ("leader_failed", "2", None, None, None)
    resource = "lastack-canary-write"
    outage_id = story.outage(resource, 1, "write", "raw", (-0.05, 0.04), (50.0, None), cause, is_open=True, loss=verdict)
    unbounded = {"records_max": None, "rpo_ms_max": None}
    story.loss(resource, 1, "write", "raw", "STRANDED", outage_id, reason="no_leader", **unbounded)
    story.loss(resource, 4, "write", "raw", "STRANDED", None, reason="electable_replica_away", **unbounded)
    story.loss(resource, 3, "write", "raw", "DELETED_BY_POLICY", None, reason="topic_deleted")
    story.loss(resource, 0, "write", "raw", "UNCHECKABLE", None, reason="below_log_start", **unbounded)
    open_end = ("under_min_isr", None, None, None, None)
    story.outage(
        "lastack-canary-durable",
        4,
        "durable_write",
        "raw",
        (-0.05, 0.04),
        (50.0, None),
        open_end,
        is_open=True,
        codes=("NOT_ENOUGH_REPLICAS",),
    )
    story.controller((-0.05, 0.2), (0.2, None), "controller_failed", ("2", None), 1)
    story.incident(**verdict)
    return story


def exposure(home: Home, at_us: int) -> None:
    """A minute of exposure: a partition that is well, one that is behind, one whose leader is alone, one of which nobody can say."""
    now = instant(at_us - at_us % 60_000_000)
    common = {"system": SYSTEM, "cluster_id": CLUSTER, "minute_at": now, "rule_version": "test-1"}
    known = {"leader": "1", "isr": ["1", "2", "3"], "has_successor": True}
    rows = [
        known | {"resource": "orders", "shard": "0", "exposed_records_min": 0, "exposed_records_max": 0, "exposed_ms_max": 0.0},
        known | {"resource": "orders", "shard": "1", "exposed_records_min": 40, "exposed_records_max": 812, "exposed_ms_max": 1_730.0},
        {
            "resource": "orders",
            "shard": "2",
            "leader": "3",
            "isr": ["3"],
            "has_successor": False,
            "exposed_reason": "no_other_in_sync_replica",
        },
        {"resource": "payments", "shard": "0", "exposed_reason": "not_watched"},
    ]
    more = {"unseen_records_max": 812, "lag_records_max": 812}
    write_table(home, "silver.exposure", [common | row | (more if row.get("exposed_records_max") else {}) for row in rows])
    _looks(home, at_us - at_us % 60_000_000)
    lag = {"samples": 4, "lag_ms_max": 1_730.0, "replica": "3", "lag_records_max": 812, "resource": "orders", "shard": "1"}
    write_table(
        home, "silver.replication_lag", [common | lag, common | lag | {"replica": "2", "lag_records_max": 40, "lag_ms_max": 90.0}]
    )


def _looks(home: Home, minute_us: int) -> None:
    """The lines under it: leader 1 was at 1000 at second 10 and at 3000 at second 20, so 200 records a second; follower 3 ended at 1812
    when it was looked at 1.73 s after the leader had been there, follower 2 at 2584 after 0.09 s; brokers 1, 2, 3 were in sync."""
    numbers = count(900_000)

    def line(record: str, prober_id: str, ended_us: int, **more: Any) -> dict[str, Any]:
        of = {"record": record, "collector": prober_id, "system": SYSTEM, "cluster_id": CLUSTER, "prober_id": prober_id}
        named = {"boot_id": "7f3c", "clock_id": "host-a", "seq": next(numbers), "resource": "orders", "shard": "1"}
        at = instant(ended_us)
        assert at is not None
        return of | named | {"started_at_us": ended_us - 1, "ended_at_us": ended_us, "day": at.date(), "ingested_at": at} | more

    def look(broker: str, second: float, end: int, **more: Any) -> dict[str, Any]:
        at_us = minute_us + round(second * 1_000_000)
        return line("partition_metrics", "metrics-1", at_us, broker=broker, log_end_position=str(end), count=4, **more)

    def behind(records: int) -> dict[str, int]:
        return {"lag_records_last": records, "lag_records_max": records}

    told = {
        "kind": "leader",
        "lane": "watch",
        "outcome": "ACKED",
        "leader": "1",
        "isr": ["1", "2", "3"],
        "count": 60,
        "last_sequence": 59,
    }
    rows = [
        look("1", 10, 1000, in_sync_replicas=3),
        look("1", 20, 3000, in_sync_replicas=3),
        look("1", 40, 7000, in_sync_replicas=3),
        look("3", 10 + 4.06 + 1.73, 1812, **behind(812)),
        look("2", 10 + 7.92 + 0.09, 2584, **behind(40)),
        line("probes", "watch-1", minute_us + 59_000_000, first_sequence=0, **told),
    ]
    write_table(home, "bronze.observations", rows)


def live_open(story: Story, at_us: int) -> list[dict[str, Any]]:
    """The open outages of a story as a prober states them at `at_us`."""
    found = []
    for row in story.tables["gold.outages"]:
        if row["is_open"]:
            begins = round(row["started_at_max"].timestamp() * 1_000_000)
            found.append(
                {
                    **{name: row[name] for name in ("outage_id", "resource", "shard", "kind", "lane", "leader_before", "codes")},
                    "started_at_min_us": None if row["started_at_min"] is None else begins - 100_000,
                    "started_at_max_us": begins,
                    "rto_ms_min": max(0.0, (at_us - begins) / 1000 - 1000.0),
                    "is_alerting": True,
                }
            )
    return found
