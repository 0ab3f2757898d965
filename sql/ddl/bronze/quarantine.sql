-- One row per line of the landing that is not an observation, or file with a line that is too long to be read; bounded, the newest are kept.
-- Key: line_id. Inputs: the landing.
CREATE TABLE IF NOT EXISTS bronze.quarantine (
    line_id STRING NOT NULL COMMENT 'hash of file and line, or of the file''s name',
    file STRING NOT NULL COMMENT 'the file that held it',
    reason STRING NOT NULL COMMENT 'why it is not an observation',
    line STRING NOT NULL COMMENT 'the line itself, cut after 4,000 characters; empty: it was too long to be read',
    ingested_at TIMESTAMP NOT NULL COMMENT 'when the stream met it'
)
USING DELTA
COMMENT 'One row per line of the landing that is not an observation, or file with a line that is too long to be read; bounded, the newest are kept.';
