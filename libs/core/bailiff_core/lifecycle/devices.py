"""Evicts tasks on unhealthy devices, and tasks that exceed their GPU share."""

from collections.abc import Iterator

from bailiff_core.fold.gang import active_tasks
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import core_complete
from bailiff_core.records.payload import Decision

from .termination import stop


def leave_devices(state: PoolState) -> Iterator[Decision]:
    """Members on a broken device, or over their share, leave; the whole job where it needs them. They keep their grace.

    Neither counts as a failure of the job. What has ended already is left to what its end means.
    """
    for job in state.touched_jobs():
        if job.phase not in ("starting", "running") or job.eviction is not None:
            continue
        broken = [task for task in active_tasks(job) if task.device_failed]
        greedy = [task for task in active_tasks(job) if task.over_share and not task.device_failed]
        if broken:
            yield _leave(state, job, broken, "device", _broken(state, broken[0]))
        elif greedy:
            yield _leave(state, job, greedy, "over-share", f"task {greedy[0].index} uses more of its GPU than its share")


def _leave(state: PoolState, job: Job, members: list[Task], cause: str, reason: str) -> Decision:
    gone = dict.fromkeys(task.index for task in members)
    stays = [task for task in active_tasks(job) if task.index not in gone]
    tasks = ranges(gone) if stays and core_complete(job, stays) else ""
    return stop(state, job, cause, reason[:1000], tasks)


def _broken(state: PoolState, task: Task) -> str:
    node = state.nodes[task.node]
    sick = [node.devices[number] for number in bits(task.devices) if not node.devices[number].healthy]
    what = ", ".join(f"{device.id} of {node.name}: {device.fault}" for device in sick)
    return what or f"a device of {node.name} broke and is back"
