-- Jobs say the class that they got where they named none, whose they are where only their request showed that, and the GPUs of
-- those that ask for parts of them.
CREATE INDEX records_of_policies ON records (pool, seq) WHERE type = 'PolicyApplied.v1';
ALTER TABLE pools ADD COLUMN first_policy bytea;
COMMENT ON COLUMN pools.first_policy IS 'value of the PolicyApplied before first_seq, once that record is kept elsewhere';

UPDATE jobs j SET
    user_name = coalesce(j.user_name, s.said #>> '{demand,user}', nullif(s.said->>'user', '')),
    priority_class = coalesce(j.priority_class, s.said #>> '{demand,priority_class}', (
        SELECT each->>'name'
        FROM (SELECT p.value FROM records p WHERE p.pool = j.pool AND p.type = 'PolicyApplied.v1' AND p.seq < j.submitted_seq
              ORDER BY p.seq DESC LIMIT 1) newest,
             json_array_elements(convert_from(newest.value, 'UTF8')::json #> '{policy,priority_classes}') each
        WHERE (each->>'global_default')::boolean)),
    gpu_milli = (
        SELECT sum(coalesce((g->>'count')::bigint, 1) * coalesce(nullif((g->>'gpu_milli')::bigint, 0),
            coalesce((g->>'gpu_share_milli')::bigint, 0) * coalesce((g->>'gpu_devices')::bigint, 1)))
        FROM json_array_elements(s.said #> '{demand,tasks}') g)
FROM (SELECT pool, seq, convert_from(value, 'UTF8')::json AS said FROM records WHERE type = 'JobSubmitted.v1') s
WHERE s.pool = j.pool AND s.seq = j.submitted_seq;
