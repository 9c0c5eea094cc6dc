"""`maintenance`: the last moment to evict a job from a node before its maintenance."""

from bailiff_core.fold.gang import active_tasks
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.quota.leaving import leaving_time

NAME = "maintenance"


def due(state: PoolState, job: Job) -> int | None:
    """The last moment to begin, µs; `None`: none of its nodes has maintenance to come, or it leaves them already."""
    tasks = tasks_there(state, job)
    return min(state.maintenance[task.node].begin for task in tasks) - leaving_time(state, job) if tasks else None


def tasks_there(state: PoolState, job: Job) -> list[Task]:
    """Its tasks on nodes with maintenance that do not leave yet."""
    if not state.maintenance or job.phase not in ("starting", "running") or job.eviction is not None:
        return []
    return [task for task in active_tasks(job) if task.node in state.maintenance and task.eviction is None]
