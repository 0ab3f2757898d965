-- Decisions of the control plane in a span of time, as they were landed: of one partition, and of brokers and controllers.
-- The span is by the collector's clock, for a host's own stamps are what a clock bound has yet to place.
-- Grain: one row per decision and collector. Parameters: cluster_id, resource, shard, day_from, day_to, from_us, to_us, limit.
-- Inputs: bronze.observations.
SELECT
    prober_id,
    boot_id,
    clock_id,
    seq,
    event,
    source,
    position,
    stamped_by,
    started_at_us,
    ended_at_us,
    unseen_at_us,
    seen_at_us,
    resource,
    shard,
    broker,
    leader,
    previous_leader,
    isr,
    previous_isr,
    term,
    is_unclean
FROM bronze.observations
WHERE
    record = 'control'
    AND day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND cluster_id = getvariable('cluster_id')
    AND seen_at_us BETWEEN getvariable('from_us') AND getvariable('to_us')
    AND (resource IS NULL OR (resource = getvariable('resource') AND shard = getvariable('shard')))
ORDER BY seen_at_us ASC, prober_id ASC, boot_id ASC, seq ASC
LIMIT getvariable('limit')
