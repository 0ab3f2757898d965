-- The lines that hold named records of a lane: acknowledged in time, or late. The names are pairs: boot_ids[n] / sequences[n].
-- Grain: one row per name and run that holds it. Parameters: cluster_id, resource, shard, kind, lane, boot_ids, sequences, day_from,
-- day_to, limit. Inputs: bronze.observations.
WITH asked AS (
    SELECT
        unnest(getvariable('boot_ids')) AS boot_id,
        unnest(getvariable('sequences')) AS record_number
)

SELECT
    asked.record_number,
    held.record,
    held.prober_id,
    held.boot_id,
    held.seq,
    held.first_sequence,
    held.last_sequence,
    held.outcome,
    held.started_at_us,
    held.last_issued_at_us,
    held.ended_at_us,
    held.period_us,
    held.latency_us_max,
    held.first_position,
    held.last_position,
    held.leader,
    held.term,
    asked.boot_id || '/' || asked.record_number AS record_name
FROM bronze.observations AS held
INNER JOIN asked
    ON held.boot_id = asked.boot_id AND held.first_sequence <= asked.record_number AND held.last_sequence >= asked.record_number
WHERE
    held.record IN ('probes', 'late_acks')
    AND (held.record = 'late_acks' OR held.outcome = 'ACKED')
    AND held.day BETWEEN getvariable('day_from') AND getvariable('day_to')
    AND held.cluster_id = getvariable('cluster_id')
    AND held.resource = getvariable('resource')
    AND held.shard = getvariable('shard')
    AND held.kind = getvariable('kind')
    AND held.lane = getvariable('lane')
QUALIFY
    row_number() OVER (
        PARTITION BY asked.boot_id, asked.record_number, held.record, held.first_sequence
        ORDER BY held.last_sequence DESC, held.is_open ASC, held.seq DESC
    ) = 1
ORDER BY held.started_at_us ASC, asked.record_number ASC, held.record ASC
LIMIT getvariable('limit')
