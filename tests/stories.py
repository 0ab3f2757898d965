"""Histories of incidents as rows of tables, as they were measured on real clusters.

kill -9 of a broker that is also the controller, three brokers, RF 3, min ISR 2: partitions that it led are not written or read for 9
to 11 s, the others take no acks=all writes until it is fenced, 9.05 s after the kill; it is back in the ISR after 36 s. An unclean
election loses 397 of 1,717 acknowledged records that span 19.9 s.

`Story` collects rows; `write(home)` puts them on disk. Instants are given in seconds relative to the story's `at_us`.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pipelines import ddl
from pipelines.domain.intervals import Bounds, duration
from pipelines.settings import Home
from tests.lakehouses import CANARY, CLUSTER, PROBER, SYSTEM, USERS, instant, leader_of, wobble, write_table


@dataclass
class Story:
    """Rows by table and files by path, as time goes on. `at_us` is the instant that relative seconds count from."""

    at_us: int
    incident_id: str
    cluster_id: str = CLUSTER
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    numbers: Any = field(default_factory=count)

    def us(self, seconds: float | None) -> int | None:
        return None if seconds is None else self.at_us + round(seconds * 1_000_000)

    def bounds(self, span: tuple[float | None, float | None] | None) -> Bounds | None:
        return None if span is None else Bounds(self.us(span[0]), self.us(span[1]))

    def add(self, table: str, row: dict[str, Any]) -> None:
        identity = {"system": SYSTEM, "cluster_id": self.cluster_id}
        names = ddl.arrow_schema(table).names
        common = {"incident_id": self.incident_id, "rule_version": "test-1"}
        filled = dict.fromkeys(names) | identity | {name: value for name, value in common.items() if name in names} | row
        self.tables.setdefault(table, []).append(filled)

    def outage(
        self,
        resource: str,
        shard: int,
        kind: str,
        lane: str,
        start: tuple[float | None, float],
        end: tuple[float, float | None],
        recovery: tuple[str, str | None, tuple[float, float] | None, tuple[float, float] | None, tuple[float, float] | None],
        *,
        is_open: bool = False,
        evidence: str | None = None,
        loss: dict[str, Any] | None = None,
        flaps: int = 0,
        codes: tuple[str, ...] = ("_TIMED_OUT", "_TRANSPORT"),
        leader_after: str | None = None,
    ) -> str:
        """One outage in gold, its window in silver."""
        begins, ends = self.bounds(start), self.bounds(end)
        assert begins is not None
        assert ends is not None
        cause, broker, fenced, elected, known = recovery
        marks = {"fenced": self.bounds(fenced), "elected": self.bounds(elected), "known": self.bounds(known)}
        rto = duration(begins, ends)
        outage_id = f"o{begins.high}-{resource}-{shard}-{kind}-{lane}"
        evidence = evidence or ("probed" if "write" in kind else "read_probed")
        bad = round((rto.low or 0) / 100_000) if evidence != "inferred" else 0
        row = {
            "outage_id": outage_id,
            "resource": resource,
            "shard": str(shard),
            "kind": kind,
            "lane": lane,
            "prober_id": None if evidence == "inferred" else PROBER,
            "evidence": evidence,
            **self._span(begins, ends),
            "rto_ms_min": (rto.low or 0) / 1000,
            "rto_ms_max": None if rto.high is None else rto.high / 1000,
            "downtime_ms_min": (rto.low or 0) / 1000,
            "is_open": is_open,
            "bad_probes": bad,
            "rejected_probes": bad // 8,
            "answered_probes": 0,
            "void_probes": 0,
            "flaps": flaps,
            "codes": list(codes) if bad else [],
            "leader_before": leader_of(shard),
            "leader_after": None if is_open else leader_after or ("3" if elected else leader_of(shard)),
            "term_before": 4,
            "term_after": None if is_open else 5 if elected else 4,
            "broker": broker,
            "cause": cause,
        }
        for name, mark in marks.items():
            row[f"{name}_at_min"] = instant(mark.low if mark else None)
            row[f"{name}_at_max"] = instant(mark.high if mark else None)
        if evidence != "inferred":
            self.add("silver.outage_windows", row | {"period_ms": 100.0, "lambda_ms": 1000.0})
        row |= _phases(begins, marks["fenced"], marks["elected"], marks["known"], ends)
        row |= {"loss_verdict": "UNCHECKED"} | (loss or {})
        self.add("gold.outages", row)
        return outage_id

    def _span(self, begins: Bounds, ends: Bounds) -> dict[str, Any]:
        return {
            "started_at_min": instant(begins.low),
            "started_at_max": instant(begins.high),
            "ended_at_min": instant(ends.low),
            "ended_at_max": instant(ends.high),
        }

    def event(self, seconds: float, event: str, detail: str, width: float = 0.000999, **more: Any) -> None:
        row = {
            "event_id": f"e{self.at_us}-{next(self.numbers)}",
            "happened_at_min": instant(self.us(seconds)),
            "happened_at_max": instant(self.us(seconds + width)),
            "event": event,
            "source": "metadata_fetch",
            "detail": detail,
        }
        self.add("silver.events", row | more)

    def absence(
        self, resource: str, shard: int, replica: str, cause: str, start: tuple[float, float], end: tuple[float, float] | None
    ) -> None:
        begins, ends = self.bounds(start), self.bounds(end)
        assert begins is not None
        isr = sorted({"1", "2", "3"} - {replica})
        row = {
            "window_id": f"i{self.at_us}-{resource}-{shard}-{replica}",
            "resource": resource,
            "shard": str(shard),
            "replica": replica,
            "cause": cause,
            **self._span(begins, ends or Bounds(begins.low, None)),
            "is_open": end is None,
            "isr_before": ["1", "2", "3"],
            "isr_after": isr,
        }
        self.add("silver.isr_windows", row)

    def loss(self, resource: str, shard: int, kind: str, lane: str, verdict: str, outage_id: str | None, **more: Any) -> None:
        row = {
            "loss_id": f"l{self.at_us}-{resource}-{shard}-{lane}-{verdict}",
            "resource": resource,
            "shard": str(shard),
            "kind": kind,
            "lane": lane,
            "verdict": verdict,
            "evidence": "readback",
            "records_min": 0,
            "records_max": 0,
            "rpo_ms_min": 0.0,
            "rpo_ms_max": 104.0,
            "acked_records": 9_000 + shard,
            "acked_from_at": instant(self.us(-600)),
            "acked_to_at": instant(self.us(40)),
            "first_position": "0",
            "last_position": str(9_000 + shard),
            "boot_id": "7f3c",
            "outage_id": outage_id,
            "checked_at": instant(self.us(41.5)),
        }
        row |= more
        self.add("silver.losses", row)
        self.add("gold.losses", {name: value for name, value in row.items() if name != "boot_id"})

    def incident(self, **more: Any) -> None:
        """The incident's row, summed up from its outages."""
        outages = self.tables["gold.outages"]
        starts = [row["started_at_max"] for row in outages]
        ends = [row["ended_at_max"] for row in outages]
        maxima = [row["rto_ms_max"] for row in outages]
        is_open = any(row["is_open"] for row in outages)
        partitions = {(row["resource"], row["shard"]) for row in outages}
        probed = {(row["resource"], row["shard"]) for row in outages if row["evidence"] != "inferred"}
        row = {
            "incident_id": self.incident_id,
            "started_at_min": min((row["started_at_min"] for row in outages if row["started_at_min"]), default=None),
            "started_at_max": min(starts),
            "ended_at_min": max(row["ended_at_min"] for row in outages),
            "ended_at_max": None if None in ends else max(ends),
            "is_open": is_open,
            "cause": outages[0]["cause"],
            "broker": outages[0]["broker"],
            "outages": len(outages),
            "partitions": len(partitions),
            "partitions_probed": len(probed),
            "kinds": sorted({row["kind"] for row in outages}),
            "worst_rto_ms_min": max(row["rto_ms_min"] for row in outages),
            "worst_rto_ms_max": None if None in maxima else max(maxima),
            "loss_verdict": "PRESENT",
            "lost_records_min": 0,
            "lost_records_max": 0,
            "rpo_ms_min": 0.0,
            "rpo_ms_max": 104.0,
        }
        self.add("gold.incidents", row | more)

    def write(self, home: Home) -> None:
        for table, rows in self.tables.items():
            write_table(home, table, rows)


def _phases(
    begins: Bounds, fenced: Bounds | None, elected: Bounds | None, known: Bounds | None, ends: Bounds
) -> dict[str, float | None]:
    """The phases' columns: differences of the boundaries that apply, NULL for the others."""
    pairs = {
        "detection": (begins, fenced),
        "election": (fenced, elected),
        "propagation": (elected, known),
        "first_write": (known or elected or fenced, ends),
    }
    columns: dict[str, float | None] = {}
    for name, (first, second) in pairs.items():
        lasted = duration(first, second) if first and second else None
        columns[f"{name}_ms_min"] = None if lasted is None or lasted.low is None else lasted.low / 1000
        columns[f"{name}_ms_max"] = None if lasted is None or lasted.high is None else lasted.high / 1000
    return columns


def killed_leader(at_us: int, incident_id: str = "20261121-031702-5d41a0") -> Story:
    """kill -9 of broker 2, leader of a third of the partitions and active controller; back after 36 s; nothing lost."""
    story = Story(at_us, incident_id)
    fence = 9.052
    fenced, elected = (fence, fence + 0.000999), (fence, fence + 0.000999)
    story.event(-0.004, "fault", "kill of 2, seen to have taken effect", 0.019, broker="2", source="drill demo")
    story.event(0.9, "broker_silent", "metrics not answered: _TRANSPORT", 9.1, broker="2", source="metrics metrics-1")
    story.event(2.031, "controller_changed", "controller changed: 3", 0.000999, broker="3", term=8)
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
            story.outage(resource, shard, "leader", "watch", (-0.102, 0.051), (fence, answered), cause, evidence="inferred")
            _inferred_window(story, resource, shard, answered)
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


def _inferred_window(story: Story, resource: str, shard: int, answered: float) -> None:
    begins, ends = Bounds(story.us(-0.102), story.us(0.051)), Bounds(story.us(9.052), story.us(answered))
    lasted = duration(begins, ends)
    row = {
        "window_id": f"w{story.at_us}-{resource}-{shard}",
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
        "proof": [f"lastack-canary-write/1/write/raw@{begins.low}", "metadata log offset 4710"],
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
