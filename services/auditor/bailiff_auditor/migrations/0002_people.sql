-- What the records say, laid out for people. All of it follows from the table records.
CREATE TABLE jobs (
    domain smallint NOT NULL REFERENCES domains,
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
    PRIMARY KEY (domain, job, submitted_seq)
);
CREATE INDEX jobs_not_ended ON jobs (domain) WHERE ended_seq IS NULL;
CREATE INDEX jobs_by_project ON jobs (domain, project, submitted_at);
CREATE INDEX jobs_by_time ON jobs (domain, submitted_at);

CREATE TABLE attempts (
    domain smallint NOT NULL REFERENCES domains,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    attempt integer NOT NULL,
    verb text,
    placed_seq bigint,
    placed_at timestamptz,
    nodes text,
    started_at timestamptz,
    ended_seq bigint,
    ended_at timestamptz,
    outcome text,
    cause text,
    lost_gpu_ms bigint,
    PRIMARY KEY (domain, job, submitted_seq, attempt)
);
CREATE INDEX attempts_by_time ON attempts (domain, placed_at);

CREATE TABLE evictions (
    domain smallint NOT NULL REFERENCES domains,
    decided_seq bigint NOT NULL,
    job text NOT NULL,
    submitted_seq bigint,
    attempt integer,
    tasks text,
    cause text,
    verb text,
    for_job text,
    for_class text,
    for_priority integer,
    why text,
    explanation jsonb,
    gpus bigint,
    lost_gpu_ms bigint,
    cost jsonb,
    decided_at timestamptz,
    begun_at timestamptz,
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
    withdrawn_at timestamptz,
    ended_at timestamptz,
    outcome text,
    resumed_at timestamptz,
    PRIMARY KEY (domain, decided_seq, job)
);
CREATE INDEX evictions_open ON evictions (domain) WHERE ended_at IS NULL;
CREATE INDEX evictions_by_job ON evictions (domain, job, decided_seq);
CREATE INDEX evictions_for ON evictions (domain, for_job) WHERE for_job IS NOT NULL;
CREATE INDEX evictions_by_time ON evictions (domain, decided_at);

CREATE TABLE nodes (
    domain smallint NOT NULL REFERENCES domains,
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
    PRIMARY KEY (domain, node)
);
