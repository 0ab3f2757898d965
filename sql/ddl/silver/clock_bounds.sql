-- One row per host, observer's clock, method and minute: how far the host's clock was off, at least and at most.
-- Key: cluster_id, host, clock_id, method, minute_at. Inputs: bronze.observations (clock).
CREATE TABLE IF NOT EXISTS silver.clock_bounds (
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    host STRING NOT NULL COMMENT 'whose clock: the broker or controller',
    prober_id STRING NOT NULL COMMENT 'the observer whose clock it is compared with',
    clock_id STRING NOT NULL COMMENT 'that clock',
    method STRING NOT NULL COMMENT 'append_time (its stamp of a record of ours) or response_time (its stamp of an answer, in whole seconds)',
    minute_at TIMESTAMP NOT NULL COMMENT 'begin of the minute (UTC)',
    offset_ms_min DOUBLE NOT NULL COMMENT 'the host''s clock minus the observer''s was nowhere below this, in milliseconds',
    offset_ms_max DOUBLE NOT NULL COMMENT 'it was nowhere above this, in milliseconds',
    steps BIGINT NOT NULL COMMENT 'how often what was proven contradicted what was proven before: the clock was set',
    stamps BIGINT NOT NULL COMMENT 'stamps that it rests on',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per host, observer''s clock, method and minute: how far the host''s clock was off, at least and at most.';
