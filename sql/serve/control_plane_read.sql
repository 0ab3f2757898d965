-- The clusters whose control plane was read: of the others nobody knows whether they have a controller.
-- Grain: one row per cluster. Parameters: none. Inputs: silver.events.
SELECT DISTINCT
    system,
    cluster_id
FROM silver.events
WHERE event = 'controller_changed' OR position IS NOT NULL
ORDER BY system, cluster_id
