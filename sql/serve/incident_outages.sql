-- The outages of an incident, the longest first; probed ones before inferred ones.
-- Grain: one row per outage. Parameters: incident_id, limit. Inputs: gold.outages.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.outages
WHERE incident_id = getvariable('incident_id')
ORDER BY evidence = 'inferred', rto_ms_min DESC, resource ASC, shard ASC, kind ASC, lane ASC
LIMIT getvariable('limit')
