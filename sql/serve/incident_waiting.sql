-- The partitions of an incident whose own window was under way while there was no controller, and ended only after it:
-- the rule of pipelines/domain/controllers.py, row by row. Bounds that overlap count: it may have waited.
-- Grain: one row per controller window, partition and window of it. Parameters: incident_id, limit.
-- Inputs: silver.controller_windows, silver.partition_windows.
SELECT
    controllers.window_id AS controller_window_id,
    windows.window_id,
    windows.resource,
    windows.shard,
    windows.kind,
    windows.cause,
    windows.is_open,
    count(*) OVER (PARTITION BY controllers.window_id) AS total_rows
FROM silver.controller_windows AS controllers
INNER JOIN silver.partition_windows AS windows
    ON
        controllers.cluster_id = windows.cluster_id
        AND coalesce(controllers.ended_at_max >= windows.started_at_min, true)
        AND coalesce(controllers.ended_at_min <= windows.ended_at_max, true)
        AND coalesce(controllers.started_at_min <= windows.ended_at_min, true)
WHERE controllers.incident_id = getvariable('incident_id')
ORDER BY windows.resource ASC, try_cast(windows.shard AS BIGINT) ASC, windows.shard ASC, windows.kind ASC
LIMIT getvariable('limit')
