-- One row per partition and replica and span in which the replica was out of the in-sync replicas.
-- Key: window_id. Inputs: bronze.observations (control, probes of kind leader).
CREATE TABLE IF NOT EXISTS silver.isr_windows (
    window_id STRING NOT NULL COMMENT 'identity of the window',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    replica STRING NOT NULL COMMENT 'the broker that was out of the ISR',
    cause STRING NOT NULL COMMENT 'fenced, controlled_shutdown, lagging, reassignment, unclean_election or unknown',
    started_at_min TIMESTAMP COMMENT 'the absence began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the absence began no later',
    ended_at_min TIMESTAMP COMMENT 'the absence ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the absence ended no later; NULL: nothing bounds its end, or it is open',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    isr_before ARRAY<STRING> COMMENT 'in-sync replicas before it left',
    isr_after ARRAY<STRING> COMMENT 'in-sync replicas after it left',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition and replica and span in which the replica was out of the in-sync replicas.';
