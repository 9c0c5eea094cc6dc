-- How often projects' use is looked at, from which record on: so that a look that was taken out again is missed.
CREATE TABLE usage_stretches (
    domain smallint NOT NULL REFERENCES domains,
    from_seq bigint NOT NULL,
    stretch_us bigint NOT NULL,
    PRIMARY KEY (domain, from_seq)
);
COMMENT ON TABLE usage_stretches IS 'of each stretch of log time project_usage has the first turn that ended in it, up to followed.holds_seq';
