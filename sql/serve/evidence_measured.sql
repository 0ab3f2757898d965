-- What one prober measured of a partition on a day.
-- Grain: one row. Parameters: cluster_id, prober_id, resource, shard, kind, lane, day. Inputs: gold.availability.
SELECT *
FROM gold.availability
WHERE
    cluster_id = getvariable('cluster_id')
    AND prober_id = getvariable('prober_id')
    AND resource = getvariable('resource')
    AND shard = getvariable('shard')
    AND kind = getvariable('kind')
    AND lane = getvariable('lane')
    AND day = getvariable('day')
