-- What read-backs and epoch ends found out about the acknowledged data of an incident, as evidence.
-- Grain: one row per loss. Parameters: incident_id, limit. Inputs: silver.losses.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM silver.losses
WHERE incident_id = getvariable('incident_id')
ORDER BY checked_at ASC, resource ASC, shard ASC
LIMIT getvariable('limit')
