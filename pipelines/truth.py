"""`make truth-spark`: simulated outages through the whole pipeline, and what gold says of them held against their truth.

The rule: each seed is one history of one cluster, with a truth to the microsecond. All clusters' lines are dealt out to the files
of one landing as they come in real life: mostly in order, some late, some twice, in any order within a file. The stream takes them in a
few batches, from landing to gold. Then

- what gold and silver hold of each cluster is judged by the simulator's own judge, as `make truth` judges the domain alone;
- every row of silver must be the one that follows from all lines at once, whatever the order in which they came.

Histories that break assumption (H) on purpose go the same way. Exit code 1 if anything is wrong; the seed reproduces it exactly.

Example: `make truth-spark ARGS="--seed 7 --histories 1"` sends the history of seed 7 through Spark.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pipelines.brokers.simulated import History, Judgement, judge_reported, simulate
from pipelines.brokers.simulated.__main__ import table
from pipelines.brokers.simulated.reported import Doubt, Found, LaneOutage, Reported, ServiceSpan, Window, WithoutController
from pipelines.domain.clock import microseconds
from pipelines.domain.derivation import Derivation, derive
from pipelines.domain.facts import Facts, Partition, Stream
from pipelines.domain.intervals import Bounds
from pipelines.domain.landing import encode
from pipelines.domain.observations import Kind, Observation
from pipelines.domain.sequences import number
from pipelines.domain.windows import LEADER_UNAVAILABLE
from pipelines.lakehouse import Lakehouse, session
from pipelines.rebuild import compared
from pipelines.settings import Home
from pipelines.silver import TABLES
from pipelines.silver.base import Row
from pipelines.stream import Options
from pipelines.stream import Stream as Pipeline

BEGIN_US = 1_790_035_200_000_000
"""When simulated histories begin, in the landing: their own time begins at 0."""
SHORT_EVERY = 10
"""So many histories respect assumption (H) for each one that breaks it."""
LATE_RATIO, TWICE_RATIO = 0.15, 0.05
SHOWN_MAX = 50
READ = (
    "gold.outages",
    "gold.losses",
    "silver.outage_windows",
    "silver.partition_windows",
    "silver.service_windows",
    "silver.controller_windows",
    "silver.losses",
    "silver.findings",
)


@dataclass(slots=True)
class Sent:
    """A history that is sent through the pipeline, and what follows from it without one."""

    history: History
    cluster_id: str
    lines: list[Observation]
    derivation: Derivation
    is_short: bool

    @classmethod
    def of(cls, seed: int, *, is_short: bool = False, **scenario: Any) -> "Sent":
        """The history of a seed, at a place of its own among clusters; `scenario` as `simulate` takes it."""
        cluster_id = f"simulated-{seed}{'-short' if is_short else ''}"
        history = simulate(seed, is_short=is_short, cluster_id=cluster_id, **scenario)
        lines = [at(one, BEGIN_US) for one in history.observations]
        return cls(history, cluster_id, lines, derive(Facts.of(lines), []), is_short)

    @property
    def outages(self) -> int:
        """How many outages gold is to hold of it: what the watch was not served is in its partitions' windows."""
        return sum(one.stream.kind != Kind.LEADER for one in self.derivation.outages)


@dataclass(slots=True)
class Judged:
    """What was found, of histories that respect (H) and of those that do not."""

    long: Judgement = field(default_factory=Judgement)
    short: Judgement = field(default_factory=Judgement)
    gold_outages: int = 0
    gold_losses: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """Everything that is wrong."""
        return [*self.long.violations, *self.short.violations, *self.differences]


# --- landing ----------------------------------------------------------------------------------------------------------


def at(one: Observation, begin_us: int) -> Observation:
    """An observation of a history that begins at an instant."""
    instants = ((name.name, getattr(one, name.name)) for name in fields(one) if name.name.endswith("_at_us"))
    return replace(one, **{name: value + begin_us for name, value in instants if value is not None})


def dealt(lines: Sequence[Observation], files: int, rng: random.Random) -> list[list[str]]:
    """The lines of one history as they come in: file by file in order of time, but for those that are late or come twice."""
    found: list[list[str]] = [[] for _ in range(files)]
    order = sorted(lines, key=lambda one: (one.ended_at_us, one.prober_id, one.boot_id, one.seq))
    for index, one in enumerate(order):
        due = index * files // len(order)
        late = rng.random() < LATE_RATIO
        text = encode(one)
        found[rng.randrange(due, files) if late else due].append(text)
        if rng.random() < TWICE_RATIO:
            found[rng.randrange(files)].append(text)
    return found


def land(sent: Sequence[Sent], landing: Path, files: int, rng: random.Random) -> None:
    """Puts the lines of all histories into files of one landing, which the stream takes in the order of their names."""
    landing.mkdir(parents=True, exist_ok=True)
    each = [dealt(one.lines, files, rng) for one in sent]
    for number_ in range(files):
        lines = [line for of_one in each for line in of_one[number_]]
        rng.shuffle(lines)
        path = landing / f"simulated-{number_:04}.jsonl"
        part = path.with_name(f".{path.name}.part")
        part.write_text("".join(f"{line}\n" for line in lines))
        os.utime(part, (BEGIN_US // 1_000_000 + number_, BEGIN_US // 1_000_000 + number_))
        part.rename(path)


# --- what the tables say ----------------------------------------------------------------------------------------------


def reported(rows: dict[str, list[Row]]) -> Reported:
    """What the tables say of one cluster, on the history's own time.

    Gold leaves out what the watch itself was not served, and what a better row says; there silver is asked.
    """
    probed = {row["outage_id"]: row for row in rows["silver.outage_windows"]}
    in_gold = {row["outage_id"]: row for row in rows["gold.outages"]}
    outages = [_outage({**row, **in_gold[name]}) for name, row in probed.items() if name in in_gold]
    outages += [_outage(row) for row in probed.values() if row["kind"] == Kind.LEADER]
    windows = [
        _window({**row, **in_gold.get(row["window_id"], {})})
        for row in rows["silver.partition_windows"]
        if row["window_id"] in in_gold or not _is_for_gold(row)
    ]
    boots = {row["loss_id"]: row["boot_id"] for row in rows["silver.losses"]}
    return Reported(
        sorted(outages, key=lambda one: (one.stream, one.start.high or 0)),
        windows,
        [_service(row) for row in rows["silver.service_windows"]],
        [_controller({**row, **in_gold[row["window_id"]]}) for row in rows["silver.controller_windows"] if row["window_id"] in in_gold],
        [_loss(row, boots.get(row["loss_id"]) or "") for row in rows["gold.losses"]],
        [_doubt(row) for row in rows["silver.findings"]],
    )


def _is_for_gold(row: Row) -> bool:
    return bool(row["window"] == LEADER_UNAVAILABLE or row["evidence"] == "inferred")


def _outage(row: Row) -> LaneOutage:
    return LaneOutage(
        Stream(row["resource"], row["shard"], row["kind"], row["lane"], row["prober_id"]),
        _span(row, "started"),
        _span(row, "ended"),
        _lasting(row, "rto"),
        _duration(row["downtime_ms_min"]) or 0,
        row["is_open"],
        row["bad_probes"],
        row["rejected_probes"],
        row["void_probes"],
        row["flaps"],
        row["cause"],
        row["broker"],
        _boundary(row, "fenced"),
        _boundary(row, "elected"),
        row["view"],
        bool(row["contradicted_by"]),
        _duration(row["period_ms"]) or 0,
        _duration(row["lambda_ms"]) or 0,
    )


def _window(row: Row) -> Window:
    partition = Partition(row["resource"], row["shard"])
    return Window(row["window"], partition, row["evidence"], row["broker"], _span(row, "started"), _span(row, "ended"))


def _service(row: Row) -> ServiceSpan:
    key = (row["resource"], row["shard"], row["kind"], row["lane"])
    return ServiceSpan(key, _span(row, "started"), _span(row, "ended"), _lasting(row, "rto"), row["is_open"], tuple(row["probers"]))


def _controller(row: Row) -> WithoutController:
    return WithoutController(
        row["cause"],
        _span(row, "started"),
        _span(row, "ended"),
        _lasting(row, "rto"),
        row["is_open"],
        row["partitions_waiting"],
        None,
    )


def _loss(row: Row, boot_id: str) -> Found:
    return Found(
        Partition(row["resource"], row["shard"]),
        row["kind"],
        row["lane"],
        boot_id,
        row["verdict"],
        row["evidence"],
        Bounds(row["records_min"], row["records_max"]),
        _lasting(row, "rpo"),
        _instant(row["acked_from_at"]),
        _instant(row["acked_to_at"]),
        number(row["first_position"]),
        number(row["last_position"]),
        row["reason"],
        row["acked_records"],
    )


def _doubt(row: Row) -> Doubt:
    partition = None if row["resource"] is None else Partition(row["resource"], row["shard"])
    return Doubt(row["finding"], row["subject"], partition)


def _instant(value: Any) -> int | None:
    return None if value is None else microseconds(value) - BEGIN_US


def _duration(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1000)


def _span(row: Row, name: str) -> Bounds:
    return Bounds(_instant(row[f"{name}_at_min"]), _instant(row[f"{name}_at_max"]))


def _boundary(row: Row, name: str) -> Bounds | None:
    found = _span(row, name)
    return None if found.low is None and found.high is None else found


def _lasting(row: Row, name: str) -> Bounds:
    return Bounds(_duration(row[f"{name}_ms_min"]), _duration(row[f"{name}_ms_max"]))


# --- the whole of it --------------------------------------------------------------------------------------------------


def through(lakehouse: Lakehouse, sent: Sequence[Sent], *, files: int, batches: int, rng: random.Random) -> None:
    """Sends histories through the whole pipeline, in some batches."""
    land(sent, lakehouse.home.landing, files, rng)
    stopping = threading.Event()
    stopping.set()
    Pipeline(lakehouse.spark, lakehouse.home, Options(trigger_seconds=0, files_per_batch=-(-files // batches)), None).run(stopping)


def judged(lakehouse: Lakehouse, sent: Sequence[Sent]) -> Judged:
    """Holds what the tables say of histories against their truth, and against what follows from all of their lines at once."""
    known = {name: _by_cluster(lakehouse.at_hand(name)) for name in {*READ, *(one.name for one in TABLES)}}
    found = Judged()
    for one in sent:
        rows = {name: of_table.get(one.cluster_id, []) for name, of_table in known.items()}
        found.gold_outages += len(rows["gold.outages"])
        found.gold_losses += len(rows["gold.losses"])
        judgement = judge_reported(one.history, Facts.of(one.history.observations), reported(rows))
        (found.short if one.is_short else found.long).add(judgement)
        found.differences += _differences(one, rows)
    return found


def _by_cluster(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cluster_id"], []).append(row)
    return found


def _differences(one: Sent, rows: dict[str, list[Row]]) -> Iterator[str]:
    """What silver holds and the pure derivation of all lines does not, or the other way round."""
    for silver in TABLES:
        made = list(silver.rows(one.derivation))
        for each in compared(silver.name, rows[silver.name], made).differences:
            columns = f": {', '.join(each.columns)}" if each.columns else ""
            yield f"seed {one.history.seed}: {silver.name} {'/'.join(map(str, each.key))} is {each.kind}{columns}"


def chosen(seed: int, outages: int, histories: int | None) -> Iterator[Sent]:
    """Histories from a seed on until they make so many outages; now and then one that breaks assumption (H)."""
    count = found = 0
    while found < outages if histories is None else count < histories:
        one = Sent.of(seed + count)
        found += one.outages
        yield one
        if count % SHORT_EVERY == 0:
            yield Sent.of(seed + count, is_short=True)
        count += 1


def main() -> int:
    """Runs from the command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="make truth-spark", description="Holds gold against the truth of simulated outages.")
    parser.add_argument("--outages", type=int, default=1_000, help="how many outages gold is to hold, at least")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed; each history takes the next one")
    parser.add_argument("--histories", type=int, help="how many histories, instead of --outages")
    parser.add_argument("--files", type=int, default=24, help="files of the landing")
    parser.add_argument("--batches", type=int, default=3, help="micro-batches in which the stream takes them, about")
    arguments = parser.parse_args()
    began = time.monotonic()
    print(f"seed {arguments.seed}", flush=True)  # noqa: T201 - the command's output
    sent = list(chosen(arguments.seed, arguments.outages, arguments.histories))
    lines = sum(len(one.lines) for one in sent)
    print(f"{len(sent)} histories, {lines:,} lines; through Spark", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="lastack-truth-") as folder:
        home = Home(Path(folder))
        home.create()
        with session(home) as spark:
            lakehouse = Lakehouse(spark, home)
            through(
                lakehouse,
                sent,
                files=arguments.files,
                batches=arguments.batches,
                rng=random.Random(arguments.seed),  # noqa: S311 - nothing here is a secret
            )
            found = judged(lakehouse, sent)
    print(table(found.long, found.short, len(sent), time.monotonic() - began))  # noqa: T201
    print(f"gold: {found.gold_outages:,} outages, {found.gold_losses:,} findings about acknowledged records")  # noqa: T201
    print("\n".join(f"WRONG {text}" for text in found.differences[:SHOWN_MAX]))  # noqa: T201
    print(f"{len(found.violations)} wrong, seed {arguments.seed}")  # noqa: T201
    return 1 if found.violations or found.long.too_wide() else 0


if __name__ == "__main__":
    sys.exit(main())
