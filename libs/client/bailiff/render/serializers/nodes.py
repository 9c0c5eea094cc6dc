"""Serializers of nodes and their GPUs: `bailiff nodes`, `bailiff node`."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.mig import device_gpu_milli, listed_devices, mig_weights_of, profile_of
from bailiff_core.model.parking import parked_bytes
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Device, Job, Node, PoolState, Task
from bailiff_core.views import Gpus, MaintenanceView, NodeState, NodeView, maintenance_view

from .times import moment

DeviceStateWord = Literal["free", "shared", "allocated", "releasing", "reserved", "unhealthy", "quarantined"]

NO_CRIU = "no CRIU was found"
CRIU_PAGE = "docs/how-to/keep-work-without-code.md#on-the-nodes"


class DeviceRow(TypedDict):
    """One GPU or MIG device.

    Attributes:
        state: `free`, `shared`, `allocated`, `releasing`, `reserved`, `unhealthy` or `quarantined`.
        job: The job to which it is allocated, the first of several.
        task: The task of this job.
        shared_by: All tasks on it, as job/task.
        free_milli: Thousandths of it that are neither allocated nor reserved.
        fault: Why it is unhealthy or quarantined.
        fault_job: The last job on it.
        profile: Profile of a MIG device; empty for a GPU.
        parent: The GPU of which a MIG device is part; empty for a GPU.
        island: The same for GPUs that NVLink, or one PCIe switch, connects; empty if unknown.
    """

    number: int
    id: str
    model: str
    memory_bytes: int
    state: DeviceStateWord
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
    """The drain of a node.

    Attributes:
        requester: Who requested it.
        requester_verified: Whether that name was verified.
        due: Its deadline has passed; remaining jobs are evicted.
    """

    seq: int
    requester: str
    requester_verified: bool
    mode: str
    reason: str
    deadline: str | None
    due: bool


class SnapshotRow(TypedDict):
    """A driver that saves and restores tasks on a node.

    Attributes:
        why_not: Why it does not work there; empty: it does.
        bytes_per_s: What it saved when it was probed; 0: unknown.
    """

    driver: str
    version: str
    why_not: str
    bytes_per_s: int


class NodeRow(NodeView):
    """One node in `bailiff nodes`.

    Attributes:
        mig_devices: Number of MIG devices by profile.
        key: The key that it is enrolled with; empty without a valid one; null in a pool without a root key.
        snapshots: The drivers that save and restore tasks on it.
        parking_bytes: Memory that it keeps for parked jobs; 0: it parks none.
        parking_bytes_free: The part of it that is free.
        maintenance: When it is drained for maintenance, if it will be or is.
    """

    number: int
    gpus_free: Annotated[Gpus, Field(description="Of GPUs without any task; none while it is not schedulable.")]
    gpus_allocated: Gpus
    gpus_releasing: Gpus
    gpus_reserved: Gpus
    gpus_shared: Gpus
    gpus_unusable: Gpus
    gpus_quarantined: Gpus
    mig_devices: dict[str, int]
    cpu_milli_free: int
    memory_bytes_free: int
    tasks: int
    labels: dict[str, str]
    incarnation: str
    key: str | None
    drain: DrainRow | None
    maintenance: MaintenanceView | None
    devices: list[DeviceRow]
    snapshots: list[SnapshotRow]
    parking_bytes: int
    parking_bytes_free: int


class Leftovers(TypedDict):
    """What ended tasks have left on a node and its agent could not remove.

    Attributes:
        left_folders: Of how many tasks; null where the reports of the agent could not be read.
        left_example: The first of their folders, and why; empty for none.
    """

    left_folders: int | None
    left_example: str


class ListedNode(NodeRow, Leftovers):
    """One node with what its agent says of itself."""


def node_rows(state: PoolState) -> list[NodeRow]:
    """All nodes, in natural order of their names."""
    holders = _holders(state)
    return [node_row(state, node, holders) for node in sorted(state.nodes.values(), key=lambda node: _natural(node.name))]


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


Holder = tuple[Job, Task]


def _key_of(state: PoolState, node: Node) -> str | None:
    if not state.root_key:
        return None
    return state.enrolled[node.name].key if node.name in state.enrolled else ""


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


def node_row(state: PoolState, node: Node, holders: dict[tuple[int, int], list[Holder]]) -> NodeRow:
    listed, weights = listed_devices(node), mig_weights_of(state.policy)
    devices = [device_row(node, device, holders.get((node.number, device.number), [])) for device in listed]
    profiles = [device["profile"] for device in devices if device["profile"]]
    milli = [device_gpu_milli(device, weights) for device in listed]

    def gpus(*states: DeviceStateWord) -> float:
        return int(sum(each for each, device in zip(milli, devices, strict=True) if device["state"] in states)) / 1000

    planned = state.maintenance.get(node.number)
    return {
        "node": node.name,
        "number": node.number,
        "state": node_state(node),
        "gpus": int(sum(milli)) / 1000,
        "gpus_free": gpus("free") if node.schedulable else 0.0,
        "gpus_allocated": gpus("allocated"),
        "gpus_releasing": gpus("releasing"),
        "gpus_reserved": gpus("reserved"),
        "gpus_shared": gpus("shared"),
        "gpus_unusable": gpus("unhealthy", "quarantined"),
        "gpus_quarantined": gpus("quarantined"),
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
        "key": _key_of(state, node),
        "drain": drain_row(node),
        "maintenance": None if planned is None else maintenance_view(node.name, planned),
        "devices": devices,
        "snapshots": [
            {"driver": each.driver, "version": each.version, "why_not": each.why_not, "bytes_per_s": each.bytes_per_s}
            for each in node.snapshots
        ],
        "parking_bytes": node.parking.memory_bytes if node.parking is not None else 0,
        "parking_bytes_free": max(0, node.parking.memory_bytes - parked_bytes(state)[node.number])
        if node.parking is not None
        else 0,
    }


def node_state(node: Node) -> NodeState:
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
    """The row of one device."""
    bit = 1 << device.number
    holders = [each for each in tasks if each[1].state != "reserved"]
    holder = holders[0] if holders else None
    reserved = next((each for each in tasks if each[1].state == "reserved"), None)
    shares = node.allocated.shares.get(device.number, 0) + node.reserved.shares.get(device.number, 0)
    state: DeviceStateWord
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
