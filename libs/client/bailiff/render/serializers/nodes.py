"""Serializers of nodes and their GPUs: `bailiff nodes`, `bailiff node`."""

import re
from collections.abc import Iterator
from typing import TypedDict

from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.mig import listed_devices, profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Device, Job, Node, PoolState, Task

from .times import moment


class DeviceRow(TypedDict):
    """One GPU or MIG device. state: free, shared, allocated, releasing, reserved, unhealthy or quarantined.

    job, task: to which it is allocated, the first of several; shared_by: all of them, as job/task; free_milli: thousandths of it
    that are neither allocated nor reserved. fault: why it is unhealthy or quarantined; fault_job: the last job on it. profile:
    of a MIG device, of the card parent; island: the same for GPUs that NVLink, or one PCIe switch, connects; each empty if none.
    """

    number: int
    id: str
    model: str
    memory_bytes: int
    state: str
    job: str | None
    task: int | None
    reserved_for: str | None
    shared_by: list[str]
    free_milli: int
    fault: str
    fault_since: str | None
    fault_job: str | None
    profile: str
    parent: str | None
    island: str


class DrainRow(TypedDict):
    """The drain of a node. due: its deadline has passed, remaining jobs are evicted.

    requester: who requested it; requester_verified: whether that is known.
    """

    seq: int
    requester: str
    requester_verified: bool
    mode: str
    reason: str
    deadline: str | None
    due: bool


class NodeRow(TypedDict):
    """One node in `bailiff nodes`. state: ready, unreachable or lost; draining or drained: unschedulable.

    gpus, gpus_free, ...: of its GPUs and MIG devices; mig_devices: by profile, those of them that are MIG devices.
    """

    node: str
    number: int
    state: str
    gpus: int
    gpus_free: int
    gpus_allocated: int
    gpus_releasing: int
    gpus_reserved: int
    gpus_shared: int
    gpus_unusable: int
    gpus_quarantined: int
    gpu_models: list[str]
    mig_devices: dict[str, int]
    cpu_milli: int
    cpu_milli_free: int
    memory_bytes: int
    memory_bytes_free: int
    tasks: int
    labels: dict[str, str]
    machine_id: str
    incarnation: str
    drain: DrainRow | None
    devices: list[DeviceRow]


def node_rows(state: PoolState) -> list[NodeRow]:
    """All nodes, in natural order of their names."""
    holders = _holders(state)
    return [node_row(node, holders) for node in sorted(state.nodes.values(), key=lambda node: _natural(node.name))]


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


Holder = tuple[Job, Task]


def _holders(state: PoolState) -> dict[tuple[int, int], list[Holder]]:
    """Tasks to which each device is allocated or reserved, by (node, device)."""
    found: dict[tuple[int, int], list[Holder]] = {}
    for job, task in _placed_tasks(state):
        for device in bits(task.devices):
            found.setdefault((task.node, device), []).append((job, task))
    return found


def _placed_tasks(state: PoolState) -> Iterator[Holder]:
    for job in state.active_jobs():
        for task in job.tasks:
            if task.state != "released":
                yield job, task


def node_row(node: Node, holders: dict[tuple[int, int], list[Holder]]) -> NodeRow:
    """The row of one node."""
    devices = [device_row(node, device, holders.get((node.number, device.number), [])) for device in listed_devices(node)]
    profiles = [device["profile"] for device in devices if device["profile"]]
    states = [device["state"] for device in devices]
    return {
        "node": node.name,
        "number": node.number,
        "state": node_state(node),
        "gpus": len(devices),
        "gpus_free": states.count("free") if node.schedulable else 0,
        "gpus_allocated": states.count("allocated"),
        "gpus_releasing": states.count("releasing"),
        "gpus_reserved": states.count("reserved"),
        "gpus_shared": states.count("shared"),
        "gpus_unusable": states.count("unhealthy") + states.count("quarantined"),
        "gpus_quarantined": states.count("quarantined"),
        "gpu_models": sorted({device["model"] for device in devices}),
        "mig_devices": {profile: profiles.count(profile) for profile in sorted(dict.fromkeys(profiles))},
        "cpu_milli": node.capacity.cpu_milli,
        "cpu_milli_free": node.capacity.cpu_milli - node.allocated.cpu_milli,
        "memory_bytes": node.capacity.memory_bytes,
        "memory_bytes_free": node.capacity.memory_bytes - node.allocated.memory_bytes,
        "tasks": node.allocated.slots,
        "labels": dict(node.labels),
        "machine_id": node.machine_id,
        "incarnation": node.incarnation,
        "drain": drain_row(node),
        "devices": devices,
    }


def node_state(node: Node) -> str:
    """State of the node in one word. A drained node with tasks is draining."""
    if node.state != "ready" or node.drain is None:
        return node.state
    return "draining" if node.allocated.slots else "drained"


def drain_row(node: Node) -> DrainRow | None:
    """The drain of the node, or None."""
    drain = node.drain
    if drain is None:
        return None
    return {
        "seq": drain.seq,
        "requester": drain.requester,
        "requester_verified": drain.requester_verified,
        "mode": drain.mode,
        "reason": drain.reason,
        "deadline": moment(drain.deadline),
        "due": drain.due,
    }


def device_row(node: Node, device: Device, tasks: list[Holder]) -> DeviceRow:
    """The row of one device. tasks: its tasks."""
    bit = 1 << device.number
    holders = [each for each in tasks if each[1].state != "reserved"]
    holder = holders[0] if holders else None
    reserved = next((each for each in tasks if each[1].state == "reserved"), None)
    shares = node.allocated.shares.get(device.number, 0) + node.reserved.shares.get(device.number, 0)
    if not device.healthy:
        state = "unhealthy"
    elif node.quarantined & bit:
        state = "quarantined"
    elif node.releasing.devices & bit:
        state = "releasing"
    elif node.allocated.devices & bit:
        state = "allocated"
    elif node.reserved.devices & bit:
        state = "reserved"
    elif shares:
        state = "shared"
    else:
        state = "free"
    return {
        "number": device.number,
        "id": device.id,
        "model": device.model,
        "memory_bytes": device.memory_bytes,
        "state": state,
        "job": holder[0].id if holder else None,
        "task": holder[1].index if holder else None,
        "reserved_for": reserved[0].id if reserved else None,
        "shared_by": [f"{job.id}/{task.index}" for job, task in tasks] if state == "shared" else [],
        "free_milli": {"free": 1000, "shared": 1000 - -(-1000 * shares // units_of(device))}.get(state, 0),
        "fault": device.fault,
        "fault_since": moment(device.fault_since),
        "fault_job": device.fault_job,
        "profile": profile_of(device),
        "parent": device.parent,
        "island": device.island,
    }
