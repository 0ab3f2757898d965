-- What one prober measured of an outage, with the names of the probes that bound it.
-- Grain: one row per outage window. Parameters: outage_id. Inputs: silver.outage_windows.
SELECT *
FROM silver.outage_windows
WHERE outage_id = getvariable('outage_id')
