"""Devices that a node chose by itself: the allocation moves within the node, so that the log names the true ones."""

from collections.abc import Iterator
from contextlib import ExitStack

from bailiff_core.model.gpu_shares import shares_devices
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, Node, PoolState, Task

from .allocation import changing


def move_to_chosen(state: PoolState, job: Job, task: Task, devices: tuple[str, ...]) -> None:
    """The task has these devices. A task that was promised one of them and has not started gets one of this task's in exchange.

    Nothing moves where a device is unknown or in use by a task that runs: admission does not write such a fact.
    """
    node = state.nodes[task.node]
    chosen = chosen_mask(node, task, devices)
    if chosen is None or chosen == task.devices or conflict(state, node, task, chosen) is not None:
        return
    gained, given = chosen & ~task.devices, task.devices & ~chosen
    exchanges = [(job, task, chosen)]
    for other_job, other in _others(state, node, task):
        wanted = other.devices & gained
        if wanted:
            received = _lowest(given, wanted.bit_count())
            given &= ~received
            exchanges.append((other_job, other, other.devices & ~wanted | received))
    with ExitStack() as changes:  # the node's sums are masks: all give before one receives
        for of_job, each, _ in exchanges:
            changes.enter_context(changing(state, of_job, each))
        for _, each, devices_now in exchanges:
            each.devices = devices_now
    state.indices.retry_unschedulable = True


def chosen_mask(node: Node, task: Task, devices: tuple[str, ...]) -> int | None:
    """The devices as a mask; None unless they are as many of this node's as the task was allocated, and of the same kind."""
    numbers = {device.id: device.number for device in node.devices}
    if len(set(devices)) != task.devices.bit_count() or any(device not in numbers for device in devices):
        return None
    allocated = {(node.devices[number].kind, node.devices[number].profile) for number in bits(task.devices)}
    chosen = {(node.devices[numbers[device]].kind, node.devices[numbers[device]].profile) for device in devices}
    return sum(1 << numbers[device] for device in devices) if chosen <= allocated else None


def conflict(state: PoolState, node: Node, task: Task, chosen: int) -> str | None:
    """The job whose task runs on one of these devices, or shares it; None where they can be exchanged."""
    for job, other in _others(state, node, task):
        is_fixed = other.state not in ("starting", "reserved") or shares_devices(job.group(other.index))
        if other.devices & chosen and is_fixed:
            return job.id
    return None


def _others(state: PoolState, node: Node, task: Task) -> Iterator[tuple[Job, Task]]:
    """The other tasks and reservations on the node that count, in the order of their jobs."""
    for job in state.active_jobs():
        for other in (*job.tasks, *job.reservation):
            if other is not task and other.node == node.number and other.state != "released":
                yield job, other


def _lowest(mask: int, count: int) -> int:
    found = 0
    for number in bits(mask):
        if count == 0:
            break
        found, count = found | 1 << number, count - 1
    return found
