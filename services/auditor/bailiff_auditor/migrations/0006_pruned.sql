-- Where the archive begins, once records that are kept elsewhere were taken out of it.
ALTER TABLE pools
    ADD COLUMN first_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN first_head jsonb,
    ADD COLUMN first_peaks bytea NOT NULL DEFAULT '';
COMMENT ON COLUMN pools.first_head IS 'where the chain stood before first_seq; null: at the beginning of the log';
COMMENT ON COLUMN pools.first_peaks IS 'as peaks, of the records before first_seq';

CREATE TABLE prunings (
    pool smallint NOT NULL REFERENCES pools,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    file text NOT NULL,
    sha256 text NOT NULL,
    pruned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, first_seq)
);
COMMENT ON TABLE prunings IS 'records that are not in the archive any more, and the exported file that has them';
