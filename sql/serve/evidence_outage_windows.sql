-- The spans that the probes of an incident measured, as evidence.
-- Grain: one row per outage_window. Parameters: incident_id, limit. Inputs: silver.outage_windows.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.outage_windows
WHERE incident_id = getvariable('incident_id')
ORDER BY started_at_max ASC, resource ASC, shard ASC
LIMIT getvariable('limit')
