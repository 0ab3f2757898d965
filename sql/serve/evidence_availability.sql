-- The rows of a day that an availability and a coverage are made of, the worst first.
-- Grain: one row per prober and partition. Parameters: cluster_id, kind, lane, day, limit. Inputs: gold.availability.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.availability
WHERE
    cluster_id = getvariable('cluster_id')
    AND kind = getvariable('kind')
    AND lane = getvariable('lane')
    AND day = getvariable('day')
ORDER BY availability_ratio_min ASC NULLS FIRST, resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC, prober_id ASC
LIMIT getvariable('limit')
