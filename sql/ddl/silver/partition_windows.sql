-- One row per partition and span in which it had no serving leader, or its acks=all writes waited for a dead replica; every partition, the users' too.
-- Key: window_id. Inputs: bronze.observations (control, probes of kind leader), silver.outage_windows.
CREATE TABLE IF NOT EXISTS silver.partition_windows (
    window_id STRING NOT NULL COMMENT 'identity of the window',
    system STRING NOT NULL COMMENT 'the broker system',
    cluster_id STRING NOT NULL COMMENT 'the cluster, as the system itself names it',
    resource STRING NOT NULL COMMENT 'the topic or queue',
    shard STRING NOT NULL COMMENT 'the partition',
    window STRING NOT NULL COMMENT 'leader_unavailable, acks_all_stalled or under_min_isr',
    evidence STRING NOT NULL COMMENT 'probed, read_probed or inferred (control plane, with a probed partition on the same broker)',
    kind STRING NOT NULL COMMENT 'the service that it denies: leader or durable_write',
    started_at_min TIMESTAMP COMMENT 'the window began no earlier (UTC); NULL: it was there before anybody looked',
    started_at_max TIMESTAMP COMMENT 'the window began no later',
    ended_at_min TIMESTAMP COMMENT 'the window ended no earlier',
    ended_at_max TIMESTAMP COMMENT 'the window ended no later; NULL: nothing bounds its end, or it is open',
    duration_ms_min DOUBLE NOT NULL COMMENT 'it lasted at least so long',
    duration_ms_max DOUBLE COMMENT 'it lasted at most so long; NULL while nothing bounds it',
    is_open BOOLEAN NOT NULL COMMENT 'it has not been seen to end',
    leader_before STRING COMMENT 'the leader of the last good probe before it',
    leader_after STRING COMMENT 'the leader of the first good probe after it',
    term_before BIGINT COMMENT 'leader epoch before it',
    term_after BIGINT COMMENT 'leader epoch after it',
    broker STRING COMMENT 'the broker whose absence explains it',
    cause STRING NOT NULL COMMENT 'leader_failed, leader_moved, isr_member_dead, isr_member_slow, under_min_isr or unknown',
    fenced_at_min TIMESTAMP COMMENT 'the broker was fenced: no earlier (UTC); NULL: does not apply or is not known',
    fenced_at_max TIMESTAMP COMMENT 'the broker was fenced: no later',
    elected_at_min TIMESTAMP COMMENT 'the new leader was recorded: no earlier (UTC); NULL: does not apply or is not known',
    elected_at_max TIMESTAMP COMMENT 'the new leader was recorded: no later',
    known_at_min TIMESTAMP COMMENT 'clients were told of the new leader: no earlier (UTC); NULL: does not apply or is not known',
    known_at_max TIMESTAMP COMMENT 'clients were told of the new leader: no later',
    is_clean_election BOOLEAN COMMENT 'the control plane proves that the new leader had every committed record; NULL: no election, or not known',
    proof ARRAY<STRING> COMMENT 'the rows that prove it: outage ids, and positions in the metadata log',
    incident_id STRING COMMENT 'the incident that it belongs to: windows of a cluster that overlap or are less than a minute apart',
    rule_version STRING NOT NULL COMMENT 'the version of the rule that made the row'
)
USING DELTA
COMMENT 'One row per partition and span in which it had no serving leader, or its acks=all writes waited for a dead replica; every partition, the users'' too.';
