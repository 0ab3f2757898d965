-- What was inferred of a partition, with the rows that it was inferred from.
-- Grain: one row per window. Parameters: outage_id. Inputs: silver.partition_windows.
SELECT *
FROM silver.partition_windows
WHERE window_id = getvariable('outage_id')
