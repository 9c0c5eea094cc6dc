-- For lists of jobs in any order, and for figures of a time range.
CREATE INDEX jobs_by_submission ON jobs (pool, submitted_seq, job);
CREATE INDEX jobs_by_end ON jobs (pool, (coalesce(ended_seq, 9223372036854775807)), submitted_seq, job);
CREATE INDEX jobs_by_gpus ON jobs (pool, (coalesce(gpu_milli, 0)), submitted_seq, job);
CREATE INDEX jobs_by_start ON jobs (pool, first_started_at);
CREATE INDEX attempts_by_end ON attempts (pool, ended_at);
