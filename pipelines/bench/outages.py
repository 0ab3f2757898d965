"""How long after the first failed probe is somebody told, and how long after the first good one does gold say that it is over?

The rule: everything runs as in a measurement: three nodes, every collector, the stream, all on this machine. Brokers are paused in turn
for some seconds (shorter than their session, so that nobody is fenced and each partition that they lead, and every acks=all write,
hangs) and resumed. Both figures come from the same run:

- *alert*: from the intended issue of an outage's first failed probe, plus the threshold, to the instant at which a webhook on loopback
  has read the message that fires it. The time until a hang is known, lambda, is part of it.
- *gold*: from the acknowledgement of the first good write after an outage to the instant of the commit that holds its closed row.

Example: paused at 0, first failed probe issued at 0.02 s, threshold 2 s, alert received at 3.3 s: 1.28 s.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb

from pipelines.bench.base import Bench, Figure, load, percentile
from pipelines.collecting import CanaryProcess
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Lane
from pipelines.errors import LastackError, TimedOut
from pipelines.gold import OUTAGES
from pipelines.lab.cluster import Lab
from pipelines.lab.config import LabSpec
from pipelines.measuring import LOOPBACK, Measurement
from pipelines.parts import MeasuredCluster, collectors, stream
from pipelines.settings import Home

PERIOD_MS = 100
THRESHOLD_SECONDS = 2.0
PAUSE_SECONDS = 6.0
ALERT_AIM = 2.0
GOLD_AIM = 10.0
WAIT_SECONDS = 300.0
GOLD_SECONDS = 120.0


@dataclass(slots=True)
class Measured:
    """Seconds of both latencies, one sample an outage of a partition and lane."""

    alert: list[float] = field(default_factory=list)
    alert_from_known: list[float] = field(default_factory=list)
    gold: list[float] = field(default_factory=list)
    pauses: int = 0
    load: float = 0.0


def figures(measured: Measured, name: str) -> list[Figure]:
    """The figures of `alert` or `gold`."""
    samples = measured.alert if name == "alert" else measured.gold
    if not samples:
        raise LastackError(f"{name}: {measured.pauses} pauses of a broker gave no outage to measure; look at the load of the machine")
    about = {"outages": len(samples), "pauses": measured.pauses, "load": round(measured.load, 1), "max_s": round(max(samples), 2)}
    if name == "alert":
        about["p99_from_known_s"] = round(percentile(measured.alert_from_known, 0.99), 2)
    method, aim, limit = ABOUT[name]
    return [
        Figure(f"{name} p50", round(percentile(samples, 0.5), 2), "s", method, details=about),
        Figure(f"{name} p99", round(percentile(samples, 0.99), 2), "s", method, aim, limit, details=about),
    ]


ABOUT = {
    "alert": (
        f"intended issue of the first failed probe + {THRESHOLD_SECONDS:g} s threshold -> webhook read; brokers paused in a real lab",
        ALERT_AIM,
        "a hang is known after lambda (1 s) at the earliest; the rest is the wait of a process for a CPU: the load stands beside it",
    ),
    "gold": (
        "acknowledgement of the first good write -> commit with the closed row in gold.outages; lab, collectors, stream on one machine",
        GOLD_AIM,
        "a batch that derives takes about 3 s of CPU, on the cores of three brokers, and what comes meanwhile waits for the next",
    ),
}


def measure(bench: Bench) -> Measured:
    """Runs the lab and everything else, pauses brokers, and measures."""
    anchor = Anchor.now()
    home = Home(bench.folder / "outages")
    found = Measured(pauses=3 if bench.is_quick else 8)
    with _Receiver(anchor).serving() as receiver, Measurement(home, bench.say) as measurement, Lab(LabSpec(), anchor, bench.say) as lab:
        cluster = MeasuredCluster(lab.place, lab.admin.cluster_id(), period_ms=PERIOD_MS, webhook=receiver.address)
        measurement.start(stream(home, cluster, anchor))
        for part in collectors(home, cluster, anchor):
            if isinstance(part.config, CanaryProcess):
                part = replace(part, config=replace(part.config, alert_after_seconds=THRESHOLD_SECONDS))  # noqa: PLW2901
            measurement.start(part)
        measurement.wait(measurement.is_streaming, WAIT_SECONDS, "the stream's first batch")
        measurement.wait_steady()
        for number in range(found.pauses):
            _pause(measurement, lab, number)
        found.load = load()
        closed = _wait_for_gold(measurement, home)
        found.alert, found.alert_from_known = _alerts(closed, receiver.fired)
        found.gold = _gold(home, closed)
    return found


def _pause(measurement: Measurement, lab: Lab, number: int) -> None:
    node = lab.nodes[number % len(lab.nodes)]
    measurement.say(f"pausing broker {node.node_id} for {PAUSE_SECONDS:g} s ({number + 1})")
    lab.pause(node)
    time.sleep(PAUSE_SECONDS)  # the length of the fault, not a wait for something
    lab.resume(node)
    measurement.wait_steady(WAIT_SECONDS)


def _wait_for_gold(measurement: Measurement, home: Home) -> dict[str, dict[str, Any]]:
    """Every outage that gold holds, once none is open; by outage_id."""
    closed: dict[str, dict[str, Any]] = {}

    def is_closed() -> bool:
        rows = {row["outage_id"]: row for _, of_commit in _commits(home) for row in of_commit}
        newest = _newest(home)
        closed.clear()
        closed.update({name: rows[name] for name in newest if not rows[name]["is_open"]})
        return bool(newest) and len(closed) == len(newest)

    try:
        measurement.wait(is_closed, GOLD_SECONDS, "gold: all outages closed")
    except TimedOut:
        measurement.say("some outages are still open in gold; the closed ones are measured")
    return closed


# --- alerts -----------------------------------------------------------------------------------------------------------


class _Receiver:
    """A webhook on loopback that notes when each alert came first. `address` is where it listens while it is `serving`."""

    def __init__(self, anchor: Anchor) -> None:
        self.anchor = anchor
        self.fired: dict[str, int] = {}
        self.address = ""

    @contextmanager
    def serving(self) -> Iterator["_Receiver"]:
        """Listens until the block ends."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            """Takes one message."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.take(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing: the figures are the record."""

        server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        thread = threading.Thread(target=server.serve_forever, name="webhook", daemon=True)
        thread.start()
        self.address = f"http://{LOOPBACK}:{server.server_address[1]}/"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def take(self, body: dict[str, Any]) -> None:
        """Notes the alerts of a message that fire."""
        now_us = self.anchor.now_us()
        for alert in body["alerts"]:
            if alert["annotations"]["state"] == "firing":
                self.fired.setdefault(alert["labels"]["alert_id"], now_us)


def _alerts(closed: dict[str, dict[str, Any]], fired: dict[str, int]) -> tuple[list[float], list[float]]:
    """Seconds from the first failed probe's issue, and from the instant at which it was known to have failed."""
    from_issue, from_known = [], []
    for name, row in closed.items():
        if name in fired and row["started_at_min_us"] is not None:
            threshold_us = int(THRESHOLD_SECONDS * 1e6)
            # The last good probe was issued one period before the first bad one at the latest: never too short a time is reported.
            issued_us = row["started_at_min_us"] + PERIOD_MS * 1000
            from_issue.append((fired[name] - issued_us - threshold_us) / 1e6)
            from_known.append((fired[name] - row["started_at_max_us"] - threshold_us) / 1e6)
    return from_issue, from_known


# --- gold -------------------------------------------------------------------------------------------------------------


def _gold(home: Home, closed: dict[str, dict[str, Any]]) -> list[float]:
    """Seconds from the first acknowledgement to the first commit in which the outage is closed, of lanes that write."""
    seen: dict[str, int] = {}
    for committed_us, rows in _commits(home):
        for row in rows:
            if not row["is_open"]:
                seen.setdefault(row["outage_id"], committed_us)
    return [
        (seen[name] - row["ended_at_max_us"]) / 1e6
        for name, row in closed.items()
        if row["lane"] in (Lane.RAW, Lane.CLIENT) and row["ended_at_max_us"] is not None
    ]


COLUMNS = """
    outage_id, lane, is_open,
    epoch_us(started_at_min) AS started_at_min_us, epoch_us(started_at_max) AS started_at_max_us,
    epoch_us(ended_at_max) AS ended_at_max_us
"""


def _commits(home: Home) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Of each commit of gold.outages, in order, when it was made (microseconds since the epoch) and the rows that it added."""
    folder = home.table(OUTAGES)
    for path in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        files = [str(folder / unquote(action["add"]["path"])) for action in actions if "add" in action]
        yield path.stat().st_mtime_ns // 1000, _rows(files)


def _newest(home: Home) -> list[str]:
    """The outages that the newest version of gold holds."""
    folder, live = home.table(OUTAGES), {}
    for path in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            if "add" in action:
                live[action["add"]["path"]] = str(folder / unquote(action["add"]["path"]))
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return [row["outage_id"] for row in _rows(list(live.values()))]


def _rows(files: list[str]) -> list[dict[str, Any]]:
    existing = [file for file in files if Path(file).is_file()]
    if not existing:
        return []
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {COLUMNS} FROM read_parquet($files)", {"files": existing})  # noqa: S608 - our own columns
        names = [one[0] for one in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
