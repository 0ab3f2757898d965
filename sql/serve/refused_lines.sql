-- The lines that were no observations, of files with a certain ending, the newest first; the quarantine is bounded.
-- Grain: one row per line. Parameters: ending, limit. Inputs: bronze.quarantine.
SELECT
    file,
    reason,
    line,
    count(*) OVER () AS total_rows
FROM bronze.quarantine
WHERE ends_with(file, getvariable('ending'))
ORDER BY ingested_at DESC, line_id ASC
LIMIT getvariable('limit')
