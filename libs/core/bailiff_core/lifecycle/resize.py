"""Gangs that cannot take another size while they run: they start again, all together, with the one that they have now."""

from collections.abc import Iterator

from bailiff_core.fold.gang import is_done
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.placement.gang import GangPlace, TaskPlace
from bailiff_core.placement.shares import to_shares
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.records.payload import Decision
from bailiff_core.words import count_text

from .attempts import GOES_ON, grace_of


def resized_gangs(pool: Pool) -> Iterator[Decision]:
    """Members of a running gang are gone for good: the others start again without them, where they stand."""
    for job in pool.touched_jobs():
        here = [task for task in job.tasks if task.state in GOES_ON]
        leaves = any(task.eviction is not None or task.state == "exited" for task in job.tasks)
        if job.resized and job.phase == "running" and here and not leaves and not any(map(is_done, job.tasks)):
            yield start_again(pool, job, here, f"it goes on with {count_text(len(here), 'task')}, which have to start together")


def start_again(pool: Pool, job: Job, members: list[Task], reason: str) -> Decision:
    """All leave and start anew, each of these members at its place."""
    grace = grace_of(pool, job)
    places = tuple(TaskPlace(task.index, task.node, task.devices) for task in members)
    return MigrationDecided(
        job=job.id,
        attempt=job.attempt,
        placement=to_shares(GangPlace(places, later=True)),
        grace=grace,
        expires=pool.now + pool.rules.preemption.reservation_expiry + grace,
        reason=reason,
        cause="resize",
    )


def told_already(pool: Pool, job: Job) -> bool:
    """Whether members of a gang that does not grow live may have heard how many they are."""
    if job.demand.elastic != "restart" or job.phase not in GOES_ON:
        return False
    return any(task.start_seq is not None and task.start_seq <= pool.last_fact for task in job.tasks)


def heard(pool: Pool, job: Job) -> bool:
    """Whether every node that its tasks stand on is heard: on one that is not, nothing is started again."""
    return all(pool.nodes[task.node].state == "ready" for task in job.tasks if task.state in ("starting", "running"))
