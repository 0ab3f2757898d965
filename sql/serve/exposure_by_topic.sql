-- What would be lost now if leaders died, the worst partition of each topic; and of how many partitions nobody can say.
-- Grain: one row per cluster and topic, the worst topics. Parameters: since, limit. Inputs: silver.exposure.
WITH newest AS (
    SELECT *
    FROM silver.exposure
    WHERE minute_at >= getvariable('since')
    QUALIFY row_number() OVER (PARTITION BY system, cluster_id, resource, shard ORDER BY minute_at DESC) = 1
)

SELECT
    system,
    cluster_id,
    resource,
    max(exposed_records_max) AS exposed_records_max,
    max(exposed_ms_max) AS exposed_ms_max,
    count(*) FILTER (WHERE exposed_records_max IS NULL) AS partitions_unknown,
    count(*) AS partitions
FROM newest
GROUP BY system, cluster_id, resource
ORDER BY exposed_records_max DESC NULLS LAST, partitions_unknown DESC, cluster_id ASC, resource ASC
LIMIT getvariable('limit')
