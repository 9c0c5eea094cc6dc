"""Handlers of requests that cancel a job, scale it or set its priority class."""

from bailiff_bus.messages import CancelJob, ScaleJob, SetPriorityClass
from bailiff_core.humanize import count_text
from bailiff_core.model.identity import JobAction
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.permissions import Requester, job_denial
from bailiff_core.records.facts import JobCancelled, JobPriorityClassChanged, JobScaled, RequestId
from bailiff_core.records.payload import Fact

from .rejected import Rejected
from .submission import class_for

MAX_TASKS = 10_000
PENDING_PHASES = ("waiting", "pending", "paused")


def cancelled(state: PoolState, request: RequestId, requester: Requester, cancel: CancelJob) -> list[Fact] | Rejected:
    """Cancel the job, in any phase."""
    job = permitted(state, requester, "cancel", cancel.job)
    if isinstance(job, Rejected):
        return job
    return [JobCancelled(request=request, job=cancel.job, reason=cancel.reason)]


def scaled(state: PoolState, request: RequestId, requester: Requester, scale: ScaleJob) -> list[Fact] | Rejected:
    """Change the number of tasks; not below the job's minimum."""
    job = permitted(state, requester, "scale", scale.job)
    if isinstance(job, Rejected):
        return job
    entry = class_for(state, requester, job.class_name, job.id)
    if isinstance(entry, Rejected):
        return entry
    problem = _scale_problem(job, scale)
    if problem is not None:
        return Rejected("cannot-scale", problem, job.id)
    return [JobScaled(request=request, job=job.id, group=scale.group, tasks=scale.tasks, min_tasks=scale.min_tasks)]


def _scale_problem(job: Job, scale: ScaleJob) -> str | None:
    groups = job.demand.tasks
    if job.cancelled:
        return f"{job.id} is cancelled"
    if scale.group >= len(groups):
        return f"{job.id} has task groups 0 to {len(groups) - 1}: there is no group {scale.group}"
    size = job.size - groups[scale.group].count + scale.tasks
    if size > MAX_TASKS:
        return f"{job.id} would have {size} tasks; the limit is {MAX_TASKS}"
    if job.demand.sub_groups:
        return f"{job.id} has sub-groups and cannot be scaled: submit it again with the new number of tasks"
    if scale.min_tasks is not None and scale.min_tasks > size:
        return f"min_tasks is {scale.min_tasks}, but the job would have only {count_text(size, 'task')}"
    if job.phase in PENDING_PHASES:
        rigid = job.demand.min_tasks is None
        if scale.min_tasks is None and not rigid and size < job.minimum:
            return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: set a lower min_tasks as well"
        return None
    if scale.group != len(groups) - 1:
        return f"{job.id} has started: only its last task group (number {len(groups) - 1}) can change while it runs"
    if scale.min_tasks is None and size < job.minimum:
        return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: set a lower min_tasks as well, or cancel it"
    if scale.min_tasks is not None and scale.min_tasks > job.minimum:
        return f"min_tasks {scale.min_tasks} is more than the {job.minimum} that {job.id} was started with: cancel and submit it"
    placed = sum(task.index < size and task.eviction is None for task in job.tasks)
    least = job.minimum if scale.min_tasks is None else scale.min_tasks
    if size < job.size and placed < least:
        needs = count_text(least, "task")
        return f"{job.id} needs {needs} to run, and only {placed} of the first {size} are placed now: try again later"
    return None


def reclassified(
    state: PoolState, request: RequestId, requester: Requester, change: SetPriorityClass
) -> list[Fact] | Rejected:  # fmt: skip
    """Set another priority class; only for pending and paused jobs."""
    job = permitted(state, requester, "set_class", change.job)
    if isinstance(job, Rejected):
        return job
    entry = class_for(state, requester, change.priority_class, job.id)
    if isinstance(entry, Rejected):
        return entry
    if job.phase not in PENDING_PHASES:
        return Rejected(
            "not-pending", f"{job.id} is {job.phase}: its class can only be changed while it is pending or paused", job.id
        )
    return [JobPriorityClassChanged(request=request, job=job.id, priority_class=entry.name)]


def permitted(state: PoolState, requester: Requester, action: JobAction, name: str) -> Job | Rejected:
    """The job; rejected if it does not exist, has ended, or the requester may not do this to it."""
    job = living(state, name)
    if isinstance(job, Rejected):
        return job
    denial = job_denial(state.rules, requester, action, job)
    return job if denial is None else Rejected.denied(denial, job.id)


def living(state: PoolState, name: str) -> Job | Rejected:
    """The job; rejected if it does not exist or has ended."""
    job = state.jobs.get(name)
    if job is None:
        return Rejected("no-such-job", f"there is no job {name!r}", name)
    if job.phase in ENDED:
        return Rejected("already-ended", f"job {name!r} has ended already ({job.phase})", name)
    return job
