-- The archived log: the bytes of Kafka's messages, and the archived position of each pool. Only pools is ever updated.
CREATE TABLE pools (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    partition integer NOT NULL,
    identity text NOT NULL DEFAULT '',
    next_seq bigint NOT NULL DEFAULT 0,
    next_offset bigint NOT NULL DEFAULT 0,
    head_offset bigint NOT NULL DEFAULT -1,
    head_hash text NOT NULL DEFAULT repeat('0', 64),
    head_time text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    peaks bytea NOT NULL DEFAULT '',
    broken text NOT NULL DEFAULT '',
    broken_since timestamptz,
    written_at timestamptz
);
COMMENT ON COLUMN pools.peaks IS 'roots of the perfect subtrees of the Merkle tree over all records, 32 bytes each';
COMMENT ON COLUMN pools.broken IS 'why nothing beyond next_seq is archived; empty: no fault';

CREATE TABLE records (
    pool smallint NOT NULL REFERENCES pools,
    seq bigint NOT NULL,
    "offset" bigint NOT NULL,
    appended_at bigint NOT NULL,
    time timestamptz NOT NULL,
    epoch bigint NOT NULL,
    cycle bigint NOT NULL,
    type text NOT NULL,
    decision boolean NOT NULL,
    job text,
    actor text,
    hash bytea NOT NULL,
    key bytea,
    headers bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (pool, seq)
);
COMMENT ON COLUMN records.appended_at IS 'the broker''s append time, microseconds UTC';
COMMENT ON COLUMN records.headers IS 'name and value of each header in order, each prefixed by its length in 4 bytes, big-endian';
CREATE INDEX records_by_job ON records (pool, job, seq) WHERE job IS NOT NULL;
CREATE INDEX records_by_time ON records USING brin (time);
CREATE INDEX records_decisions ON records (pool, seq) WHERE decision;

CREATE TABLE orphans (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    appended_at bigint NOT NULL,
    kind text NOT NULL,
    reason text NOT NULL,
    hash text NOT NULL,
    key bytea,
    headers bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (pool, "offset")
);
