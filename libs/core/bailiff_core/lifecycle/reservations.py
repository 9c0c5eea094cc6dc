"""Room promised to gangs that wait for it: kept until they start, they go away, the room is lost, or time is up."""

from collections.abc import Iterator

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.room import idle_later
from bailiff_core.records.decisions import JobStartOrdered, ReservationDropped
from bailiff_core.records.payload import Decision


def reservations(pool: Pool) -> Iterator[Decision]:
    """Start what can start; drop what cannot come true."""
    for job in [pool.jobs[name] for name in pool.reserved]:
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        if plan is not None and plan.given_up is not None:
            yield ReservationDropped(job=job.id, reason="given-up", plan=job.plan)
        elif _room_gone(pool, job):
            yield ReservationDropped(job=job.id, reason="room-gone", plan=job.plan)
        elif job.reserved_until is not None and pool.now >= job.reserved_until:
            yield ReservationDropped(job=job.id, reason="expired", plan=job.plan)
        elif _room_free(pool, job):
            yield JobStartOrdered(job=job.id, attempt=job.attempt)


def _room_gone(pool: Pool, job: Job) -> bool:
    """Some of the promised room is neither free nor on its way out any more."""
    for task in job.tasks:
        node = pool.nodes[task.node]
        held_for_good = node.held.devices & ~node.releasing.devices
        if node.state != "ready" or task.devices & (held_for_good | node.quarantined | ~node.capacity.devices):
            return True
        later = idle_later(node)
        if later.cpu_milli < 0 or later.memory_bytes < 0 or later.slots < 0:
            return True
    return False


def _room_free(pool: Pool, job: Job) -> bool:
    """Nobody is left on any of it."""
    groups = job.groups()
    asked: dict[int, list[int]] = {}
    for task in job.tasks:
        if task.devices & pool.nodes[task.node].held.devices:
            return False
        total = asked.setdefault(task.node, [0, 0, 0])
        group = groups[task.index]
        for at, amount in enumerate((group.cpu_milli, group.memory_bytes, 1)):
            total[at] += amount
    for number, (cpu_milli, memory_bytes, slots) in asked.items():
        node = pool.nodes[number]
        if (
            node.held.cpu_milli + cpu_milli > node.capacity.cpu_milli
            or node.held.memory_bytes + memory_bytes > node.capacity.memory_bytes
            or node.held.slots + slots > node.capacity.slots
        ):
            return False
    return True
