-- The read-backs of a partition that ended in a span of time, as they were landed.
-- Grain: one row per read-back. Parameters: cluster_id, resource, shard, day_from, day_to, from_us, to_us, limit.
-- Inputs: bronze.observations.
SELECT
    record,
    prober_id,
    boot_id,
    seq,
    started_at_us,
    ended_at_us,
    from_position,
    to_position,
    log_start_position,
    damaged_records,
    runs,
    term,
    new_term,
    high_watermark_max,
    end_position,
    lost_records,
    lost_started_at_us,
    lost_ended_at_us
FROM bronze.observations
WHERE
    record IN ('readback', 'epoch_end')
    AND day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND cluster_id = getvariable('cluster_id')
    AND resource = getvariable('resource')
    AND shard = getvariable('shard')
    AND ended_at_us BETWEEN getvariable('from_us') AND getvariable('to_us')
ORDER BY ended_at_us ASC, prober_id ASC, boot_id ASC, seq ASC
LIMIT getvariable('limit')
