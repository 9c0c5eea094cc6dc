"""Idle GPUs of tasks, and jobs reported or paused for them."""

from bailiff_core.model.state import PoolState
from bailiff_core.records import decisions, facts

from .allocation import set_reservation
from .log import hold_job
from .registry import folds
from .selection import close_requests_of


@folds(facts.TaskIdle)
def task_idle(state: PoolState, fact: facts.TaskIdle) -> None:
    """Sets since when the task is idle. When it works again, its idle time and `idle_recorded` of the job are reset."""
    job = state.jobs[fact.job]
    task = job.task(fact.task)
    if task is None:
        return
    task.idle_since = state.now - fact.duration if fact.idle else None
    job.idle_recorded = job.idle_recorded and fact.idle
    state.indices.changed_times[job.id] = None


@folds(decisions.JobIdle)
def job_idle(state: PoolState, decision: decisions.JobIdle) -> None:
    """Ensures that JobIdle is recorded once per idle time; with `pause` the job is paused as on request."""
    job = state.jobs[decision.job]
    job.idle_recorded = True
    state.indices.changed_times[job.id] = None
    if decision.action == "pause":
        hold_job(state, job, f"its GPUs were idle for {decision.duration // 1_000_000} s")
        job.requester, job.requester_verified, job.request_reason = "", False, ""
        set_reservation(state, job, [])
        close_requests_of(state, job.id)
        state.indices.touched[job.id] = None
