-- Every outage of a cluster since an instant, for machines and for the table at the end of a measurement.
-- Grain: one row per outage. Parameters: cluster_id, since. Inputs: gold.outages.
SELECT *
FROM gold.outages
WHERE cluster_id = getvariable('cluster_id') AND started_at_max >= getvariable('since')
ORDER BY
    list_position(['raw', 'client', 'read', 'watch'], lane),
    list_position(['write', 'durable_write', 'read', 'leader'], kind),
    resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC, started_at_max ASC
