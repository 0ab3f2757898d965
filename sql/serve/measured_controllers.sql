-- The spans since an instant in which a cluster had no controller that could decide.
-- Grain: one row per window. Parameters: cluster_id, since. Inputs: silver.controller_windows.
SELECT *
FROM silver.controller_windows
WHERE cluster_id = getvariable('cluster_id') AND started_at_max >= getvariable('since')
ORDER BY started_at_max ASC, window_id ASC
