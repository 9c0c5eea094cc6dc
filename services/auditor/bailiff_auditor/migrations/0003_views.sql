-- Views of the read model for SQL users, with pool names, GPUs and GPU-hours.
CREATE VIEW decisions AS
    SELECT d.name AS pool, r.seq, r.time, r.cycle, r.type, r.job, convert_from(r.value, 'UTF8')::jsonb AS data
    FROM records r JOIN pools d ON d.id = r.pool WHERE r.decision;

CREATE VIEW facts AS
    SELECT d.name AS pool, r.seq, r.time, r.cycle, r.type, r.job, r.actor, convert_from(r.value, 'UTF8')::jsonb AS data
    FROM records r JOIN pools d ON d.id = r.pool WHERE NOT r.decision;

CREATE VIEW job_list AS
    SELECT d.name AS pool, j.job, j.project, j.user_name, j.actor, j.priority_class, j.tasks, j.gpu_milli / 1000.0 AS gpus,
        j.state, j.attempt, j.submitted_at, j.first_started_at, j.first_started_at - j.submitted_at AS waited,
        j.ended_at, j.outcome, j.reason, j.submitted_seq, j.ended_seq
    FROM jobs j JOIN pools d ON d.id = j.pool;

CREATE VIEW attempt_list AS
    SELECT d.name AS pool, a.job, a.attempt, a.action, a.nodes, a.placed_at, a.started_at, a.ended_at,
        a.ended_at - a.started_at AS ran, a.outcome, a.cause, a.lost_gpu_ms / 3600000.0 AS lost_gpu_hours,
        a.placed_seq, a.ended_seq
    FROM attempts a JOIN pools d ON d.id = a.pool;

CREATE VIEW eviction_list AS
    SELECT d.name AS pool, e.job, e.attempt, e.cause, e.action, e.for_job, e.for_class, e.for_priority, e.reason,
        e.lost_gpu_ms / 3600000.0 AS lost_gpu_hours, e.cost, e.explanation, e.decided_at,
        e.started_at - e.decided_at AS until_started, e.noticed_at - e.decided_at AS until_noticed,
        e.checkpoint_committed_at - e.decided_at AS until_saved, e.exited_at - e.decided_at AS until_exited,
        e.released_at - e.decided_at AS until_released, e.ended_at, e.outcome, e.stuck_at, e.cancelled_at,
        e.resumed_at - e.decided_at AS until_resumed, e.decided_seq
    FROM evictions e JOIN pools d ON d.id = e.pool;

CREATE VIEW node_list AS
    SELECT d.name AS pool, n.node, n.state, n.since, n.drained, n.gpus, n.gpu_model, n.cpu_milli / 1000.0 AS cpus,
        n.memory_bytes, n.joined_at, n.machine_id
    FROM nodes n JOIN pools d ON d.id = n.pool;
