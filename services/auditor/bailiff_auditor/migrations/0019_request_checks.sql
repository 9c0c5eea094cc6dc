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

ALTER TABLE jobs ADD COLUMN user_verified boolean;
COMMENT ON COLUMN jobs.user_verified IS 'whether the user has signed the submission, or whoever signed it vouched for the user';
UPDATE jobs j SET user_verified = coalesce((convert_from(r.value, 'UTF8')::json->>'user_verified')::boolean, false)
FROM records r WHERE r.pool = j.pool AND r.seq = j.submitted_seq AND r.type = 'JobSubmitted.v1';

CREATE OR REPLACE VIEW job_list AS
    SELECT d.name AS pool, j.job, j.project, j.user_name, j.actor, j.priority_class, j.tasks, j.gpu_milli / 1000.0 AS gpus,
        j.state, j.attempt, j.submitted_at, j.first_started_at, j.first_started_at - j.submitted_at AS waited,
        j.ended_at, j.outcome, j.reason, j.submitted_seq, j.ended_seq, j.user_verified
    FROM jobs j JOIN pools d ON d.id = j.pool;
