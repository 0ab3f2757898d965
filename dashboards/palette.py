"""Which colour, shape and word stand for what? One table, so that a state looks the same on every page and figure.

The rule: Okabe and Ito's colours, which people with any colour vision tell apart, and never colour alone: each meaning has a
shape (or a hatch) and a word of its own. Grey and hatched means that nobody measured, and nothing else does.

Example: `KINDS["durable_write"]` is orange, a square, and "durable write".
"""

from dataclasses import dataclass

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#8A8F98"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a meaning is shown: its colour, its shape (a plotly symbol), the same shape as a character, and its word."""

    colour: str
    symbol: str
    glyph: str
    word: str


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of figures that depend on the page's background."""

    name: str
    text: str
    muted: str
    line: str
    surface: str


LIGHT = Theme(name="light", text="#1f2328", muted="#57606a", line="#d8dee4", surface="#ffffff")
DARK = Theme(name="dark", text="#e6e8eb", muted="#a3a9b3", line="#373b42", surface="#1b1e23")
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}

STATES = {
    "serving": Mark(GREEN, "circle", "●", "Serving"),
    "outage": Mark(VERMILLION, "triangle-up", "▲", "Outage open"),
    "stale": Mark(GREY, "hourglass", "⧗", "Stale"),
    "unmeasured": Mark(GREY, "square-x-open", "▨", "Unmeasured"),
}

KINDS = {
    "write": Mark(BLUE, "circle", "●", "write"),
    "durable_write": Mark(ORANGE, "square", "■", "durable write"),
    "read": Mark(SKY, "diamond", "◆", "read"),
    "leader": Mark(PURPLE, "triangle-up", "▲", "leader"),
    "controller": Mark(YELLOW, "hexagon", "⬢", "controller"),
}
"""The kinds of service that a partition owes."""

KIND_MEANINGS = {
    "write": "produce with acks=1",
    "durable_write": "produce with acks=all, min.insync.replicas 2 or more",
    "read": "a committed record's bytes come back",
    "leader": "the partition's leader answers for its offsets",
    "controller": "somebody can decide: writes go on without it, elections wait",
}

LANES = {"raw": "no retries", "client": "stock client", "read": "re-read", "watch": "watched", "control": "control plane"}
"""How it was asked."""

PHASES = {
    "detection": Mark(VERMILLION, "square", "■", "detection"),
    "election": Mark(ORANGE, "square", "■", "election"),
    "propagation": Mark(PURPLE, "square", "■", "propagation"),
    "first_write": Mark(GREEN, "square", "■", "first write"),
}
PHASE_MEANINGS = {
    "detection": "from the start until the controller fenced the broker",
    "election": "from the fencing until the new leader was recorded",
    "propagation": "from the record until clients were told of the new leader",
    "first_write": "from the last of these until the first probe was served",
}

ISR_CAUSES = {
    "fenced": Mark(VERMILLION, "square", "■", "fenced"),
    "controlled_shutdown": Mark(BLUE, "square", "■", "controlled shutdown"),
    "lagging": Mark(ORANGE, "square", "■", "lagging"),
    "reassignment": Mark(SKY, "square", "■", "reassignment"),
    "unclean_election": Mark(PURPLE, "square", "■", "unclean election"),
    "unknown": Mark(GREY, "square", "■", "cause not known"),
}

ISR_MEANINGS = {
    "fenced": "the controller gave the broker up: it was silent for its session",
    "controlled_shutdown": "the broker had said that it shuts down",
    "lagging": "its leader took it out: it fell behind for longer than replica.lag.time.max.ms",
    "reassignment": "the partition was moved to other brokers",
    "unclean_election": "a replica that was not in sync became leader, and the ISR began anew",
    "unknown": "no decision that was read says why",
}

EXPOSED = Mark(ORANGE, "triangle-up", "▲", "Exposed")
FINDING = Mark(ORANGE, "diamond", "≠", "Disagrees")

CAUSES = {
    "leader_failed": "leader failed",
    "leader_moved": "leader moved",
    "isr_member_dead": "dead in-sync replica held up acks=all",
    "isr_member_slow": "slow in-sync replica held up acks=all",
    "under_min_isr": "fewer in-sync replicas than min.insync.replicas",
    "topic_created": "topic just made",
    "topic_deleted": "topic deleted",
    "prober_alone": "one prober alone was not served",
    "controller_failed": "controller failed",
    "controller_moved": "controller moved in order",
    "controller_silent": "controller silent for a while",
    "unknown": "cause not known",
}

VERDICTS = {
    "LOST": Mark(VERMILLION, "x", "✖", "Lost"),
    "STRANDED": Mark(ORANGE, "diamond", "◆", "Stranded"),
    "UNCHECKABLE": Mark(GREY, "square-x-open", "▨", "Cannot be checked"),
    "UNCHECKED": Mark(GREY, "square-x-open", "▨", "Not read back yet"),
    "NOT_STORED": Mark(BLUE, "square-open", "□", "Never stored"),
    "DELETED_BY_POLICY": Mark(BLUE, "square", "■", "Deleted by policy"),
    "PRESENT": Mark(GREEN, "circle", "●", "Nothing lost"),
    "NOT_APPLICABLE": Mark(GREY, "circle-open", "○", "No data in question"),
}
VERDICT_MEANINGS = {
    "LOST": "acknowledged records were read for and are not there",
    "STRANDED": "absent, while a replica or site that may still hold them is down",
    "UNCHECKABLE": "below the start of the log, or the topic was made anew: nothing can be said",
    "UNCHECKED": "the read-back has not reached these records yet: neither lost nor safe",
    "NOT_STORED": "the client used a sequence number twice, and the broker took the record for a repetition: not lost by it",
    "DELETED_BY_POLICY": "removed by retention, compaction or deletion: not lost",
    "PRESENT": "every acknowledged record that was checked is there; late is not lost",
    "NOT_APPLICABLE": "reads and controllers hold no data of their own",
}

VIEWS = {
    "confirmed": Mark(VERMILLION, "circle", "●", "confirmed"),
    "disputed": Mark(ORANGE, "diamond", "◆", "disputed"),
    "alone": Mark(BLUE, "triangle-up", "▲", "seen by one alone"),
    "single": Mark(GREY, "circle-open", "○", "nobody else looked"),
}
"""What several probers say of an outage."""

VIEW_MEANINGS = {
    "confirmed": "other probers were not served either, and none was served in the middle of it",
    "disputed": "other probers were not served either, and some were served in the middle of it",
    "alone": "other probers looked, and none of them was out",
    "single": "only one prober asked for this",
}

EVIDENCE = {
    "probed": "our own writes",
    "read_probed": "our own reads",
    "inferred": "inferred from the control plane and probed partitions of the same broker",
    "control_plane": "decisions of the control plane",
}


def kind(name: str) -> Mark:
    """The mark of a kind of service; an unknown kind keeps its own word."""
    return KINDS.get(name, Mark(GREY, "circle-open", "○", name))


def verdict(name: str) -> Mark:
    """The mark of a loss verdict; an unknown verdict keeps its own word."""
    return VERDICTS.get(name, Mark(GREY, "square-x-open", "▨", name))


def isr_cause(name: str) -> Mark:
    """The mark of a reason for being out of the ISR; an unknown one keeps its own word."""
    return ISR_CAUSES.get(name, Mark(GREY, "square", "■", name))


def service(kind_name: str, lane: str) -> str:
    """A kind and lane in words: "durable write · stock client"."""
    return f"{kind(kind_name).word} · {LANES.get(lane, lane)}"
