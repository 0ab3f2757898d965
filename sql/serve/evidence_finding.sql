-- One disagreement by its name.
-- Grain: one row per finding. Parameters: finding_id. Inputs: silver.findings.
SELECT *
FROM silver.findings
WHERE finding_id = getvariable('finding_id')
