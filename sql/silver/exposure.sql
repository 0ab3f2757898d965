-- One row per partition and minute: what would be lost if its leader died now, and what consumers do not see yet.
-- Key: cluster_id, resource, shard, minute_at. Inputs: silver.replication_lag, bronze.observations (probes of the watch).
-- The leader's high watermark is the lowest end of an in-sync replica's log, so what consumers do not see is the highest lag of those.
WITH told AS (
    SELECT cluster_id, resource, shard, leader, isr, started_at_us, ended_at_us
    FROM bronze_probes
    WHERE lane = 'watch' AND isr IS NOT NULL
),

lags AS (
    SELECT
        lag.*,
        MAX_BY(told.leader, told.ended_at_us) AS leader,
        MAX_BY(told.isr, told.ended_at_us) AS isr
    FROM silver_replication_lag AS lag
    LEFT JOIN told
        ON
            lag.cluster_id = told.cluster_id
            AND lag.resource = told.resource
            AND lag.shard = told.shard
            AND told.started_at_us < UNIX_MICROS(lag.minute_at) + 60000000
            AND told.ended_at_us >= UNIX_MICROS(lag.minute_at)
    GROUP BY ALL
),

partitions AS (
    SELECT
        system, cluster_id, resource, shard, minute_at, leader, isr,
        MAX(lag_records_max) AS lag_records_max,
        COUNT(CASE WHEN ARRAY_CONTAINS(isr, replica) AND replica != leader THEN 1 END) AS in_sync_followers,
        MIN(CASE WHEN ARRAY_CONTAINS(isr, replica) AND replica != leader THEN lag_records_max END) AS best_records,
        MAX(CASE WHEN ARRAY_CONTAINS(isr, replica) AND replica != leader THEN lag_records_max END) AS worst_records,
        MAX(CASE WHEN ARRAY_CONTAINS(isr, replica) AND replica != leader THEN lag_ms_max END) AS worst_ms,
        MAX(CASE WHEN ARRAY_CONTAINS(isr, replica) AND replica != leader THEN lag_ms_reason END) AS lag_ms_reason
    FROM lags
    GROUP BY system, cluster_id, resource, shard, minute_at, leader, isr
)

SELECT
    system,
    cluster_id,
    resource,
    shard,
    minute_at,
    leader,
    isr,
    SIZE(isr) > 1 AS has_successor,
    best_records AS exposed_records_min,
    worst_records AS exposed_records_max,
    IF(lag_ms_reason IS NULL, worst_ms, NULL) AS exposed_ms_max,
    CASE
        WHEN isr IS NULL THEN 'not_watched'
        WHEN SIZE(isr) <= 1 THEN 'no_other_in_sync_replica'
        WHEN in_sync_followers = 0 THEN 'no_follower_samples'
        ELSE lag_ms_reason
    END AS exposed_reason,
    worst_records AS unseen_records_max,
    lag_records_max,
    'exposure-1' AS rule_version
FROM partitions
