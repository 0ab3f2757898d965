-- How much of the time each partition, kind and lane of a cluster was measured, over the days since an instant.
-- Grain: one row per prober, partition, kind and lane. Parameters: cluster_id, since. Inputs: gold.availability.
SELECT
    resource,
    shard,
    kind,
    lane,
    prober_id,
    min(observed_from_at) AS observed_from_at,
    max(observed_to_at) AS observed_to_at,
    sum(measured_ms) AS measured_ms,
    sum(unmeasured_ms) AS unmeasured_ms,
    sum(measured_ms) / nullif(sum(measured_ms) + sum(unmeasured_ms), 0) AS coverage_ratio
FROM gold.availability
WHERE cluster_id = getvariable('cluster_id') AND observed_to_at >= getvariable('since')
GROUP BY resource, shard, kind, lane, prober_id
ORDER BY resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC, kind ASC, lane ASC, prober_id ASC
