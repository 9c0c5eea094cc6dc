-- What searching again gave for each record of proposals.
CREATE TABLE proposal_checks (
    pool smallint NOT NULL REFERENCES pools,
    seq bigint NOT NULL,
    computed_at bigint NOT NULL,
    result text NOT NULL,
    text text NOT NULL,
    checked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, seq)
);
COMMENT ON COLUMN proposal_checks.seq IS 'of the ProposalReceived; records after the newest one here are not checked yet';
COMMENT ON COLUMN proposal_checks.result IS 'reproduced, not-reproduced, or not-searched, whose text says why';
COMMENT ON COLUMN proposal_checks.text IS 'both results in sentences, where they differ';
