-- The lines that hold named records of a lane: acknowledged in time, or late. The names are pairs: boot_ids[n] / sequences[n].
-- Grain: one row per name and run that holds it. Parameters: cluster_id, resource, shard, kind, lane, boot_ids, sequences, day_from,
-- day_to, limit. Inputs: bronze.observations.
WITH named AS (
    SELECT
        unnest(getvariable('boot_ids')) AS boot_id,
        unnest(getvariable('sequences')) AS record_number
)

SELECT
    named.record_number,
    lines.record,
    lines.prober_id,
    lines.boot_id,
    lines.seq,
    lines.first_sequence,
    lines.last_sequence,
    lines.outcome,
    lines.started_at_us,
    lines.last_issued_at_us,
    lines.ended_at_us,
    lines.period_us,
    lines.latency_us_max,
    lines.first_position,
    lines.last_position,
    lines.leader,
    lines.term,
    named.boot_id || '/' || named.record_number AS name
FROM bronze.observations AS lines
INNER JOIN named
    ON lines.boot_id = named.boot_id AND lines.first_sequence <= named.record_number AND lines.last_sequence >= named.record_number
WHERE
    lines.record IN ('probes', 'late_acks')
    AND (lines.record = 'late_acks' OR lines.outcome = 'ACKED')
    AND lines.day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND lines.cluster_id = getvariable('cluster_id')
    AND lines.resource = getvariable('resource')
    AND lines.shard = getvariable('shard')
    AND lines.kind = getvariable('kind')
    AND lines.lane = getvariable('lane')
QUALIFY
    row_number() OVER (
        PARTITION BY named.boot_id, named.record_number, lines.record, lines.first_sequence
        ORDER BY lines.last_sequence DESC, lines.is_open ASC, lines.seq DESC
    ) = 1
ORDER BY lines.started_at_us ASC, named.record_number ASC, lines.record ASC
LIMIT getvariable('limit')
