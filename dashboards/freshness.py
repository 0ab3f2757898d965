"""Can what a page shows be taken for the present? The sentences across the top of every page, and what an empty place says."""

from typing import Any

from dashboards import components, data, palette, words
from dashboards.panels import Request, View
from pipelines.domain.health import ClusterState, StreamState
from pipelines.serving import Snapshot

STREAM_WORDS = {
    StreamState.STALE: ("The tables stand still.", "The stream has not written for {age}. Incidents and figures below end there."),
    StreamState.STOPPED: ("The stream is stopped.", "It stopped {age}. Incidents and figures below end there."),
    StreamState.FAILED: ("The stream has failed.", "It failed {age}: {error}. Incidents and figures below end there."),
    StreamState.ABSENT: ("No stream is running.", "The tables are not being filled; only the live view says anything."),
}


def banners(request: Request) -> View:
    """One sentence for each thing that makes the page less than the present; nothing when all is well."""
    now = data.present(request.snapshot)
    found: list[Any] = []
    stale = [one for one in now.clusters if one.state == ClusterState.STALE]
    for cluster in stale:
        ago = words.age(None if cluster.written_at_us is None else now.now_us - cluster.written_at_us)
        text = f"Cluster {cluster.cluster_id}: {cluster.reason}; its last word came {ago}. Nothing is known of it since."
        found.append(components.banner(palette.STATES["stale"], "Nobody is measuring.", text, "stale"))
    if now.stream in STREAM_WORDS and (now.stream != StreamState.ABSENT or now.clusters):
        headline, text = STREAM_WORDS[now.stream]
        age = words.age(None if now.progress is None else now.now_us - now.progress.written_at_us)
        error = now.progress.error if now.progress and now.progress.error else "see its log"
        since = age.removesuffix(" ago") if now.stream == StreamState.STALE else age
        mark = palette.VERDICTS["LOST"] if now.stream == StreamState.FAILED else palette.STATES["stale"]
        found.append(components.banner(mark, headline, text.format(age=since, error=error), "stale"))
    found += [components.banner(palette.VERDICTS["LOST"], "Damaged.", sentence) for sentence in now.damaged]
    return View(found or None)


def measured_since(snapshot: Snapshot) -> str:
    """What an empty place says: since when anything would have been seen."""
    rows = snapshot.rows("clusters")
    if rows:
        first = min(row["measured_from_at"] for row in rows)
        return f"The canary has been measuring since {words.instant(first)[:19]} UTC."
    if snapshot.live().views:
        return "A prober is running; its first measurements reach the tables with the stream's next batches."
    return "Nothing has been measured yet: no prober has run here."
