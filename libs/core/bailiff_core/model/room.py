"""Arithmetic of room on one node."""

from .pool import Job, Node, Room


def idle_now(node: Node) -> Room:
    """What a task may start on at once: not held, not promised.

    A promise first draws on room that is on its way out, so only what it needs beyond that is kept back. Where more
    is promised than will ever come free (an eviction got stuck), nothing is idle: the promise is about to be dropped.
    """
    held, releasing, reserved, capacity = node.held, node.releasing, node.reserved, node.capacity
    return Room(
        capacity.devices & ~(held.devices | reserved.devices | node.quarantined),
        max(0, capacity.cpu_milli - held.cpu_milli - max(0, reserved.cpu_milli - releasing.cpu_milli)),
        max(0, capacity.memory_bytes - held.memory_bytes - max(0, reserved.memory_bytes - releasing.memory_bytes)),
        max(0, capacity.slots - held.slots - max(0, reserved.slots - releasing.slots)),
    )


def idle_later(node: Node) -> Room:
    """What will be free once everything on its way out is gone: idle room included, promises kept back."""
    held, releasing, reserved, capacity = node.held, node.releasing, node.reserved, node.capacity
    return Room(
        capacity.devices & ~((held.devices & ~releasing.devices) | reserved.devices | node.quarantined),
        capacity.cpu_milli - held.cpu_milli + releasing.cpu_milli - reserved.cpu_milli,
        capacity.memory_bytes - held.memory_bytes + releasing.memory_bytes - reserved.memory_bytes,
        capacity.slots - held.slots + releasing.slots - reserved.slots,
    )


def add(room: Room, devices: int, cpu_milli: int, memory_bytes: int) -> None:
    """Count one more task in `room`."""
    room.devices |= devices
    room.cpu_milli += cpu_milli
    room.memory_bytes += memory_bytes
    room.slots += 1


def remove(room: Room, devices: int, cpu_milli: int, memory_bytes: int) -> None:
    """Take one task out of `room`."""
    room.devices &= ~devices
    room.cpu_milli -= cpu_milli
    room.memory_bytes -= memory_bytes
    room.slots -= 1


def work_lost(job: Job, now: int, restart_cost: int, max_counted_loss: int) -> int:
    """What evicting the job costs in GPU-ms: GPUs × (time since its last start, at most the policy's bound, + restart cost).

    Source: semantics §5. Without checkpoints on record the time counts from the start of the attempt.
    """
    held = 0 if job.last_start is None else min(max(0, now - job.last_start), max_counted_loss)
    return job.gpus * (held + restart_cost) // 1000
