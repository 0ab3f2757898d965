-- What the tables have of outages that a live file names: to link them, and to drop those that are settled.
-- Grain: one row per outage. Parameters: outage_ids. Inputs: gold.outages.
SELECT
    outage_id,
    incident_id,
    is_open
FROM gold.outages
WHERE outage_id IN (SELECT unnest(getvariable('outage_ids')))
