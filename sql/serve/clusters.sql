-- The clusters that were ever measured, since when, and until when the tables know.
-- Grain: one row per cluster. Parameters: none. Inputs: gold.availability.
SELECT
    system,
    cluster_id,
    min(observed_from_at) AS measured_from_at,
    max(observed_to_at) AS measured_to_at
FROM gold.availability
GROUP BY system, cluster_id
ORDER BY system, cluster_id
