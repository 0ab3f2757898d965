-- One row per thing that happened around an incident, in the order of time: control plane, clients, faults, blindness.
-- Key: event_id. Inputs: bronze.observations (control, leader_seen, epoch_end, fault, blind, broker_metrics).
CREATE TABLE IF NOT EXISTS silver.events (
    event_id STRING NOT NULL COMMENT 'identity of the event: the landing line that it was made from',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    happened_at_min TIMESTAMP NOT NULL COMMENT 'it happened no earlier (UTC)',
    happened_at_max TIMESTAMP NOT NULL COMMENT 'it happened no later',
    event STRING NOT NULL COMMENT 'a control event, leader_seen, epoch_end, fault, blind, broker_silent',
    resource STRING COMMENT 'the topic or queue, where it is about one',
    shard STRING COMMENT 'the partition, where it is about one',
    broker STRING COMMENT 'the broker, where it is about one',
    leader STRING COMMENT 'leader after it',
    previous_leader STRING COMMENT 'leader before it',
    term BIGINT COMMENT 'leader epoch after it',
    isr ARRAY<STRING> COMMENT 'in-sync replicas after it',
    previous_isr ARRAY<STRING> COMMENT 'in-sync replicas before it',
    position STRING COMMENT 'offset in the metadata log, or zxid',
    source STRING COMMENT 'who saw it and how',
    detail STRING COMMENT 'in words for people',
    clock_host STRING COMMENT 'whose clock stamped it: a broker or controller; NULL: our own',
    clock_method STRING COMMENT 'what bounds that clock: append_time, response_time or read_time; NULL with a clock_host: nothing does, it stands between two readings',
    clock_offset_ms_min DOUBLE COMMENT 'the bound that was used: that clock minus ours, at least',
    clock_offset_ms_max DOUBLE COMMENT 'at most',
    clock_lines ARRAY<STRING> COMMENT 'the lines of bronze that this bound rests on: prober_id / boot_id / seq',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per thing that happened around an incident, in the order of time: control plane, clients, faults, blindness.';
