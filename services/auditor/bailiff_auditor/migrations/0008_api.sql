-- For the query interface: who held which GPUs when, how each GPU was, how far that is noted, and word of what is archived.
CREATE TABLE holds (
    domain smallint NOT NULL REFERENCES domains,
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
    PRIMARY KEY (domain, job, submitted_seq, task, kind, from_seq)
);
COMMENT ON COLUMN holds.kind IS 'reserved: promised to the task; held: taken, until its processes are proved gone';
COMMENT ON COLUMN holds.gpus IS 'numbers on the node';
CREATE INDEX holds_now ON holds (domain, node) WHERE to_seq IS NULL;
CREATE INDEX holds_by_node ON holds (domain, node, from_seq);
CREATE INDEX holds_by_seq ON holds (domain, from_seq);
CREATE INDEX holds_by_time ON holds USING gist (tstzrange(from_at, to_at));

CREATE TABLE gpu_states (
    domain smallint NOT NULL REFERENCES domains,
    node text NOT NULL,
    gpu integer NOT NULL,
    id text NOT NULL,
    model text NOT NULL,
    state text NOT NULL,
    trouble text NOT NULL,
    from_seq bigint NOT NULL,
    from_at timestamptz NOT NULL,
    to_seq bigint,
    to_at timestamptz,
    PRIMARY KEY (domain, node, gpu, from_seq)
);
COMMENT ON COLUMN gpu_states.state IS 'ok, quarantined or unhealthy';

CREATE TABLE followed (
    domain smallint PRIMARY KEY REFERENCES domains,
    holds_seq bigint NOT NULL DEFAULT -1,
    holds_hash text NOT NULL DEFAULT '',
    log_end bigint,
    measured_at timestamptz
);
COMMENT ON COLUMN followed.holds_seq IS 'holds and gpu_states are as after this record, whose hash is holds_hash';
COMMENT ON COLUMN followed.log_end IS 'the offset behind the last message of the log in Kafka, when it was last looked at';

CREATE INDEX records_of_nodes ON records (domain, seq) WHERE type LIKE 'Node%' OR type LIKE 'Device%' OR type LIKE 'Drain%';

CREATE FUNCTION tell_archived() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('bailiff_archived', NEW.name); RETURN NULL; END $$;
CREATE TRIGGER tell_archived AFTER UPDATE OF next_seq ON domains FOR EACH ROW EXECUTE FUNCTION tell_archived();
