-- A span in which a partition was down for every prober that looked, with the outages that it is the intersection of.
-- Grain: one row per window. Parameters: window_id. Inputs: silver.service_windows.
SELECT *
FROM silver.service_windows
WHERE window_id = getvariable('window_id')
