-- One row per partition, follower and minute: how far it was behind its leader.
-- Key: cluster_id, resource, shard, replica, minute_at. Inputs: bronze.observations (partition_metrics).
CREATE TABLE IF NOT EXISTS silver.replication_lag (
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    replica STRING NOT NULL COMMENT 'the follower',
    minute_at TIMESTAMP NOT NULL COMMENT 'begin of the minute (UTC)',
    lag_records_max BIGINT NOT NULL COMMENT 'highest lag in records that was seen in the minute',
    lag_ms_max DOUBLE COMMENT 'how long ago its leader''s log had reached where its own ended, interpolated; the longest of the minute; NULL: see lag_ms_reason',
    lag_ms_reason STRING COMMENT 'why not: no_leader_samples, before_leader_samples, beyond_leader_samples, leader_changed or no_position',
    samples BIGINT NOT NULL COMMENT 'polls that it rests on',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition, follower and minute: how far it was behind its leader.';
