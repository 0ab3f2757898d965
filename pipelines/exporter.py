"""What do Prometheus and a load balancer get? `/metrics` and `/healthz`, read through serving at the moment they are asked for.

The rule: no figure that nobody measured. A gauge whose source is missing or stale is absent, and `lastack_cluster_unmeasured` is 1;
a zero is written only where something was counted. Base units, ratios from 0 to 1, bounds as the label `bound`. A part that cannot
be read does not fail the scrape: it is `lastack_part_readable{part="..."} 0`.

Example: the prober has been silent for a minute: `lastack_open_outages` is gone, `lastack_cluster_unmeasured` is 1,
`lastack_prober_written_timestamp_seconds` says since when.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from pipelines import __version__
from pipelines.domain.health import ClusterHealth, ClusterState, StreamState, cluster_health, stream_state
from pipelines.errors import LastackError
from pipelines.serving import Row, Serving, Snapshot

CLUSTER = ("system", "cluster_id")
SERVICE = (*CLUSTER, "kind", "lane")
RTO_BUCKETS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Dense between 5 and 20 s, where session timeouts put a failover."""

TOPICS_MAX = 50
"""The worst topics: a series a topic is bounded, however many there are."""


class Exporter:
    """The two endpoints over one lakehouse. Thread safe; reads anew at each call."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """The exposition in the format that the Accept header asks for, and its content type."""
        encoder, content_type = choose_encoder(accept)
        with self._serving.snapshot() as snapshot:
            registry = CollectorRegistry(auto_describe=False)
            registry.register(_Scrape(snapshot))
            return encoder(registry), content_type

    def unhealthy(self) -> str | None:
        """Why the lakehouse cannot be read, in one line; None where it can, written or not yet."""
        if not self._serving.home.path.is_dir():
            return "there is no lakehouse: the home folder does not exist; start a collector or the stream, or name another home"
        try:
            with self._serving.snapshot() as snapshot:
                snapshot.rows("clusters")
                snapshot.rows("last_incidents")
                snapshot.rows("loss_totals")
        except LastackError as error:
            return " ".join(str(error).split())
        return None


class _Scrape(Collector):
    """One scrape: each part by itself, so that one that cannot be read does not take the others with it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Every metric that can be said honestly now."""
        yield InfoMetricFamily("lastack_build", "The version of Lastack that answers.", value={"version": __version__})
        readable = GaugeMetricFamily("lastack_part_readable", "1: this part of the data can be read; 0: it cannot.", labels=["part"])
        parts: dict[str, Callable[[Snapshot], Iterable[Metric]]] = {
            "live": _live,
            "stream": _stream,
            "incidents": _incidents,
            "rto": _rto,
            "availability": _availability,
            "losses": _losses,
            "controller": _controller,
            "findings": _findings,
            "exposure": _exposure,
            "quarantine": _quarantine,
        }
        for name, part in parts.items():
            try:
                found = list(part(self._snapshot))
            except LastackError:
                found = []
                readable.add_metric([name], 0)
            else:
                readable.add_metric([name], 1)
            yield from (metric for metric in found if metric.samples)
        yield readable


def _live(snapshot: Snapshot) -> Iterable[Metric]:
    live = snapshot.live()
    clusters = cluster_health(live.views, _known(snapshot), snapshot.now_us)
    unmeasured = _gauge("lastack_cluster_unmeasured", "1: nobody measures the cluster now, or not all of it.", CLUSTER)
    opened = _gauge("lastack_open_outages", "Outages that are open now, by partition, kind and lane. Absent: unmeasured.", CLUSTER)
    longest = _gauge("lastack_open_outage_longest_seconds", "How long the longest open outage has lasted at least.", SERVICE)
    streams = _gauge("lastack_streams", "Probed partitions by kind and lane. Absent: unmeasured.", (*CLUSTER, "state"))
    written = _gauge("lastack_prober_written_timestamp_seconds", "When the prober last said how things are.", (*CLUSTER, "prober_id"))
    for cluster in clusters:
        where = [cluster.system, cluster.cluster_id]
        is_known = cluster.state in (ClusterState.SERVING, ClusterState.OUTAGE)
        unmeasured.add_metric(where, 0 if is_known else 1)
        if is_known:
            _add_present(cluster, where, snapshot.now_us, opened, longest, streams)
        for view in cluster.views:
            written.add_metric([*where, view.prober_id], view.written_at_us / 1e6)
    return [unmeasured, opened, longest, streams, written]


def _add_present(
    cluster: ClusterHealth,
    where: list[str],
    now_us: int,
    opened: GaugeMetricFamily,
    longest: GaugeMetricFamily,
    streams: GaugeMetricFamily,
) -> None:
    fresh = [view for view in cluster.views if view.is_fresh(now_us)]
    outages = [outage for view in fresh for outage in view.open]
    opened.add_metric(where, len({outage.outage_id for outage in outages}))
    lasted: dict[tuple[str, str], float] = {}
    for outage in outages:
        key = (outage.kind, outage.lane)
        lasted[key] = max(lasted.get(key, 0.0), outage.rto_ms_min / 1000)
    for key, seconds in lasted.items():
        longest.add_metric([*where, *key], seconds)
    counts = {"up": 0, "down": 0, "unmeasured": 0}
    for view in fresh:
        counts["up"] += view.up
        counts["down"] += view.down
        counts["unmeasured"] += view.unmeasured
    for state, count in counts.items():
        streams.add_metric([*where, state], count)


def _known(snapshot: Snapshot) -> list[tuple[str, str]]:
    try:
        return [(row["system"], row["cluster_id"]) for row in snapshot.rows("clusters")]
    except LastackError:
        # The live view stands by itself; that the tables cannot be read is said by their own parts.
        return []


def _stream(snapshot: Snapshot) -> Iterable[Metric]:
    progress = snapshot.progress()
    now = stream_state(progress, snapshot.now_us)
    state = _gauge("lastack_stream_state", "1 for the state that the stream is in, 0 for the others.", ("state",))
    for one in StreamState:
        state.add_metric([str(one)], 1 if one == now else 0)
    if progress is None:
        return [state]
    written = _gauge("lastack_stream_written_timestamp_seconds", "When the stream last finished something.")
    written.add_metric([], progress.written_at_us / 1e6)
    newest = _gauge("lastack_stream_newest_event_timestamp_seconds", "The newest event that the tables have.")
    lag = _gauge("lastack_stream_lag_seconds", "How far the tables are behind the present.")
    if progress.newest_event_at_us is not None:
        newest.add_metric([], progress.newest_event_at_us / 1e6)
        lag.add_metric([], max(0.0, (snapshot.now_us - progress.newest_event_at_us) / 1e6))
    batch = _gauge("lastack_stream_batch_seconds", "How long the last micro-batch took.")
    if progress.batch_ms is not None:
        batch.add_metric([], progress.batch_ms / 1000)
    waiting = _gauge("lastack_stream_landing_files_waiting", "Finished files that the stream has not taken in yet.")
    if progress.landing_files_waiting is not None:
        waiting.add_metric([], progress.landing_files_waiting)
    return [state, written, newest, lag, batch, waiting]


def _incidents(snapshot: Snapshot) -> Iterable[Metric]:
    count = _gauge("lastack_incidents", "Incidents that the tables have.", CLUSTER)
    is_open = _gauge("lastack_last_incident_open", "1: the last incident has not been seen to end.", CLUSTER)
    started = _gauge("lastack_last_incident_started_timestamp_seconds", "When it began, at the latest.", CLUSTER)
    rto = _gauge(
        "lastack_last_incident_rto_seconds", "Its worst outage; the maximum is absent where nothing bounds it.", (*CLUSTER, "bound")
    )
    for row in snapshot.rows("last_incidents"):
        where = _where(row)
        count.add_metric(where, row["incidents"])
        is_open.add_metric(where, 1 if row["is_open"] else 0)
        started.add_metric(where, row["started_at_max"].timestamp())
        for bound in ("min", "max"):
            value = row[f"worst_rto_ms_{bound}"]
            if value is not None:
                rto.add_metric([*where, bound], value / 1000)
    return [count, is_open, started, rto]


def _rto(snapshot: Snapshot) -> Iterable[Metric]:
    rto = HistogramMetricFamily(
        "lastack_outage_rto_seconds",
        "RTO of the outages that are over, by proven minimum and maximum: the quantiles of both bound the true one.",
        labels=[*SERVICE, "bound"],
    )
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in snapshot.rows("outage_histogram", buckets=list(RTO_BUCKETS_SECONDS)):
        found.setdefault((*_where(row, SERVICE), row["bound"]), []).append(row)
    for labels, rows in found.items():
        buckets = [(str(row["edge"]), float(row["outages_in_bucket"])) for row in rows]
        rto.add_metric(list(labels), [*buckets, ("+Inf", float(rows[0]["outages"]))], sum_value=rows[0]["seconds"])
    return [rto]


def _availability(snapshot: Snapshot) -> Iterable[Metric]:
    ratio = _gauge("lastack_availability_ratio", "Served part of today's (UTC) measured time.", (*SERVICE, "bound"))
    coverage = _gauge("lastack_coverage_ratio", "Measured part of today's (UTC) time.", SERVICE)
    until = _gauge("lastack_measured_to_timestamp_seconds", "The instant up to which the tables know how it was.", CLUSTER)
    today = datetime.fromtimestamp(snapshot.now_us / 1e6, tz=UTC).date()
    for row in snapshot.rows("availability", day=today):
        where = _where(row, SERVICE)
        for bound in ("min", "max"):
            if row[f"availability_ratio_{bound}"] is not None:
                ratio.add_metric([*where, bound], row[f"availability_ratio_{bound}"])
        if row["coverage_ratio"] is not None:
            coverage.add_metric(where, row["coverage_ratio"])
    for row in snapshot.rows("clusters"):
        until.add_metric(_where(row), row["measured_to_at"].timestamp())
    return [ratio, coverage, until]


def _losses(snapshot: Snapshot) -> Iterable[Metric]:
    findings = _gauge("lastack_loss_findings", "Findings about acknowledged data, by verdict.", (*CLUSTER, "verdict"))
    records = _gauge(
        "lastack_lost_records", "Acknowledged records that are gone, over all that was ever read back.", (*CLUSTER, "bound")
    )
    checked = _gauge("lastack_last_read_back_timestamp_seconds", "When acknowledged data was last read again.", CLUSTER)
    by_cluster: dict[tuple[str, ...], list[Row]] = {}
    for row in snapshot.rows("loss_totals"):
        by_cluster.setdefault(tuple(_where(row)), []).append(row)
        findings.add_metric([*_where(row), row["verdict"]], row["findings"])
    for where, rows in by_cluster.items():
        lost = next((row for row in rows if row["verdict"] == "LOST"), None)
        for bound in ("min", "max"):
            value = 0 if lost is None else lost[f"records_{bound}"]
            if value is not None:
                records.add_metric([*where, bound], value)
        checked.add_metric(list(where), max(row["checked_at"] for row in rows).timestamp())
    return [findings, records, checked]


def _controller(snapshot: Snapshot) -> Iterable[Metric]:
    opened = _gauge("lastack_controller_outage_open", "1: the cluster has had no controller that decides. Absent: unmeasured.", CLUSTER)
    least = _gauge("lastack_controller_outage_seconds", "How long the newest controller outage has lasted.", (*CLUSTER, "bound"))
    if not _is_filled(snapshot):
        return []
    known = {tuple(_where(row)): row for row in snapshot.rows("open_controllers")}
    read = {(row["system"], row["cluster_id"]) for row in snapshot.rows("control_plane_read")}
    for where in sorted(read | known.keys()):
        row = known.get(where)
        opened.add_metric(list(where), 1 if row is not None and row["is_open"] else 0)
        for bound in ("min", "max"):
            if row is not None and row[f"duration_ms_{bound}"] is not None:
                least.add_metric([*where, bound], row[f"duration_ms_{bound}"] / 1000)
    return [opened, least]


def _findings(snapshot: Snapshot) -> Iterable[Metric]:
    counts = _gauge("lastack_findings", "Disagreements of control plane, metrics and clients in 24 hours.", (*CLUSTER, "finding"))
    for row in snapshot.rows("finding_counts", since=_since(snapshot, timedelta(hours=24))):
        counts.add_metric([*_where(row), row["finding"]], row["findings"])
    return [counts]


def _exposure(snapshot: Snapshot) -> Iterable[Metric]:
    names = (*CLUSTER, "topic")
    records = _gauge("lastack_exposed_records", "Records that acks=1 would lose now, worst partition. Absent: unknown.", names)
    seconds = _gauge("lastack_exposed_seconds", "The time of data that this is, at most. Absent: unknown.", names)
    unknown = _gauge("lastack_exposure_unknown_partitions", "Partitions of which nobody can say what would be lost.", names)
    for row in snapshot.rows("exposure_by_topic", since=_since(snapshot, timedelta(minutes=5)), limit=TOPICS_MAX):
        where = _where(row, (*CLUSTER, "resource"))
        unknown.add_metric(where, row["partitions_unknown"])
        if row["exposed_records_max"] is not None:
            records.add_metric(where, row["exposed_records_max"])
        if row["exposed_ms_max"] is not None:
            seconds.add_metric(where, row["exposed_ms_max"] / 1000)
    return [records, seconds, unknown]


def _is_filled(snapshot: Snapshot) -> bool:
    """The stream runs: what the tables do not have did not happen."""
    return stream_state(snapshot.progress(), snapshot.now_us) == StreamState.RUNNING


def _since(snapshot: Snapshot, span: timedelta) -> datetime:
    return datetime.fromtimestamp(snapshot.now_us / 1e6, tz=UTC).replace(second=0, microsecond=0) - span


def _quarantine(snapshot: Snapshot) -> Iterable[Metric]:
    lines = _gauge("lastack_quarantine_lines", "Lines of the landing that are in quarantine; the oldest are dropped.")
    row = snapshot.row("quarantine")
    if row is not None and snapshot.version("bronze.quarantine") is not None:
        lines.add_metric([], row["quarantined_lines"])
    return [lines]


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=list(labels))


def _where(row: Row, names: Sequence[str] = CLUSTER) -> list[str]:
    return [row[name] for name in names]
