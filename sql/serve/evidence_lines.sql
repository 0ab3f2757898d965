-- Lines of bronze by their names, prober_id / boot_id / seq: what a clock bound, or a finding, rests on.
-- Grain: one row per line. Parameters: cluster_id, names, day_from, day_to, limit. Inputs: bronze.observations.
SELECT
    record,
    collector,
    started_at_us,
    ended_at_us,
    method,
    clock_id,
    event,
    position,
    resource,
    shard,
    lane,
    outcome,
    clock_offset_us_min,
    clock_offset_us_max,
    has_stepped,
    coalesce(host, stamped_by, leader) AS clock_host,
    prober_id || ' / ' || boot_id || ' / ' || seq AS line_id
FROM bronze.observations
WHERE
    day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND cluster_id = getvariable('cluster_id')
    AND list_contains(getvariable('names'), prober_id || ' / ' || boot_id || ' / ' || seq)
ORDER BY ended_at_us ASC, line_id ASC
LIMIT getvariable('limit')
