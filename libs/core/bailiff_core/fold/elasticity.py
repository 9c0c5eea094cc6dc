"""Elastic jobs: tasks that join or leave a running job, and changes of the number of tasks."""

from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.work_lost import note_loss
from bailiff_core.records import decisions, facts

from .allocation import changing, close_preemption, drop_reservation, reindex, set_reservation, tasks_of
from .eviction_causes import INVOLUNTARY, is_by_own
from .failed_starts import note_left, note_shrunk
from .gang import note_stale
from .log import remember
from .registry import folds


@folds(decisions.JobGrown)
def job_grown(state: PoolState, decision: decisions.JobGrown) -> None:
    """More tasks of the job are placed: reserved or starting."""
    job = state.jobs[decision.job]
    drop_reservation(state, job, (index for share in decision.placement for index in numbers(share.tasks)))
    grow(state, job, decision.placement, decision.reserved, decision.expires)


def grow(state: PoolState, job: Job, placement: tuple[NodeShare, ...], reserved: bool, expires: int | None) -> None:
    """Adds tasks at these places to the present attempt."""
    with changing(state, job):
        job.tasks = sorted([*job.tasks, *tasks_of(state, job, placement, reserved)], key=lambda task: task.index)
    job.pending_recorded = False
    job.next_request_at = job.refused_requests = 0
    if expires is not None:
        job.reserved_until = max(job.reserved_until or 0, expires)
    note_stale(state, job)
    reindex(state, job)


def drop_reserved(state: PoolState, job: Job, indices: list[int], why: str) -> None:
    """Drops the reserved tasks among these, of a running job.

    Args:
        why: As of `note_given_up`.
    """
    removed = dict.fromkeys(indices)
    with changing(state, job):
        job.tasks = [task for task in job.tasks if task.index not in removed or task.state != "reserved"]
    if not any(task.state == "reserved" for task in job.tasks):
        job.reserved_until = None
        close_preemption(state, job, why)
    state.indices.retry_unschedulable = True
    note_stale(state, job)
    reindex(state, job)


@folds(decisions.JobShrunk)
def job_shrunk(state: PoolState, decision: decisions.JobShrunk) -> None:
    """Removes these tasks; the job may get others instead."""
    job = state.jobs[decision.job]
    removed = dict.fromkeys(numbers(decision.tasks))
    gone = [task for task in job.tasks if task.index in removed]
    note_loss(state, job, gone, decision.lost_gpu_ms)
    note_shrunk(state, job, gone, decision.cause)
    if job.demand.elastic == "restart" and job.restart_cause not in INVOLUNTARY:
        job.restart_cause = "resize" if is_by_own(state, job, gone) else decision.cause
    note_left(state, job)
    with changing(state, job):
        job.tasks = [task for task in job.tasks if task.index not in removed]
    job.not_before = max(job.not_before, decision.not_before)
    state.indices.touched[job.id] = None
    state.indices.retry_unschedulable = True
    note_stale(state, job)
    reindex(state, job)


@folds(facts.JobScaled)
def job_scaled(state: PoolState, fact: facts.JobScaled) -> None:
    """Changes the number of tasks; surplus tasks are evicted by decision.

    A placed job keeps its minimum, unless the request sets one.
    """
    job = state.jobs[fact.job]
    minimum = fact.min_tasks
    if minimum is None:
        minimum = job.demand.min_tasks if job.phase in ("waiting", "pending", "paused") else job.minimum
    groups = list(job.demand.tasks)
    groups[fact.group] = groups[fact.group].model_copy(update={"count": fact.tasks})
    if minimum is not None:
        minimum = min(minimum, sum(group.count for group in groups))
    with changing(state, job):
        set_reservation(state, job, [])
        job.demand = job.demand.model_copy(update={"tasks": tuple(groups), "min_tasks": minimum})
    job.scheduling_class = scheduling_class_of(job.demand)
    job.pending_recorded = False
    job.next_request_at = job.refused_requests = 0
    state.indices.touched[job.id] = None
    state.indices.retry_unschedulable = True
    note_stale(state, job)
    reindex(state, job)
    remember(state, fact.request)


def tasks_above_size(job: Job) -> list[Task]:
    """Returns the tasks beyond the size of a job that was scaled down."""
    return [task for task in job.tasks if task.index >= job.size]
