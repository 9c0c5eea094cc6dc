"""Devices out of use: quarantined or unhealthy."""

from bailiff_core.model.state import Device, Node, PoolState
from bailiff_core.records import facts

from .log import remember
from .registry import folds


@folds(facts.DeviceQuarantined)
def device_quarantined(state: PoolState, fact: facts.DeviceQuarantined) -> None:
    """The device is not assigned until it is cleared; queued jobs are tried again."""
    node, device = _find(state, fact)
    if device is None:
        return
    if not node.quarantined >> device.number & 1:
        device.fault_since = state.now
    node.quarantined |= 1 << device.number
    device.fault, device.fault_job = fact.detail or fact.reason, fact.job
    _changed(state, node)


@folds(facts.DeviceClearRequested)
def device_clear_requested(state: PoolState, fact: facts.DeviceClearRequested) -> None:
    """Stores the request; admission sends it to the agent."""
    _, device = _find(state, fact)
    if device is not None:
        device.clear_seq = state.seq
    remember(state, fact.request)


@folds(facts.DeviceCleared)
def device_cleared(state: PoolState, fact: facts.DeviceCleared) -> None:
    """The device may be assigned again, unless it is unhealthy."""
    node, device = _find(state, fact)
    if device is None:
        return
    node.quarantined &= ~(1 << device.number)
    device.clear_seq = device.fault_job = None
    if device.healthy:
        device.fault, device.fault_since = "", None
    _changed(state, node)


@folds(facts.DeviceUnhealthy)
def device_unhealthy(state: PoolState, fact: facts.DeviceUnhealthy) -> None:
    """The device leaves the capacity; its tasks are marked, so that their exit is not counted as a failure."""
    node, device = _find(state, fact)
    if device is None:
        return
    if device.healthy and not node.quarantined >> device.number & 1:
        device.fault_since = state.now
    device.healthy, device.fault = False, fact.detail or fact.reason
    device.clear_seq = None
    node.capacity.devices &= ~(1 << device.number)
    mark_device_failed(state, node, device)
    _changed(state, node)


@folds(facts.DeviceHealthy)
def device_healthy(state: PoolState, fact: facts.DeviceHealthy) -> None:
    """The device may be assigned again, unless it is quarantined."""
    node, device = _find(state, fact)
    if device is None or device.gone:
        return
    device.healthy = True
    node.capacity.devices |= 1 << device.number
    if not node.quarantined >> device.number & 1:
        device.fault, device.fault_since, device.clear_seq = "", None, None
    _changed(state, node)


@folds(facts.ShareExceeded)
def share_exceeded(state: PoolState, fact: facts.ShareExceeded) -> None:
    """Marks the task for eviction if the policy evicts for this."""
    job = state.jobs.get(fact.job)
    if job is None or job.attempt != fact.attempt:
        return
    task = job.task(fact.task)
    if task is not None and state.rules.devices.over_share == "evict":
        task.over_share = True
        state.indices.touched[job.id] = None


def _find(state: PoolState, fact: facts.DeviceFact) -> tuple[Node, Device | None]:
    """Returns the node, and the device or `None` if the node no longer has it."""
    node = state.nodes[state.node_numbers[fact.node]]
    return node, next((device for device in node.devices if device.id == fact.device), None)


def mark_device_failed(state: PoolState, node: Node, device: Device) -> None:
    """Marks the tasks on the device: they are evicted, and their exit is not counted as a failure."""
    for job in state.active_jobs():
        for task in job.tasks:
            if task.node == node.number and task.devices >> device.number & 1 and task.state not in ("reserved", "released"):
                task.device_failed = True
                state.indices.touched[job.id] = None


def _changed(state: PoolState, node: Node) -> None:
    """Schedules new tries of jobs that did not fit, and an update of the node's resources."""
    state.indices.retry_unschedulable = True
    state.indices.changed_nodes[node.number] = None
