-- The first archived record, after exported records were pruned.
ALTER TABLE pools
    ADD COLUMN first_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN first_head jsonb,
    ADD COLUMN first_peaks bytea NOT NULL DEFAULT '';
COMMENT ON COLUMN pools.first_head IS 'the chain head before first_seq; null: the log''s beginning';
COMMENT ON COLUMN pools.first_peaks IS 'like peaks, over the records before first_seq';

CREATE TABLE prunings (
    pool smallint NOT NULL REFERENCES pools,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    file text NOT NULL,
    sha256 text NOT NULL,
    pruned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, first_seq)
);
COMMENT ON TABLE prunings IS 'pruned records, and the exported file that contains them';
