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
    lag_ms_max DOUBLE COMMENT 'the time that the leader needed to append so many records, at its rate of that minute; NULL with a reason',
    lag_ms_reason STRING COMMENT 'why the lag cannot be said in time: no_leader_samples or no_appends',
    samples BIGINT NOT NULL COMMENT 'polls that it rests on',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition, follower and minute: how far it was behind its leader.';
