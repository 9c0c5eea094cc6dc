"""Members that join a running job, members that leave it for good, and jobs that ask for another number of them."""

from bailiff_core.model.places import NodeShare, numbers
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.shape import shape_of
from bailiff_core.records import decisions, facts

from .gang import note_stale
from .log import remember
from .register import folds
from .room import changing, close_plan, drop_promise, reindex, set_promise, tasks_of


@folds(decisions.JobGrown)
def job_grown(pool: Pool, decision: decisions.JobGrown) -> None:
    """More members have their place: promised, or about to start."""
    job = pool.jobs[decision.job]
    drop_promise(pool, job, (index for share in decision.placement for index in numbers(share.tasks)))
    grow(pool, job, decision.placement, decision.reserved, decision.expires)


def grow(pool: Pool, job: Job, placement: tuple[NodeShare, ...], reserved: bool, expires: int | None) -> None:
    """Add members at these places to the present attempt."""
    with changing(pool, job):
        job.tasks = sorted([*job.tasks, *tasks_of(pool, job, placement, reserved)], key=lambda task: task.index)
    job.told_waiting = False
    job.next_request_at = job.refused_requests = 0
    if expires is not None:
        job.reserved_until = max(job.reserved_until or 0, expires)
    note_stale(pool, job)
    reindex(pool, job)


def drop_reserved(pool: Pool, job: Job, indices: list[int]) -> None:
    """These members of a running job lose the place that they were promised."""
    gone = dict.fromkeys(indices)
    with changing(pool, job):
        job.tasks = [task for task in job.tasks if task.index not in gone or task.state != "reserved"]
    if not any(task.state == "reserved" for task in job.tasks):
        job.reserved_until = None
        close_plan(pool, job)
    pool.room_grew = True
    reindex(pool, job)


@folds(decisions.JobShrunk)
def job_shrunk(pool: Pool, decision: decisions.JobShrunk) -> None:
    """These members are forgotten; the job may get others in their place."""
    job = pool.jobs[decision.job]
    gone = dict.fromkeys(numbers(decision.tasks))
    with changing(pool, job):
        job.tasks = [task for task in job.tasks if task.index not in gone]
    job.not_before = max(job.not_before, decision.not_before)
    job.resized = job.resized or job.demand.elastic == "restart"
    pool.touched[job.id] = None
    pool.room_grew = True
    note_stale(pool, job)
    reindex(pool, job)


@folds(facts.JobScaled)
def job_scaled(pool: Pool, fact: facts.JobScaled) -> None:
    """The job asks for another number of tasks; who is one too many leaves by decision.

    A job that has a place keeps the minimum that it had, unless it is told another.
    """
    job = pool.jobs[fact.job]
    minimum = fact.min_tasks
    if minimum is None:
        minimum = job.demand.min_tasks if job.phase in ("pending", "paused") else job.minimum
    groups = list(job.demand.tasks)
    groups[fact.group] = groups[fact.group].model_copy(update={"count": fact.tasks})
    if minimum is not None:
        minimum = min(minimum, sum(group.count for group in groups))
    with changing(pool, job):
        set_promise(pool, job, [])
        job.demand = job.demand.model_copy(update={"tasks": tuple(groups), "min_tasks": minimum})
    job.shape = shape_of(job.demand)
    job.told_waiting = False
    job.next_request_at = job.refused_requests = 0
    pool.touched[job.id] = None
    pool.room_grew = True
    note_stale(pool, job)
    reindex(pool, job)
    remember(pool, fact.request)


def beyond(job: Job) -> list[Task]:
    """Members that the job, scaled down, does not ask for any more."""
    return [task for task in job.tasks if task.index >= job.size]
