-- Every finding about acknowledged data of a cluster since an instant, the worst first.
-- Grain: one row per finding. Parameters: cluster_id, since. Inputs: gold.losses.
SELECT *
FROM gold.losses
WHERE cluster_id = getvariable('cluster_id') AND checked_at >= getvariable('since')
ORDER BY
    list_position(['LOST', 'STRANDED', 'UNCHECKABLE', 'NOT_STORED', 'DELETED_BY_POLICY', 'PRESENT'], verdict),
    records_min DESC, resource ASC, try_cast(shard AS BIGINT) ASC, shard ASC, lane ASC
