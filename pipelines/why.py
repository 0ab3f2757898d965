"""Why was it out, who saw it, what became of the data, and what disagrees? Sentences that somebody understands at 3 a.m.

The rule: a cause, a view, a reason or a finding has one sentence, here and nowhere else; what is not known is said to be unknown, and a
word that this version does not know is shown as it is. Each sentence names the broker or prober that it is about.

Example: an outage with cause isr_member_dead and broker 2 is "acks=all writes waited for dead ISR member 2, until it was out of the
ISR; acks=1 writes went on".
"""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

FINDINGS = {
    "old_leader_served": "A replaced leader still took writes: what it acknowledged may be gone",
    "not_served_though_alive": "A broker served none of our probes, and the controller kept it",
    "prober_alone": "One prober was cut off: the service served others",
    "probers_disagree": "Some probers were served, others were not",
    "clock_stepped": "A clock was set while it was measured by",
    "clock_skewed": "A clock is off by a second or more",
    "clock_unbounded": "A clock stamped events, and nothing says how far it is off",
    "all_out_of_sight": "No broker served our probes, and nothing else says that they were down",
    "isr_shrinks_disagree": "A broker's count of ISR shrinks is not the control plane's",
    "isr_shrinks_uncounted": "ISR shrinks by the controller are in no broker's metric",
}
"""What disagrees, as a headline."""

SO_WHAT = {
    "old_leader_served": "Look at the loss verdict of this partition; writers with acks=1 are the ones at risk.",
    "not_served_though_alive": "It hangs for clients only, or our probers are cut off from it: fencing will not mend it.",
    "prober_alone": "Look at this prober's host and network. It does not count as an outage of the service.",
    "probers_disagree": "Reachable from some places only: look at the network between them and the leader.",
    "clock_stepped": "Instants that this clock stamped are known within wider bounds; the bounds shown allow for it.",
    "clock_skewed": "Figures allow for it; logs, retention and tokens on that host do not.",
    "clock_unbounded": "Its events stand between two readings of their source: phases are wider than they need to be.",
    "all_out_of_sight": "They were all down, or our prober was cut off: ask another client, and look at the prober's network.",
    "isr_shrinks_disagree": "Do not alert on this counter alone.",
    "isr_shrinks_uncounted": "An alert on IsrShrinksPerSec stays silent when a broker is fenced: alert on under-replicated partitions.",
}
"""What to make of it."""

LOSS_REASONS = {
    "no_leader": "the partition has no leader, so nobody can read it",
    "electable_replica_away": "a replica that may hold them, and may still be elected, is down",
    "topic_deleted": "the topic was deleted, or made anew",
    "below_log_start": "they lie below the start of the log",
    "sequence_reused": "the client used a sequence number twice, and the broker took them for a repetition",
}
"""Why absent records are not called lost."""

EXPOSURE_REASONS = {
    "no_other_in_sync_replica": "no other replica is in sync: the leader's death leaves no leader, or loses all it alone has",
    "no_follower_samples": "no in-sync follower told its lag",
    "not_watched": "clients' view of its ISR was not watched",
    "no_leader_samples": "the leader told no log end",
    "before_leader_samples": "the follower is further behind than the leader's samples reach",
    "beyond_leader_samples": "the leader's samples end before the follower's",
    "leader_changed": "the leader changed in between",
    "no_position": "no position was told",
}
"""Why an exposure, or the time that it makes, cannot be said."""


OUTAGES = {
    "leader_failed": "leader{broker} failed; another one had to be elected",
    "leader_failed, nobody elected": "leader{broker} failed, and nobody was elected: it served again by itself",
    "leader_failed, open": "leader{broker} failed, and no other has been elected yet",
    "leader_moved": "leadership was moved off broker{broker} in order (planned); clients had to find the new leader",
    "isr_member_slow": "acks=all writes waited for slow ISR member{broker}, until it was out of the ISR; acks=1 writes went on",
    "isr_member_slow, open": "acks=all writes wait for slow ISR member{broker}, and it has not left the ISR yet; acks=1 writes go on",
    "isr_member_dead": "acks=all writes waited for dead ISR member{broker}, until it was out of the ISR; acks=1 writes went on",
    "isr_member_dead, open": "acks=all writes wait for dead ISR member{broker}, and it has not left the ISR yet; acks=1 writes go on",
    "under_min_isr": "under min ISR: fewer in-sync replicas than min.insync.replicas, so acks=all is refused; acks=1 goes on",
    "topic_created": "the topic had just been made, and its leader did not serve yet: somebody's decision, not a failure",
    "topic_deleted": "the topic was deleted (or deleted and made anew): somebody's decision, not a failure",
    "prober_alone": "{prober} alone was not served, others were: no outage of the service",
    "controller_failed": "controller{broker} failed; another one had to be elected",
    "controller_failed, open": "controller{broker} failed, and no other has been elected yet",
    "controller_moved": "controller{broker} shut down in order (planned); another one took over",
    "controller_silent": "controller{broker} stopped deciding, and went on by itself",
    "controller_silent, open": "controller{broker} has stopped deciding",
    "unknown": "not known: no decision of the control plane and no broker's absence explains it",
}
"""Why a partition, or the controller, was out; by cause, and by how it goes on where that matters."""

VIEWS = {
    "single": "{prober} only: nobody else looked",
    "confirmed": "seen by {saw} of {looked} probers, contradicted by none",
    "disputed": "seen by {saw} of {looked} probers; served meanwhile: {against}",
    "alone": "{prober} alone: served meanwhile: {against}",
    "alone, not contradicted": "{prober} alone: {unseen} looked and saw no outage, but had no answer in the middle of it",
}
"""What several probers say of an outage."""


def outage(row: Row) -> str:
    """Why a partition, or the controller, was out."""
    cause = row["cause"] or "unknown"
    elected = row["controller_after"] if "controller_after" in row else row["elected_at_max"]
    state = ", open" if row["is_open"] and elected is None else ""
    if cause == "leader_failed" and not row["is_open"] and elected is None:
        state = ", nobody elected"
    text = OUTAGES.get(f"{cause}{state}") or OUTAGES.get(cause, str(cause).replace("_", " "))
    broker = row["controller_before"] if "controller_before" in row else row["broker"]
    return text.format(broker=f" {broker}" if broker else "", prober=row.get("prober_id") or "a prober")


def view(row: Row) -> str | None:
    """What several probers say of an outage; None where nobody probed it."""
    if row["view"] is None:
        return None
    seen, unseen, against = (list(row[name] or ()) for name in ("seen_by", "unseen_by", "contradicted_by"))
    looked = {row["prober_id"], *seen, *unseen, *against}
    key = "alone, not contradicted" if row["view"] == "alone" and not against else row["view"]
    return VIEWS.get(key, key).format(
        prober=row["prober_id"],
        saw=len(seen) + 1,
        looked=len(looked),
        against=", ".join(against),
        unseen=", ".join(unseen),
    )


def finding(name: str) -> str:
    """A finding as a headline."""
    return FINDINGS.get(name, name.replace("_", " "))


def loss(reason: str | None) -> str | None:
    """Why absent records are not called lost."""
    return None if reason is None else LOSS_REASONS.get(reason, reason.replace("_", " "))


def exposure(reason: str | None) -> str | None:
    """Why an exposure cannot be said."""
    return None if reason is None else EXPOSURE_REASONS.get(reason, reason.replace("_", " "))


def partitions_waiting(rows: Sequence[Row], limit: int = 6) -> str:
    """The partitions that waited for a controller, in a few words: by topic, the numbers in order."""
    topics: dict[str, list[str]] = {}
    for row in rows:
        of_topic = topics.setdefault(row["resource"], [])
        if row["shard"] not in of_topic:
            of_topic.append(row["shard"])
    named = [f"{topic} / {', '.join(shards)}" for topic, shards in list(topics.items())[:limit]]
    rest = len(topics) - limit
    return "; ".join(named) + (f"; and {rest} more topics" if rest > 0 else "")
