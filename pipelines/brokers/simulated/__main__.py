"""`make truth`: thousands of random outages, derived by the domain alone, held against their truth.

Exit code 1 if any is wrong, or if half of what is reported is wider than it has to be: two periods and 20 ms, and two lambdas more for
what hung.

Each seed is one history of a few incidents. Where something is wrong the seed is printed, and `--seed N --histories 1` reproduces it.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from pipelines.brokers.simulated import Judgement, judge, simulate
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts

PER_HISTORY = 40
"""Outages of one history, on average; how many histories are needed is worked out from it, and then counted."""

BATCH = 10
SHOWN_MAX = 50


def judged(seeds: Iterable[int], *, is_short: bool = False) -> Judgement:
    """The judgement of the histories of some seeds, added up."""
    total = Judgement()
    for seed in seeds:
        history = simulate(seed, is_short=is_short)
        total.add(judge(history, derive(Facts.of(history.observations), [])))
    return total


def main() -> int:
    """Runs from the command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="make truth", description="Holds what is derived from simulated outages against their truth.")
    parser.add_argument("--outages", type=int, default=10_000, help="how many outages, at least")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed; each history takes the next one")
    parser.add_argument("--histories", type=int, help="how many histories, instead of --outages")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    began = time.monotonic()
    print(f"seed {arguments.seed}", flush=True)  # noqa: T201 - the command's output
    wanted, histories = arguments.outages, arguments.histories
    long, short = Judgement(), Judgement()
    seed = arguments.seed
    with ProcessPoolExecutor(arguments.workers) as pool:
        while long.outages < wanted if histories is None else seed < arguments.seed + histories:
            missing = max(1, (wanted - long.outages) // PER_HISTORY) if histories is None else arguments.seed + histories - seed
            batches = [range(at, min(at + BATCH, seed + missing)) for at in range(seed, seed + missing, BATCH)]
            for one in pool.map(judged, batches):
                long.add(one)
            for one in pool.map(partial(judged, is_short=True), batches[: max(1, len(batches) // 10)]):
                short.add(one)
            seed += missing
    print(table(long, short, seed - arguments.seed, time.monotonic() - began))  # noqa: T201
    return 1 if long.violations or short.violations or long.too_wide() else 0


def table(long: Judgement, short: Judgement, histories: int, seconds: float) -> str:
    """What was found, for people."""
    lines = [
        "",
        f"{histories:,} histories in {seconds:.0f} s",
        "",
        f"{'':38}{'outages':>10}{'windows':>10}{'wrong':>8}{'flapping':>10}",
        _row("assumption (H) holds", long),
        _row("(H) broken on purpose", short),
        f"{'acknowledged records found lost':38}{long.lost_records:>10,}",
        f"{'acknowledged, deleted with their topic':38}{long.deleted_records:>10,}",
        "",
        f"{'RTO max - min, in ms':38}{'outages':>10}{'median':>12}{'allowed':>12}{'p99':>12}   each against its own P and lambda",
    ]
    for (kind, how), widths in sorted(long.widths.items()):
        widths.sort(key=lambda pair: pair[0] / pair[1])
        median, p99 = widths[len(widths) // 2], widths[len(widths) * 99 // 100]
        lines.append(
            f"  {kind + ', ' + how:36}{len(widths):>10,}{median[0] / 1000:>12,.1f}{median[1] / 1000:>12,.1f}"
            f"{p99[0] / 1000:>12,.1f}   median {median[0] / median[1]:.0%} of what is allowed"
        )
    lines += ["", "causes: " + ", ".join(f"{cause} {count:,}" for cause, count in long.causes.most_common())]
    wrong = [*long.violations, *short.violations]
    lines += ["", *(f"WRONG {text}" for text in wrong[:SHOWN_MAX]), *(f"TOO WIDE {text}" for text in long.too_wide())]
    lines += [f"... and {len(wrong) - SHOWN_MAX} more"] if len(wrong) > SHOWN_MAX else []
    return "\n".join(lines)


def _row(name: str, one: Judgement) -> str:
    return f"{name:38}{one.outages:>10,}{one.windows:>10,}{len(one.violations):>8,}{one.flapping:>10,}"


if __name__ == "__main__":
    sys.exit(main())
