-- The outages that touch a UTC day, of one kind and lane: what availability counts as not served, and what it leaves out because one
-- prober alone was not served (also of the watch, which gold has no outage of).
-- Grain: one row per outage. Parameters: cluster_id, kind, lane, day, limit. Inputs: gold.outages, silver.outage_windows.
WITH found AS (
    SELECT
        outage_id,
        cluster_id,
        resource,
        shard,
        kind,
        lane,
        prober_id,
        cause,
        started_at_min,
        started_at_max,
        ended_at_min,
        ended_at_max,
        rto_ms_min,
        rto_ms_max,
        is_open,
        true AS is_in_gold
    FROM gold.outages
    UNION ALL
    SELECT
        outage_id,
        cluster_id,
        resource,
        shard,
        kind,
        lane,
        prober_id,
        cause,
        started_at_min,
        started_at_max,
        ended_at_min,
        ended_at_max,
        rto_ms_min,
        rto_ms_max,
        is_open,
        false AS is_in_gold
    FROM silver.outage_windows
    WHERE kind = 'leader' AND cause = 'prober_alone'
)

SELECT
    *,
    count(*) OVER () AS total_rows
FROM found
WHERE
    cluster_id = getvariable('cluster_id')
    AND kind = getvariable('kind')
    AND lane = getvariable('lane')
    AND started_at_max < (getvariable('day') + INTERVAL 1 DAY)::TIMESTAMPTZ
    AND coalesce(ended_at_max, 'infinity'::TIMESTAMPTZ) > getvariable('day')::TIMESTAMPTZ
ORDER BY rto_ms_min DESC, resource ASC, shard ASC, prober_id ASC, outage_id ASC
LIMIT getvariable('limit')
