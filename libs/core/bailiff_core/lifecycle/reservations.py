"""Room promised to gangs that wait for it: kept until they start, they go away, the room is lost, or time is up."""

from collections.abc import Iterator

from bailiff_core.fold.gang import active_tasks
from bailiff_core.humanize import count_text
from bailiff_core.model.gpu_shares import share_of, shares_devices, units_of
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.model.resources import free_after_release
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.records.decisions import JobGrown, JobPlaced, JobStarting, ReservationDropped
from bailiff_core.records.payload import Decision

from .resize import heard, members_started, start_again


def moved_jobs(state: PoolState) -> Iterator[Decision]:
    """A job that was moved and has left its old place gets the one that was kept for it; so does a member of one that runs."""
    for job in state.touched_jobs():
        if job.reservation and job.phase == "pending":
            yield JobPlaced.model_validate(_at_new_place(job, job.reservation, job.attempt + 1))
        elif job.reservation and job.phase in ("starting", "running"):
            gone = [task for task in job.reservation if job.task(task.index) is None]
            if gone:
                yield JobGrown.model_validate(_at_new_place(job, gone, job.attempt))


def _at_new_place(job: Job, members: list[Task], attempt: int) -> dict[str, object]:
    places = tuple(TaskPlacement(task.index, task.node, task.devices) for task in members)
    return {
        "job": job.id,
        "attempt": attempt,
        "action": job.reservation_action,
        "placement": encode_placement(GangPlacement(places, future=True)),
        "reserved": True,
        "expires": job.reservation_until,
    }


def reservations(state: PoolState) -> Iterator[Decision]:
    """Start what can start; drop what cannot come true. Of a job that runs this is about the members that are to join it."""
    for job in [state.jobs[name] for name in (*state.reserved, *state.evicting)]:
        yield from _kept_for_later(state, job)
        if job.phase != "evicting":
            yield from _waiting(state, job, [task for task in job.tasks if task.state == "reserved"])


def _kept_for_later(state: PoolState, job: Job) -> Iterator[Decision]:
    part = "" if job.phase == "evicting" else ranges(task.index for task in job.reservation)
    if job.reservation and _on_drained(state, job.reservation):
        yield ReservationDropped(job=job.id, reason="drain", tasks=part)
    elif job.reservation and _room_gone(state, job, job.reservation):
        yield ReservationDropped(job=job.id, reason="resources-lost", tasks=part)
    elif job.reservation_until is not None and job.reservation and state.now >= job.reservation_until:
        yield ReservationDropped(job=job.id, reason="expired", tasks=part)


def _waiting(state: PoolState, job: Job, members: list[Task]) -> Iterator[Decision]:
    if not members:
        return
    part = "" if job.phase == "reserved" else ranges(task.index for task in members)
    plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
    if plan is not None and plan.abandoned is not None:
        yield ReservationDropped(job=job.id, reason="abandoned", preemption=job.preemption, tasks=part)
    elif _on_drained(state, members):
        yield ReservationDropped(job=job.id, reason="drain", preemption=job.preemption, tasks=part)
    elif _room_gone(state, job, members):
        yield ReservationDropped(job=job.id, reason="resources-lost", preemption=job.preemption, tasks=part)
    elif job.reserved_until is not None and state.now >= job.reserved_until:
        yield ReservationDropped(job=job.id, reason="expired", preemption=job.preemption, tasks=part)
    elif state.truncation_unreconciled:
        return  # who knows what the log has forgotten may still be there
    elif part and not active_tasks(job):
        return  # the last member that they were to join has ended, and its release decides what becomes of the job
    elif part and members_started(state, job):
        yield from _grown_anew(state, job, members)
    elif not part or job.demand.sub_groups:
        if _room_free(state, job, members):
            yield JobStarting(job=job.id, attempt=job.attempt, tasks=part)
    else:  # surplus tasks do not wait for one another
        ready: list[Task] = []
        for task in members:
            if _room_free(state, job, [*ready, task]):
                ready.append(task)
        if ready:
            yield JobStarting(job=job.id, attempt=job.attempt, tasks=ranges(task.index for task in ready))


def _grown_anew(state: PoolState, job: Job, members: list[Task]) -> Iterator[Decision]:
    """A gang that does not grow live starts again with those whose room is free; for a plan it waits until all of it is."""
    here = [task for task in job.tasks if task.state in ("starting", "running")]
    if not heard(state, job):
        return
    if job.phase != "running" or len(here) + len(members) < len(job.tasks) or any(task.eviction is not None for task in here):
        return
    ready: list[Task] = []
    for task in members:
        if _room_free(state, job, [*ready, task]):
            ready.append(task)
    whole = job.preemption is not None or job.demand.sub_groups
    if ready and (len(ready) == len(members) or not whole):
        size = len(here) + len(ready)
        yield start_again(
            state, job, sorted([*here, *ready], key=lambda task: task.index), f"it grows to {count_text(size, 'task')}"
        )


def _on_drained(state: PoolState, members: list[Task]) -> bool:
    """Some of it is promised on a node that is being emptied."""
    return bool(state.draining) and any(state.nodes[task.node].drain is not None for task in members)


def _room_gone(state: PoolState, job: Job, members: list[Task]) -> bool:
    """Some of the promised room is neither free nor on its way out any more."""
    for task in members:
        node = state.nodes[task.node]
        if node.state != "ready" or task.devices & (node.quarantined | ~node.capacity.devices):
            return True
        if task.devices & node.allocated.devices & ~node.releasing.devices or _shared_for_good(job, task, node):
            return True
        later = free_after_release(node)
        if later.cpu_milli < 0 or later.memory_bytes < 0 or later.slots < 0:
            return True
    return False


def _shared_for_good(job: Job, task: Task, node: Node) -> bool:
    """Whether those who stay on the task's devices leave less than was promised there."""
    for number in bits(task.devices):
        stays = node.allocated.shares.get(number, 0) - node.releasing.shares.get(number, 0)
        promised = node.reserved.shares.get(number, 0)
        if stays and (not shares_devices(job.group(task.index)) or stays + promised > units_of(node.devices[number])):
            return True
    return False


def _room_free(state: PoolState, job: Job, members: list[Task]) -> bool:
    """Nobody is left on any of it."""
    asked: dict[int, list[int]] = {}
    parts: dict[tuple[int, int], int] = {}
    for task in members:
        node, group = state.nodes[task.node], job.group(task.index)
        if task.devices & node.allocated.devices:
            return False
        for number in bits(task.devices):
            shared = shares_devices(group)
            parts[task.node, number] = parts.get((task.node, number), 0) + (
                share_of(group, node.devices[number]) if shared else units_of(node.devices[number])
            )
        total = asked.setdefault(task.node, [0, 0, 0])
        for at, amount in enumerate((group.cpu_milli, group.memory_bytes, 1)):
            total[at] += amount
    for (number, device), units in parts.items():
        node = state.nodes[number]
        if node.allocated.shares.get(device, 0) + units > units_of(node.devices[device]):
            return False
    for number, (cpu_milli, memory_bytes, slots) in asked.items():
        node = state.nodes[number]
        if (
            node.allocated.cpu_milli + cpu_milli > node.capacity.cpu_milli
            or node.allocated.memory_bytes + memory_bytes > node.capacity.memory_bytes
            or node.allocated.slots + slots > node.capacity.slots
        ):
            return False
    return True
