-- Accounting: what each job used, borrowed and waited for over time, work lost, and capacity. The log is folded once more from
-- its start to fill the tables, and with them gpu_allocations and gpu_states, which have the same position.
CREATE TABLE job_usage (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    priority_class text NOT NULL,
    used_gpu_milli bigint NOT NULL,
    borrowed_gpu_milli bigint NOT NULL,
    waiting_gpu_milli bigint NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, job, submitted_seq, from_seq)
);
COMMENT ON COLUMN job_usage.used_gpu_milli IS 'thousandths of a GPU, from the order to start until the release is proven';
COMMENT ON COLUMN job_usage.borrowed_gpu_milli IS 'the part of it above the quota of the job''s project';
COMMENT ON COLUMN job_usage.waiting_gpu_milli IS 'what the pending job requests';
CREATE INDEX job_usage_open ON job_usage (pool, job, submitted_seq) WHERE to_seq IS NULL;
CREATE INDEX job_usage_by_time ON job_usage USING gist (tstzrange(from_at, to_at));

CREATE TABLE lost_work (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    attempt integer NOT NULL,
    priority_class text NOT NULL,
    cause text NOT NULL,
    outcome text NOT NULL,
    lost_gpu_ms bigint NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, job, submitted_seq, from_seq)
);
COMMENT ON TABLE lost_work IS 'a row per JobRequeued and JobShrunk, at its time';
CREATE INDEX lost_work_by_time ON lost_work (pool, from_at);

CREATE TABLE gpu_capacity (
    pool smallint NOT NULL REFERENCES pools,
    node text NOT NULL,
    gpu_milli bigint NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, node, from_seq)
);
COMMENT ON COLUMN gpu_capacity.gpu_milli IS 'healthy GPUs that are not quarantined, of a node that is not lost';
CREATE INDEX gpu_capacity_by_time ON gpu_capacity USING gist (tstzrange(from_at, to_at));

DELETE FROM gpu_allocations;
DELETE FROM gpu_states;
UPDATE followed SET allocations_seq = -1, allocations_hash = '';
