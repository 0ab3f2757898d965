-- One row per finding about acknowledged data, with the outage that it belongs to.
-- Key: loss_id. Inputs: silver.losses, gold.outages.
CREATE TABLE IF NOT EXISTS gold.losses (
    loss_id STRING NOT NULL COMMENT 'identity of the finding',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    kind STRING NOT NULL COMMENT 'write, durable_write, read or leader',
    lane STRING NOT NULL COMMENT 'raw, client, read or watch',
    verdict STRING NOT NULL COMMENT 'PRESENT, LOST, STRANDED, DELETED_BY_POLICY, NOT_STORED or UNCHECKABLE',
    evidence STRING NOT NULL COMMENT 'readback or epoch_end',
    reason STRING COMMENT 'why it is not called lost: no_leader, electable_replica_away, topic_deleted, below_log_start or sequence_reused; else NULL',
    records_min BIGINT NOT NULL COMMENT 'at least so many acknowledged records are gone',
    records_max BIGINT COMMENT 'at most so many; NULL: nothing bounds it',
    rpo_ms_min DOUBLE NOT NULL COMMENT 'a continuous writer lost data of at least this span of time, in milliseconds',
    rpo_ms_max DOUBLE COMMENT 'at most this span; NULL: nothing bounds it',
    acked_records BIGINT NOT NULL COMMENT 'acknowledged records that the verdict is about',
    acked_from_at TIMESTAMP COMMENT 'issue of the first of them',
    acked_to_at TIMESTAMP COMMENT 'acknowledgement of the last of them',
    first_position STRING COMMENT 'where the first was stored',
    last_position STRING COMMENT 'where the last was stored',
    outage_id STRING COMMENT 'the outage that they belong to; NULL: data can be lost without one',
    checked_at TIMESTAMP NOT NULL COMMENT 'when the read-back that decided it ended',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per finding about acknowledged data, with the outage that it belongs to.';
