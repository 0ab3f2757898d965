-- What would be lost now if leaders died: each partition's newest minute, the worst first, what cannot be said before what is known.
-- Grain: one row per partition. Parameters: since, limit. Inputs: silver.exposure.
WITH newest AS (
    SELECT *
    FROM silver.exposure
    WHERE minute_at >= getvariable('since')
    QUALIFY row_number() OVER (PARTITION BY system, cluster_id, resource, shard ORDER BY minute_at DESC) = 1
)

SELECT
    *,
    count(*) OVER () AS total_rows,
    count(*) FILTER (WHERE exposed_records_max IS NULL) OVER () AS unknown_rows,
    count(*) FILTER (WHERE exposed_records_max > 0) OVER () AS exposed_rows
FROM newest
ORDER BY
    exposed_reason IS DISTINCT FROM 'no_other_in_sync_replica' ASC,
    exposed_records_max DESC NULLS LAST,
    exposed_ms_max DESC NULLS LAST,
    cluster_id ASC, resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC
LIMIT getvariable('limit')
