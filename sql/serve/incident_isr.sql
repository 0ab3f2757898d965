-- The spans of an incident in which replicas were out of the in-sync replicas.
-- Grain: one row per partition, replica and span. Parameters: incident_id, limit. Inputs: silver.isr_windows.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.isr_windows
WHERE incident_id = getvariable('incident_id')
ORDER BY resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC, started_at_max ASC
LIMIT getvariable('limit')
