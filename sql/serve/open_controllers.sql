-- Whether each cluster has a controller: its newest window without one, and whether that is still open.
-- Grain: one row per cluster. Parameters: none. Inputs: silver.controller_windows.
SELECT
    *,
    count(*) FILTER (WHERE is_open) OVER (PARTITION BY system, cluster_id) AS open_windows
FROM silver.controller_windows
QUALIFY row_number() OVER (PARTITION BY system, cluster_id ORDER BY is_open DESC, started_at_max DESC, window_id ASC) = 1
ORDER BY system, cluster_id
