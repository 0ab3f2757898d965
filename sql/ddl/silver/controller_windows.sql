-- One row per span in which a cluster had no controller that could decide: writes go on, elections wait.
-- Key: window_id. Inputs: bronze.observations (control), silver.partition_windows.
CREATE TABLE IF NOT EXISTS silver.controller_windows (
    window_id STRING NOT NULL COMMENT 'identity of the window',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    started_at_min TIMESTAMP COMMENT 'the window began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the window began no later',
    ended_at_min TIMESTAMP COMMENT 'the window ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the window ended no later; NULL: nothing bounds its end, or it is open',
    duration_ms_min DOUBLE NOT NULL COMMENT 'it lasted at least so long',
    duration_ms_max DOUBLE COMMENT 'it lasted at most so long; NULL while nothing bounds it',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    controller_before STRING COMMENT 'the active controller before it',
    controller_after STRING COMMENT 'the active controller after it',
    term_before BIGINT COMMENT 'controller epoch before it',
    term_after BIGINT COMMENT 'controller epoch after it',
    cause STRING NOT NULL COMMENT 'controller_failed, controller_moved or controller_silent (it resumed by itself)',
    partitions_waiting BIGINT NOT NULL COMMENT 'partitions whose own window was under way meanwhile and ended only after it',
    proof ARRAY<STRING> COMMENT 'the rows that prove it: positions in the metadata log, and outages',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per span in which a cluster had no controller that could decide: writes go on, elections wait.';
