-- The disagreements of one kind since an instant, the newest first.
-- Grain: one row per finding. Parameters: cluster_id, finding, since, limit. Inputs: silver.findings.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.findings
WHERE cluster_id = getvariable('cluster_id') AND finding = getvariable('finding') AND ended_at >= getvariable('since')
ORDER BY ended_at DESC, finding_id ASC
LIMIT getvariable('limit')
