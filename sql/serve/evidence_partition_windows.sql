-- The spans that are inferred for every partition, the users' too, as evidence.
-- Grain: one row per window. Parameters: incident_id, limit. Inputs: silver.partition_windows.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.partition_windows
WHERE incident_id = getvariable('incident_id')
ORDER BY started_at_max ASC, resource ASC, shard ASC
LIMIT getvariable('limit')
