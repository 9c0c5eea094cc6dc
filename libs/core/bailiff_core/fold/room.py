"""Keeps each node's sums (`held`, `releasing`, `reserved`) true while tasks change."""

from collections.abc import Iterator
from contextlib import contextmanager

from bailiff_core.model.places import NodeShare, numbers
from bailiff_core.model.pool import ENDED, Job, JobPhase, Pool, Task
from bailiff_core.model.room import add, remove
from bailiff_core.model.sharing import amount_of, devices_of
from bailiff_core.queue.order import dequeue, enqueue


@contextmanager
def changing(pool: Pool, job: Job, only: Task | None = None) -> Iterator[None]:
    """Whatever changes inside about the job's tasks (or the one given) is reflected in the nodes' sums after it."""
    tasks = job.tasks if only is None else [only]
    _count(pool, job, tasks, remove)
    yield
    tasks = job.tasks if only is None else [only]
    _count(pool, job, tasks, add)


def _count(pool: Pool, job: Job, tasks: list[Task], change: object) -> None:
    assert change is add or change is remove
    leaving = job.eviction is not None and not job.eviction.stuck and job.eviction.spare_seq is None
    groups = job.groups()
    pool.stale_jobs[job.id] = None
    for task in tasks:
        if task.state == "released":
            continue
        pool.stale_nodes[task.node] = None
        node, group = pool.nodes[task.node], groups[task.index]
        amount = amount_of(node, group, task.devices)
        if task.state == "reserved":
            change(node.reserved, *amount)
            continue
        change(node.held, *amount)
        if leaving or (task.state == "exited" and not (job.eviction and job.eviction.stuck)):
            change(node.releasing, *amount)


def set_phase(pool: Pool, job: Job, phase: JobPhase) -> None:
    """Move the job to `phase` and keep queue, active, reserved, leaving and ended true."""
    if job.phase == phase:
        return
    if job.phase == "pending":
        dequeue(pool, job)
    pool.active.pop(job.id, None)
    pool.reserved.pop(job.id, None)
    pool.starting.pop(job.id, None)
    pool.leaving.pop(job.id, None)
    pool.stale_jobs[job.id] = None
    job.phase = phase
    if phase == "pending":
        enqueue(pool, job)
    elif phase in ENDED:
        job.ended_at = pool.now
        pool.ended[job.id] = pool.now
    else:
        pool.active[job.id] = None
        if phase == "reserved":
            pool.reserved[job.id] = None
        if phase == "starting":
            pool.starting[job.id] = None
        if phase == "evicting":
            pool.leaving[job.id] = None


def phase_of(job: Job) -> JobPhase:
    """The phase of a placed job that nobody wants gone (any more)."""
    return "starting" if any(task.state == "starting" for task in job.tasks) else "running"


def tasks_of(job: Job, placement: tuple[NodeShare, ...], reserved: bool) -> list[Task]:
    """The gang's tasks at their places: devices of a share are dealt in task order, lowest number first."""
    groups = job.groups()
    tasks = []
    for share in placement:
        free = numbers(share.devices)
        for index in numbers(share.tasks):
            count = devices_of(groups[index])
            mask = sum(1 << device for device in free[:count])
            del free[:count]
            tasks.append(Task(index, share.node, mask, "reserved" if reserved else "starting"))
    return sorted(tasks, key=lambda task: task.index)
