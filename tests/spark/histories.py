"""A small history of one kill, written down as collectors would: six partitions, three lanes, a watched topic, a control plane.

The instants are chosen, so every expected figure in the tests can be worked out by hand.
"""

from pathlib import Path
from typing import Any

from pipelines.domain.landing import encode
from pipelines.domain.observations import Control, FoundRun, Observation, Probes, ReadBack

PERIOD = 100_000
LAMBDA = 1_000_000
LATENCY = 3_000
BEGIN = 1_790_000_000_000_000
KILL = BEGIN + 20_000_000
FENCED = KILL + 8_050_000
END = BEGIN + 60_000_000
CLUSTER = "history"
TOPICS = {("write", "raw"): "canary-write", ("durable_write", "raw"): "canary-durable"}


class History:
    """Observations of one boot of each collector, with their envelopes filled in."""

    def __init__(self, cluster_id: str = CLUSTER) -> None:
        self.cluster_id = cluster_id
        self.observations: list[Observation] = []
        self._seq: dict[str, int] = {}

    def add(self, record: type[Any], collector: str, **fields: Any) -> None:
        seq = self._seq.get(collector, 0)
        self._seq[collector] = seq + 1
        envelope = {
            "system": "kafka",
            "cluster_id": self.cluster_id,
            "collector": collector,
            "prober_id": f"p-{collector}",
            "boot_id": f"b-{collector}",
            "clock_id": "clock",
            "seq": seq,
        }
        self.observations.append(record(**envelope, **fields))

    def probes(self, place: dict[str, str], outcome: str, first: int, count: int, begin: int, **more: Any) -> None:
        is_acked = outcome == "ACKED"
        latency = LATENCY if is_acked else LAMBDA
        period = more.pop("period_us", PERIOD)
        last = begin + (count - 1) * period
        self.add(
            Probes,
            "watch" if place["lane"] == "watch" else "canary",
            **place,
            outcome=outcome,
            count=count,
            first_sequence=first,
            last_sequence=first + count - 1,
            started_at_us=begin,
            last_issued_at_us=last,
            first_decided_at_us=begin + latency,
            last_decided_at_us=last + latency,
            earliest_decided_at_us=begin + latency,
            ended_at_us=last + latency,
            period_us=period,
            lambda_us=LAMBDA,
            latency_us_min=latency if is_acked else None,
            latency_us_max=latency if is_acked else None,
            latency_us_mean=latency if is_acked else None,
            **more,
        )

    def lines(self) -> list[str]:
        return [encode(one) for one in self.observations]


def kill_of_broker_2(*, is_read_back: bool = True) -> History:
    """Broker 2 dies at KILL and is fenced at FENCED; partitions 1 and 4 move from it to broker 3. Nothing is lost."""
    history = History()
    for (kind, lane), topic in TOPICS.items():
        for shard in range(6):
            _partition(history, {"resource": topic, "shard": str(shard), "kind": kind, "lane": lane}, shard % 3 + 1, is_read_back)
    for shard in range(6):
        for topic in (*TOPICS.values(), "orders"):
            _change(history, topic, shard)
        _watched(history, shard)
    history.add(Control, "control_plane", event="broker_fenced", source="metadata_fetch", broker="2", position="999", **_at(FENCED))
    return history


def _partition(history: History, place: dict[str, str], leader: int, is_read_back: bool) -> None:
    is_hit = leader == 2 or place["kind"] == "durable_write"
    told = {"leader": str(leader), "term": 1}
    if not is_hit:
        history.probes(place, "ACKED", 0, 600, BEGIN, first_position="0", last_position="599", **told)
        return
    history.probes(place, "ACKED", 0, 199, BEGIN, first_position="0", last_position="198", **told)
    history.probes(place, "UNKNOWN", 199, 82, KILL - PERIOD, code="_MSG_TIMED_OUT", **told)
    after = {"leader": "3" if leader == 2 else str(leader), "term": 2}
    history.probes(place, "ACKED", 281, 319, KILL + 8_100_000, first_position="199", last_position="517", **after)
    if is_read_back:
        runs = (
            FoundRun(boot_id="b-canary", first_sequence=0, last_sequence=198, first_position=0, last_position=198),
            FoundRun(boot_id="b-canary", first_sequence=281, last_sequence=581, first_position=199, last_position=499),
        )
        history.add(
            ReadBack, "readback", **place, from_position="0", to_position="500", log_start_position="0",
            damaged_records=0, runs=runs, started_at_us=END, ended_at_us=END + 1_000_000,
        )  # fmt: skip


def _change(history: History, topic: str, shard: int) -> None:
    leader = shard % 3 + 1
    history.add(
        Control, "control_plane", event="partition_changed", source="metadata_fetch", position=str(900 + shard),
        resource=topic, shard=str(shard), leader="3" if leader == 2 else str(leader), previous_leader=str(leader), term=2,
        isr=("1", "3"), previous_isr=("1", "2", "3"), replicas=("1", "2", "3"), is_unclean=False, **_at(FENCED),
    )  # fmt: skip


def _watched(history: History, shard: int) -> None:
    leader = shard % 3 + 1
    place = {"resource": "orders", "shard": str(shard), "kind": "leader", "lane": "watch"}
    second = {"period_us": 1_000_000}
    history.probes(place, "ACKED", 0, 20, BEGIN, leader=str(leader), term=1, isr=("1", "2", "3"), **second)
    outcome = "UNKNOWN" if leader == 2 else "ACKED"
    history.probes(place, outcome, 20, 8, KILL, leader=str(leader), term=1, isr=("1", "2", "3"), **second)
    now = "3" if leader == 2 else str(leader)
    history.probes(place, "ACKED", 28, 32, KILL + 8_500_000, leader=now, term=2, isr=("1", "3"), **second)


def _at(instant: int) -> dict[str, int]:
    return {"started_at_us": instant, "ended_at_us": instant + 999, "seen_at_us": instant + 9_000}


def land(lines: list[str], landing: Path, name: str) -> None:
    """Puts a finished file into the landing, as a spool does."""
    landing.mkdir(parents=True, exist_ok=True)
    part = landing / f".{name}.part"
    part.write_text("".join(f"{line}\n" for line in lines))
    part.rename(landing / f"{name}.jsonl")
