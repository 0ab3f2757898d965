-- One row per prober, partition, kind, lane and outage: a span of time in which probes were not served.
-- Key: outage_id. Inputs: bronze.observations (probes).
CREATE TABLE IF NOT EXISTS silver.outage_windows (
    outage_id STRING NOT NULL COMMENT 'identity of the outage: stream and issue of its first bad probe',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    kind STRING NOT NULL COMMENT 'write, durable_write, read or leader',
    lane STRING NOT NULL COMMENT 'raw, client, read or watch',
    prober_id STRING NOT NULL COMMENT 'the observer',
    evidence STRING NOT NULL COMMENT 'probed (our writes) or read_probed (our reads, or answers of the leader)',
    started_at_min TIMESTAMP COMMENT 'the outage began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the outage began no later',
    ended_at_min TIMESTAMP COMMENT 'the outage ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the outage ended no later; NULL: nothing bounds its end, or it is open',
    rto_ms_min DOUBLE NOT NULL COMMENT 'it lasted at least so long, in milliseconds',
    rto_ms_max DOUBLE COMMENT 'it lasted at most so long, in milliseconds; NULL while nothing bounds it',
    downtime_ms_min DOUBLE NOT NULL COMMENT 'sum of the measured pieces, in milliseconds',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    bad_probes BIGINT NOT NULL COMMENT 'probes that were not served',
    rejected_probes BIGINT NOT NULL COMMENT 'of them refused',
    answered_probes BIGINT NOT NULL COMMENT 'of them answered by a broker itself',
    void_probes BIGINT NOT NULL COMMENT 'probes inside that measured nothing',
    flaps BIGINT NOT NULL COMMENT 'how often a short serving run interrupted it',
    codes ARRAY<STRING> COMMENT 'the error names that were seen, in order',
    leader_before STRING COMMENT 'the leader of the last good probe before it',
    leader_after STRING COMMENT 'the leader of the first good probe after it',
    term_before BIGINT COMMENT 'leader epoch before it',
    term_after BIGINT COMMENT 'leader epoch after it',
    period_ms DOUBLE NOT NULL COMMENT 'time between probes',
    lambda_ms DOUBLE NOT NULL COMMENT 'latency up to which an acknowledgement counts as serving',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per prober, partition, kind, lane and outage: a span of time in which probes were not served.';
