-- How long the outages of an incident lasted, by kind of service: all of them, also those that are too many to be listed.
-- The quantiles of both bounds bound the quantile of the truth. NULL maximum: nothing bounds at least one of the outages.
-- The controller's own outage and what one prober alone was not served are no outages of a partition: they are in neither.
-- Grain: one row per kind, lane and whether it is inferred. Parameters: incident_id. Inputs: gold.outages.
SELECT
    kind,
    lane,
    evidence = 'inferred' AS is_inferred,
    count(*) AS outages,
    count(DISTINCT resource || '/' || shard) AS partitions,
    count(*) FILTER (WHERE is_open) AS open_outages,
    max(rto_ms_min) AS worst_ms_min,
    CASE WHEN count(rto_ms_max) = count(*) THEN max(rto_ms_max) END AS worst_ms_max,
    quantile_disc(rto_ms_min, 0.5) AS median_ms_min,
    CASE
        WHEN quantile_disc(coalesce(rto_ms_max, 'Infinity'::DOUBLE), 0.5) < 'Infinity'::DOUBLE
            THEN quantile_disc(coalesce(rto_ms_max, 'Infinity'::DOUBLE), 0.5)
    END AS median_ms_max,
    min(rto_ms_min) AS least_ms_min,
    min(rto_ms_max) AS least_ms_max
FROM gold.outages
WHERE incident_id = getvariable('incident_id') AND kind != 'controller' AND cause != 'prober_alone'
GROUP BY kind, lane, evidence = 'inferred'
ORDER BY worst_ms_min DESC
