-- What the log had once and has no more, after a loss that was accepted: it is set aside here, and the archive follows the log.
CREATE TABLE branch_orders (
    domain smallint NOT NULL REFERENCES domains,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain, head_seq, head_hash)
);
COMMENT ON TABLE branch_orders IS 'an operator says: what is archived up to this head and not in the log may be set aside';

CREATE TABLE branches (
    domain smallint NOT NULL REFERENCES domains,
    branch integer NOT NULL,
    from_seq bigint NOT NULL,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    set_aside_at timestamptz NOT NULL DEFAULT now(),
    "offset" bigint,
    data jsonb,
    PRIMARY KEY (domain, branch)
);
COMMENT ON COLUMN branches.data IS 'what was published about its seals, and at which offset; null where none were lost';

CREATE TABLE branch_records (LIKE records, branch integer NOT NULL, PRIMARY KEY (domain, branch, seq));
CREATE TABLE branch_orphans (LIKE orphans, branch integer NOT NULL, PRIMARY KEY (domain, branch, "offset"));
CREATE TABLE branch_seals (LIKE seals, branch integer NOT NULL, PRIMARY KEY (domain, branch, size));
