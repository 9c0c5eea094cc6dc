"""Restarts elastic gangs that cannot change their size while they run."""

from collections.abc import Iterator

from bailiff_core.fold.gang import is_done
from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_of
from bailiff_core.model.resources import free_after_release
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_core.model.units import allocated_tasks
from bailiff_core.model.work_lost import eviction_loss
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.records.payload import Decision

from .termination import ACTIVE


def resized_gangs(state: PoolState) -> Iterator[Decision]:
    """Restarts the remaining tasks of a running gang that lost some for good, each in its place."""
    for job in state.touched_jobs():
        active = [task for task in job.tasks if task.state in ACTIVE]
        leaving = any(task.eviction is not None or task.state == "exited" for task in job.tasks)
        if job.restart_cause and job.phase == "running" and active and not leaving and not any(map(is_done, job.tasks)):
            yield restart_in_place(state, job, active, f"it restarts with {count_text(len(active), 'task')}")


def restart_in_place(state: PoolState, job: Job, members: list[Task], reason: str) -> Decision:
    """Evicts the whole job and reserves each of these tasks its place for the next attempt."""
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
        lost_gpu_ms=sum(eviction_loss(state, job, allocated_tasks(job), whole=True, moved=True)),
        island=islands_used(state, job, places),
    )


def can_restart_in_place(state: PoolState, job: Job) -> bool:
    """Whether all resources that its tasks run on may be reserved for them: else the reservation would be dropped at once."""
    members = [task for task in job.tasks if task.state in ("starting", "running")]
    nodes = {task.node: state.nodes[task.node] for task in members}
    if any(node.drain is not None or is_overcommitted(node) or _shares_overcommitted(node) for node in nodes.values()):
        return False
    return all(is_usable(nodes[task.node], task.devices) for task in members)


def is_usable(node: Node, devices: int) -> bool:
    """Whether tasks may be placed on these devices of the node, once they are free."""
    return node.state == "ready" and not devices & (node.quarantined | ~node.capacity.devices)


def is_overcommitted(node: Node) -> bool:
    """Whether more of the node is allocated or reserved, and not releasing, than it has since its agent last joined."""
    later = free_after_release(node)
    return later.cpu_milli < 0 or later.memory_bytes < 0 or later.slots < 0


def _shares_overcommitted(node: Node) -> bool:
    """Whether jobs share more of a device than it has since the node's agent last joined."""
    return any(units < 0 for units in free_after_release(node).shares.values())
