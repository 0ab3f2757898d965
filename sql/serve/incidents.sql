-- The last incidents, open ones first, then the newest.
-- Grain: one row per incident. Parameters: limit. Inputs: gold.incidents.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.incidents
ORDER BY is_open DESC, started_at_max DESC, incident_id ASC
LIMIT getvariable('limit')
