"""Whether a gang has its minimum of tasks, and since when it does not."""

from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import core_complete


def is_done(task: Task) -> bool:
    """Whether the task has done its work."""
    return task.exit_code == 0 and task.state in ("exited", "released")


def active_tasks(job: Job) -> list[Task]:
    """Members that run, or are about to, and are not told to leave."""
    return [task for task in job.tasks if task.state in ("starting", "running") and task.eviction is None]


def note_stale(state: PoolState, job: Job) -> None:
    """Keep `stale_since` true after members came or went."""
    here = active_tasks(job)
    lacks = job.phase in ("starting", "running") and bool(here) and not core_complete(job, here)
    if not lacks or any(is_done(task) for task in job.tasks):
        job.stale_since = None
    elif job.stale_since is None:
        job.stale_since = state.now
