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

CREATE INDEX records_of_nodes ON records (pool, seq) WHERE type LIKE 'Node%' OR type LIKE 'Device%' OR type LIKE 'Drain%';

CREATE FUNCTION notify_archived() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('bailiff_archived', NEW.name); RETURN NULL; END $$;
CREATE TRIGGER notify_archived AFTER UPDATE OF next_seq ON pools FOR EACH ROW EXECUTE FUNCTION notify_archived();
