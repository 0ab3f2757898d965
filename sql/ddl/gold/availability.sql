-- One row per prober, partition, kind, lane and UTC day: served, not served, not measured.
-- Key: cluster_id, prober_id, resource, shard, kind, lane, day. Inputs: bronze.observations (probes), silver.outage_windows,
-- gold.outages.
CREATE TABLE IF NOT EXISTS gold.availability (
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    kind STRING NOT NULL COMMENT 'write, durable_write, read or leader',
    lane STRING NOT NULL COMMENT 'raw, client, read or watch',
    prober_id STRING NOT NULL COMMENT 'the observer',
    day DATE NOT NULL COMMENT 'the UTC day',
    observed_from_at TIMESTAMP NOT NULL COMMENT 'first probe of the day',
    observed_to_at TIMESTAMP NOT NULL COMMENT 'end of the last probe of the day',
    measured_ms DOUBLE NOT NULL COMMENT 'time covered by valid probes of a prober that was not proven alone, in milliseconds',
    unmeasured_ms DOUBLE NOT NULL COMMENT 'the rest of the time between the first and the last probe: neither served nor not served',
    alone_ms DOUBLE COMMENT 'of it: the prober was not served while others were, so it measured its own way to the service',
    down_ms_min DOUBLE NOT NULL COMMENT 'not served at least so long',
    down_ms_max DOUBLE NOT NULL COMMENT 'not served at most so long, unmeasured time inside outages included',
    availability_ratio_min DOUBLE COMMENT '(measured - down_ms_max) / measured, at least 0; NULL where nothing was measured',
    availability_ratio_max DOUBLE COMMENT '(measured - down_ms_min) / measured',
    coverage_ratio DOUBLE NOT NULL COMMENT 'measured / (measured + unmeasured)',
    outages BIGINT NOT NULL COMMENT 'outages of the service that touch the day; what the prober alone was not served is in none',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per prober, partition, kind, lane and UTC day: served, not served, not measured.';
