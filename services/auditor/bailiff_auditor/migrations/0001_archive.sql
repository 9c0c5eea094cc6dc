-- The archive of the auditor, as 0.1.0 begins.

-- The archived log: the bytes of Kafka's messages, and the archived position of each pool. Only pools is ever updated.
CREATE TABLE pools (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    partition integer NOT NULL,
    identity text NOT NULL DEFAULT '',
    next_seq bigint NOT NULL DEFAULT 0,
    next_offset bigint NOT NULL DEFAULT 0,
    head_offset bigint NOT NULL DEFAULT -1,
    head_hash text NOT NULL DEFAULT repeat('0', 64),
    head_time text NOT NULL DEFAULT '',
    head_keys text NOT NULL DEFAULT '{}',
    epoch bigint NOT NULL DEFAULT 0,
    peaks bytea NOT NULL DEFAULT '',
    first_seq bigint NOT NULL DEFAULT 0,
    first_head jsonb,
    first_peaks bytea NOT NULL DEFAULT '',
    first_policy bytea,
    seals_offset bigint NOT NULL DEFAULT 0,
    cosignatures_offset bigint NOT NULL DEFAULT 0,
    broken text NOT NULL DEFAULT '',
    broken_since timestamptz,
    written_at timestamptz
);
COMMENT ON COLUMN pools.head_keys IS 'whose key signs the next records of the log, and what the last record says about the next (JSON)';
COMMENT ON COLUMN pools.peaks IS 'roots of the perfect subtrees of the Merkle tree over all records, 32 bytes each';
COMMENT ON COLUMN pools.first_seq IS 'the first archived record, after exported records were pruned';
COMMENT ON COLUMN pools.first_head IS 'the chain head before first_seq; null: the log''s beginning';
COMMENT ON COLUMN pools.first_peaks IS 'like peaks, over the records before first_seq';
COMMENT ON COLUMN pools.first_policy IS 'value of the last PolicyApplied before first_seq, if that record was pruned';
COMMENT ON COLUMN pools.broken IS 'why nothing beyond next_seq is archived; empty: no fault';

-- Rows of records, jobs, attempts and evictions are written in bulk, in the transaction that updates their pool's row, and pools are
-- never deleted: a foreign key check of each row cannot fail, and takes longer than the write.
CREATE TABLE records (
    pool smallint NOT NULL,
    seq bigint NOT NULL,
    "offset" bigint NOT NULL,
    appended_at bigint NOT NULL,
    time timestamptz NOT NULL,
    epoch bigint NOT NULL,
    cycle bigint NOT NULL,
    type text NOT NULL,
    decision boolean NOT NULL,
    job text,
    actor text,
    hash bytea NOT NULL,
    key bytea,
    headers bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (pool, seq)
);
COMMENT ON COLUMN records.appended_at IS 'the broker''s append time, microseconds UTC';
COMMENT ON COLUMN records.headers IS 'name and value of each header in order, each prefixed by its length in 4 bytes, big-endian';
CREATE INDEX records_by_job ON records (pool, job, seq) WHERE job IS NOT NULL;
CREATE INDEX records_by_time ON records USING brin (time);
CREATE INDEX records_decisions ON records (pool, seq) WHERE decision;
CREATE INDEX records_of_policies ON records (pool, seq) WHERE type = 'PolicyApplied.v1';
CREATE INDEX records_of_nodes ON records (pool, seq) WHERE type LIKE 'Node%' OR type LIKE 'Device%' OR type LIKE 'Drain%';

CREATE TABLE orphans (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    appended_at bigint NOT NULL,
    kind text NOT NULL,
    reason text NOT NULL,
    hash text NOT NULL,
    key bytea,
    headers bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (pool, "offset")
);

-- Read model: jobs, attempts, evictions and nodes. A projection of the table records, from which it can be rebuilt.
CREATE TABLE jobs (
    pool smallint NOT NULL,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    submitted_at timestamptz,
    actor text,
    user_name text,
    user_verified boolean,
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
COMMENT ON COLUMN jobs.user_verified IS 'whether the user has signed the submission, or whoever signed it vouched for the user';
CREATE INDEX jobs_not_ended ON jobs (pool) WHERE ended_seq IS NULL;
CREATE INDEX jobs_by_project ON jobs (pool, project, submitted_at);
CREATE INDEX jobs_by_time ON jobs (pool, submitted_at);
CREATE INDEX jobs_by_start ON jobs (pool, first_started_at);
-- of lists in any order
CREATE INDEX jobs_by_submission ON jobs (pool, submitted_seq, job);
CREATE INDEX jobs_by_end ON jobs (pool, (coalesce(ended_seq, 9223372036854775807)), submitted_seq, job);
CREATE INDEX jobs_by_gpus ON jobs (pool, (coalesce(gpu_milli, 0)), submitted_seq, job);

CREATE TABLE attempts (
    pool smallint NOT NULL,
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
    PRIMARY KEY (pool, job, submitted_seq, attempt)
);
CREATE INDEX attempts_by_time ON attempts (pool, placed_at);
CREATE INDEX attempts_by_end ON attempts (pool, ended_at);

CREATE TABLE evictions (
    pool smallint NOT NULL,
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
    gpu_milli bigint,
    gpu_models text[],
    cpu_milli bigint,
    memory_bytes bigint,
    drained text,
    PRIMARY KEY (pool, node)
);

-- Views of the read model for SQL users, with pool names, GPUs and GPU-hours.
CREATE VIEW decisions AS
    SELECT d.name AS pool, r.seq, r.time, r.cycle, r.type, r.job, convert_from(r.value, 'UTF8')::jsonb AS data
    FROM records r JOIN pools d ON d.id = r.pool WHERE r.decision;

-- Whether it is known that the actor of a record requested it: by a signature, or by the topic's access list. Where the value of
-- another header holds the same bytes, the actor is at worst shown as not verified.
CREATE FUNCTION actor_verified(actor text, headers bytea) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN actor IS NOT NULL THEN
        position('\x0000000763655f61757468'::bytea IN headers) > 0  -- ce_auth, with its length
        AND position('\x0000000763655f61757468000000046e6f6e65'::bytea IN headers) = 0 END;  -- ce_auth: none
COMMENT ON FUNCTION actor_verified IS 'null: nobody requested the record';
CREATE VIEW facts AS
    SELECT d.name AS pool, r.seq, r.time, r.cycle, r.type, r.job, r.actor, convert_from(r.value, 'UTF8')::jsonb AS data,
        actor_verified(r.actor, r.headers) AS actor_verified
    FROM records r JOIN pools d ON d.id = r.pool WHERE NOT r.decision;

CREATE VIEW job_list AS
    SELECT d.name AS pool, j.job, j.project, j.user_name, j.actor, j.priority_class, j.tasks, j.gpu_milli / 1000.0 AS gpus,
        j.state, j.attempt, j.submitted_at, j.first_started_at, j.first_started_at - j.submitted_at AS waited,
        j.ended_at, j.outcome, j.reason, j.submitted_seq, j.ended_seq, j.user_verified
    FROM jobs j JOIN pools d ON d.id = j.pool;

CREATE TABLE lost_work (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    attempt integer NOT NULL,
    priority_class text NOT NULL,
    cause text NOT NULL,
    outcome text NOT NULL,
    gpu_milli bigint NOT NULL,
    work_gpu_ms bigint NOT NULL,
    restart_gpu_ms bigint NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, job, submitted_seq, from_seq)
);
COMMENT ON TABLE lost_work IS 'a row per JobRequeued and JobShrunk, at its time';
COMMENT ON COLUMN lost_work.gpu_milli IS 'GPUs of the tasks that stopped';
COMMENT ON COLUMN lost_work.work_gpu_ms IS 'work since the last checkpoint, or since the start';
COMMENT ON COLUMN lost_work.restart_gpu_ms IS 'what the policy assumes that the restart costs';
CREATE INDEX lost_work_by_time ON lost_work (pool, from_at);

CREATE VIEW attempt_loss AS
    SELECT pool, job, submitted_seq, attempt, sum(work_gpu_ms) AS work_gpu_ms, sum(restart_gpu_ms) AS restart_gpu_ms
    FROM lost_work GROUP BY pool, job, submitted_seq, attempt;

CREATE VIEW attempt_list AS
    SELECT d.name AS pool, a.job, a.attempt, a.action, a.nodes, a.placed_at, a.started_at, a.ended_at,
        a.ended_at - a.started_at AS ran, a.outcome, a.cause, l.work_gpu_ms / 3600000.0 AS work_lost_gpu_hours,
        l.restart_gpu_ms / 3600000.0 AS restart_gpu_hours, a.placed_seq, a.ended_seq
    FROM attempts a JOIN pools d ON d.id = a.pool LEFT JOIN attempt_loss l USING (pool, job, submitted_seq, attempt);

CREATE FUNCTION eviction_loss(e evictions) RETURNS SETOF lost_work LANGUAGE sql STABLE AS
    'SELECT * FROM lost_work l WHERE l.pool = e.pool AND l.job = e.job AND l.submitted_seq = e.submitted_seq AND l.attempt = e.attempt
        AND l.from_seq > e.decided_seq ORDER BY l.from_seq LIMIT 1';

CREATE VIEW eviction_list AS
    SELECT d.name AS pool, e.job, e.attempt, e.cause, e.action, e.for_job, e.for_class, e.for_priority, e.reason,
        l.gpu_milli / 1000.0 AS gpus, l.work_gpu_ms / 3600000.0 AS work_lost_gpu_hours, l.restart_gpu_ms / 3600000.0 AS restart_gpu_hours, e.cost, e.explanation, e.decided_at,
        e.started_at - e.decided_at AS until_started, e.noticed_at - e.decided_at AS until_noticed,
        e.checkpoint_committed_at - e.decided_at AS until_saved, e.exited_at - e.decided_at AS until_exited,
        e.released_at - e.decided_at AS until_released, e.ended_at, e.outcome, e.stuck_at, e.cancelled_at,
        e.resumed_at - e.decided_at AS until_resumed, e.decided_seq
    FROM evictions e JOIN pools d ON d.id = e.pool LEFT JOIN LATERAL eviction_loss(e) l ON true;

CREATE VIEW node_list AS
    SELECT d.name AS pool, n.node, n.state, n.since, n.drained, n.gpu_milli / 1000.0 AS gpus, n.gpu_models, n.cpu_milli / 1000.0 AS cpus,
        n.memory_bytes, n.joined_at, n.machine_id
    FROM nodes n JOIN pools d ON d.id = n.pool;

-- Messages of bailiff.seals, and the Merkle tree at each seal, from which the next consistency proof is made.
CREATE TABLE seals (
    pool smallint NOT NULL REFERENCES pools,
    size bigint NOT NULL,
    root text NOT NULL,
    key text NOT NULL,
    sealed_at timestamptz NOT NULL,
    "offset" bigint NOT NULL,
    peaks bytea NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, size)
);
CREATE TABLE sealing_keys (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    key text NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, "offset")
);

CREATE VIEW seal_list AS
    SELECT d.name AS pool, s.size, s.root, s.key, s.sealed_at, s.data FROM seals s JOIN pools d ON d.id = s.pool;

-- Messages of bailiff.cosignatures about this log, with valid signatures of the log and of the witness that they name.
CREATE TABLE cosignatures (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    kind text NOT NULL,
    witness text NOT NULL,
    size bigint NOT NULL,
    cosigned_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, "offset")
);
CREATE INDEX cosignatures_by_size ON cosignatures (pool, size);
COMMENT ON COLUMN cosignatures.witness IS 'name, key id and public key; anybody may have made the key';

-- Project usage against quota and fair share over time, sampled from the fold; and the names of actors.
CREATE TABLE project_usage (
    pool smallint NOT NULL REFERENCES pools,
    seq bigint NOT NULL,
    project text NOT NULL,
    time timestamptz NOT NULL,
    used bigint[] NOT NULL,
    non_preemptible bigint[] NOT NULL,
    requested bigint[] NOT NULL,
    quota bigint[] NOT NULL,
    "limit" bigint[] NOT NULL,
    fair_share bigint[] NOT NULL,
    PRIMARY KEY (pool, seq, project)
);
CREATE INDEX project_usage_by_time ON project_usage (pool, project, time);
COMMENT ON COLUMN project_usage.project IS 'empty: the whole pool, whose share is its capacity';
COMMENT ON COLUMN project_usage.used IS 'as in each column: thousandths of GPUs, thousandths of CPUs, bytes of memory; null: unlimited';
COMMENT ON COLUMN project_usage.non_preemptible IS 'used by jobs that are not preemptible';

CREATE TABLE actors (
    actor text PRIMARY KEY,
    name text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
-- The planner's statistics would keep sampled names of deleted rows.
ALTER TABLE actors ALTER COLUMN name SET STATISTICS 0;
COMMENT ON TABLE actors IS 'the only table with names of actors; a row may be deleted at any time';

CREATE VIEW usage_over_time AS
    SELECT d.name AS pool, u.project, u.time, u.used[1] / 1000.0 AS gpus, u.non_preemptible[1] / 1000.0 AS gpus_non_preemptible,
        u.requested[1] / 1000.0 AS gpus_requested, u.quota[1] / 1000.0 AS gpus_quota,
        u."limit"[1] / 1000.0 AS gpus_limit, u.fair_share[1] / 1000.0 AS gpus_fair_share,
        greatest(0, u.used[1] - u.quota[1]) / 1000.0 AS gpus_borrowed, u.seq
    FROM project_usage u JOIN pools d ON d.id = u.pool;

CREATE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, a.name, actor_verified(r.actor, r.headers) AS actor_verified
    FROM records r JOIN pools d ON d.id = r.pool LEFT JOIN actors a ON a.actor = r.actor WHERE r.actor IS NOT NULL;

-- Sampling interval of project usage, from which record on: a verifier can detect a deleted sample.
CREATE TABLE usage_intervals (
    pool smallint NOT NULL REFERENCES pools,
    from_seq bigint NOT NULL,
    interval_us bigint NOT NULL,
    PRIMARY KEY (pool, from_seq)
);
COMMENT ON TABLE usage_intervals IS 'project_usage has one sample per interval of log time, of the first cycle that ended in it, up to followed.allocations_seq';

-- What was pruned after it was exported.
CREATE TABLE prunings (
    pool smallint NOT NULL REFERENCES pools,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    file text NOT NULL,
    sha256 text NOT NULL,
    pruned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, first_seq)
);
COMMENT ON TABLE prunings IS 'pruned records, and the exported file that contains them';

-- Forks: records that the log lost in an accepted truncation are moved here, and the archive follows the log.
CREATE TABLE fork_orders (
    pool smallint NOT NULL REFERENCES pools,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, head_seq, head_hash)
);
COMMENT ON TABLE fork_orders IS 'an operator''s order to move records up to this head that the log has lost to a fork';

CREATE TABLE forks (
    pool smallint NOT NULL REFERENCES pools,
    fork integer NOT NULL,
    from_seq bigint NOT NULL,
    head_seq bigint NOT NULL,
    head_hash text NOT NULL,
    reason text NOT NULL,
    ordered_by text NOT NULL,
    invalidated_at timestamptz NOT NULL DEFAULT now(),
    "offset" bigint,
    data jsonb,
    PRIMARY KEY (pool, fork)
);
COMMENT ON COLUMN forks.data IS 'the published invalidation of its seals; null: no seal was lost';

CREATE TABLE fork_records (LIKE records, fork integer NOT NULL, PRIMARY KEY (pool, fork, seq));
CREATE TABLE fork_orphans (LIKE orphans, fork integer NOT NULL, PRIMARY KEY (pool, fork, "offset"));
CREATE TABLE fork_seals (LIKE seals, fork integer NOT NULL, PRIMARY KEY (pool, fork, size));

-- For the query API: GPU allocations and GPU states over time, their stored position, and a notification of archived records.
CREATE TABLE gpu_allocations (
    pool smallint NOT NULL REFERENCES pools,
    job text NOT NULL,
    submitted_seq bigint NOT NULL,
    attempt integer NOT NULL,
    task integer NOT NULL,
    kind text NOT NULL,
    node text NOT NULL,
    gpus integer[] NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, job, submitted_seq, task, kind, from_seq)
);
COMMENT ON COLUMN gpu_allocations.kind IS 'reserved: reserved for the task; allocated: until its processes are confirmed to have exited';
COMMENT ON COLUMN gpu_allocations.gpus IS 'device numbers on the node';
CREATE INDEX gpu_allocations_now ON gpu_allocations (pool, node) WHERE to_seq IS NULL;
CREATE INDEX gpu_allocations_by_node ON gpu_allocations (pool, node, from_seq);
CREATE INDEX gpu_allocations_by_seq ON gpu_allocations (pool, from_seq);
CREATE INDEX gpu_allocations_by_time ON gpu_allocations USING gist (tstzrange(from_at, to_at));

CREATE TABLE gpu_states (
    pool smallint NOT NULL REFERENCES pools,
    node text NOT NULL,
    gpu integer NOT NULL,
    id text NOT NULL,
    model text NOT NULL,
    state text NOT NULL,
    fault text NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (pool, node, gpu, from_seq)
);
COMMENT ON COLUMN gpu_states.state IS 'ok, quarantined or unhealthy';

CREATE TABLE followed (
    pool smallint PRIMARY KEY REFERENCES pools,
    allocations_seq bigint NOT NULL DEFAULT -1,
    allocations_hash text NOT NULL DEFAULT '',
    log_end bigint,
    measured_at timestamptz
);
COMMENT ON COLUMN followed.allocations_seq IS 'gpu_allocations and gpu_states are stored up to this record, whose hash is allocations_hash';
COMMENT ON COLUMN followed.log_end IS 'end offset of the log in Kafka, at measured_at';

CREATE FUNCTION notify_archived() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('bailiff_archived', NEW.name); RETURN NULL; END $$;
CREATE TRIGGER notify_archived AFTER UPDATE OF next_seq ON pools FOR EACH ROW EXECUTE FUNCTION notify_archived();

-- Accounting: what each job used, borrowed and waited for over time, work lost, and capacity. The tables have the same position as
-- gpu_allocations and gpu_states.
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

-- What checking the signature of each signed request gave, and whether the user of each job was verified.
CREATE TABLE request_checks (
    pool smallint NOT NULL REFERENCES pools,
    seq bigint NOT NULL,
    result text NOT NULL,
    text text NOT NULL,
    signature text NOT NULL,
    recorded_at bigint NOT NULL,
    PRIMARY KEY (pool, seq)
);
COMMENT ON COLUMN request_checks.seq IS 'of the record of a signed request; those after the newest one here are not checked yet';
COMMENT ON COLUMN request_checks.result IS 'verified, or the fault, as bailiff audit verify names it';
COMMENT ON COLUMN request_checks.text IS 'of the fault';
COMMENT ON COLUMN request_checks.recorded_at IS 'log time, µs UTC: no signature is used twice';
