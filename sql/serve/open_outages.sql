-- The outages that the tables have as open, the longest first.
-- Grain: one row per outage. Parameters: limit. Inputs: gold.outages.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.outages
WHERE is_open
ORDER BY started_at_max ASC, resource ASC, shard ASC, kind ASC
LIMIT getvariable('limit')
