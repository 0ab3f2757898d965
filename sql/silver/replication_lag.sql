-- One row per partition, follower and minute: how far it was behind its leader.
-- Key: cluster_id, resource, shard, replica, minute_at. Inputs: bronze.observations (partition_metrics of the minutes, and of some before
-- them).
WITH lines AS (
    -- A run is written again and again while it lasts, each time with its last lag and its highest so far. What is new in a line is
    -- the highest lag where that has risen, else the last one.
    SELECT
        system, cluster_id, resource, shard, broker, in_sync_replicas, ended_at_us,
        -- A position is a word; where it is no number, no time follows from it.
        TRY_CAST(log_end_position AS BIGINT) AS log_end,
        lag_records_last,
        lag_records_max,
        count AS polls,
        LAG(lag_records_max) OVER run AS known_lag_max,
        COALESCE(LAG(count) OVER run, 0) AS known_polls
    FROM bronze_partition_metrics
    WINDOW run AS (
        PARTITION BY cluster_id, resource, shard, broker, prober_id, boot_id, started_at_us ORDER BY ended_at_us, seq
    )
),

followers AS (
    SELECT
        *,
        IF(known_lag_max IS NULL OR lag_records_max > known_lag_max, lag_records_max, lag_records_last) AS lag_records_seen,
        polls - known_polls AS new_polls
    FROM lines
    WHERE lag_records_last IS NOT NULL
),

-- When did the leader's log reach the position at which a follower's log ended? Between the last look at the leader that showed less and
-- the first that showed as much: interpolated. Only leaders know the number of in-sync replicas.
positions AS (
    SELECT
        cluster_id, resource, shard, broker, log_end, ended_at_us,
        TRUE AS is_leader,
        STRUCT(log_end, ended_at_us, broker) AS look
    FROM lines
    WHERE in_sync_replicas IS NOT NULL AND log_end IS NOT NULL
    UNION ALL
    SELECT
        cluster_id, resource, shard, broker, log_end, ended_at_us,
        FALSE AS is_leader,
        NULL AS look
    FROM followers
    WHERE log_end IS NOT NULL
),

around AS (
    SELECT
        cluster_id, resource, shard, broker, ended_at_us, log_end, is_leader,
        LAST_VALUE(look, TRUE) OVER (
            PARTITION BY cluster_id, resource, shard ORDER BY log_end, is_leader, ended_at_us
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS less,
        FIRST_VALUE(look, TRUE) OVER (
            PARTITION BY cluster_id, resource, shard ORDER BY log_end, is_leader, ended_at_us
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS enough
    FROM positions
),

reached AS (
    SELECT
        around.cluster_id, around.resource, around.shard, around.broker, around.ended_at_us,
        ANY_VALUE(CASE
            WHEN
                around.less IS NULL OR around.enough IS NULL
                OR around.less.broker != around.enough.broker OR around.enough.ended_at_us < around.less.ended_at_us
                THEN NULL
            ELSE
                around.less.ended_at_us
                + (around.log_end - around.less.log_end) / (around.enough.log_end - around.less.log_end)
                * (around.enough.ended_at_us - around.less.ended_at_us)
        END) AS reached_at_us,
        ANY_VALUE(CASE
            WHEN around.less IS NULL AND around.enough IS NULL THEN 'no_leader_samples'
            WHEN around.less IS NULL THEN 'before_leader_samples'
            WHEN around.enough IS NULL THEN 'beyond_leader_samples'
            WHEN around.less.broker != around.enough.broker OR around.enough.ended_at_us < around.less.ended_at_us THEN 'leader_changed'
        END) AS reason
    FROM around
    WHERE NOT around.is_leader
    GROUP BY around.cluster_id, around.resource, around.shard, around.broker, around.ended_at_us
),

behind AS (
    SELECT
        followers.*,
        DATE_TRUNC('MINUTE', TIMESTAMP_MICROS(followers.ended_at_us)) AS minute_at,
        -- GREATEST alone would pass over a NULL.
        CASE
            WHEN followers.lag_records_last = 0 THEN 0.0
            WHEN reached.reached_at_us IS NOT NULL THEN GREATEST(0, followers.ended_at_us - reached.reached_at_us) / 1000
        END AS lag_ms,
        IF(followers.lag_records_last = 0, NULL, COALESCE(reached.reason, IF(reached.reached_at_us IS NULL, 'no_position', NULL))) AS reason
    FROM followers
    LEFT JOIN reached
        ON
            followers.cluster_id = reached.cluster_id
            AND followers.resource = reached.resource
            AND followers.shard = reached.shard
            AND followers.broker = reached.broker
            AND followers.ended_at_us = reached.ended_at_us
)

SELECT
    system,
    cluster_id,
    resource,
    shard,
    broker AS replica,
    minute_at,
    MAX(lag_records_seen) AS lag_records_max,
    -- Where it cannot be said of one look it cannot be said of the minute.
    IF(COUNT(lag_ms) = COUNT(*), MAX(lag_ms), NULL) AS lag_ms_max,
    IF(COUNT(lag_ms) = COUNT(*), NULL, MAX(reason)) AS lag_ms_reason,
    SUM(new_polls) AS samples,
    'lag-3' AS rule_version
FROM behind
GROUP BY system, cluster_id, resource, shard, broker, minute_at
