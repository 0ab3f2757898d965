-- The clusters of which anything was observed, in how many lines, and the earliest instant in any of them.
-- Grain: one row per cluster. Parameters: none. Inputs: bronze.observations.
SELECT
    system,
    cluster_id,
    count(*) AS observations,
    min(started_at_us) AS from_us
FROM bronze.observations
GROUP BY system, cluster_id
ORDER BY system, cluster_id
