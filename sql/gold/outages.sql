-- One row per prober, partition, kind, lane and outage, and per inferred span of a partition: RTO with bounds and phases, and losses.
-- Key: outage_id. Inputs: silver.outage_windows, silver.partition_windows, silver.controller_windows, silver.losses, silver.events.
WITH probed AS (
    SELECT
        outage_id, system, cluster_id, resource, shard, kind, lane, prober_id, evidence,
        started_at_min, started_at_max, ended_at_min, ended_at_max,
        rto_ms_min, rto_ms_max, downtime_ms_min, is_open,
        bad_probes, rejected_probes, answered_probes, void_probes, flaps, codes,
        leader_before, leader_after, term_before, term_after,
        broker, cause, fenced_at_min, fenced_at_max, elected_at_min, elected_at_max, known_at_min, known_at_max,
        fenced_by, elected_by, known_by, is_clean_election, view, seen_by, unseen_by, contradicted_by, incident_id, rule_version
    FROM silver_outage_windows
    WHERE kind != 'leader'
),

-- Spans of partitions that nobody writes to for us; where our own probes saw the same, their rows are the better ones.
inferred AS (
    SELECT
        window_id AS outage_id, system, cluster_id, resource, shard, kind, 'watch' AS lane,
        CAST(NULL AS STRING) AS prober_id, evidence,
        started_at_min, started_at_max, ended_at_min, ended_at_max,
        duration_ms_min AS rto_ms_min, duration_ms_max AS rto_ms_max, duration_ms_min AS downtime_ms_min, is_open,
        CAST(0 AS BIGINT) AS bad_probes, CAST(0 AS BIGINT) AS rejected_probes, CAST(0 AS BIGINT) AS answered_probes,
        CAST(0 AS BIGINT) AS void_probes, CAST(0 AS BIGINT) AS flaps, CAST(ARRAY() AS ARRAY<STRING>) AS codes,
        leader_before, leader_after, term_before, term_after,
        broker, cause, fenced_at_min, fenced_at_max, elected_at_min, elected_at_max, known_at_min, known_at_max,
        fenced_by, elected_by, known_by, is_clean_election, CAST(NULL AS STRING) AS view, CAST(NULL AS ARRAY<STRING>) AS seen_by,
        CAST(NULL AS ARRAY<STRING>) AS unseen_by, CAST(NULL AS ARRAY<STRING>) AS contradicted_by, incident_id, rule_version
    FROM silver_partition_windows
    WHERE window = 'leader_unavailable' OR evidence = 'inferred'
),

-- The controller is a service of its own: while there is none, writes go on and elections wait.
controllers AS (
    SELECT
        window_id AS outage_id, system, cluster_id, '(controller)' AS resource, '0' AS shard, 'controller' AS kind, 'control' AS lane,
        CAST(NULL AS STRING) AS prober_id, 'control_plane' AS evidence,
        started_at_min, started_at_max, ended_at_min, ended_at_max,
        duration_ms_min AS rto_ms_min, duration_ms_max AS rto_ms_max, duration_ms_min AS downtime_ms_min, is_open,
        CAST(0 AS BIGINT) AS bad_probes, CAST(0 AS BIGINT) AS rejected_probes, CAST(0 AS BIGINT) AS answered_probes,
        CAST(0 AS BIGINT) AS void_probes, CAST(0 AS BIGINT) AS flaps, CAST(ARRAY() AS ARRAY<STRING>) AS codes,
        controller_before AS leader_before, controller_after AS leader_after, term_before, term_after,
        controller_before AS broker, cause,
        CAST(NULL AS TIMESTAMP) AS fenced_at_min, CAST(NULL AS TIMESTAMP) AS fenced_at_max,
        CAST(NULL AS TIMESTAMP) AS elected_at_min, CAST(NULL AS TIMESTAMP) AS elected_at_max,
        CAST(NULL AS TIMESTAMP) AS known_at_min, CAST(NULL AS TIMESTAMP) AS known_at_max,
        CAST(NULL AS STRING) AS fenced_by, CAST(NULL AS STRING) AS elected_by, CAST(NULL AS STRING) AS known_by,
        CAST(NULL AS BOOLEAN) AS is_clean_election, CAST(NULL AS STRING) AS view, CAST(NULL AS ARRAY<STRING>) AS seen_by,
        CAST(NULL AS ARRAY<STRING>) AS unseen_by, CAST(NULL AS ARRAY<STRING>) AS contradicted_by, incident_id, rule_version
    FROM silver_controller_windows
),

-- A phase whose boundaries do not apply is NULL, never 0 (GREATEST alone would pass over a NULL).
outages AS (
    SELECT
        *,
        -- Both ends of one boundary, the last that applies: the low end of one and the high end of another bound nothing.
        CASE
            WHEN COALESCE(known_at_min, known_at_max) IS NOT NULL THEN known_at_min
            WHEN COALESCE(elected_at_min, elected_at_max) IS NOT NULL THEN elected_at_min
            ELSE fenced_at_min
        END AS last_boundary_at_min,
        CASE
            WHEN COALESCE(known_at_min, known_at_max) IS NOT NULL THEN known_at_max
            WHEN COALESCE(elected_at_min, elected_at_max) IS NOT NULL THEN elected_at_max
            ELSE fenced_at_max
        END AS last_boundary_at_max
    FROM (
        SELECT * FROM probed
        UNION ALL
        SELECT * FROM inferred
        UNION ALL
        SELECT * FROM controllers
    ) AS all_views
),

-- The worst finding of an outage: anything lost, then what could not be decided, then all present.
findings AS (
    SELECT
        outage_id,
        MIN_BY(
            verdict,
            CASE verdict
                WHEN 'LOST' THEN 1 WHEN 'STRANDED' THEN 2 WHEN 'UNCHECKABLE' THEN 3 WHEN 'NOT_STORED' THEN 4
                WHEN 'DELETED_BY_POLICY' THEN 5 ELSE 6
            END
        ) AS loss_verdict,
        SUM(records_min) AS lost_records_min,
        IF(COUNT(records_max) = COUNT(*), SUM(records_max), NULL) AS lost_records_max,
        MAX(rpo_ms_min) AS rpo_ms_min,
        IF(COUNT(rpo_ms_max) = COUNT(*), MAX(rpo_ms_max), NULL) AS rpo_ms_max
    FROM silver_losses
    WHERE outage_id IS NOT NULL
    GROUP BY outage_id
),

-- Partitions that are only watched: the end of the old epoch in the new leader's log decides.
committed AS (
    SELECT
        events.cluster_id, events.resource, events.shard, events.incident_id,
        IF(COUNT(losses.loss_id) > 0, 'LOST', 'PRESENT') AS loss_verdict,
        COALESCE(SUM(losses.records_min), 0) AS lost_records_min,
        IF(COUNT(losses.loss_id) > 0, NULL, CAST(0 AS BIGINT)) AS lost_records_max,
        COALESCE(MAX(losses.rpo_ms_min), 0.0) AS rpo_ms_min,
        CAST(NULL AS DOUBLE) AS rpo_ms_max
    FROM silver_events AS events
    LEFT JOIN silver_losses AS losses
        ON
            events.cluster_id = losses.cluster_id
            AND events.resource = losses.resource
            AND events.shard = losses.shard
            AND events.happened_at_max = losses.checked_at
            AND losses.evidence = 'epoch_end'
    WHERE events.event = 'epoch_end'
    GROUP BY events.cluster_id, events.resource, events.shard, events.incident_id
)

SELECT
    outages.outage_id,
    outages.system,
    outages.cluster_id,
    outages.resource,
    outages.shard,
    outages.kind,
    outages.lane,
    outages.prober_id,
    outages.evidence,
    outages.started_at_min,
    outages.started_at_max,
    outages.ended_at_min,
    outages.ended_at_max,
    outages.rto_ms_min,
    outages.rto_ms_max,
    outages.downtime_ms_min,
    outages.is_open,
    outages.bad_probes,
    outages.rejected_probes,
    outages.answered_probes,
    outages.void_probes,
    outages.flaps,
    outages.codes,
    outages.leader_before,
    outages.leader_after,
    outages.term_before,
    outages.term_after,
    outages.broker,
    outages.cause,
    outages.fenced_at_min,
    outages.fenced_at_max,
    outages.elected_at_min,
    outages.elected_at_max,
    outages.known_at_min,
    outages.known_at_max,
    outages.fenced_by,
    outages.elected_by,
    outages.known_by,
    outages.is_clean_election,
    outages.view,
    outages.seen_by,
    outages.unseen_by,
    outages.contradicted_by,
    IF(
        outages.started_at_max IS NULL OR outages.fenced_at_min IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.fenced_at_min) - UNIX_MICROS(outages.started_at_max)) / 1000
    ) AS detection_ms_min,
    IF(
        outages.started_at_min IS NULL OR outages.fenced_at_max IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.fenced_at_max) - UNIX_MICROS(outages.started_at_min)) / 1000
    ) AS detection_ms_max,
    IF(
        outages.fenced_at_max IS NULL OR outages.elected_at_min IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.elected_at_min) - UNIX_MICROS(outages.fenced_at_max)) / 1000
    ) AS election_ms_min,
    IF(
        outages.fenced_at_min IS NULL OR outages.elected_at_max IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.elected_at_max) - UNIX_MICROS(outages.fenced_at_min)) / 1000
    ) AS election_ms_max,
    IF(
        outages.elected_at_max IS NULL OR outages.known_at_min IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.known_at_min) - UNIX_MICROS(outages.elected_at_max)) / 1000
    ) AS propagation_ms_min,
    IF(
        outages.elected_at_min IS NULL OR outages.known_at_max IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.known_at_max) - UNIX_MICROS(outages.elected_at_min)) / 1000
    ) AS propagation_ms_max,
    IF(
        outages.last_boundary_at_max IS NULL OR outages.ended_at_min IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.ended_at_min) - UNIX_MICROS(outages.last_boundary_at_max)) / 1000
    ) AS first_write_ms_min,
    IF(
        outages.last_boundary_at_min IS NULL OR outages.ended_at_max IS NULL, NULL,
        GREATEST(0, UNIX_MICROS(outages.ended_at_max) - UNIX_MICROS(outages.last_boundary_at_min)) / 1000
    ) AS first_write_ms_max,
    IF(
        outages.lane = 'control', 'NOT_APPLICABLE', COALESCE(findings.loss_verdict, committed.loss_verdict, 'UNCHECKED')
    ) AS loss_verdict,
    CASE WHEN outages.lane IN ('raw', 'client') THEN 'acknowledged' WHEN outages.lane = 'watch' THEN 'committed' END AS loss_scope,
    COALESCE(findings.lost_records_min, committed.lost_records_min) AS lost_records_min,
    COALESCE(findings.lost_records_max, committed.lost_records_max) AS lost_records_max,
    COALESCE(findings.rpo_ms_min, committed.rpo_ms_min) AS rpo_ms_min,
    COALESCE(
        findings.rpo_ms_max,
        committed.rpo_ms_max,
        -- Nothing that was committed is gone, and the control plane proves that the new leader had all of it.
        IF(findings.outage_id IS NULL AND committed.lost_records_max = 0 AND outages.is_clean_election, 0.0, NULL)
    ) AS rpo_ms_max,
    outages.incident_id,
    outages.rule_version
FROM outages
LEFT JOIN findings ON outages.outage_id = findings.outage_id
LEFT JOIN committed
    ON
        outages.lane = 'watch'
        AND outages.cluster_id = committed.cluster_id
        AND outages.resource = committed.resource
        AND outages.shard = committed.shard
        AND outages.incident_id = committed.incident_id
