"""Builds the pool state of a snapshot by folding the records that would have led to it, so that it equals a live state.

Only history that these records cannot carry (last start, checkpoints, evictions) is set directly.
"""

from bailiff_core.decision_cycle import fact_record
from bailiff_core.engine import LOGIC
from bailiff_core.fold import close_cycle, enact, fold
from bailiff_core.fold.gang import note_stale
from bailiff_core.fold.tasks import grows_from
from bailiff_core.model.placement_ranges import NodeShare, bits, ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

from .snapshot import Snapshot
from .snapshot_jobs import PLACED_STATES, ResolvedJob, ResolvedTask
from .snapshot_validation import ResolvedSnapshot

NOTHING = "0" * 64
ENDED_CODE = {"succeeded": 0, "failed": 1}


def build(snapshot: Snapshot, resolved: ResolvedSnapshot) -> PoolState:
    """The state at the snapshot's `now`."""
    state = PoolState(pool="plan", partition=0, writer="plan", epoch=1, engine=f"plan/{LOGIC}")
    submitted = sorted(resolved.jobs, key=lambda job: (job.doc.submitted or snapshot.now, job.doc.name))
    start = min([snapshot.now, *(job.doc.submitted or snapshot.now for job in submitted[:1])])
    append_facts(state, facts.PolicyApplied(policy=resolved.policy), at=start)
    for node in resolved.nodes:
        append_facts(
            state,
            facts.NodeJoined(
                node=node.doc.name,
                number=node.number,
                incarnation="1",
                machine_id=node.doc.name,
                boot_id="1",
                report_number=0,
                cpu_milli=node.doc.cpus,
                memory_bytes=node.doc.memory,
                max_tasks=node.doc.max_tasks,
                labels=node.doc.labels,
                devices=tuple(
                    facts.DeviceInfo(
                        id=each.id,
                        kind=each.kind,
                        model=each.model,
                        memory_bytes=each.memory_bytes,
                        healthy=each.healthy,
                        labels=each.labels,
                        profile=each.profile,
                        island=each.island,
                    )
                    for each in node.devices
                ),
            ),
        )
    for job in submitted:
        at = snapshot.now if job.doc.submitted is None else job.doc.submitted
        append_facts(state, submission(job), at=max(at, state.now))
    append_facts(state, facts.ClockAdvanced(), at=max(state.now, snapshot.now))
    for node in resolved.nodes:
        if node.doc.drained:
            append_facts(state, facts.NodeDrained(request=request(f"drain {node.doc.name}"), node=node.doc.name))
    for job in submitted:
        if job.doc.paused:
            append_facts(state, facts.JobPaused(request=request(f"pause {job.doc.name}"), job=job.doc.name))
        _apply_task_states(state, job)
        _set_history(state, job, snapshot.now)
    state.reclaimed_at.update(snapshot.reclaimed_at)
    state.run_time_limits = sorted(
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in state.active_jobs()
        if job.phase == "running" and job.last_start is not None and job.demand.run_time_limit is not None
    )
    return state


def append_facts(state: PoolState, *given: Fact, at: int | None = None, close: bool = True) -> None:
    """Fold facts in a decision cycle of their own, without decisions."""
    for fact in given:
        fold(state, fact_record(state, fact, state.cycle + 1, state.now if at is None else at))
    if close:
        close_cycle(state)


def submission(job: ResolvedJob) -> facts.JobSubmitted:
    return facts.JobSubmitted(request=request(f"submit {job.doc.name}"), demand=job.demand, spec_digest=NOTHING)


def request(name: str) -> facts.RequestId:
    return facts.RequestId(source="plan", id=name, digest=NOTHING)


def _apply_task_states(state: PoolState, job: ResolvedJob) -> None:
    """Fold the records that lead to the states of the job's tasks: placed, started, exited, evicted."""
    name = job.doc.name
    at = {
        state: [index for index, task in enumerate(job.tasks) if task.state == state] for state in (*PLACED_STATES, *ENDED_CODE)
    }
    ended = [*at["succeeded"], *at["failed"]]
    placed = sorted([*at["running"], *at["releasing"], *at["stuck_releasing"], *ended])
    if placed:
        _apply_decision(
            state, decisions.JobPlaced(job=name, attempt=1, placement=_shares(job, placed), backfilled=job.doc.backfilled)
        )
        for index in placed:
            append_facts(state, facts.TaskStarted(job=name, attempt=1, task=index, node=_node_name(state, job, index)))
        for index in ended:
            _task_ended(state, job, index)
    if at["reserved"]:
        kind = decisions.JobGrown if placed else decisions.JobPlaced
        _apply_decision(state, kind(job=name, attempt=1, placement=_shares(job, at["reserved"]), reserved=True))
    if ended and len(ended) == len(job.tasks):
        outcome = "failed" if at["failed"] else "succeeded"
        _apply_decision(state, decisions.JobEnded(job=name, attempt=1, outcome="failed" if outcome == "failed" else "succeeded"))
        return
    releasing = sorted([*at["releasing"], *at["stuck_releasing"]])
    whole = bool(releasing) and not at["running"] and not at["reserved"]
    if releasing:
        which = "" if whole else ranges(releasing)
        reason = "it was releasing when the snapshot was taken"
        _apply_decision(
            state, decisions.EvictionDecided(job=name, attempt=1, cause="policy", grace=0, reason=reason, tasks=which)
        )
    if at["stuck_releasing"]:
        which = "" if whole and not at["releasing"] else ranges(at["stuck_releasing"])
        _apply_decision(state, decisions.EvictionStuck(job=name, attempt=1, tasks=which))


def _task_ended(state: PoolState, job: ResolvedJob, index: int) -> None:
    name, node = job.doc.name, _node_name(state, job, index)
    code = ENDED_CODE[job.tasks[index].state]
    append_facts(
        state,
        facts.TaskExited(job=name, attempt=1, task=index, node=node, exit_code=code),
        facts.TaskReleased(job=name, attempt=1, task=index, node=node),
    )


def _apply_decision(state: PoolState, decision: Decision) -> None:
    enact(state, decision)
    close_cycle(state)


def _shares(job: ResolvedJob, indices: list[int]) -> tuple[NodeShare, ...]:
    """One entry per task, so that the assignment of devices is explicit."""
    return tuple(
        NodeShare(node=task.node or 0, tasks=str(index), devices=ranges(bits(_mask(task))))
        for index, task in ((index, job.tasks[index]) for index in indices)
    )


def _mask(task: ResolvedTask) -> int:
    return 0 if task.state in ENDED_CODE else task.devices


def _node_name(state: PoolState, job: ResolvedJob, index: int) -> str:
    return state.nodes[job.tasks[index].node or 0].name


def _set_history(state: PoolState, resolved: ResolvedJob, now: int) -> None:
    """Set the job's history, which no record carries."""
    job = state.jobs.get(resolved.doc.name)
    if job is None:
        return
    doc = resolved.doc
    job.eviction_times = sorted(doc.evicted_at)
    job.evictions = len(job.eviction_times) if doc.evictions is None else doc.evictions
    job.last_eviction = doc.last_eviction if doc.last_eviction is not None else max(job.eviction_times, default=None)
    job.last_checkpoint = doc.last_checkpoint
    started = doc.last_start if doc.last_start is not None else doc.submitted
    if job.last_start is not None or doc.last_start is not None or _runs(job):
        job.last_start = now if started is None else started
        for task in job.tasks:
            if task.started_at is not None:
                task.started_at = job.last_start
        if job.phase == "running":
            job.not_before = grows_from(state, job)
    note_stale(state, job)
    if job.stale_since is not None and doc.stale_since is not None:
        job.stale_since = doc.stale_since
    state.indices.changed_jobs[job.id] = state.indices.changed_times[job.id] = None


def _runs(job: Job) -> bool:
    return any(task.state == "running" for task in job.tasks)
