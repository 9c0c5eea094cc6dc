-- Accounting by GPU model, and of budgets. What is derived from the records is derived anew, from the first one.
ALTER TABLE job_usage ADD COLUMN gpu_models jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN job_usage.gpu_models IS 'used_gpu_milli by the model of the GPUs';
ALTER TABLE lost_work ADD COLUMN gpu_models jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN lost_work.gpu_models IS 'gpu_milli by the model of the GPUs';

CREATE TABLE budget_usage (
    pool smallint NOT NULL REFERENCES pools,
    budget text NOT NULL,
    project text,
    user_name text,
    priority_class text,
    counted_since timestamptz NOT NULL,
    gpu_hours bigint NOT NULL,
    topped_up bigint NOT NULL,
    transferred bigint NOT NULL,
    level text NOT NULL,
    used_gpu_milli bigint NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, budget, from_seq)
);
COMMENT ON COLUMN budget_usage.gpu_hours IS 'as the policy says';
COMMENT ON COLUMN budget_usage.topped_up IS 'GPU-hours of the month in which the row begins, as transferred';
COMMENT ON COLUMN budget_usage.used_gpu_milli IS 'GPUs that its jobs hold, thousandths';
CREATE INDEX budget_usage_by_time ON budget_usage USING gist (tstzrange(from_at, to_at));

DELETE FROM gpu_allocations;
DELETE FROM gpu_states;
DELETE FROM job_usage;
DELETE FROM lost_work;
DELETE FROM gpu_capacity;
UPDATE followed SET allocations_seq = -1, allocations_hash = '';
