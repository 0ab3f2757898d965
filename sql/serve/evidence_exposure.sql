-- The exposure of a partition, the newest minute, with what each follower was behind in it.
-- Grain: one row per partition, minute and follower. Parameters: cluster_id, resource, shard. Inputs: silver.exposure, silver.replication_lag.
SELECT
    exposure.*,
    lag.replica,
    lag.lag_records_max AS replica_lag_records_max,
    lag.lag_ms_max AS replica_lag_ms_max,
    lag.lag_ms_reason AS replica_lag_ms_reason,
    lag.samples AS replica_samples
FROM silver.exposure AS exposure
LEFT JOIN silver.replication_lag AS lag
    ON
        exposure.cluster_id = lag.cluster_id
        AND exposure.resource = lag.resource
        AND exposure.shard = lag.shard
        AND exposure.minute_at = lag.minute_at
WHERE
    exposure.cluster_id = getvariable('cluster_id')
    AND exposure.resource = getvariable('resource')
    AND exposure.shard = getvariable('shard')
QUALIFY exposure.minute_at = max(exposure.minute_at) OVER ()
ORDER BY lag.replica ASC
