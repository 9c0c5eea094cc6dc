-- Backfills jobs: the default class of jobs that named none, the user if only the request had it, and the GPUs of jobs that
-- request GPU shares.
CREATE INDEX records_of_policies ON records (pool, seq) WHERE type = 'PolicyApplied.v1';
ALTER TABLE pools ADD COLUMN first_policy bytea;
COMMENT ON COLUMN pools.first_policy IS 'value of the last PolicyApplied before first_seq, if that record was pruned';

UPDATE jobs j SET
    user_name = coalesce(j.user_name, s.data #>> '{demand,user}', nullif(s.data->>'user', '')),
    priority_class = coalesce(j.priority_class, s.data #>> '{demand,priority_class}', (
        SELECT each->>'name'
        FROM (SELECT p.value FROM records p WHERE p.pool = j.pool AND p.type = 'PolicyApplied.v1' AND p.seq < j.submitted_seq
              ORDER BY p.seq DESC LIMIT 1) newest,
             json_array_elements(convert_from(newest.value, 'UTF8')::json #> '{policy,priority_classes}') each
        WHERE (each->>'global_default')::boolean)),
    gpu_milli = (
        SELECT sum(coalesce((g->>'count')::bigint, 1) * coalesce(nullif((g->>'gpu_milli')::bigint, 0),
            coalesce((g->>'gpu_share_milli')::bigint, 0) * coalesce((g->>'gpu_devices')::bigint, 1)))
        FROM json_array_elements(s.data #> '{demand,tasks}') g)
FROM (SELECT pool, seq, convert_from(value, 'UTF8')::json AS data FROM records WHERE type = 'JobSubmitted.v1') s
WHERE s.pool = j.pool AND s.seq = j.submitted_seq;
