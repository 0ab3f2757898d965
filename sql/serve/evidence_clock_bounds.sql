-- What bounds the clocks of hosts around a span of time, the finer method first: what is more than an hour away proves nothing.
-- Grain: one row per host, observer's clock, method and minute. Parameters: cluster_id, hosts, from_at, to_at, limit.
-- Inputs: silver.clock_bounds.
SELECT *
FROM silver.clock_bounds
WHERE
    cluster_id = getvariable('cluster_id')
    AND host IN (SELECT unnest(getvariable('hosts')))
    AND minute_at BETWEEN getvariable('from_at') - INTERVAL 1 HOUR AND getvariable('to_at') + INTERVAL 1 HOUR
ORDER BY
    host ASC, method ASC,
    greatest(epoch_us(getvariable('from_at')) - epoch_us(minute_at), epoch_us(minute_at) - epoch_us(getvariable('to_at')), 0) ASC,
    minute_at ASC, clock_id ASC
LIMIT getvariable('limit')
