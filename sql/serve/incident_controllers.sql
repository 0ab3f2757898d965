-- The spans of an incident in which the cluster had no controller that could decide.
-- Grain: one row per window. Parameters: incident_id, limit. Inputs: silver.controller_windows.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.controller_windows
WHERE incident_id = getvariable('incident_id')
ORDER BY started_at_max ASC, window_id ASC
LIMIT getvariable('limit')
