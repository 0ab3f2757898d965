-- What happened around an incident, in the order of time, as evidence.
-- Grain: one row per event. Parameters: incident_id, limit. Inputs: silver.events.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.events
WHERE incident_id = getvariable('incident_id')
ORDER BY happened_at_min ASC, happened_at_max ASC, resource ASC, shard ASC
LIMIT getvariable('limit')
