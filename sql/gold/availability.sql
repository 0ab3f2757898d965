-- One row per prober, partition, kind, lane and UTC day: served, not served, not measured.
-- Key: cluster_id, prober_id, resource, shard, kind, lane, day. Inputs: bronze.observations (probes of the days), gold.outages.
WITH runs AS (
    -- A run that was extended is there several times; its longest form says everything.
    SELECT
        system, cluster_id, prober_id, resource, shard, kind, lane, outcome, boot_id, first_sequence, started_at_us,
        MAX(last_issued_at_us + period_us) AS covered_to_us
    FROM bronze_probes
    GROUP BY system, cluster_id, prober_id, resource, shard, kind, lane, outcome, boot_id, first_sequence, started_at_us
),

days AS (
    SELECT
        *,
        EXPLODE(SEQUENCE(TO_DATE(TIMESTAMP_MICROS(started_at_us)), TO_DATE(TIMESTAMP_MICROS(covered_to_us)))) AS utc_day
    FROM runs
),

clipped AS (
    SELECT
        system, cluster_id, prober_id, resource, shard, kind, lane, outcome, utc_day,
        GREATEST(started_at_us, UNIX_MICROS(CAST(utc_day AS TIMESTAMP))) AS from_us,
        LEAST(covered_to_us, UNIX_MICROS(CAST(DATE_ADD(utc_day, 1) AS TIMESTAMP))) AS to_us
    FROM days
),

covered AS (
    SELECT
        system, cluster_id, prober_id, resource, shard, kind, lane, utc_day,
        MIN(from_us) AS from_us,
        MAX(to_us) AS to_us,
        SUM(IF(outcome = 'VOID', 0, GREATEST(0, to_us - from_us))) AS measured_us
    FROM clipped
    WHERE to_us > from_us
    GROUP BY system, cluster_id, prober_id, resource, shard, kind, lane, utc_day
),

down AS (
    SELECT
        covered.cluster_id, covered.prober_id, covered.resource, covered.shard, covered.kind, covered.lane, covered.utc_day,
        COUNT(*) AS outages,
        SUM(GREATEST(
            0,
            LEAST(UNIX_MICROS(outages.ended_at_min), covered.to_us) - GREATEST(UNIX_MICROS(outages.started_at_max), covered.from_us)
        )) AS down_us_min,
        SUM(GREATEST(
            0,
            LEAST(COALESCE(UNIX_MICROS(outages.ended_at_max), covered.to_us), covered.to_us)
            - GREATEST(COALESCE(UNIX_MICROS(outages.started_at_min), covered.from_us), covered.from_us)
        )) AS down_us_max
    FROM covered
    INNER JOIN gold_outages AS outages
        ON
            covered.cluster_id = outages.cluster_id
            AND covered.resource = outages.resource
            AND covered.shard = outages.shard
            AND covered.kind = outages.kind
            AND covered.lane = outages.lane
            AND covered.prober_id = COALESCE(outages.prober_id, covered.prober_id)
            AND UNIX_MICROS(outages.started_at_max) < covered.to_us
            AND COALESCE(UNIX_MICROS(outages.ended_at_max), covered.to_us) > covered.from_us
    GROUP BY
        covered.cluster_id, covered.prober_id, covered.resource, covered.shard, covered.kind, covered.lane, covered.utc_day
)

SELECT
    covered.system,
    covered.cluster_id,
    covered.resource,
    covered.shard,
    covered.kind,
    covered.lane,
    covered.prober_id,
    covered.utc_day AS day,
    TIMESTAMP_MICROS(covered.from_us) AS observed_from_at,
    TIMESTAMP_MICROS(covered.to_us) AS observed_to_at,
    LEAST(covered.measured_us, covered.to_us - covered.from_us) / 1000 AS measured_ms,
    GREATEST(0, covered.to_us - covered.from_us - covered.measured_us) / 1000 AS unmeasured_ms,
    COALESCE(down.down_us_min, 0) / 1000 AS down_ms_min,
    COALESCE(down.down_us_max, 0) / 1000 AS down_ms_max,
    IF(covered.measured_us > 0, GREATEST(0, 1 - COALESCE(down.down_us_max, 0) / covered.measured_us), NULL) AS availability_ratio_min,
    IF(covered.measured_us > 0, GREATEST(0, 1 - COALESCE(down.down_us_min, 0) / covered.measured_us), NULL) AS availability_ratio_max,
    LEAST(1, covered.measured_us / (covered.to_us - covered.from_us)) AS coverage_ratio,
    COALESCE(down.outages, 0) AS outages,
    'availability-1' AS rule_version
FROM covered
LEFT JOIN down
    ON
        covered.cluster_id = down.cluster_id
        AND covered.prober_id = down.prober_id
        AND covered.resource = down.resource
        AND covered.shard = down.shard
        AND covered.kind = down.kind
        AND covered.lane = down.lane
        AND covered.utc_day = down.utc_day
