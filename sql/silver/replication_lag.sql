-- One row per partition, follower and minute: how far it was behind its leader.
-- Key: cluster_id, resource, shard, replica, minute_at. Inputs: bronze.observations (partition_metrics of the minutes).
WITH runs AS (
    -- A run that was extended is there several times; its longest form says everything.
    SELECT
        system, cluster_id, resource, shard, broker, prober_id, boot_id, started_at_us,
        MAX(ended_at_us) AS ended_at_us,
        MAX(lag_records_max) AS lag_records_max,
        MAX(count) AS polls,
        MAX_BY(in_sync_replicas, ended_at_us) AS in_sync_replicas,
        MAX_BY(CAST(log_end_position AS BIGINT), ended_at_us) AS log_end
    FROM bronze_partition_metrics
    GROUP BY system, cluster_id, resource, shard, broker, prober_id, boot_id, started_at_us
),

-- How fast the leader appended in a minute; only leaders know the number of in-sync replicas.
appends AS (
    SELECT
        cluster_id, resource, shard,
        DATE_TRUNC('MINUTE', TIMESTAMP_MICROS(ended_at_us)) AS minute_at,
        (MAX(log_end) - MIN(log_end)) / NULLIF((MAX(ended_at_us) - MIN(ended_at_us)) / 1000, 0) AS records_per_ms
    FROM runs
    WHERE in_sync_replicas IS NOT NULL AND log_end IS NOT NULL
    GROUP BY cluster_id, resource, shard, DATE_TRUNC('MINUTE', TIMESTAMP_MICROS(ended_at_us))
),

lags AS (
    SELECT
        system, cluster_id, resource, shard,
        broker AS replica,
        DATE_TRUNC('MINUTE', TIMESTAMP_MICROS(ended_at_us)) AS minute_at,
        MAX(lag_records_max) AS lag_records_max,
        SUM(polls) AS samples
    FROM runs
    WHERE lag_records_max IS NOT NULL
    GROUP BY system, cluster_id, resource, shard, broker, DATE_TRUNC('MINUTE', TIMESTAMP_MICROS(ended_at_us))
)

SELECT
    lags.system,
    lags.cluster_id,
    lags.resource,
    lags.shard,
    lags.replica,
    lags.minute_at,
    lags.lag_records_max,
    CASE
        WHEN lags.lag_records_max = 0 THEN 0.0
        WHEN appends.records_per_ms > 0 THEN lags.lag_records_max / appends.records_per_ms
    END AS lag_ms_max,
    CASE
        WHEN lags.lag_records_max = 0 OR appends.records_per_ms > 0 THEN NULL
        WHEN appends.records_per_ms IS NULL THEN 'no_leader_samples'
        ELSE 'no_appends'
    END AS lag_ms_reason,
    lags.samples,
    'lag-1' AS rule_version
FROM lags
LEFT JOIN appends
    ON
        lags.cluster_id = appends.cluster_id
        AND lags.resource = appends.resource
        AND lags.shard = appends.shard
        AND lags.minute_at = appends.minute_at
