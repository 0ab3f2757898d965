-- The looks at a partition's followers in a minute, each with the looks at its leader that its lag in time is interpolated between: the
-- last one that showed less than the follower has, and the first that showed as much (the rule of sql/silver/replication_lag.sql).
-- Grain: one row per look at a follower. Parameters: cluster_id, resource, shard, day_from, day_to, from_us, to_us, limit.
-- Inputs: bronze.observations.
WITH lines AS (
    SELECT
        broker,
        ended_at_us,
        in_sync_replicas,
        lag_records_last,
        lag_records_max,
        count AS polls,
        prober_id || ' / ' || boot_id || ' / ' || seq AS line_id,
        try_cast(log_end_position AS BIGINT) AS log_end
    FROM bronze.observations
    WHERE
        record = 'partition_metrics'
        AND day BETWEEN getvariable('day_from') AND getvariable('day_to')
        AND cluster_id = getvariable('cluster_id')
        AND resource = getvariable('resource')
        AND shard = getvariable('shard')
        -- A leader's look may be older than the minute, or younger: as far as the derivation reads.
        AND ended_at_us BETWEEN getvariable('from_us') - 1200000000 AND getvariable('to_us') + 600000000
),

followers AS (
    SELECT DISTINCT
        line_id,
        broker,
        ended_at_us,
        lag_records_last,
        lag_records_max,
        polls,
        log_end
    FROM lines
    WHERE lag_records_last IS NOT NULL AND ended_at_us >= getvariable('from_us') AND ended_at_us < getvariable('to_us')
),

leaders AS (
    SELECT DISTINCT
        log_end,
        ended_at_us,
        broker,
        line_id,
        { 'log_end': log_end, 'ended_at_us': ended_at_us, 'broker': broker, 'line_id': line_id } AS look
    FROM lines
    WHERE in_sync_replicas IS NOT NULL AND log_end IS NOT NULL
),

around AS (
    SELECT
        followers.line_id,
        followers.broker,
        followers.ended_at_us,
        followers.lag_records_last,
        followers.lag_records_max,
        followers.polls,
        followers.log_end,
        max(leaders.look) FILTER (WHERE leaders.log_end < followers.log_end) AS last_below,
        min(leaders.look) FILTER (WHERE leaders.log_end >= followers.log_end) AS first_from
    FROM followers
    LEFT JOIN leaders ON followers.log_end IS NOT NULL
    GROUP BY ALL
),

reached AS (
    SELECT
        around.*,
        CASE
            WHEN around.last_below.broker = around.first_from.broker AND around.first_from.ended_at_us >= around.last_below.ended_at_us
                THEN
                    around.last_below.ended_at_us
                    + (around.log_end - around.last_below.log_end) / (around.first_from.log_end - around.last_below.log_end)
                    * (around.first_from.ended_at_us - around.last_below.ended_at_us)
        END AS reached_at_us
    FROM around
)

SELECT
    reached.line_id,
    reached.broker,
    reached.ended_at_us,
    reached.lag_records_last,
    reached.lag_records_max,
    reached.polls,
    reached.log_end,
    reached.last_below.line_id AS less_line,
    reached.last_below.broker AS less_broker,
    reached.last_below.log_end AS less_log_end,
    reached.last_below.ended_at_us AS less_at_us,
    reached.first_from.line_id AS enough_line,
    reached.first_from.broker AS enough_broker,
    reached.first_from.log_end AS enough_log_end,
    reached.first_from.ended_at_us AS enough_at_us,
    reached.reached_at_us,
    CASE
        WHEN reached.lag_records_last = 0 THEN 0.0
        ELSE greatest(0, reached.ended_at_us - reached.reached_at_us) / 1000
    END AS lag_ms
FROM reached
ORDER BY reached.broker ASC, lag_ms DESC NULLS FIRST, reached.ended_at_us ASC, reached.line_id ASC
LIMIT getvariable('limit')
