"""Parking: an evicted task stays in the memory of its node, stopped, and resumes there within seconds.

A node says how much memory it keeps for that, apart from what tasks may request. Jobs of one task are parked.
"""

from collections import Counter

from .evictions import ActiveEviction
from .gpu_shares import shares_devices
from .snapshots import BY_NODE, EXITED, checkpointing, has_parked, is_parked
from .state import EvictionCause, Job, Node, PoolState

CAUSES: tuple[EvictionCause, ...] = ("preemption", "requested", "paused", "policy", "budget")
"""Why a job is evicted that may soon go on where it was."""


def parks(state: PoolState, job: Job) -> bool:
    """Whether an eviction of the job would park it, as far as is known; of a job whose task has ended, has parked it."""
    if len(job.tasks) != 1:
        return False
    task = job.tasks[0]
    if task.state in EXITED:
        return "parked" in task.stage_times
    return state.nodes[task.node].parking is not None and not why_not_parked(state, job)


def why_not_parked(state: PoolState, job: Job) -> str:
    """Returns why an eviction does not park the job, which runs; empty: it does."""
    if state.rules.snapshots.park_limit is None:
        return "the policy parks no jobs"
    if checkpointing(state.rules, job) not in BY_NODE:
        return "its checkpoint is neither snapshot nor auto"
    if job.size != 1 or len(job.tasks) != 1:
        return "only jobs of one task are parked"
    task = job.tasks[0]
    node, group = state.nodes[task.node], job.group(task.index)
    if node.parking is None:
        return f"{node.name} keeps no memory for parked jobs"
    if task.waits or task.state != "running":
        return "its task does not run"
    if not node.schedulable:
        return f"{node.name} takes no jobs back"
    if task.devices and (not node.parking.gpus or shares_devices(group) or group.mig_profile is not None):
        return f"{node.name} has no driver that takes its GPU memory"
    if not group.memory_bytes:
        return "it requests no memory, so nobody knows what parking it takes"
    free = node.parking.memory_bytes - parked_bytes(state)[node.number]
    return "" if memory_to_park(state, job) <= free else f"the memory that {node.name} keeps for parked jobs is in use"


def is_to_be_parked(state: PoolState, entry: ActiveEviction) -> bool:
    """Whether this eviction, which starts, parks the job."""
    job, cause = entry.job, entry.eviction.cause
    comes_back = not job.cancelled and job.demand.on_eviction != "end" and not job.reservation
    return not entry.part and cause in CAUSES and comes_back and not why_not_parked(state, job)


def memory_to_park(state: PoolState, job: Job) -> int:
    """Returns the memory that its task requests, and that of its GPUs, bytes."""
    task = job.tasks[0]
    devices = (device for device in state.nodes[task.node].devices if task.devices >> device.number & 1)
    return job.group(task.index).memory_bytes + sum(device.memory_bytes for device in devices)


def parked_bytes(state: PoolState) -> Counter[int]:
    """Returns the memory of parked tasks, and of those that are evicted to be parked, by the number of their node."""
    held = Counter[int]()
    for job in map(state.jobs.__getitem__, state.parked):
        if is_parked(job):
            assert job.snapshot is not None
            for each in job.snapshot.tasks:
                held[each.node] += each.bytes if has_parked(state.nodes[each.node], each) else 0
        if job.eviction is not None and job.eviction.parks:
            held[job.tasks[0].node] += memory_to_park(state, job)
    return held


def parked_on(state: PoolState, job: Job) -> Node | None:
    """Returns the node that has the parked job; None: it is not parked, or on a machine that is lost."""
    if not is_parked(job):
        return None
    assert job.snapshot is not None
    [part] = job.snapshot.tasks
    node = state.nodes[part.node]
    return node if has_parked(node, part) and node.state != "lost" else None
