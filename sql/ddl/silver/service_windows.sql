-- One row per partition, kind, lane and span in which the service was down for every prober that looked; only where several probers ask.
-- Key: window_id. Inputs: silver.outage_windows.
CREATE TABLE IF NOT EXISTS silver.service_windows (
    window_id STRING NOT NULL COMMENT 'identity of the window',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    kind STRING NOT NULL COMMENT 'write, durable_write, read or leader',
    lane STRING NOT NULL COMMENT 'raw, client, read or watch',
    started_at_min TIMESTAMP COMMENT 'the window began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the window began no later',
    ended_at_min TIMESTAMP COMMENT 'the window ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the window ended no later; NULL: nothing bounds its end, or it is open',
    rto_ms_min DOUBLE NOT NULL COMMENT 'it lasted at least so long, in milliseconds',
    rto_ms_max DOUBLE COMMENT 'it lasted at most so long, in milliseconds; NULL while nothing bounds it',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    probers ARRAY<STRING> NOT NULL COMMENT 'the probers that saw it',
    proof ARRAY<STRING> NOT NULL COMMENT 'the outages that it is the intersection of',
    clock_id STRING COMMENT 'the clock by which all instants of the row are given',
    clocks_apart ARRAY<STRING> COMMENT 'for each prober with another clock: the bounds that moved its instants here; empty: one clock saw all of it',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition, kind, lane and span in which the service was down for every prober that looked; only where several probers ask.';
