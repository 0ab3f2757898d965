-- One row per partition and minute: what would be lost if its leader died now, and what consumers do not see yet.
-- Key: cluster_id, resource, shard, minute_at. Inputs: silver.replication_lag, bronze.observations (probes of the watch).
CREATE TABLE IF NOT EXISTS silver.exposure (
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    minute_at TIMESTAMP NOT NULL COMMENT 'begin of the minute (UTC)',
    leader STRING COMMENT 'the leader that clients were told last in the minute',
    isr ARRAY<STRING> COMMENT 'the in-sync replicas that clients were told last in the minute, the leader included',
    has_successor BOOLEAN COMMENT 'another replica was in sync: an election would be clean, and what acks=all was acknowledged for would be kept',
    exposed_records_min BIGINT COMMENT 'records that would be gone (acks=1) if the best in-sync follower were elected; NULL: see exposed_reason',
    exposed_records_max BIGINT COMMENT 'records that would be gone (acks=1) if the worst in-sync follower were elected',
    exposed_ms_max DOUBLE COMMENT 'the time of data that this is, at most; NULL: see exposed_reason',
    exposed_reason STRING COMMENT 'why it cannot be said: no_other_in_sync_replica, no_follower_samples, not_watched, or the reason of the lag',
    unseen_records_max BIGINT COMMENT 'high-watermark lag: appended, and not yet visible to consumers, since an in-sync replica does not have it',
    lag_records_max BIGINT COMMENT 'the highest lag of any follower, in sync or not',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition and minute: what would be lost if its leader died now, and what consumers do not see yet.';
