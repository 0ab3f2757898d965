-- The last incident of each cluster, and how many there were.
-- Grain: one row per cluster. Parameters: none. Inputs: gold.incidents.
SELECT
    *,
    count(*) OVER (PARTITION BY system, cluster_id) AS incidents
FROM gold.incidents
QUALIFY row_number() OVER (PARTITION BY system, cluster_id ORDER BY started_at_max DESC, incident_id DESC) = 1
