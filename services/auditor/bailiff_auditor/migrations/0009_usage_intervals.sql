-- How often projects' use is looked at, from which record on: so that a look that was taken out again is missed.
CREATE TABLE usage_intervals (
    pool smallint NOT NULL REFERENCES pools,
    from_seq bigint NOT NULL,
    interval_us bigint NOT NULL,
    PRIMARY KEY (pool, from_seq)
);
COMMENT ON TABLE usage_intervals IS 'of each stretch of log time project_usage has the first cycle that ended in it, up to followed.allocations_seq';
