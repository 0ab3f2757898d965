"""Which decisions explain an outage, whose clock stamped them, and which bound of that clock placed them?

The rule: the row names the events that its boundaries are taken from; silver.events says of each which bound of the other host's clock
was used, and names the lines of bronze that this bound rests on. Around them, a minute each way by the collector's clock, stand all
decisions as they were landed, and silver.clock_bounds: what was known of those clocks then, used or not.

Example: the fencing at 12:00:09.050 was stamped by broker 3 at 14:00:09.053; its clock minus ours lay in [7200002, 7200004] ms by an
acknowledgement, line canary-1 / 7f3c / 812.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from dashboards import components, words
from dashboards.proofs import Listing
from dashboards.proofs.lines import GONE, days, line, span, utc
from pipelines.domain import clock
from pipelines.domain.names import identity
from pipelines.serving import Row, Snapshot

MAX_CONTROLS = 80
MAX_BOUNDS = 40
MAX_LINES = 80
MARGIN = timedelta(seconds=60)
FAR = timedelta(hours=1)
"""What bounds a clock may be so far away (`domain.clocks`)."""
BOUNDARIES = (("fenced_by", "fenced"), ("elected_by", "elected"), ("known_by", "known"))
BOUNDARY_HEAD = (
    "Boundary",
    "In the row (UTC)",
    "event_id",
    "Event",
    "Happened (UTC)",
    "Whose clock",
    "Bound that was used",
    "Rests on",
)
CONTROL_HEAD = (
    "What", "Stamped (by that clock)", "Whose clock", "By our clock (UTC)", "Bound that was used", "Last read without it", "Seen",
    "Position", "Source", "Line",
)  # fmt: skip
LINE_HEAD = ("Line", "Record", "Host", "Against clock", "Held from (UTC)", "to", "Host's clock minus ours")
CLOCK_HEAD = ("Host", "Against clock", "Method", "Minute (UTC)", "Host's clock minus ours", "Stamps", "Steps")


def decisions(snapshot: Snapshot, row: Row) -> list[Listing]:
    """The events behind the boundaries, decisions a minute around, and what bounds the clocks that stamped them."""
    first = (row["started_at_min"] or row["started_at_max"]) - MARGIN
    last = (row["ended_at_max"] or row["ended_at_min"]) + MARGIN
    place = {name: row[name] for name in ("cluster_id", "resource", "shard")}
    controls = snapshot.rows("evidence_controls", **place, **span(first, last), limit=MAX_CONTROLS)
    landed = {identity(one["prober_id"], one["boot_id"], one["seq"]): one for one in controls}
    named = {row[column] for column, _ in BOUNDARIES if row[column] is not None}
    wanted = sorted(named | landed.keys())
    events = {one["event_id"]: one for one in snapshot.rows("evidence_events_by_id", event_ids=wanted)} if wanted else {}
    source = "bronze.observations where record = 'control' and seen_at_us is a minute around it; by our clock: silver.events"
    note = None if controls else "No decision was read in this time."
    return [
        *_boundaries(row, events),
        Listing(
            "What the control plane decided",
            source,
            CONTROL_HEAD,
            [_control(one, events.get(name)) for name, one in landed.items()],
            note,
        ),
        *_used(snapshot, row, events.values()),
        *_known(snapshot, row, controls),
    ]


def _boundaries(row: Row, events: dict[str, Row]) -> list[Listing]:
    """The events that the row's boundaries are taken from."""
    rows = [_boundary(row, name, events.get(row[column] or "")) for column, name in BOUNDARIES if _is_stated(row, name)]
    if not rows:
        return []
    source = f"silver.events, by fenced_by, elected_by, known_by of gold.outages {row['outage_id']}"
    note = "In truth they happened in this order, so each boundary is narrowed by its neighbours, and may be narrower than its event."
    return [Listing("The events that its boundaries are taken from", source, BOUNDARY_HEAD, rows, note)]


def _is_stated(row: Row, name: str) -> bool:
    return row[f"{name}_at_min"] is not None or row[f"{name}_at_max"] is not None


def _boundary(row: Row, name: str, event: Row | None) -> list[Any]:
    stated = words.instant_range(row[f"{name}_at_min"], row[f"{name}_at_max"])
    event_id = row[f"{name}_by"]
    if event is None:
        said = "at the latest with the first served probe" if event_id is None and name == "known" else "not in silver.events"
        return [name, stated, line(event_id), said, *[""] * (len(BOUNDARY_HEAD) - 4)]
    happened = words.instant_range(event["happened_at_min"], event["happened_at_max"])
    return [name, stated, line(event_id), event["detail"] or event["event"], happened, _whose(event), bound(event), _lines(event)]


def _whose(event: Row) -> str:
    return "our own" if event["clock_host"] is None else f"host {event['clock_host']}"


def bound(event: Row | None) -> str:
    """The bound of another host's clock that placed an event."""
    if event is None:
        return "not in silver.events"
    if event["clock_host"] is None:
        return "none: our own clock"
    if event["clock_method"] is None:
        return "none: it stands between two readings"
    return f"{event['clock_offset_ms_min']:g} to {event['clock_offset_ms_max']:g} ms, {event['clock_method']}"


def _lines(event: Row) -> Any:
    return components.code("; ".join(event["clock_lines"])) if event["clock_lines"] else ""


def _control(one: Row, event: Row | None) -> list[Any]:
    ours = words.instant_range(event["happened_at_min"], event["happened_at_max"]) if event else "not in silver.events"
    return [
        event["detail"] if event else one["event"].replace("_", " "),
        words.instant_range(clock.instant(one["started_at_us"]), clock.instant(one["ended_at_us"])),
        f"host {one['stamped_by']}" if one["stamped_by"] else f"our own, {one['clock_id']}",
        ours,
        bound(event),
        "not said" if one["unseen_at_us"] is None else utc(one["unseen_at_us"]),
        utc(one["seen_at_us"]),
        one["position"] or "none",
        one["source"] or "not known",
        line(f"{one['prober_id']} / {one['boot_id']} / {one['seq']}"),
    ]


# --- clocks -------------------------------------------------------------------------------------------------------------


def _used(snapshot: Snapshot, row: Row, events: Iterable[Row]) -> list[Listing]:
    """The lines of bronze that the bounds which placed these events rest on."""
    with_lines = [one for one in events if one["clock_lines"]]
    names = sorted({name for one in with_lines for name in one["clock_lines"]})
    if not names:
        return []
    first, last = min(one["happened_at_min"] for one in with_lines) - FAR, max(one["happened_at_max"] for one in with_lines) + FAR
    found = snapshot.rows("evidence_lines", cluster_id=row["cluster_id"], names=names, **days(first, last), limit=MAX_LINES)
    rows = [_line_row(one) for one in found]
    missing = sorted(set(names) - {one["line_id"] for one in found})
    rows += [[line(name), GONE, *[""] * (len(LINE_HEAD) - 2)] for name in missing]
    return [Listing("The clock bounds that were used", "bronze.observations, by clock_lines of silver.events", LINE_HEAD, rows)]


def _line_row(one: Row) -> list[Any]:
    low, high = one["clock_offset_us_min"], one["clock_offset_us_max"]
    offset = "by the instants at which it was read" if low is None or high is None else f"{low / 1000:g} to {high / 1000:g} ms"
    times = (utc(one["started_at_us"]), utc(one["ended_at_us"]))
    return [line(one["line_id"]), one["record"], one["clock_host"], components.code(one["clock_id"]), *times, offset]


def _known(snapshot: Snapshot, row: Row, controls: Sequence[Row]) -> list[Listing]:
    """What was known of the hosts' clocks around it, used or not."""
    hosts = sorted({one["stamped_by"] for one in controls if one["stamped_by"] is not None})
    if not hosts:
        return []
    times = {"from_at": row["started_at_min"] or row["started_at_max"], "to_at": row["ended_at_max"] or row["ended_at_min"]}
    bounds = snapshot.rows("evidence_clock_bounds", cluster_id=row["cluster_id"], hosts=hosts, **times, limit=MAX_BOUNDS)
    unbounded = sorted(set(hosts) - {one["host"] for one in bounds})
    missing = f"No minute of silver.clock_bounds has the clock of {', '.join(unbounded)}." if unbounded else None
    return [Listing("What was known of these clocks", "silver.clock_bounds", CLOCK_HEAD, [_clock(one) for one in bounds], missing)]


def _clock(one: Row) -> list[Any]:
    offset = f"{one['offset_ms_min']:g} to {one['offset_ms_max']:g} ms"
    minute = words.instant(one["minute_at"])[:16]
    return [one["host"], components.code(one["clock_id"]), one["method"], minute, offset, f"{one['stamps']:,}", f"{one['steps']:,}"]
