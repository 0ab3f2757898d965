-- One finding about acknowledged data by its name.
-- Grain: one row per finding. Parameters: loss_id. Inputs: silver.losses.
SELECT *
FROM silver.losses
WHERE loss_id = getvariable('loss_id')
