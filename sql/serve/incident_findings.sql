-- What disagrees around an incident: control plane, metrics, clients, clocks; what says most about the figures first.
-- Grain: one row per finding. Parameters: incident_id, limit. Inputs: silver.findings.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.findings
WHERE incident_id = getvariable('incident_id')
ORDER BY
    coalesce(
        list_position(
            [
                'old_leader_served', 'not_served_though_alive', 'prober_alone', 'probers_disagree', 'clock_stepped',
                'clock_unbounded', 'clock_skewed', 'isr_shrinks_disagree', 'isr_shrinks_uncounted'
            ],
            finding
        ),
        0
    ),
    started_at ASC, subject ASC, resource ASC, try_cast(shard AS BIGINT) ASC, finding_id ASC
LIMIT getvariable('limit')
