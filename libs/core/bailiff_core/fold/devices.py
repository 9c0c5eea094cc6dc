"""Devices that nobody may be given: not seen free after their task, or broken."""

from bailiff_core.model.pool import Device, Node, Pool
from bailiff_core.records import facts

from .log import remember
from .register import folds


@folds(facts.DeviceQuarantined)
def device_quarantined(pool: Pool, fact: facts.DeviceQuarantined) -> None:
    """It counts for nothing until it is cleared; what was promised on it is looked at again."""
    node, device = _find(pool, fact)
    if device is None:
        return
    if not node.quarantined >> device.number & 1:
        device.trouble_since = pool.now
    node.quarantined |= 1 << device.number
    device.trouble, device.left_by = fact.detail or fact.reason, fact.job
    _changed(pool, node)


@folds(facts.DeviceClearRequested)
def device_clear_requested(pool: Pool, fact: facts.DeviceClearRequested) -> None:
    """Its agent is to be told."""
    _, device = _find(pool, fact)
    if device is not None:
        device.clear_seq = pool.seq
    remember(pool, fact.request)


@folds(facts.DeviceCleared)
def device_cleared(pool: Pool, fact: facts.DeviceCleared) -> None:
    """It may be given out again, unless it is broken as well."""
    node, device = _find(pool, fact)
    if device is None:
        return
    node.quarantined &= ~(1 << device.number)
    device.clear_seq = device.left_by = None
    if device.healthy:
        device.trouble, device.trouble_since = "", None
    _changed(pool, node)


@folds(facts.DeviceUnhealthy)
def device_unhealthy(pool: Pool, fact: facts.DeviceUnhealthy) -> None:
    """Nothing is placed there, and who stands on it is no failure of its own."""
    node, device = _find(pool, fact)
    if device is None:
        return
    if device.healthy and not node.quarantined >> device.number & 1:
        device.trouble_since = pool.now
    device.healthy, device.trouble = False, fact.detail or fact.reason
    device.clear_seq = None
    node.capacity.devices &= ~(1 << device.number)
    lose_device(pool, node, device)
    _changed(pool, node)


@folds(facts.DeviceHealthy)
def device_healthy(pool: Pool, fact: facts.DeviceHealthy) -> None:
    """It may be given out again, unless it is quarantined as well."""
    node, device = _find(pool, fact)
    if device is None:
        return
    device.healthy = True
    node.capacity.devices |= 1 << device.number
    if not node.quarantined >> device.number & 1:
        device.trouble, device.trouble_since, device.clear_seq = "", None, None
    _changed(pool, node)


@folds(facts.ShareExceeded)
def share_exceeded(pool: Pool, fact: facts.ShareExceeded) -> None:
    """Whether it leaves for it is the policy's."""
    job = pool.jobs.get(fact.job)
    task = job.task(fact.task) if job is not None and job.attempt == fact.attempt else None
    if job is not None and task is not None and pool.rules.devices.over_share == "evict":
        task.over_share = True
        pool.touched[job.id] = None


def _find(pool: Pool, fact: facts.DeviceFact) -> tuple[Node, Device | None]:
    """The device, where the node has it (still)."""
    node = pool.nodes[pool.node_numbers[fact.node]]
    return node, next((device for device in node.devices if device.id == fact.device), None)


def lose_device(pool: Pool, node: Node, device: Device) -> None:
    """Whoever stands on it now has to leave, and what becomes of it is no failure of its own."""
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.node == node.number and task.devices >> device.number & 1 and task.state not in ("reserved", "released"):
                task.device_failed = True
                pool.touched[job.id] = None


def _changed(pool: Pool, node: Node) -> None:
    """Whoever is first in the queue may wait for other room now."""
    pool.room_grew = True
    pool.stale_nodes[node.number] = None
