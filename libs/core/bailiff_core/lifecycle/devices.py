"""Who has to leave a device: because it broke under it, or because it uses more than its share of it."""

from collections.abc import Iterator

from bailiff_core.fold.gang import at_work
from bailiff_core.model.places import bits, ranges
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.units import core_stands
from bailiff_core.records.payload import Decision

from .attempts import stop


def leave_devices(pool: Pool) -> Iterator[Decision]:
    """Members on a broken device, or over their share, leave; the whole job where it needs them. They keep their grace.

    Neither counts as a failure of the job. What has ended already is left to what its end means.
    """
    for job in pool.touched_jobs():
        if job.phase not in ("starting", "running") or job.eviction is not None:
            continue
        broken = [task for task in at_work(job) if task.device_failed]
        greedy = [task for task in at_work(job) if task.over_share and not task.device_failed]
        if broken:
            yield _leave(pool, job, broken, "device", _broken(pool, broken[0]))
        elif greedy:
            yield _leave(pool, job, greedy, "over-share", f"task {greedy[0].index} uses more of its GPU than its share")


def _leave(pool: Pool, job: Job, members: list[Task], cause: str, reason: str) -> Decision:
    gone = dict.fromkeys(task.index for task in members)
    stays = [task for task in at_work(job) if task.index not in gone]
    tasks = ranges(gone) if stays and core_stands(job, stays) else ""
    return stop(pool, job, cause, reason[:1000], tasks)


def _broken(pool: Pool, task: Task) -> str:
    node = pool.nodes[task.node]
    sick = [node.devices[number] for number in bits(task.devices) if not node.devices[number].healthy]
    what = ", ".join(f"{device.id} of {node.name}: {device.trouble}" for device in sick)
    return what or f"a device of {node.name} broke and is back"
