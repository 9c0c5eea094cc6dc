-- Project usage against quota and fair share over time, sampled from the fold; and the names of actors.
CREATE TABLE project_usage (
    pool smallint NOT NULL REFERENCES pools,
    seq bigint NOT NULL,
    project text NOT NULL,
    time timestamptz NOT NULL,
    used_gpu_milli bigint NOT NULL,
    fixed_gpu_milli bigint NOT NULL,
    requested_gpu_milli bigint NOT NULL,
    quota_gpu_milli bigint,
    limit_gpu_milli bigint,
    share_gpu_milli bigint NOT NULL,
    used_cpu_milli bigint NOT NULL,
    used_memory_bytes bigint NOT NULL,
    PRIMARY KEY (pool, seq, project)
);
CREATE INDEX project_usage_by_time ON project_usage (pool, project, time);
COMMENT ON COLUMN project_usage.project IS 'empty: the whole pool, whose share is its capacity';
COMMENT ON COLUMN project_usage.fixed_gpu_milli IS 'used by jobs that are not preemptible';
COMMENT ON COLUMN project_usage.quota_gpu_milli IS 'null: unlimited';

CREATE TABLE actors (
    actor text PRIMARY KEY,
    name text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE actors IS 'the only table with names of actors; a row may be deleted at any time';

CREATE VIEW usage_over_time AS
    SELECT d.name AS pool, u.project, u.time, u.used_gpu_milli / 1000.0 AS gpus, u.fixed_gpu_milli / 1000.0 AS gpus_fixed,
        u.requested_gpu_milli / 1000.0 AS gpus_wanted, u.quota_gpu_milli / 1000.0 AS quota,
        u.limit_gpu_milli / 1000.0 AS "limit", u.share_gpu_milli / 1000.0 AS fair_share,
        greatest(0, u.used_gpu_milli - u.quota_gpu_milli) / 1000.0 AS borrowed, u.seq
    FROM project_usage u JOIN pools d ON d.id = u.pool;

CREATE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, a.name
    FROM records r JOIN pools d ON d.id = r.pool LEFT JOIN actors a ON a.actor = r.actor WHERE r.actor IS NOT NULL;
