"""Room promised to gangs that wait for it: kept until they start, they go away, the room is lost, or time is up."""

from collections.abc import Iterator

from bailiff_core.fold.gang import at_work
from bailiff_core.model.places import bits, ranges
from bailiff_core.model.pool import Job, Node, Pool, Task
from bailiff_core.model.room import idle_later
from bailiff_core.model.sharing import share_of, shares_devices, units_of
from bailiff_core.placement.gang import GangPlace, TaskPlace
from bailiff_core.placement.shares import to_shares
from bailiff_core.records.decisions import JobGrown, JobPlaced, JobStartOrdered, ReservationDropped
from bailiff_core.records.payload import Decision
from bailiff_core.words import count_text

from .resize import heard, start_again, told_already


def moved_jobs(pool: Pool) -> Iterator[Decision]:
    """A job that was moved and has left its old place gets the one that was kept for it; so does a member of one that runs."""
    for job in pool.touched_jobs():
        if job.promise and job.phase == "pending":
            yield JobPlaced.model_validate(_at_new_place(job, job.promise, job.attempt + 1))
        elif job.promise and job.phase in ("starting", "running"):
            gone = [task for task in job.promise if job.task(task.index) is None]
            if gone:
                yield JobGrown.model_validate(_at_new_place(job, gone, job.attempt))


def _at_new_place(job: Job, members: list[Task], attempt: int) -> dict[str, object]:
    places = tuple(TaskPlace(task.index, task.node, task.devices) for task in members)
    return {
        "job": job.id,
        "attempt": attempt,
        "verb": job.promise_verb,
        "placement": to_shares(GangPlace(places, later=True)),
        "reserved": True,
        "expires": job.promise_until,
    }


def reservations(pool: Pool) -> Iterator[Decision]:
    """Start what can start; drop what cannot come true. Of a job that runs this is about the members that are to join it."""
    for job in [pool.jobs[name] for name in (*pool.reserved, *pool.leaving)]:
        yield from _kept_for_later(pool, job)
        if job.phase != "evicting":
            yield from _waiting(pool, job, [task for task in job.tasks if task.state == "reserved"])


def _kept_for_later(pool: Pool, job: Job) -> Iterator[Decision]:
    part = "" if job.phase == "evicting" else ranges(task.index for task in job.promise)
    if job.promise and _on_drained(pool, job.promise):
        yield ReservationDropped(job=job.id, reason="drain", tasks=part)
    elif job.promise and _room_gone(pool, job, job.promise):
        yield ReservationDropped(job=job.id, reason="room-gone", tasks=part)
    elif job.promise_until is not None and job.promise and pool.now >= job.promise_until:
        yield ReservationDropped(job=job.id, reason="expired", tasks=part)


def _waiting(pool: Pool, job: Job, members: list[Task]) -> Iterator[Decision]:
    if not members:
        return
    part = "" if job.phase == "reserved" else ranges(task.index for task in members)
    plan = pool.plans.get(job.plan) if job.plan is not None else None
    if plan is not None and plan.given_up is not None:
        yield ReservationDropped(job=job.id, reason="given-up", plan=job.plan, tasks=part)
    elif _on_drained(pool, members):
        yield ReservationDropped(job=job.id, reason="drain", plan=job.plan, tasks=part)
    elif _room_gone(pool, job, members):
        yield ReservationDropped(job=job.id, reason="room-gone", plan=job.plan, tasks=part)
    elif job.reserved_until is not None and pool.now >= job.reserved_until:
        yield ReservationDropped(job=job.id, reason="expired", plan=job.plan, tasks=part)
    elif pool.unsettled:
        return  # who knows what the log has forgotten may still be there
    elif part and not at_work(job):
        return  # the last member that they were to join has ended, and its release decides what becomes of the job
    elif part and told_already(pool, job):
        yield from _grown_anew(pool, job, members)
    elif not part or job.demand.sub_groups:
        if _room_free(pool, job, members):
            yield JobStartOrdered(job=job.id, attempt=job.attempt, tasks=part)
    else:  # surplus tasks do not wait for one another
        ready: list[Task] = []
        for task in members:
            if _room_free(pool, job, [*ready, task]):
                ready.append(task)
        if ready:
            yield JobStartOrdered(job=job.id, attempt=job.attempt, tasks=ranges(task.index for task in ready))


def _grown_anew(pool: Pool, job: Job, members: list[Task]) -> Iterator[Decision]:
    """A gang that does not grow live starts again with those whose room is free; for a plan it waits until all of it is."""
    here = [task for task in job.tasks if task.state in ("starting", "running")]
    if not heard(pool, job):
        return
    if job.phase != "running" or len(here) + len(members) < len(job.tasks) or any(task.eviction is not None for task in here):
        return
    ready: list[Task] = []
    for task in members:
        if _room_free(pool, job, [*ready, task]):
            ready.append(task)
    whole = job.plan is not None or job.demand.sub_groups
    if ready and (len(ready) == len(members) or not whole):
        size = len(here) + len(ready)
        yield start_again(
            pool, job, sorted([*here, *ready], key=lambda task: task.index), f"it grows to {count_text(size, 'task')}"
        )


def _on_drained(pool: Pool, members: list[Task]) -> bool:
    """Some of it is promised on a node that is being emptied."""
    return bool(pool.drained) and any(pool.nodes[task.node].drain is not None for task in members)


def _room_gone(pool: Pool, job: Job, members: list[Task]) -> bool:
    """Some of the promised room is neither free nor on its way out any more."""
    for task in members:
        node = pool.nodes[task.node]
        if node.state != "ready" or task.devices & (node.quarantined | ~node.capacity.devices):
            return True
        if task.devices & node.held.devices & ~node.releasing.devices or _shared_for_good(job, task, node):
            return True
        later = idle_later(node)
        if later.cpu_milli < 0 or later.memory_bytes < 0 or later.slots < 0:
            return True
    return False


def _shared_for_good(job: Job, task: Task, node: Node) -> bool:
    """Whether those who stay on the task's devices leave less than was promised there."""
    for number in bits(task.devices):
        stays = node.held.shares.get(number, 0) - node.releasing.shares.get(number, 0)
        promised = node.reserved.shares.get(number, 0)
        if stays and (not shares_devices(job.group(task.index)) or stays + promised > units_of(node.devices[number])):
            return True
    return False


def _room_free(pool: Pool, job: Job, members: list[Task]) -> bool:
    """Nobody is left on any of it."""
    asked: dict[int, list[int]] = {}
    parts: dict[tuple[int, int], int] = {}
    for task in members:
        node, group = pool.nodes[task.node], job.group(task.index)
        if task.devices & node.held.devices:
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
        node = pool.nodes[number]
        if node.held.shares.get(device, 0) + units > units_of(node.devices[device]):
            return False
    for number, (cpu_milli, memory_bytes, slots) in asked.items():
        node = pool.nodes[number]
        if (
            node.held.cpu_milli + cpu_milli > node.capacity.cpu_milli
            or node.held.memory_bytes + memory_bytes > node.capacity.memory_bytes
            or node.held.slots + slots > node.capacity.slots
        ):
            return False
    return True
