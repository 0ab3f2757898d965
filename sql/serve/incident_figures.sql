-- How many outages and partitions an incident has, told apart: of the service, of one prober alone, of the controller.
-- Grain: one row per incident. Parameters: incident_id. Inputs: gold.outages.
SELECT
    incident_id,
    count(*) FILTER (WHERE kind != 'controller' AND cause != 'prober_alone') AS outages,
    count(DISTINCT resource || '/' || shard) FILTER (WHERE kind != 'controller' AND cause != 'prober_alone') AS partitions,
    count(DISTINCT resource || '/' || shard) FILTER (
        WHERE lane IN ('raw', 'client', 'read') AND cause != 'prober_alone'
    ) AS partitions_probed,
    count(*) FILTER (WHERE cause = 'prober_alone') AS outages_alone,
    count(DISTINCT prober_id) FILTER (WHERE cause = 'prober_alone') AS probers_alone,
    count(*) FILTER (WHERE kind = 'controller') AS controller_outages
FROM gold.outages
WHERE incident_id = getvariable('incident_id')
GROUP BY incident_id
