-- One row per host, observer's clock, method and minute: how far the host's clock was off, at least and at most.
-- Key: cluster_id, host, clock_id, method, minute_at. Inputs: bronze.observations (clock).
WITH seen AS (
    -- A line that came twice counts once.
    SELECT DISTINCT
        system, cluster_id, host, prober_id, boot_id, clock_id, seq, method, clock_offset_us_min, clock_offset_us_max, count, has_stepped,
        TIMESTAMP_MICROS(ended_at_us - PMOD(ended_at_us, 60000000)) AS minute_at
    FROM bronze_clock
)

SELECT
    system,
    cluster_id,
    host,
    prober_id,
    clock_id,
    method,
    minute_at,
    MIN(clock_offset_us_min) / 1000 AS offset_ms_min,
    MAX(clock_offset_us_max) / 1000 AS offset_ms_max,
    SUM(IF(has_stepped, 1, 0)) AS steps,
    SUM(count) AS stamps,
    'clock-1' AS rule_version
FROM seen
GROUP BY system, cluster_id, host, prober_id, clock_id, method, minute_at
