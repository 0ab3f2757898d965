-- How long outages lasted, in cumulative buckets of seconds: for the histogram of /metrics. Both bounds are counted apart;
-- outages that are open, that nothing bounds, or that one prober saw alone, are in neither.
-- Grain: one row per cluster, kind, lane, bound and bucket. Parameters: buckets (upper edges in seconds). Inputs: gold.outages.
WITH bounded AS (
    SELECT
        system,
        cluster_id,
        kind,
        lane,
        unnest(['min', 'max']) AS bound,
        unnest([rto_ms_min, rto_ms_max]) / 1000 AS seconds
    FROM gold.outages
    WHERE NOT is_open AND rto_ms_max IS NOT NULL AND cause != 'prober_alone'
),

edges AS (
    SELECT unnest(getvariable('buckets')) AS edge
)

SELECT
    bounded.system,
    bounded.cluster_id,
    bounded.kind,
    bounded.lane,
    bounded.bound,
    edges.edge,
    count(*) FILTER (WHERE bounded.seconds <= edges.edge) AS outages_in_bucket,
    count(*) AS outages,
    sum(bounded.seconds) AS seconds
FROM bounded
CROSS JOIN edges
GROUP BY ALL
ORDER BY
    bounded.system ASC, bounded.cluster_id ASC, bounded.kind ASC, bounded.lane ASC, bounded.bound ASC, edges.edge ASC
