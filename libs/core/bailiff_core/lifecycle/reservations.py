"""Starts reserved tasks once their resources are free, and drops reservations that expired or cannot be used."""

from collections.abc import Iterator

from bailiff_core.fold.gang import active_tasks
from bailiff_core.humanize import count_text
from bailiff_core.model.gpu_shares import share_of, shares_devices, units_of
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_core.model.units import restarts_to_grow
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.protections.payback import growth_by
from bailiff_core.quota.leaving import gone_by
from bailiff_core.quota.promises import start_breaks_promise, start_waits_for_promise
from bailiff_core.records.decisions import JobGrown, JobPlaced, JobStarting, ReservationDropped
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .resize import can_restart_in_place, is_overcommitted, is_usable, restart_in_place


def moved_jobs(state: PoolState) -> Iterator[Decision]:
    """Places migrated jobs, and relocated tasks of running jobs, on their reservation once they have left the old place."""
    for job in state.touched_jobs():
        if job.reservation and job.phase == "pending":
            place = _at_reservation(state, job, job.reservation, job.attempt + 1)
            yield JobPlaced.model_validate({**place, "backfilled": job.backfilled})
        elif job.reservation and job.phase in ("starting", "running"):
            released = [task for task in job.reservation if job.task(task.index) is None]
            if released:
                yield JobGrown.model_validate(_at_reservation(state, job, released, job.attempt))


def _at_reservation(state: PoolState, job: Job, members: list[Task], attempt: int) -> dict[str, object]:
    places = tuple(TaskPlacement(task.index, task.node, task.devices) for task in members)
    return {
        "job": job.id,
        "attempt": attempt,
        "action": job.reservation_action,
        "placement": encode_placement(GangPlacement(places, future=True)),
        "reserved": True,
        "expires": job.reservation_until,
        "island": islands_used(state, job, places),
    }


def reservations(state: PoolState) -> Iterator[Decision]:
    """Drops reservations that cannot be used, and starts tasks whose reserved resources are free."""
    for job in [state.jobs[name] for name in (*state.reserved, *state.evicting)]:
        yield from _of_next_attempt(state, job)
        if job.phase != "evicting":
            yield from _of_reserved_tasks(state, job, [task for task in job.tasks if task.state == "reserved"])


def growing_gangs(state: PoolState) -> Iterator[Decision]:
    """The part of `reservations` that concerns running gangs which cannot grow live."""
    for job in [state.jobs[name] for name in state.reserved]:
        if job.phase == "running" and restarts_to_grow(state, job):
            yield from _of_reserved_tasks(state, job, [task for task in job.tasks if task.state == "reserved"])


def _of_next_attempt(state: PoolState, job: Job) -> Iterator[Decision]:
    """Decisions on what is reserved for the next attempt, or for tasks that are being relocated (`Job.reservation`)."""
    part = "" if job.phase == "evicting" else ranges(task.index for task in job.reservation)
    if job.reservation and _on_drained_node(state, job, job.reservation):
        yield ReservationDropped(job=job.id, reason="drain", tasks=part)
    elif job.reservation and _resources_lost(state, job, job.reservation):
        yield ReservationDropped(job=job.id, reason="resources-lost", tasks=part)
    elif job.reservation_until is not None and job.reservation and state.now >= job.reservation_until:
        yield ReservationDropped(job=job.id, reason="expired", tasks=part)


def _of_reserved_tasks(state: PoolState, job: Job, members: list[Task]) -> Iterator[Decision]:
    """Decisions on reserved tasks of the current attempt: all of it, or tasks that are to join a running job."""
    if not members:
        return
    part = "" if job.phase == "reserved" else ranges(task.index for task in members)
    preemption = state.preemptions.get(job.preemption) if job.preemption is not None else None
    if preemption is not None and preemption.abandoned is not None:
        yield ReservationDropped(job=job.id, reason="abandoned", preemption=job.preemption, tasks=part)
    elif _on_drained_node(state, job, members):
        yield ReservationDropped(job=job.id, reason="drain", preemption=job.preemption, tasks=part)
    elif _resources_lost(state, job, members):
        yield ReservationDropped(job=job.id, reason="resources-lost", preemption=job.preemption, tasks=part)
    elif job.reserved_until is not None and state.now >= job.reserved_until:
        yield ReservationDropped(job=job.id, reason="expired", preemption=job.preemption, tasks=part)
    elif state.truncation_unreconciled:
        return  # tasks that the log lost may still run there
    elif part and not active_tasks(job):
        return  # no task of the attempt is left to join; when they are released, the job ends or is requeued
    elif state.gpu_reservations and start_breaks_promise(current_snapshot(state), job):
        yield ReservationDropped(job=job.id, reason="gpus-reserved", preemption=job.preemption, tasks=part)
    elif state.gpu_reservations and start_waits_for_promise(current_snapshot(state), job, members):
        return
    elif restarts_to_grow(state, job):
        yield from _restart_to_grow(state, job, members)
    elif not part or job.demand.sub_groups:
        if _resources_free(state, job, members):
            yield JobStarting(job=job.id, attempt=job.attempt, tasks=part)
    else:  # surplus tasks start one by one
        ready: list[Task] = []
        for task in members:
            if _resources_free(state, job, [*ready, task]):
                ready.append(task)
        if ready:
            yield JobStarting(job=job.id, attempt=job.attempt, tasks=ranges(task.index for task in ready))


def _restart_to_grow(state: PoolState, job: Job, members: list[Task]) -> Iterator[Decision]:
    """Restarts a gang that cannot grow live, with the tasks whose resources are free; after a preemption only with all."""
    running = [task for task in job.tasks if task.state in ("starting", "running")]
    if not can_restart_in_place(state, job):
        return
    if (
        job.phase != "running"
        or len(running) + len(members) < len(job.tasks)
        or any(task.eviction is not None for task in running)
    ):
        return
    ready: list[Task] = []
    for task in members:
        if _resources_free(state, job, [*ready, task]):
            ready.append(task)
    all_or_none = job.preemption is not None or job.demand.sub_groups
    if not growth_by(state, job, members).pays:
        part = ranges(task.index for task in members)
        yield ReservationDropped(job=job.id, reason="growth-cost", preemption=job.preemption, tasks=part)
    elif ready and (len(ready) == len(members) or not (all_or_none or not growth_by(state, job, ready).pays)):
        size = count_text(len(running) + len(ready), "task")
        yield restart_in_place(state, job, [*running, *ready], f"it grows to {size}: {growth_by(state, job, ready)}")


def _on_drained_node(state: PoolState, job: Job, members: list[Task]) -> bool:
    """Whether any of the tasks is reserved on a node that is being drained, or will be before the job could be gone."""
    if any(state.nodes[task.node].drain is not None for task in members):
        return True
    begins = [state.maintenance[task.node].begin for task in members if task.node in state.maintenance]
    return bool(begins) and min(begins) < gone_by(state, job)


def _resources_lost(state: PoolState, job: Job, members: list[Task]) -> bool:
    """Whether any of the reserved resources is neither free nor releasing any more."""
    for task in members:
        node = state.nodes[task.node]
        if not is_usable(node, task.devices) or is_overcommitted(node):
            return True
        if task.devices & node.allocated.devices & ~node.releasing.devices or _shares_lost(job, task, node):
            return True
    return False


def _shares_lost(job: Job, task: Task, node: Node) -> bool:
    """Whether jobs that stay on the task's devices leave less of a device than is reserved there."""
    for number in bits(task.devices):
        staying = node.allocated.shares.get(number, 0) - node.releasing.shares.get(number, 0)
        reserved = node.reserved.shares.get(number, 0)
        if staying and (not shares_devices(job.group(task.index)) or staying + reserved > units_of(node.devices[number])):
            return True
    return False


def _resources_free(state: PoolState, job: Job, members: list[Task]) -> bool:
    """Whether nothing is allocated of the resources that the tasks need."""
    requested: dict[int, list[int]] = {}
    device_units: dict[tuple[int, int], int] = {}
    for task in members:
        node, group = state.nodes[task.node], job.group(task.index)
        if task.devices & node.allocated.devices:
            return False
        for number in bits(task.devices):
            shared = shares_devices(group)
            device_units[task.node, number] = device_units.get((task.node, number), 0) + (
                share_of(group, node.devices[number]) if shared else units_of(node.devices[number])
            )
        total = requested.setdefault(task.node, [0, 0, 0])
        for at, amount in enumerate((group.cpu_milli, group.memory_bytes, 1)):
            total[at] += amount
    for (number, device), units in device_units.items():
        node = state.nodes[number]
        if node.allocated.shares.get(device, 0) + units > units_of(node.devices[device]):
            return False
    for number, (cpu_milli, memory_bytes, slots) in requested.items():
        node = state.nodes[number]
        if (
            node.allocated.cpu_milli + cpu_milli > node.capacity.cpu_milli
            or node.allocated.memory_bytes + memory_bytes > node.capacity.memory_bytes
            or node.allocated.slots + slots > node.capacity.slots
        ):
            return False
    return True
