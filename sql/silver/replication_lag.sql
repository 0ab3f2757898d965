-- One row per partition, follower and minute: how far it was behind its leader.
-- Key: cluster_id, resource, shard, replica, minute_at. Inputs: bronze.observations (partition_metrics of the minutes, and the form of
-- each run before them).
WITH lines AS (
    -- A run is written again and again while it lasts, each time with its last lag and its highest so far. What is new in a line is
    -- the highest lag where that has risen, else the last one.
    SELECT
        system, cluster_id, resource, shard, broker, in_sync_replicas,
        ended_at_us,
        -- A position is a word; where it is no number, no rate follows from it.
        TRY_CAST(log_end_position AS BIGINT) AS log_end,
        lag_records_last,
        lag_records_max,
        count AS polls,
        LAG(lag_records_max) OVER run AS known_lag_max,
        COALESCE(LAG(count) OVER run, 0) AS known_polls
    FROM bronze_partition_metrics
    WINDOW run AS (
        PARTITION BY cluster_id, resource, shard, broker, prober_id, boot_id, started_at_us ORDER BY ended_at_us, seq
    )
),

runs AS (
    SELECT
        *,
        IF(known_lag_max IS NULL OR lag_records_max > known_lag_max, lag_records_max, lag_records_last) AS lag_records_seen,
        polls - known_polls AS new_polls
    FROM lines
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
        MAX(lag_records_seen) AS lag_records_max,
        SUM(new_polls) AS samples
    FROM runs
    WHERE lag_records_seen IS NOT NULL
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
    'lag-2' AS rule_version
FROM lags
LEFT JOIN appends
    ON
        lags.cluster_id = appends.cluster_id
        AND lags.resource = appends.resource
        AND lags.shard = appends.shard
        AND lags.minute_at = appends.minute_at
