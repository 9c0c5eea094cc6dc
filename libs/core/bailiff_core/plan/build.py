"""A pool out of a snapshot: by the records that would have led there, so that it is the live model.

Only history that no record of this moment carries (when a job last started, its checkpoints, its evictions) is set.
"""

from bailiff_core.engine import LOGIC
from bailiff_core.fold import close_turn, enact, fold
from bailiff_core.fold.gang import note_stale
from bailiff_core.model.places import NodeShare, bits, ranges
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Decision, Fact

from .layout import STANDING, LaidJob, LaidTask, Layout
from .snapshot import Snapshot

NOTHING = "0" * 64
ENDED_CODE = {"succeeded": 0, "failed": 1}


def build(snapshot: Snapshot, layout: Layout) -> Pool:
    """The pool at the snapshot's `now`."""
    pool = Pool(domain="plan", partition=0, writer="plan", epoch=1)
    submitted = sorted(layout.jobs, key=lambda job: (job.doc.submitted or snapshot.now, job.doc.name))
    began = min([snapshot.now, *(job.doc.submitted or snapshot.now for job in submitted[:1])])
    happens(pool, facts.PolicyApplied(policy=layout.policy), at=began)
    for node in layout.nodes:
        happens(
            pool,
            facts.NodeJoined(
                node=node.doc.name,
                number=node.number,
                incarnation="1",
                machine_id=node.doc.name,
                boot_id="1",
                report=0,
                cpu_milli=node.doc.cpus,
                memory_bytes=node.doc.memory,
                max_tasks=node.doc.max_tasks,
                labels=node.doc.labels,
                devices=tuple(
                    facts.DeviceFacts(id=each.id, model=each.model, memory_bytes=each.memory_bytes, labels=each.labels)
                    for each in node.devices
                ),
            ),
        )
    for job in submitted:
        at = snapshot.now if job.doc.submitted is None else job.doc.submitted
        happens(pool, submission(job), at=max(at, pool.now))
    happens(pool, facts.ClockAdvanced(), at=max(pool.now, snapshot.now))
    for node in layout.nodes:
        if node.doc.drained:
            happens(pool, facts.NodeDrained(request=request(f"drain {node.doc.name}"), node=node.doc.name))
    for job in submitted:
        if job.doc.paused:
            happens(pool, facts.JobPaused(request=request(f"pause {job.doc.name}"), job=job.doc.name))
        _bring_to_its_state(pool, job)
        _remember(pool, job, snapshot.now)
    pool.reclaimed_at.update(snapshot.reclaimed_at)
    pool.run_limits = sorted(
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in pool.active_jobs()
        if job.phase == "running" and job.last_start is not None and job.demand.run_time_limit is not None
    )
    return pool


def happens(pool: Pool, *given: Fact, at: int | None = None, close: bool = True) -> None:
    """Fold facts in a turn of their own, which decides nothing."""
    for fact in given:
        fold(
            pool,
            Record(
                domain=pool.domain,
                seq=pool.seq + 1,
                epoch=pool.epoch,
                turn=pool.turn + 1,
                turn_end=False,
                time=pool.now if at is None else at,
                prev="",
                writer=pool.writer,
                engine=f"plan/{LOGIC}",
                policy=pool.policy_revision,
                type=fact.type_name(),
                data=fact,
            ),
        )
    if close:
        close_turn(pool)


def submission(job: LaidJob) -> facts.JobSubmitted:
    """The record of its submission."""
    return facts.JobSubmitted(request=request(f"submit {job.doc.name}"), demand=job.demand, spec_digest=NOTHING)


def request(name: str) -> facts.RequestId:
    """A request of the plan's own."""
    return facts.RequestId(source="plan", id=name, digest=NOTHING)


def _bring_to_its_state(pool: Pool, laid: LaidJob) -> None:
    """Place, start, end, evict: whatever its tasks' states say has happened."""
    name = laid.doc.name
    at = {state: [index for index, task in enumerate(laid.tasks) if task.state == state] for state in (*STANDING, *ENDED_CODE)}
    ended = [*at["succeeded"], *at["failed"]]
    stand = sorted([*at["running"], *at["releasing"], *at["stuck_releasing"], *ended])
    if stand:
        _decided(pool, decisions.JobPlaced(job=name, attempt=1, placement=_shares(laid, stand)))
        for index in stand:
            happens(pool, facts.TaskStarted(job=name, attempt=1, task=index, node=_node_name(pool, laid, index)))
        for index in ended:
            _task_ended(pool, laid, index)
    if at["reserved"]:
        kind = decisions.JobGrown if stand else decisions.JobPlaced
        _decided(pool, kind(job=name, attempt=1, placement=_shares(laid, at["reserved"]), reserved=True))
    if ended and len(ended) == len(laid.tasks):
        outcome = "failed" if at["failed"] else "succeeded"
        _decided(pool, decisions.JobEnded(job=name, attempt=1, outcome="failed" if outcome == "failed" else "succeeded"))
        return
    leaving = sorted([*at["releasing"], *at["stuck_releasing"]])
    whole = bool(leaving) and not at["running"] and not at["reserved"]
    if leaving:
        which = "" if whole else ranges(leaving)
        reason = "it was leaving when the snapshot was taken"
        _decided(pool, decisions.EvictionDecided(job=name, attempt=1, cause="policy", grace=0, reason=reason, tasks=which))
    if at["stuck_releasing"]:
        which = "" if whole and not at["releasing"] else ranges(at["stuck_releasing"])
        _decided(pool, decisions.EvictionStuck(job=name, attempt=1, tasks=which))


def _task_ended(pool: Pool, laid: LaidJob, index: int) -> None:
    name, node = laid.doc.name, _node_name(pool, laid, index)
    code = ENDED_CODE[laid.tasks[index].state]
    happens(
        pool,
        facts.TaskExited(job=name, attempt=1, task=index, node=node, exit_code=code),
        facts.TaskReleased(job=name, attempt=1, task=index, node=node),
    )


def _decided(pool: Pool, decision: Decision) -> None:
    enact(pool, decision)
    close_turn(pool)


def _shares(laid: LaidJob, indices: list[int]) -> tuple[NodeShare, ...]:
    """One entry per task: which device is whose is never left to be dealt."""
    return tuple(
        NodeShare(node=task.node or 0, tasks=str(index), devices=ranges(bits(_mask(task))))
        for index, task in ((index, laid.tasks[index]) for index in indices)
    )


def _mask(task: LaidTask) -> int:
    return 0 if task.state in ENDED_CODE else task.devices


def _node_name(pool: Pool, laid: LaidJob, index: int) -> str:
    return pool.nodes[laid.tasks[index].node or 0].name


def _remember(pool: Pool, laid: LaidJob, now: int) -> None:
    """History that only the snapshot knows."""
    job = pool.jobs.get(laid.doc.name)
    if job is None:
        return
    doc = laid.doc
    job.evicted_at = sorted(doc.evicted_at)
    job.evictions = len(job.evicted_at) if doc.evictions is None else doc.evictions
    job.last_eviction = doc.last_eviction if doc.last_eviction is not None else max(job.evicted_at, default=None)
    job.last_checkpoint = doc.last_checkpoint
    started = doc.last_start if doc.last_start is not None else doc.submitted
    if job.last_start is not None or doc.last_start is not None or _runs(job):
        job.last_start = now if started is None else started
        for task in job.tasks:
            if task.started_at is not None:
                task.started_at = job.last_start
    note_stale(pool, job)
    if job.stale_since is not None and doc.stale_since is not None:
        job.stale_since = doc.stale_since
    pool.stale_jobs[job.id] = pool.stale_times[job.id] = None


def _runs(job: Job) -> bool:
    return any(task.state == "running" for task in job.tasks)
