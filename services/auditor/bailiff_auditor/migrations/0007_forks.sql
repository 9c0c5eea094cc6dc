-- Forks: records that the log lost in an accepted truncation are moved here, and the archive follows the log.
CREATE TABLE fork_orders (
    pool smallint NOT NULL REFERENCES pools,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, head_seq, head_hash)
);
COMMENT ON TABLE fork_orders IS 'an operator''s order to move records up to this head that the log has lost to a fork';

CREATE TABLE forks (
    pool smallint NOT NULL REFERENCES pools,
    fork integer NOT NULL,
    from_seq bigint NOT NULL,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    invalidated_at timestamptz NOT NULL DEFAULT now(),
    "offset" bigint,
    data jsonb,
    PRIMARY KEY (pool, fork)
);
COMMENT ON COLUMN forks.data IS 'the published invalidation of its seals; null: no seal was lost';

CREATE TABLE fork_records (LIKE records, fork integer NOT NULL, PRIMARY KEY (pool, fork, seq));
CREATE TABLE fork_orphans (LIKE orphans, fork integer NOT NULL, PRIMARY KEY (pool, fork, "offset"));
CREATE TABLE fork_seals (LIKE seals, fork integer NOT NULL, PRIMARY KEY (pool, fork, size));
