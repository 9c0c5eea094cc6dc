-- Sampling interval of project usage, from which record on: a verifier can detect a deleted sample.
CREATE TABLE usage_intervals (
    pool smallint NOT NULL REFERENCES pools,
    from_seq bigint NOT NULL,
    interval_us bigint NOT NULL,
    PRIMARY KEY (pool, from_seq)
);
COMMENT ON TABLE usage_intervals IS 'project_usage has one sample per interval of log time, of the first cycle that ended in it, up to followed.allocations_seq';
