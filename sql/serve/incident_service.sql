-- The spans of an incident in which a partition was down for every prober that looked; only where several probers ask.
-- Grain: one row per window. Parameters: incident_id, limit. Inputs: silver.service_windows.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.service_windows
WHERE incident_id = getvariable('incident_id')
ORDER BY rto_ms_min DESC, resource ASC, try_cast(shard AS BIGINT) ASC, kind ASC, lane ASC, window_id ASC
LIMIT getvariable('limit')
