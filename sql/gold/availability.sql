-- One row per prober, partition, kind, lane and UTC day: served, not served, not measured.
-- While a prober was proven alone (another was served in the middle of what it was not served) it measured what lay between it and the
-- service: that time is neither served nor not served, from the last probe that was served before it to the first one after it.
-- Key: cluster_id, prober_id, resource, shard, kind, lane, day. Inputs: bronze.observations (probes of the days),
-- silver.outage_windows, gold.outages.
WITH runs AS (
    -- A run that was extended is there several times; its longest form says everything.
    SELECT
        system, cluster_id, prober_id, resource, shard, kind, lane, outcome, boot_id, first_sequence, started_at_us,
        MAX(period_us) AS period_us,
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
        system, cluster_id, prober_id, resource, shard, kind, lane, outcome, boot_id, first_sequence, period_us, utc_day,
        GREATEST(started_at_us, UNIX_MICROS(CAST(utc_day AS TIMESTAMP))) AS from_us,
        LEAST(covered_to_us, UNIX_MICROS(CAST(DATE_ADD(utc_day, 1) AS TIMESTAMP))) AS to_us
    FROM days
),

alone AS (
    SELECT
        cluster_id, prober_id, resource, shard, kind, lane,
        UNIX_MICROS(started_at_min) AS last_good_us,
        UNIX_MICROS(started_at_max) AS first_bad_us,
        UNIX_MICROS(ended_at_min) AS last_bad_us,
        UNIX_MICROS(ended_at_max) AS end_us,
        is_open
    FROM silver_outage_windows
    WHERE cause = 'prober_alone'
),

-- How much of each run lies in them. The probe that ends one may be the last one before the next: nothing is taken away twice.
distrusted AS (
    SELECT
        cluster_id, prober_id, resource, shard, kind, lane, boot_id, first_sequence, outcome, from_us,
        SUM(GREATEST(0, end_us - GREATEST(begin_us, COALESCE(ended_before_us, begin_us)))) AS alone_us
    FROM (
        SELECT
            *,
            MAX(end_us) OVER (
                PARTITION BY cluster_id, prober_id, resource, shard, kind, lane, boot_id, first_sequence, outcome, from_us
                ORDER BY begin_us, end_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS ended_before_us
        FROM (
            SELECT
                clipped.cluster_id, clipped.prober_id, clipped.resource, clipped.shard, clipped.kind, clipped.lane,
                clipped.boot_id, clipped.first_sequence, clipped.outcome, clipped.from_us,
                -- Where nothing bounds it, it reaches as far as the probes that were not served: each speaks for a period.
                GREATEST(
                    COALESCE(alone.last_good_us, IF(clipped.outcome = 'ACKED', alone.first_bad_us, clipped.from_us)), clipped.from_us
                ) AS begin_us,
                LEAST(
                    COALESCE(alone.end_us, IF(alone.is_open, clipped.to_us, alone.last_bad_us + clipped.period_us)), clipped.to_us
                ) AS end_us
            FROM clipped
            INNER JOIN alone
                ON
                    clipped.cluster_id = alone.cluster_id
                    AND clipped.prober_id = alone.prober_id
                    AND clipped.resource = alone.resource
                    AND clipped.shard = alone.shard
                    AND clipped.kind = alone.kind
                    AND clipped.lane = alone.lane
                    AND clipped.to_us > COALESCE(alone.last_good_us, alone.first_bad_us)
            WHERE clipped.outcome != 'VOID'
        ) AS cut
        WHERE end_us > begin_us
    ) AS ordered
    GROUP BY cluster_id, prober_id, resource, shard, kind, lane, boot_id, first_sequence, outcome, from_us
),

covered AS (
    SELECT
        clipped.system, clipped.cluster_id, clipped.prober_id, clipped.resource, clipped.shard, clipped.kind, clipped.lane,
        clipped.utc_day,
        MIN(clipped.from_us) AS from_us,
        MAX(clipped.to_us) AS to_us,
        SUM(IF(
            clipped.outcome = 'VOID', 0, GREATEST(0, clipped.to_us - clipped.from_us - COALESCE(distrusted.alone_us, 0))
        )) AS measured_us,
        SUM(COALESCE(distrusted.alone_us, 0)) AS alone_us
    FROM clipped
    LEFT JOIN distrusted
        ON
            clipped.cluster_id = distrusted.cluster_id
            AND clipped.prober_id = distrusted.prober_id
            AND clipped.resource = distrusted.resource
            AND clipped.shard = distrusted.shard
            AND clipped.kind = distrusted.kind
            AND clipped.lane = distrusted.lane
            AND clipped.boot_id = distrusted.boot_id
            AND clipped.first_sequence = distrusted.first_sequence
            AND clipped.outcome = distrusted.outcome
            AND clipped.from_us = distrusted.from_us
    WHERE clipped.to_us > clipped.from_us
    GROUP BY
        clipped.system, clipped.cluster_id, clipped.prober_id, clipped.resource, clipped.shard, clipped.kind, clipped.lane,
        clipped.utc_day
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
            AND outages.cause != 'prober_alone'
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
    covered.alone_us / 1000 AS alone_ms,
    COALESCE(down.down_us_min, 0) / 1000 AS down_ms_min,
    COALESCE(down.down_us_max, 0) / 1000 AS down_ms_max,
    IF(covered.measured_us > 0, GREATEST(0, 1 - COALESCE(down.down_us_max, 0) / covered.measured_us), NULL) AS availability_ratio_min,
    IF(covered.measured_us > 0, GREATEST(0, 1 - COALESCE(down.down_us_min, 0) / covered.measured_us), NULL) AS availability_ratio_max,
    LEAST(1, covered.measured_us / (covered.to_us - covered.from_us)) AS coverage_ratio,
    COALESCE(down.outages, 0) AS outages,
    'availability-2' AS rule_version
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
