-- Events by their names: when they happened by our own clock, with bounds.
-- Grain: one row per event. Parameters: event_ids. Inputs: silver.events.
SELECT *
FROM silver.events
WHERE event_id IN (SELECT unnest(getvariable('event_ids')))
