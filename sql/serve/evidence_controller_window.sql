-- A span without a controller, with the rows that prove it.
-- Grain: one row per window. Parameters: outage_id. Inputs: silver.controller_windows.
SELECT *
FROM silver.controller_windows
WHERE window_id = getvariable('outage_id')
