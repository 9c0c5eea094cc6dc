"""Evicts tasks on unhealthy devices, and tasks that exceed their GPU share."""

from collections.abc import Iterator

from bailiff_core.fold.gang import active_tasks
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import core_complete
from bailiff_core.records.payload import Decision

from .termination import eviction_decision


def device_evictions(state: PoolState) -> Iterator[Decision]:
    """Evicts tasks on unhealthy devices, and tasks above their GPU share; the whole job if it cannot run without them.

    They get the usual grace. Neither counts as a failure of the job. Tasks that have exited are not evicted; their outcome
    counts.
    """
    for job in state.touched_jobs():
        if job.phase not in ("starting", "running") or job.eviction is not None:
            continue
        faulty = [task for task in active_tasks(job) if task.device_failed]
        exceeding = [task for task in active_tasks(job) if task.over_share]
        if faulty:
            yield _eviction(state, job, faulty, "device", _fault_text(state, faulty[0]))
        elif exceeding:
            yield _eviction(state, job, exceeding, "over-share", f"task {exceeding[0].index} uses more of its GPU than its share")


def _eviction(state: PoolState, job: Job, members: list[Task], cause: str, reason: str) -> Decision:
    evicted = dict.fromkeys(task.index for task in members)
    remaining = [task for task in active_tasks(job) if task.index not in evicted]
    tasks = ranges(evicted) if remaining and core_complete(job, remaining) else ""
    return eviction_decision(state, job, cause, reason[:1000], tasks)


def _fault_text(state: PoolState, task: Task) -> str:
    node = state.nodes[task.node]
    unhealthy = [node.devices[number] for number in bits(task.devices) if not node.devices[number].healthy]
    faults = ", ".join(f"{device.id} of {node.name}: {device.fault}" for device in unhealthy)
    return faults or f"a device of {node.name} failed and recovered"
