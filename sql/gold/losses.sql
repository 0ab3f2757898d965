-- One row per finding about acknowledged data, with the outage that it belongs to.
-- Key: loss_id. Inputs: silver.losses.
SELECT
    loss_id,
    system,
    cluster_id,
    resource,
    shard,
    kind,
    lane,
    verdict,
    evidence,
    reason,
    records_min,
    records_max,
    rpo_ms_min,
    rpo_ms_max,
    acked_records,
    acked_from_at,
    acked_to_at,
    first_position,
    last_position,
    outage_id,
    checked_at,
    incident_id,
    rule_version
FROM silver_losses
