"""What may be changed about a job that is there: its end, its size, its class."""

from bailiff_bus.messages import CancelJob, ScaleJob, SetJob
from bailiff_core.model.pool import ENDED, Job, Pool
from bailiff_core.records.facts import JobCancelled, JobReclassified, JobScaled, RequestId
from bailiff_core.records.payload import Fact
from bailiff_core.words import count_text

from .rejected import Rejected
from .submission import class_for

MOST_TASKS = 10_000
WAITS = ("pending", "paused")


def cancelled(pool: Pool, request: RequestId, cancel: CancelJob) -> list[Fact] | Rejected:
    """The job's end, whatever it is doing."""
    job = living(pool, cancel.job)
    if isinstance(job, Rejected):
        return job
    return [JobCancelled(request=request, job=cancel.job, reason=cancel.reason)]


def scaled(pool: Pool, request: RequestId, actor: str, scale: ScaleJob) -> list[Fact] | Rejected:
    """Another number of tasks, never fewer than the job needs."""
    job = living(pool, scale.job)
    if isinstance(job, Rejected):
        return job
    entry = class_for(pool, actor, job.class_name, job.id)
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
        return f"{job.id} has {len(groups)} task groups, the last is number {len(groups) - 1}: there is no group {scale.group}"
    size = job.size - groups[scale.group].count + scale.tasks
    if size > MOST_TASKS:
        return f"a job holds at most {MOST_TASKS} tasks, this one would have {size}"
    if job.demand.sub_groups:
        return f"{job.id} has sub-groups: submit it anew with the tasks that it should have"
    if scale.min_tasks is not None and scale.min_tasks > size:
        return f"min_tasks is {scale.min_tasks}, but the job would have only {count_text(size, 'task')}"
    if job.phase in WAITS:
        rigid = job.demand.min_tasks is None
        if scale.min_tasks is None and not rigid and size < job.minimum:
            return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: say a lower min_tasks, too"
        return None
    if scale.group != len(groups) - 1:
        return f"{job.id} has started: only its last task group (number {len(groups) - 1}) can change while it runs"
    if scale.min_tasks is None and size < job.minimum:
        return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: say a lower min_tasks, too, or cancel it"
    if scale.min_tasks is not None and scale.min_tasks > job.minimum:
        return f"min_tasks {scale.min_tasks} is more than the {job.minimum} that {job.id} was started with: cancel and submit it"
    kept = sum(task.index < size and task.eviction is None for task in job.tasks)
    least = job.minimum if scale.min_tasks is None else scale.min_tasks
    if size < job.size and kept < least:
        needs = count_text(least, "task")
        return f"{job.id} needs {needs} to run, and only {kept} of the first {size} have a place now: try again later"
    return None


def reclassified(pool: Pool, request: RequestId, actor: str, change: SetJob) -> list[Fact] | Rejected:
    """Another priority class, while the job waits."""
    job = living(pool, change.job)
    if isinstance(job, Rejected):
        return job
    entry = class_for(pool, actor, change.priority_class, job.id)
    if isinstance(entry, Rejected):
        return entry
    if job.phase not in WAITS:
        return Rejected("not-waiting", f"{job.id} is {job.phase}: its class can only be changed while it waits", job.id)
    return [JobReclassified(request=request, job=job.id, priority_class=entry.name)]


def living(pool: Pool, name: str) -> Job | Rejected:
    """The job, unless there is none or it has ended."""
    job = pool.jobs.get(name)
    if job is None:
        return Rejected("no-such-job", f"there is no job {name!r}", name)
    if job.phase in ENDED:
        return Rejected("already-ended", f"job {name!r} has {job.phase} already", name)
    return job
