"""What are the counts of the overview made of: streams as probers last said, disagreements of a day, lines that were refused?"""

from collections.abc import Sequence
from typing import Any

from dashboards import words
from dashboards.components import code, proof
from dashboards.proofs import Listing, Proof, Step
from dashboards.standing import DAY, since
from pipelines import why
from pipelines.domain import clock
from pipelines.domain.health import LiveView
from pipelines.serving import Row, Snapshot

MAX_ROWS = 500
LIVE_HEAD = ("prober_id", "Written (UTC)", "State", "Served", "Not served", "Unmeasured", "Fresh")
OPEN_HEAD = ("outage_id", "prober_id", "Partition", "Service", "Since (UTC), at the latest", "Proven")
FINDING_HEAD = ("finding_id", "About", "From (UTC)", "To (UTC)", "It says")


def live(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """How many streams of a cluster are served now: what each of its probers last wrote, summed up over those that are fresh."""
    views = [one for one in snapshot.live().views if len(names) == 1 and one.cluster_id == names[0]]
    if not views:
        return None
    fresh = [one for one in views if one.is_fresh(snapshot.now_us)]
    of = words.plural(len(fresh), "fresh prober")
    steps = [
        Step(name, "sum over the probers whose word is fresh", " + ".join(str(part) for part in parts) or of, f"{sum(parts):,}")
        for name, parts in (
            ("served", [one.up for one in fresh]),
            ("not served", [one.down for one in fresh]),
            ("unmeasured", [one.unmeasured for one in fresh]),
        )
    ]
    opened = [_open(snapshot, view, one) for view in views for one in view.open]
    listings = [
        Listing("The live files", "live/<prober_id>.json: streams", LIVE_HEAD, [_view(one, snapshot.now_us) for one in views]),
        Listing(
            "What they have as open",
            "live/<prober_id>.json: open",
            OPEN_HEAD,
            opened,
            None if opened else "Nothing is open, as they say.",
        ),
    ]
    about = "Live and provisional: written by each prober's fast lane once a second; the tables have it a little later."
    return Proof(f"Streams of {names[0]} now", words.plural(len(views), "prober"), about, None, steps, (), listings)


def _view(one: LiveView, now_us: int) -> list[Any]:
    written = words.instant(clock.instant(one.written_at_us))
    fresh = "yes" if one.is_fresh(now_us) else "no"
    return [
        one.prober_id, written, one.state, f"{one.up:,}", f"{one.down:,}", f"{one.unmeasured:,}", fresh,
    ]  # fmt: skip


def _open(snapshot: Snapshot, view: LiveView, one: Any) -> list[Any]:
    is_known = snapshot.row("evidence_outage", outage_id=one.outage_id) is not None
    return [
        proof(one.outage_id, "outage", one.outage_id) if is_known else code(one.outage_id),
        view.prober_id,
        f"{one.resource} / {one.shard}",
        f"{one.kind}, {one.lane}",
        words.instant(clock.instant(one.started_at_max_us)),
        words.at_least(one.rto_ms_min),
    ]


def findings(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """How often something of one kind disagreed in the last 24 hours: every time, the newest first."""
    if len(names) != 2:
        return None
    begin = since(snapshot, DAY)
    rows = snapshot.rows("evidence_findings", cluster_id=names[0], finding=names[1], since=begin, limit=MAX_ROWS)
    if not rows:
        return None
    total = rows[0]["total_rows"]
    note = f"The first {len(rows):,} of {total:,} are shown." if len(rows) < total else None
    source = f"silver.findings where cluster_id = '{names[0]}' and finding = '{names[1]}' and ended_at >= '{begin:%Y-%m-%d %H:%M}'"
    steps = [Step("findings", "count", f"since {begin:%Y-%m-%d %H:%M} UTC", f"{total:,}")]
    about = why.SO_WHAT.get(names[1], "")
    listing = Listing("The findings", source, FINDING_HEAD, [_finding(one) for one in rows], note)
    return Proof(why.finding(names[1]), words.plural(total, "finding"), about, None, steps, (), [listing])


def _finding(one: Row) -> list[Any]:
    about = f"{one['resource']} / {one['shard']}" if one["resource"] else one["subject"]
    times = (words.instant(one["started_at"]), words.instant(one["ended_at"]))
    return [proof(one["finding_id"], "finding", one["finding_id"]), about, *times, one["said"]]


def quarantine(snapshot: Snapshot, names: Sequence[str]) -> Proof | None:
    """Which lines of the landing were refused, and why."""
    rows = snapshot.rows("evidence_quarantine", limit=MAX_ROWS)
    if not rows or list(names) != ["lines"]:
        return None
    total = rows[0]["total_rows"]
    note = f"The first {len(rows):,} of {total:,} are shown." if len(rows) < total else None
    listed = [[code(one["file"]), words.instant(one["ingested_at"]), one["reason"], code(one["line"])] for one in rows]
    listing = Listing("The lines", "bronze.quarantine", ("File", "Met (UTC)", "Why it is not an observation", "Line"), listed, note)
    steps = [Step("lines", "count", "bounded, the newest are kept", f"{total:,}")]
    return Proof("Lines that were refused", words.plural(total, "line"), "Nothing is derived from them.", None, steps, (), [listing])
