-- What disagrees in a cluster since an instant: control plane, metrics, clients, clocks.
-- Grain: one row per finding. Parameters: cluster_id, since. Inputs: silver.findings.
SELECT *
FROM silver.findings
WHERE cluster_id = getvariable('cluster_id') AND ended_at >= getvariable('since')
ORDER BY started_at ASC, finding ASC, subject ASC, resource ASC, try_cast(shard AS BIGINT) ASC, finding_id ASC
