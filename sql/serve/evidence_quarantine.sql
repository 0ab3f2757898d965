-- The lines of the landing that are no observations, the newest first.
-- Grain: one row per line. Parameters: limit. Inputs: bronze.quarantine.
SELECT
    *,
    count(*) OVER () AS total_rows
FROM bronze.quarantine
ORDER BY ingested_at DESC, line_id ASC
LIMIT getvariable('limit')
