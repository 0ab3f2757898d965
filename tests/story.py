"""An incident as rows of tables, told in seconds: what `tests.stories` is written with.

`Story` collects rows; `write(home)` puts them on disk. Instants are given in seconds relative to the story's `at_us`.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pipelines import ddl
from pipelines.domain.intervals import Bounds, duration
from pipelines.domain.names import identity
from pipelines.settings import Home
from tests.lakehouses import CLUSTER, PROBER, SYSTEM, instant, leader_of, write_table

BOOT = "7f3c"


@dataclass
class Story:
    """Rows by table and files by path, as time goes on. `at_us` is the instant that relative seconds count from."""

    at_us: int
    incident_id: str
    cluster_id: str = CLUSTER
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    numbers: Any = None

    def __post_init__(self) -> None:
        # Lines of two stories in one home have numbers of their own.
        self.numbers = count(self.at_us // 1_000_000 % 1_000_000 * 1_000)

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
        prober_id: str = PROBER,
        view: dict[str, Any] | None = None,
    ) -> str:
        """One outage in gold, its window in silver."""
        begins, ends = self.bounds(start), self.bounds(end)
        assert begins is not None
        assert ends is not None
        cause, broker, fenced, elected, known = recovery
        marks = {"fenced": self.bounds(fenced), "elected": self.bounds(elected), "known": self.bounds(known)}
        rto = duration(begins, ends)
        outage_id = f"o{begins.high}-{resource}-{shard}-{kind}-{lane}" + (f"-{prober_id}" if prober_id != PROBER else "")
        evidence = evidence or ("probed" if "write" in kind else "read_probed")
        bad = round((rto.low or 0) / 100_000) if evidence != "inferred" else 0
        row = {
            "outage_id": outage_id,
            "resource": resource,
            "shard": str(shard),
            "kind": kind,
            "lane": lane,
            "prober_id": None if evidence == "inferred" else prober_id,
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
        row |= self.named(row)
        if evidence != "inferred":
            row |= {"view": "single", "seen_by": [], "unseen_by": [], "contradicted_by": []} | (view or {})
            probes = self.probes(row, begins, ends)
            self.add("silver.outage_windows", row | probes | {"period_ms": 100.0, "lambda_ms": 1000.0})
        row |= _phases(begins, marks["fenced"], marks["elected"], marks["known"], ends)
        row |= {"loss_verdict": "UNCHECKED"} | (loss or {})
        self.add("gold.outages", row)
        return outage_id

    def named(self, row: dict[str, Any]) -> dict[str, str | None]:
        """The events that its boundaries are taken from, as far as the story has told them."""

        def of(column: str, event: str, **wanted: Any) -> str | None:
            rows = self.tables.get("silver.events", ())
            found = (one for one in rows if one["event"] == event and all(one[name] == value for name, value in wanted.items()))
            return next((one["event_id"] for one in found), None) if row[f"{column}_at_min"] is not None else None

        place = {"resource": row["resource"], "shard": row["shard"]}
        return {
            "fenced_by": of("fenced", "broker_fenced", broker=row["broker"]),
            "elected_by": of("elected", "partition_changed", **place),
            "known_by": of("known", "leader_seen", **place),
        }

    def _span(self, begins: Bounds, ends: Bounds) -> dict[str, Any]:
        return {
            "started_at_min": instant(begins.low),
            "started_at_max": instant(begins.high),
            "ended_at_min": instant(ends.low),
            "ended_at_max": instant(ends.high),
        }

    def probes(self, row: dict[str, Any], begins: Bounds, ends: Bounds) -> dict[str, str | None]:
        """Lines of bronze that make an outage: goods that end with S, bads, goods that begin with T; returns their names."""
        period = 100_000
        names = ("resource", "shard", "kind", "lane", "prober_id")
        common = {name: row[name] for name in names} | {
            "record": "probes",
            "collector": "canary",
            "period_us": period,
            "lambda_us": 10 * period,
        }
        first = (begins.low if begins.low is not None else (begins.high or 0) - period) + period
        last = max(first, ends.low or first)
        count = (last - first) // period + 1
        found: dict[str, str | None] = {"clock_id": "host-a", "last_good_probe": None, "first_good_probe": None}
        if begins.low is not None:
            good = {
                "outcome": "ACKED",
                "leader": row["leader_before"],
                "term": row["term_before"],
                "count": 50,
                "latency_us_max": 4_000,
            }
            self.run(common | good, begins.low - 49 * period, begins.low, begins.low + 2_100, (950, 999))
            found["last_good_probe"] = f"{BOOT}/999"
        code = (row["codes"] or [None])[0]
        bad = {"outcome": "REJECTED", "code": code, "count": count, "earliest_decided_at_us": begins.high, "is_open": row["is_open"]}
        self.run(common | bad, first, last, last + 1_000, (1_000, 999 + count))
        if ends.high is not None:
            good = {"outcome": "ACKED", "leader": row["leader_after"], "term": row["term_after"], "count": 50, "latency_us_max": 4_000}
            begin = max(last + 1, ends.high - 3_000)
            self.run(
                common | good | {"first_decided_at_us": ends.high}, begin, begin + 49 * period, None, (1_000 + count, 1_049 + count)
            )
            found["first_good_probe"] = f"{BOOT}/{1_000 + count}"
        return found | {"first_bad_probe": f"{BOOT}/1000", "last_bad_probe": f"{BOOT}/{999 + count}"}

    def run(self, row: dict[str, Any], begin_us: int, last_us: int, decided_us: int | None, sequences: tuple[int, int]) -> None:
        """A run of probes, issued from `begin_us` to `last_us`."""
        decided_us = decided_us or last_us + 2_000
        spans = {"started_at_us": begin_us, "ended_at_us": decided_us, "last_issued_at_us": last_us, "last_decided_at_us": decided_us}
        named = {"first_sequence": sequences[0], "last_sequence": sequences[1], "first_decided_at_us": begin_us + 2_000}
        self.observe({**named, **spans, "is_open": False} | row)

    def observe(self, row: dict[str, Any]) -> int:
        """A line of bronze; returns its number."""
        seq = next(self.numbers)
        ended_at = instant(row["ended_at_us"])
        assert ended_at is not None
        common = {"boot_id": BOOT, "clock_id": "host-a", "seq": seq, "day": ended_at.date(), "ingested_at": ended_at}
        self.add("bronze.observations", common | row)
        return seq

    def event(self, seconds: float, event: str, detail: str, width: float = 0.000999, **more: Any) -> None:
        at_us = self.us(seconds) or 0
        name: str = f"e{self.at_us}-{next(self.numbers)}"
        if "position" in more:
            span = {
                "started_at_us": at_us + 1_500,
                "ended_at_us": at_us + 2_499,
                "seen_at_us": at_us + 40_000,
                "unseen_at_us": at_us - 60_000,
            }
            known = {
                key: value for key, value in more.items() if key in ("resource", "shard", "broker", "leader", "previous_leader", "term")
            }
            who = {
                "record": "control",
                "collector": "control_plane",
                "prober_id": "control-1",
                "source": "metadata_fetch",
                "stamped_by": "3",
            }
            seq = self.observe(span | known | who | {"event": event, "position": more["position"]})
            name = identity("control-1", BOOT, seq)
            more |= self.clock_used(at_us)
        row = {
            "event_id": name,
            "happened_at_min": instant(self.us(seconds)),
            "happened_at_max": instant(self.us(seconds + width)),
            "event": event,
            "source": "metadata_fetch",
            "detail": detail,
        }
        self.add("silver.events", row | more)

    def clock_used(self, at_us: int) -> dict[str, Any]:
        """A line that bounds the clock of host 3, and what an event that it placed says of it."""
        offset = {"clock_offset_us_min": -1_200, "clock_offset_us_max": 3_400}
        span = {"started_at_us": at_us - 9_000_000, "ended_at_us": at_us + 1_000}
        who = {"record": "clock", "collector": "canary", "prober_id": PROBER, "host": "3", "method": "append_time"}
        seq = self.observe(who | offset | span | {"count": 57})
        bound = {"clock_offset_ms_min": -1.2, "clock_offset_ms_max": 3.4, "clock_lines": [f"{PROBER} / {BOOT} / {seq}"]}
        return {"clock_host": "3", "clock_method": "append_time"} | bound

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

    def controller(
        self, start: tuple[float | None, float], end: tuple[float, float | None], cause: str, who: tuple[str, str | None], waiting: int
    ) -> str:
        """A span without a controller: its window in silver, its own outage in gold."""
        begins, ends = self.bounds(start), self.bounds(end)
        assert begins is not None
        assert ends is not None
        lasted = duration(begins, ends)
        row = {
            "window_id": f"c{self.at_us}",
            **self._span(begins, ends),
            "duration_ms_min": (lasted.low or 0) / 1000,
            "duration_ms_max": None if lasted.high is None else lasted.high / 1000,
            "is_open": ends.high is None,
            "controller_before": who[0],
            "controller_after": who[1],
            "term_before": 7,
            "term_after": None if ends.high is None else 8,
            "cause": cause,
            "partitions_waiting": waiting,
            "proof": ["controller_silent at metadata log offset 4690", "controller_changed at metadata log offset 4702"],
        }
        self.add("silver.controller_windows", row)
        outage = {
            "outage_id": row["window_id"],
            "resource": "(controller)",
            "shard": "0",
            "kind": "controller",
            "lane": "control",
            "evidence": "control_plane",
            "rto_ms_min": row["duration_ms_min"],
            "rto_ms_max": row["duration_ms_max"],
            "downtime_ms_min": row["duration_ms_min"],
            "codes": [],
            "leader_before": who[0],
            "leader_after": who[1],
            "broker": who[0],
            "loss_verdict": "NOT_APPLICABLE",
            **dict.fromkeys(("bad_probes", "rejected_probes", "answered_probes", "void_probes", "flaps"), 0),
        }
        same = ("started_at_min", "started_at_max", "ended_at_min", "ended_at_max", "is_open", "cause", "term_before", "term_after")
        self.add("gold.outages", outage | {name: row[name] for name in same})
        return str(row["window_id"])

    def finding(self, finding: str, subject: str, seconds: tuple[float, float], said: str, **more: Any) -> None:
        """A disagreement of views."""
        row = {
            "finding_id": f"f{self.at_us}-{next(self.numbers)}",
            "finding": finding,
            "subject": subject,
            "started_at": instant(self.us(seconds[0])),
            "ended_at": instant(self.us(seconds[1])),
            "said": said,
            "evidence": [],
        }
        self.add("silver.findings", row | more)

    def service(
        self,
        resource: str,
        shard: int,
        kind: str,
        lane: str,
        start: tuple[float, float],
        end: tuple[float, float],
        proof: list[str],
        probers: list[str],
    ) -> None:
        """A span in which every prober that looked was not served."""
        begins, ends = self.bounds(start), self.bounds(end)
        assert begins is not None
        assert ends is not None
        lasted = duration(begins, ends)
        row = {
            "window_id": f"s{self.at_us}-{resource}-{shard}-{kind}",
            "resource": resource,
            "shard": str(shard),
            "kind": kind,
            "lane": lane,
            **self._span(begins, ends),
            "rto_ms_min": (lasted.low or 0) / 1000,
            "rto_ms_max": None if lasted.high is None else lasted.high / 1000,
            "is_open": False,
            "probers": probers,
            "proof": proof,
        }
        self.add("silver.service_windows", row)

    def clock(self, host: str, offset_ms: tuple[float, float], seconds: float = 0.0) -> None:
        """What bounds a host's clock, in the minute of an instant."""
        at_us = self.us(seconds) or 0
        row = {
            "host": host,
            "prober_id": "control-1",
            "clock_id": "host-a",
            "method": "append_time",
            "minute_at": instant(at_us - at_us % 60_000_000),
            "offset_ms_min": offset_ms[0],
            "offset_ms_max": offset_ms[1],
            "steps": 0,
            "stamps": 57,
        }
        self.add("silver.clock_bounds", row)

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
        if row["evidence"] == "readback" and verdict == "LOST":
            row |= self.records(row)
        self.add("silver.losses", row)
        known = set(ddl.arrow_schema("gold.losses").names)
        self.add("gold.losses", {name: value for name, value in row.items() if name in known})

    def records(self, row: dict[str, Any]) -> dict[str, Any]:
        """The records that bound a loss, in two lines: K is 7f3c/99, the lost ones go from 100 on, and the next one that is there is
        the first of another line. A period is 50.013 ms, an answer takes 3.148 ms."""
        period, latency, gone = 50_013, 3_148, row["records_min"]
        place = {name: row[name] for name in ("resource", "shard", "kind", "lane")} | {"record": "probes", "prober_id": PROBER}
        common = place | {"collector": "canary", "outcome": "ACKED", "period_us": period, "latency_us_max": latency, "leader": "2"}
        begin = self.us(-120) or 0
        last = begin + (99 + gone) * period
        self.run(common | {"first_position": "1220"}, begin, last, None, (0, 99 + gone))
        after = last + 60_000_000
        self.run(common | {"first_position": "1320"}, after, after + 9 * period, None, (5_000, 5_009))
        kept = begin + 99 * period
        return {
            "retained_before": f"{BOOT}/99",
            "retained_before_at": instant(kept),
            "first_record": f"{BOOT}/100",
            "first_acked_at": instant(kept + period + latency),
            "last_record": f"{BOOT}/{99 + gone}",
            "last_issued_at": instant(last),
            "retained_after": f"{BOOT}/5000",
            "retained_after_at": instant(after + latency),
            "lost_until_at": instant(kept + round(row["rpo_ms_max"] * 1000)),
        }

    def incident(self, **more: Any) -> None:
        """The incident's row, summed up from its outages."""
        outages = self.tables["gold.outages"]
        starts = [row["started_at_max"] for row in outages]
        ends = [row["ended_at_max"] for row in outages]
        service = [row for row in outages if row["kind"] != "controller" and row["cause"] != "prober_alone"]
        counted = service or [row for row in outages if row["kind"] == "controller"]
        maxima = [row["rto_ms_max"] for row in counted]
        is_open = any(row["is_open"] for row in outages)
        partitions = {(row["resource"], row["shard"]) for row in service}
        probed = {(row["resource"], row["shard"]) for row in service if row["lane"] in ("raw", "client", "read")}
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
            "worst_rto_ms_min": max((row["rto_ms_min"] for row in counted), default=None),
            "worst_rto_ms_max": None if None in maxima else max(maxima, default=None),
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
