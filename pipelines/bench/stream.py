"""How many rows a second does one core take from the landing to gold, against DuckDB on the same rows?

The rule: a seeded landing of many partitions with outages; the stream takes it in, derives and writes every table, from an empty
lakehouse in a warm session; CPU time of Python, of its workers and of the JVM is counted. DuckDB then reads the same files, parses
them, keeps the longest form of each run and finds the same outages by gaps and islands, in one SELECT, in the same process. Both
must give the same outages with the same names and bounds, else the benchmark fails: a fast wrong answer is no figure.

What the stream does besides (quarantine, exactly-once commits of a dozen tables, causes, phases, incidents, availability) is in its
CPU time and not in DuckDB's. The ratio says what that costs; it is no race of the same work.

Example: 60,000 rows in 40 s of CPU are 1,500 rows/s and core; DuckDB's 0.5 s are 120,000.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from pipelines.bench.base import Bench, Figure, load, tree_cpu_seconds
from pipelines.domain.names import identity
from pipelines.errors import LastackError
from pipelines.lakehouse import session
from pipelines.settings import Home
from pipelines.stream import Options, Stream

SEED = 20261121
BEGIN_US = 1_790_035_200_000_000
SECOND_US = 1_000_000
PERIOD_US, LAMBDA_US, LATENCY_US, FLUSH_US = 100_000, SECOND_US, 3_000, 10 * SECOND_US
OUTAGES = 2
FILE_LINES = 2_000
CLUSTER, PROBER, RESOURCE = "bench", "canary", "lastack-canary-write"
METHOD = "rows / CPU seconds of all processes, landing to gold, warm session; outages equal to DuckDB's on the same rows"

WINDOWS = """
WITH lines AS (
    SELECT * FROM read_json(
        $files, format = 'newline_delimited',
        columns = {record: 'VARCHAR', boot_id: 'VARCHAR', resource: 'VARCHAR', shard: 'VARCHAR', kind: 'VARCHAR', lane: 'VARCHAR',
                   prober_id: 'VARCHAR', outcome: 'VARCHAR', first_sequence: 'BIGINT', last_sequence: 'BIGINT', seq: 'BIGINT',
                   started_at_us: 'BIGINT', last_issued_at_us: 'BIGINT', first_decided_at_us: 'BIGINT', last_decided_at_us: 'BIGINT',
                   earliest_decided_at_us: 'BIGINT', ended_at_us: 'BIGINT',
                   period_us: 'BIGINT', lambda_us: 'BIGINT', is_open: 'BOOLEAN'}
    ) WHERE record = 'probes'
), runs AS (
    SELECT *, outcome = 'ACKED' AS is_good FROM lines
    QUALIFY row_number() OVER (
        PARTITION BY prober_id, boot_id, resource, shard, kind, lane, first_sequence
        ORDER BY last_sequence DESC, coalesce(is_open, false), seq DESC
    ) = 1
), bads AS (
    SELECT *,
        coalesce(started_at_us > lag(last_issued_at_us) OVER stream + period_us + lambda_us, true) AS begins
    FROM runs WHERE NOT is_good
    WINDOW stream AS (PARTITION BY prober_id, resource, shard, kind, lane ORDER BY started_at_us)
), islands AS (
    SELECT *, count_if(begins) OVER (PARTITION BY prober_id, resource, shard, kind, lane ORDER BY started_at_us) AS island FROM bads
), outages AS (
    SELECT prober_id, resource, shard, kind, lane,
        min(started_at_us) AS first_bad_us,
        max(last_issued_at_us) AS last_bad_us,
        min(greatest(started_at_us, least(earliest_decided_at_us, started_at_us + lambda_us))) AS known_us
    FROM islands GROUP BY prober_id, resource, shard, kind, lane, island
)
SELECT o.resource, o.shard, o.kind, o.lane, o.prober_id, o.first_bad_us,
    s.last_issued_at_us AS started_min, o.known_us AS started_max, o.last_bad_us AS ended_min, t.first_decided_at_us AS ended_max
FROM outages AS o
ASOF LEFT JOIN (SELECT * FROM runs WHERE is_good) AS s
    ON o.resource = s.resource AND o.shard = s.shard AND o.kind = s.kind AND o.lane = s.lane AND o.prober_id = s.prober_id
    AND o.first_bad_us > s.last_decided_at_us
ASOF LEFT JOIN (SELECT * FROM runs WHERE is_good) AS t
    ON o.resource = t.resource AND o.shard = t.shard AND o.kind = t.kind AND o.lane = t.lane AND o.prober_id = t.prober_id
    AND o.last_bad_us < t.started_at_us
"""


def run(bench: Bench) -> list[Figure]:
    """Makes the landing, lets both take it, compares."""
    partitions, minutes = (40, 10) if bench.is_quick else (200, 30)
    home = Home(bench.folder / "stream")
    home.create()
    kept = bench.folder / "landing"
    rows = _land(kept, partitions, minutes)
    bench.say(f"stream: {rows} rows of {partitions} partitions")
    with session(home) as spark:
        spark.range(1).count()
        for path in kept.iterdir():
            (home.landing / path.name).hardlink_to(path)
        began, cpu = time.monotonic(), tree_cpu_seconds()
        stopping = threading.Event()
        stopping.set()
        stream = Stream(spark, home, Options(trigger_seconds=0), None)
        stream.run(stopping)
        wall, cpu = time.monotonic() - began, tree_cpu_seconds() - cpu
        ours = {row["outage_id"]: _bounds(row.asDict()) for row in _gold(stream)}
    began, duck_cpu = time.monotonic(), time.process_time()
    theirs = _by_duckdb(kept)
    duck_wall, duck_cpu = time.monotonic() - began, time.process_time() - duck_cpu
    _compare(ours, theirs)
    return _figures(rows, len(ours), (wall, cpu), (duck_wall, duck_cpu))


def _figures(rows: int, outages: int, ours: tuple[float, float], duck: tuple[float, float]) -> list[Figure]:
    details: dict[str, Any] = {
        "rows": rows,
        "outages_equal": outages,
        "wall_seconds": round(ours[0], 1),
        "cpu_seconds": round(ours[1], 1),
        "duckdb_rows_per_second_and_core": round(rows / duck[1]),
        "duckdb_wall_seconds": round(duck[0], 2),
        "duckdb_cpu_seconds": round(duck[1], 2),
        "load": load(),
    }
    ratio = (rows / duck[1]) / (rows / ours[1])
    return [
        Figure("stream, landing to gold", round(rows / ours[1]), "rows/s and core", METHOD, details=details),
        Figure("stream, DuckDB's CPU for the outages alone", round(ratio, 1), "x less", METHOD, details=details),
    ]


# --- the rows ---------------------------------------------------------------------------------------------------------


def _land(folder: Path, partitions: int, minutes: int) -> int:
    """Writes the landing, in order of time over all partitions as a canary would; returns the number of lines."""
    folder.mkdir(parents=True)
    rng = random.Random(SEED)  # noqa: S311 - nothing here is a secret
    lines = sorted(
        (line for shard in range(partitions) for line in _partition(rng, str(shard), minutes * 60 * SECOND_US)),
        key=lambda line: line["ended_at_us"],
    )
    for seq, line in enumerate(lines):
        line["seq"] = seq
    for number, at in enumerate(range(0, len(lines), FILE_LINES)):
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines[at : at + FILE_LINES])
        (folder / f"canary-{number:06}.jsonl").write_text(text)
    return len(lines)


def _partition(rng: random.Random, shard: str, length_us: int) -> Iterator[dict[str, Any]]:
    """Healthy but for some outages, each of hanging or of refused probes, longer than 2g and far apart."""
    probes = length_us // PERIOD_US
    at = 0
    slot = probes // (OUTAGES + 1)
    for number in range(OUTAGES):
        begin = (number + 1) * slot + rng.randrange(slot // 4)
        yield from _run(shard, at, begin - at, None)
        count = rng.randrange(50, 300)
        yield from _run(shard, begin, count, rng.choice(("TIMED_OUT", "CONNECTION_REFUSED")))
        at = begin + count
    yield from _run(shard, at, probes - at, None)


def _run(shard: str, first: int, count: int, code: str | None) -> Iterator[dict[str, Any]]:
    """A run as it is written while it lasts: each line longer than the one before."""
    flush = (FLUSH_US if code is None else SECOND_US) // PERIOD_US
    for length in [*range(1, count, flush), count]:
        yield _line(shard, first, length, code, is_open=length < count)


def _line(shard: str, first: int, count: int, code: str | None, *, is_open: bool) -> dict[str, Any]:
    outcome = "ACKED" if code is None else "UNKNOWN" if code == "TIMED_OUT" else "REJECTED"
    latency = LAMBDA_US if outcome == "UNKNOWN" else LATENCY_US
    begin = BEGIN_US + first * PERIOD_US
    last = begin + (count - 1) * PERIOD_US
    line = {
        "format": 1, "record": "probes", "system": "kafka", "cluster_id": CLUSTER, "collector": "canary", "prober_id": PROBER,
        "boot_id": "b0", "clock_id": "c0", "seq": 0, "resource": RESOURCE, "shard": shard, "kind": "write", "lane": "raw",
        "outcome": outcome, "count": count, "first_sequence": first, "last_sequence": first + count - 1, "started_at_us": begin,
        "last_issued_at_us": last, "first_decided_at_us": begin + latency, "last_decided_at_us": last + latency,
        "earliest_decided_at_us": begin + latency, "ended_at_us": last + latency, "period_us": PERIOD_US, "lambda_us": LAMBDA_US,
        "is_open": is_open,
    }  # fmt: skip
    acked = {"latency_us_min": latency, "latency_us_max": latency, "latency_us_mean": latency, "leader": "1", "term": 1}
    return line | ({"code": code} if code else acked)


# --- the outages ------------------------------------------------------------------------------------------------------

Bounds = tuple[int | None, int, int, int | None]


def _gold(stream: Stream) -> list[Any]:
    names = ("started_at_min", "started_at_max", "ended_at_min", "ended_at_max")
    micros = [f"unix_micros({name}) AS {name}" for name in names]
    return list(stream.lakehouse.read("gold.outages").selectExpr("outage_id", *micros).collect())


def _bounds(row: dict[str, Any]) -> Bounds:
    return row["started_at_min"], row["started_at_max"], row["ended_at_min"], row["ended_at_max"]


def _by_duckdb(folder: Path) -> dict[str, Bounds]:
    with duckdb.connect() as connection:
        found = connection.execute(WINDOWS, {"files": str(folder / "*.jsonl")}).fetchall()
    return {identity(CLUSTER, *row[:6]): (row[6], row[7], row[8], row[9]) for row in found}


def _compare(ours: dict[str, Bounds], theirs: dict[str, Bounds]) -> None:
    if ours == theirs:
        return
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    one = differing[0]
    raise LastackError(
        f"stream and DuckDB disagree on {len(differing)} of {len(ours)} and {len(theirs)} outages; "
        f"the first, {one}, is {ours.get(one)} and {theirs.get(one)}"
    )
