-- How many findings there are since an instant, by kind, and the newest of each.
-- Grain: one row per cluster and kind of finding. Parameters: since. Inputs: silver.findings.
SELECT
    system,
    cluster_id,
    finding,
    count(*) AS findings,
    max(ended_at) AS newest_at,
    max_by(said, ended_at) AS newest_said,
    max_by(finding_id, ended_at) AS newest_finding_id,
    max_by(incident_id, ended_at) AS newest_incident_id
FROM silver.findings
WHERE ended_at >= getvariable('since')
GROUP BY system, cluster_id, finding
ORDER BY system ASC, cluster_id ASC, findings DESC, finding ASC
