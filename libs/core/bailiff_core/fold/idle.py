"""GPUs that do nothing."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import decisions, facts

from .register import folds
from .room import reindex, set_promise


@folds(facts.TaskIdle)
def task_idle(pool: Pool, fact: facts.TaskIdle) -> None:
    """Time tells what follows; a task that works again begins anew, and so does what was said of its job."""
    job = pool.jobs[fact.job]
    task = job.task(fact.task)
    if task is None:
        return
    task.idle_since = pool.now - fact.lasted if fact.idle else None
    job.idle_told = job.idle_told and fact.idle
    pool.stale_times[job.id] = None


@folds(decisions.JobIdle)
def job_idle(pool: Pool, decision: decisions.JobIdle) -> None:
    """It has been said; with `pause` the job is paused as if somebody had asked for it."""
    job = pool.jobs[decision.job]
    job.idle_told = True
    pool.stale_times[job.id] = None
    if decision.then == "pause":
        job.paused_seq, job.pause_reason = pool.seq, f"its GPUs did nothing for {decision.lasted // 1_000_000} s"
        set_promise(pool, job, [])
        pool.touched[job.id] = None
        reindex(pool, job)
