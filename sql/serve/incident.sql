-- One incident by its name; no row when there is none of that name.
-- Grain: one row per incident. Parameters: incident_id. Inputs: gold.incidents.
SELECT *
FROM gold.incidents
WHERE incident_id = getvariable('incident_id')
