-- One row per read-back partition, lane and outage, or run of lost records: what became of acknowledged data.
-- Key: loss_id. Inputs: bronze.observations (probes, late_acks, readback, epoch_end), silver.outage_windows.
CREATE TABLE IF NOT EXISTS silver.losses (
    loss_id STRING NOT NULL COMMENT 'identity of the finding',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    kind STRING NOT NULL COMMENT 'write, durable_write, read or leader',
    lane STRING NOT NULL COMMENT 'raw, client, read or watch',
    verdict STRING NOT NULL COMMENT 'PRESENT, LOST, STRANDED, DELETED_BY_POLICY, NOT_STORED or UNCHECKABLE',
    evidence STRING NOT NULL COMMENT 'readback (canary records read again) or epoch_end (committed records, by the new leader''s log)',
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
    boot_id STRING COMMENT 'the run of the prober that wrote them',
    retained_before STRING COMMENT 'K, the last retained record before them (of PRESENT: the last of them): boot_id/sequence; NULL: it bounds nothing',
    retained_before_at TIMESTAMP COMMENT 'i(K): K was issued',
    first_record STRING COMMENT 'l1, the first of them: boot_id/sequence; NULL: committed records of a user, which have no names',
    first_acked_at TIMESTAMP COMMENT 'r(l1): by then l1 was acknowledged',
    last_record STRING COMMENT 'lm, the last of them: boot_id/sequence',
    last_issued_at TIMESTAMP COMMENT 'i(lm): lm was issued',
    retained_after STRING COMMENT 'the first retained record after them: boot_id/sequence; NULL: it bounds nothing',
    retained_after_at TIMESTAMP COMMENT 'by then it was acknowledged',
    lost_until_at TIMESTAMP COMMENT 'nothing that is gone was written after this: retained_after_at or the latest start of the outage, the earlier one',
    outage_id STRING COMMENT 'the outage that they belong to; NULL: data can be lost without one',
    checked_at TIMESTAMP NOT NULL COMMENT 'when the read-back that decided it ended',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per read-back partition, lane and outage, or run of lost records: what became of acknowledged data.';
