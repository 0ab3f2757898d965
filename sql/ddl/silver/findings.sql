-- One row per disagreement between the control plane, the brokers' metrics, clients and clocks, with its evidence.
-- Key: finding_id. Inputs: bronze.observations, silver.outage_windows, silver.isr_windows.
CREATE TABLE IF NOT EXISTS silver.findings (
    finding_id STRING NOT NULL COMMENT 'identity of the finding',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    finding STRING NOT NULL COMMENT 'clock_stepped, prober_alone, isr_shrinks_uncounted, ...: see pipelines/domain/findings.py',
    subject STRING NOT NULL COMMENT 'the broker, host, prober or counter whose word is in doubt',
    resource STRING COMMENT 'the topic or queue; NULL: it is not about one',
    shard STRING COMMENT 'the partition; NULL: it is not about one',
    started_at TIMESTAMP NOT NULL COMMENT 'since when it shows (UTC)',
    ended_at TIMESTAMP NOT NULL COMMENT 'until when it shows',
    said STRING NOT NULL COMMENT 'the disagreement in one sentence',
    control_plane STRING COMMENT 'what the control plane says',
    metrics STRING COMMENT 'what the brokers'' own metrics say',
    clients STRING COMMENT 'what clients and our own probes say',
    evidence ARRAY<STRING> COMMENT 'the rows that show it',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per disagreement between the control plane, the brokers'' metrics, clients and clocks, with its evidence.';
