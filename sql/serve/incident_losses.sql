-- What became of the acknowledged data of an incident, the worst findings first.
-- Grain: one row per finding. Parameters: incident_id, limit. Inputs: gold.losses.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM gold.losses
WHERE incident_id = getvariable('incident_id')
ORDER BY
    list_position(['LOST', 'STRANDED', 'UNCHECKABLE', 'NOT_STORED', 'DELETED_BY_POLICY', 'PRESENT'], verdict),
    records_min DESC, resource ASC, shard ASC, lane ASC
LIMIT getvariable('limit')
