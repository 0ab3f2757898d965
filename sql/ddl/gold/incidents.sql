-- One row per cluster and incident: outages that overlap or are less than a minute apart.
-- Key: incident_id. Inputs: gold.outages, gold.losses.
CREATE TABLE IF NOT EXISTS gold.incidents (
    incident_id STRING NOT NULL COMMENT 'identity of the incident',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    started_at_min TIMESTAMP COMMENT 'the incident began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the incident began no later',
    ended_at_min TIMESTAMP COMMENT 'the incident ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the incident ended no later; NULL: nothing bounds its end, or it is open',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    cause STRING NOT NULL COMMENT 'leader_failed where a leader failed, else the cause of most of its outages',
    broker STRING COMMENT 'the broker whose absence explains most of them',
    outages BIGINT NOT NULL COMMENT 'number of outages',
    partitions BIGINT NOT NULL COMMENT 'number of partitions of which the service had an outage',
    partitions_probed BIGINT NOT NULL COMMENT 'of them probed by our own writes or reads',
    kinds ARRAY<STRING> COMMENT 'the kinds of service that were hit',
    worst_rto_ms_min DOUBLE COMMENT 'the worst outage of the service lasted at least so long; NULL: one prober alone saw any',
    worst_rto_ms_max DOUBLE COMMENT 'no outage lasted longer; NULL while nothing bounds it',
    loss_verdict STRING NOT NULL COMMENT 'the worst verdict: LOST, STRANDED, UNCHECKABLE, UNCHECKED, NOT_STORED, DELETED_BY_POLICY, PRESENT',
    lost_records_min BIGINT COMMENT 'at least so many acknowledged records are gone',
    lost_records_max BIGINT COMMENT 'at most so many',
    rpo_ms_min DOUBLE COMMENT 'span of lost data, at least',
    rpo_ms_max DOUBLE COMMENT 'span of lost data, at most',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per cluster and incident: outages that overlap or are less than a minute apart.';
