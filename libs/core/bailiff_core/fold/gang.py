"""Whether a gang has its minimum of tasks, placed or reserved, and since when it does not."""

from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import core_complete


def is_done(task: Task) -> bool:
    """Whether the task succeeded."""
    return task.finished


def active_tasks(job: Job) -> list[Task]:
    """Returns the starting and running tasks that have no eviction of their own."""
    return [task for task in job.tasks if task.state in ("starting", "running") and task.eviction is None]


def note_stale(state: PoolState, job: Job) -> None:
    """Updates `stale_since` after tasks or reservations joined or left. Tasks with a reservation count as present."""
    active = active_tasks(job)
    reserved = [task for task in (*job.tasks, *job.reservation) if task.state == "reserved"]
    lacks = job.phase in ("starting", "running") and bool(active) and not core_complete(job, [*active, *reserved])
    if not lacks or any(is_done(task) for task in job.tasks):
        job.stale_since = None
    elif job.stale_since is None:
        job.stale_since = state.now
