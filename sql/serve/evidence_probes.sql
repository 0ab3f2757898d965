-- The runs of probes of one prober and partition in a span of time, as they were landed; of a run that was extended, its longest form.
-- Grain: one row per run. Parameters: cluster_id, prober_id, resource, shard, kind, lane, day_from, day_to, from_us, to_us, limit.
-- Inputs: bronze.observations.
SELECT
    prober_id,
    boot_id,
    clock_id,
    seq,
    first_sequence,
    last_sequence,
    outcome,
    code,
    count,
    started_at_us,
    last_issued_at_us,
    first_decided_at_us,
    last_decided_at_us,
    earliest_decided_at_us,
    ended_at_us,
    period_us,
    lambda_us,
    latency_us_max,
    is_answered,
    leader,
    term,
    isr,
    first_position,
    last_position
FROM bronze.observations
WHERE
    record = 'probes'
    AND day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND cluster_id = getvariable('cluster_id')
    AND prober_id = getvariable('prober_id')
    AND resource = getvariable('resource')
    AND shard = getvariable('shard')
    AND kind = getvariable('kind')
    AND lane = getvariable('lane')
    AND started_at_us <= getvariable('to_us')
    AND ended_at_us >= getvariable('from_us')
QUALIFY
    row_number() OVER (
        PARTITION BY boot_id, first_sequence
        ORDER BY last_sequence DESC, is_open ASC, seq DESC
    ) = 1
ORDER BY started_at_us ASC, boot_id ASC, first_sequence ASC
LIMIT getvariable('limit')
