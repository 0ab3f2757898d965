-- The looks at a partition's leader in a span of time, with the high watermarks that it answered; of a run its longest form.
-- Grain: one row per run. Parameters: cluster_id, resource, shard, day_from, day_to, from_us, to_us, limit. Inputs: bronze.observations.
SELECT
    started_at_us,
    last_issued_at_us,
    outcome,
    count AS probes,
    first_position,
    last_position,
    leader,
    term,
    prober_id || ' / ' || boot_id || ' / ' || seq AS line_id
FROM bronze.observations
WHERE
    record = 'probes'
    AND lane = 'watch'
    AND day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND cluster_id = getvariable('cluster_id')
    AND resource = getvariable('resource')
    AND shard = getvariable('shard')
    AND started_at_us <= getvariable('to_us')
    AND ended_at_us >= getvariable('from_us')
QUALIFY
    row_number() OVER (
        PARTITION BY prober_id, boot_id, first_sequence
        ORDER BY last_sequence DESC, is_open ASC, seq DESC
    ) = 1
ORDER BY started_at_us ASC, line_id ASC
LIMIT getvariable('limit')
