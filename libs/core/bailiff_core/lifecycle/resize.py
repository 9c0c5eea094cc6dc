"""Restarts elastic gangs that cannot change their size while they run."""

from collections.abc import Iterator

from bailiff_core.fold.gang import is_done
from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.records.payload import Decision

from .termination import ACTIVE


def resized_gangs(state: PoolState) -> Iterator[Decision]:
    """Members of a running gang are gone for good: the others start again without them, where they stand."""
    for job in state.touched_jobs():
        here = [task for task in job.tasks if task.state in ACTIVE]
        leaves = any(task.eviction is not None or task.state == "exited" for task in job.tasks)
        if job.restart_pending and job.phase == "running" and here and not leaves and not any(map(is_done, job.tasks)):
            yield start_again(state, job, here, f"it goes on with {count_text(len(here), 'task')}, which have to start together")


def start_again(state: PoolState, job: Job, members: list[Task], reason: str) -> Decision:
    """All leave and start anew, each of these members at its place."""
    grace = grace_of(state, job)
    places = tuple(TaskPlacement(task.index, task.node, task.devices) for task in members)
    return MigrationDecided(
        job=job.id,
        attempt=job.attempt,
        placement=encode_placement(GangPlacement(places, future=True)),
        grace=grace,
        expires=state.now + state.rules.preemption.reservation_expiry + grace,
        reason=reason,
        cause="resize",
    )


def members_started(state: PoolState, job: Job) -> bool:
    """Whether members of a gang that does not grow live may have heard how many they are."""
    if job.demand.elastic != "restart" or job.phase not in ACTIVE:
        return False
    return any(task.start_seq is not None and task.start_seq <= state.last_fact for task in job.tasks)


def heard(state: PoolState, job: Job) -> bool:
    """Whether every node that its tasks stand on is heard: on one that is not, nothing is started again."""
    return all(state.nodes[task.node].state == "ready" for task in job.tasks if task.state in ("starting", "running"))
