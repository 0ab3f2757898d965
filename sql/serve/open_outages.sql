-- The outages of partitions that the tables have as open, the longest first; the controller's own is in open_controllers.
-- Grain: one row per outage. Parameters: limit. Inputs: gold.outages.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.outages
WHERE is_open AND kind != 'controller'
ORDER BY started_at_max ASC, resource ASC, shard ASC, kind ASC
LIMIT getvariable('limit')
