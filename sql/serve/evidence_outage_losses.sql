-- The findings about acknowledged data that belong to an outage.
-- Grain: one row per finding. Parameters: outage_id. Inputs: silver.losses.
SELECT *
FROM silver.losses
WHERE outage_id = getvariable('outage_id')
ORDER BY checked_at ASC, loss_id ASC
