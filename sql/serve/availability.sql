-- How much of a UTC day was served and how much was measured, over all partitions of a kind of service.
-- The ratio is weighted by measured time; `worst_` is the partition with the lowest. Unmeasured time is in neither, and neither is
-- time in which a prober was proven alone.
-- Grain: one row per cluster, kind and lane. Parameters: day. Inputs: gold.availability.
WITH of_day AS (
    SELECT *
    FROM gold.availability
    WHERE day = getvariable('day')
),

-- What a user asks for is the partition, whoever probes it: of several probers each counts with the time that it measured.
partitions AS (
    SELECT
        system,
        cluster_id,
        kind,
        lane,
        resource,
        shard,
        greatest(sum(measured_ms - down_ms_max), 0) / nullif(sum(measured_ms), 0) AS availability_ratio_min,
        least(sum(measured_ms - down_ms_min) / nullif(sum(measured_ms), 0), 1) AS availability_ratio_max
    FROM of_day
    GROUP BY system, cluster_id, kind, lane, resource, shard
),

worst AS (
    SELECT *
    FROM partitions
    QUALIFY
        row_number() OVER (
            PARTITION BY system, cluster_id, kind, lane
            ORDER BY availability_ratio_min ASC NULLS LAST, resource ASC, shard ASC
        ) = 1
),

whole AS (
    SELECT
        system,
        cluster_id,
        kind,
        lane,
        count(DISTINCT resource || '/' || shard) AS partitions,
        max(observed_to_at) AS measured_to_at,
        greatest(sum(measured_ms - down_ms_max), 0) / nullif(sum(measured_ms), 0) AS availability_ratio_min,
        least(sum(measured_ms - down_ms_min) / nullif(sum(measured_ms), 0), 1) AS availability_ratio_max,
        sum(measured_ms) / nullif(sum(measured_ms + unmeasured_ms), 0) AS coverage_ratio,
        sum(unmeasured_ms) AS unmeasured_ms,
        sum(alone_ms) AS alone_ms,
        count(DISTINCT prober_id) AS probers,
        count(DISTINCT prober_id) FILTER (WHERE alone_ms > 0) AS probers_alone,
        sum(down_ms_min) AS down_ms_min,
        sum(down_ms_max) AS down_ms_max
    FROM of_day
    GROUP BY system, cluster_id, kind, lane
)

SELECT
    whole.*,
    worst.resource AS worst_resource,
    worst.shard AS worst_shard,
    worst.availability_ratio_min AS worst_ratio_min,
    worst.availability_ratio_max AS worst_ratio_max
FROM whole
INNER JOIN worst
    ON
        whole.system = worst.system
        AND whole.cluster_id = worst.cluster_id
        AND whole.kind = worst.kind
        AND whole.lane = worst.lane
ORDER BY whole.cluster_id ASC, whole.kind ASC, whole.lane ASC
