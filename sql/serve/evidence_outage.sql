-- One outage by its name, as the figures of the pages have it.
-- Grain: one row per outage. Parameters: outage_id. Inputs: gold.outages.
SELECT *
FROM gold.outages
WHERE outage_id = getvariable('outage_id')
