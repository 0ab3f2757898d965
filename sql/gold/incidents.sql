-- One row per cluster and incident: outages that overlap or are less than a minute apart.
-- Key: incident_id. Inputs: gold.outages, gold.losses.
WITH losses AS (
    SELECT
        incident_id,
        SUM(records_min) AS lost_records_min,
        IF(COUNT(records_max) = COUNT(*), SUM(records_max), NULL) AS lost_records_max,
        MAX(rpo_ms_min) AS rpo_ms_min,
        IF(COUNT(rpo_ms_max) = COUNT(*), MAX(rpo_ms_max), NULL) AS rpo_ms_max,
        BOOL_OR(verdict = 'LOST') AS has_lost
    FROM gold_losses
    WHERE incident_id IS NOT NULL
    GROUP BY incident_id
),

-- Outages of partitions that are only inferred are not read back: they do not make a verdict less certain.
outages AS (
    SELECT
        incident_id,
        MIN(system) AS system,
        MIN(cluster_id) AS cluster_id,
        MIN(started_at_min) AS started_at_min,
        MIN(started_at_max) AS started_at_max,
        MAX(ended_at_min) AS ended_at_min,
        IF(COUNT(ended_at_max) = COUNT(*), MAX(ended_at_max), NULL) AS ended_at_max,
        BOOL_OR(is_open) AS is_open,
        -- A leader that failed is the reason, also where more partitions waited for it as a follower.
        IF(BOOL_OR(cause = 'leader_failed'), 'leader_failed', MODE(cause, TRUE)) AS cause,
        MODE(broker, TRUE) AS broker,
        COUNT(*) AS outages,
        -- A partition was hit where the service was not there, not where one prober alone did not reach it.
        COUNT(
            DISTINCT CASE WHEN kind != 'controller' AND cause != 'prober_alone' THEN STRUCT(resource, shard) END
        ) AS partitions,
        COUNT(
            DISTINCT CASE WHEN lane IN ('raw', 'client', 'read') AND cause != 'prober_alone' THEN STRUCT(resource, shard) END
        ) AS partitions_probed,
        SORT_ARRAY(COLLECT_SET(kind)) AS kinds,
        -- What one prober alone was not served is no outage of the service; the controller's own counts where there is nothing else.
        COALESCE(
            MAX(rto_ms_min) FILTER (WHERE kind != 'controller' AND cause != 'prober_alone'),
            MAX(rto_ms_min) FILTER (WHERE kind = 'controller')
        ) AS worst_rto_ms_min,
        CASE
            WHEN BOOL_OR(kind != 'controller' AND cause != 'prober_alone')
                THEN
                    IF(
                        BOOL_OR(rto_ms_max IS NULL AND kind != 'controller' AND cause != 'prober_alone'), NULL,
                        MAX(rto_ms_max) FILTER (WHERE kind != 'controller' AND cause != 'prober_alone')
                    )
            WHEN BOOL_OR(rto_ms_max IS NULL AND kind = 'controller') THEN NULL
            ELSE MAX(rto_ms_max) FILTER (WHERE kind = 'controller')
        END AS worst_rto_ms_max,
        MIN_BY(
            loss_verdict,
            CASE loss_verdict
                WHEN 'LOST' THEN 1 WHEN 'STRANDED' THEN 2 WHEN 'UNCHECKABLE' THEN 3 WHEN 'UNCHECKED' THEN 4
                WHEN 'NOT_STORED' THEN 5 WHEN 'DELETED_BY_POLICY' THEN 6 ELSE 7
            END
        ) FILTER (WHERE lane IN ('raw', 'client')) AS loss_verdict
    FROM gold_outages
    WHERE incident_id IS NOT NULL
    GROUP BY incident_id
)

SELECT
    outages.incident_id,
    outages.system,
    outages.cluster_id,
    outages.started_at_min,
    outages.started_at_max,
    outages.ended_at_min,
    outages.ended_at_max,
    outages.is_open,
    outages.cause,
    outages.broker,
    outages.outages,
    outages.partitions,
    outages.partitions_probed,
    outages.kinds,
    outages.worst_rto_ms_min,
    outages.worst_rto_ms_max,
    CASE WHEN losses.has_lost THEN 'LOST' ELSE COALESCE(outages.loss_verdict, 'UNCHECKED') END AS loss_verdict,
    losses.lost_records_min,
    losses.lost_records_max,
    losses.rpo_ms_min,
    losses.rpo_ms_max,
    'incident-3' AS rule_version
FROM outages
LEFT JOIN losses ON outages.incident_id = losses.incident_id
