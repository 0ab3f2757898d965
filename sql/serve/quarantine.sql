-- How many lines of the landing are in quarantine, and the newest of them.
-- Grain: one row. Parameters: none. Inputs: bronze.quarantine.
SELECT
    count(*) AS quarantined_lines,
    max(ingested_at) AS newest_at,
    max_by(reason, ingested_at) AS newest_reason
FROM bronze.quarantine
