-- What was found out about acknowledged data, by verdict.
-- Grain: one row per cluster and verdict. Parameters: none. Inputs: gold.losses.
SELECT
    system,
    cluster_id,
    verdict,
    count(*) AS findings,
    sum(records_min)::BIGINT AS records_min,
    CASE WHEN count(records_max) = count(*) THEN sum(records_max)::BIGINT END AS records_max,
    max(checked_at) AS checked_at
FROM gold.losses
GROUP BY system, cluster_id, verdict
ORDER BY system, cluster_id, verdict
