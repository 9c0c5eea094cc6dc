-- Read model: jobs, attempts, evictions and nodes. A projection of the table records, from which it can be rebuilt.
CREATE TABLE jobs (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    submitted_at timestamptz,
    actor text,
    user_name text,
    project text,
    priority_class text,
    tasks integer,
    gpu_milli bigint,
    state text,
    attempt integer,
    first_placed_at timestamptz,
    first_started_at timestamptz,
    ended_seq bigint,
    ended_at timestamptz,
    outcome text,
    reason text,
    PRIMARY KEY (pool, job, submitted_seq)
);
CREATE INDEX jobs_not_ended ON jobs (pool) WHERE ended_seq IS NULL;
CREATE INDEX jobs_by_project ON jobs (pool, project, submitted_at);
CREATE INDEX jobs_by_time ON jobs (pool, submitted_at);

CREATE TABLE attempts (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    attempt integer NOT NULL,
    action text,
    placed_seq bigint,
    placed_at timestamptz,
    nodes text,
    started_at timestamptz,
    ended_seq bigint,
    ended_at timestamptz,
    outcome text,
    cause text,
    lost_gpu_ms bigint,
    PRIMARY KEY (pool, job, submitted_seq, attempt)
);
CREATE INDEX attempts_by_time ON attempts (pool, placed_at);

CREATE TABLE evictions (
    pool smallint NOT NULL REFERENCES pools,
    decided_seq bigint NOT NULL,
    job text NOT NULL,
    submitted_seq bigint,
    attempt integer,
    tasks text,
    cause text,
    action text,
    for_job text,
    for_class text,
    for_priority integer,
    reason text,
    explanation jsonb,
    gpus bigint,
    lost_gpu_ms bigint,
    cost jsonb,
    decided_at timestamptz,
    started_at timestamptz,
    noticed_at timestamptz,
    acknowledged_at timestamptz,
    checkpoint_started_at timestamptz,
    checkpoint_committed_at timestamptz,
    yielding_at timestamptz,
    term_sent_at timestamptz,
    kill_sent_at timestamptz,
    exited_at timestamptz,
    released_at timestamptz,
    stuck_at timestamptz,
    cancelled_at timestamptz,
    ended_at timestamptz,
    outcome text,
    resumed_at timestamptz,
    PRIMARY KEY (pool, decided_seq, job)
);
CREATE INDEX evictions_open ON evictions (pool) WHERE ended_at IS NULL;
CREATE INDEX evictions_by_job ON evictions (pool, job, decided_seq);
CREATE INDEX evictions_for ON evictions (pool, for_job) WHERE for_job IS NOT NULL;
CREATE INDEX evictions_by_time ON evictions (pool, decided_at);

CREATE TABLE nodes (
    pool smallint NOT NULL REFERENCES pools,
    node text NOT NULL,
    number integer,
    state text,
    since timestamptz,
    joined_at timestamptz,
    machine_id text,
    gpus integer,
    gpu_model text,
    cpu_milli bigint,
    memory_bytes bigint,
    drained text,
    PRIMARY KEY (pool, node)
);
