"""Metrics of a pool's state: pure functions from the state to samples of `metrics.POOL_METRICS`."""

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from bailiff_core.budgets.use import GPU_HOUR, hours_of, use_now
from bailiff_core.model.claims import believed_less
from bailiff_core.model.evictions import ActiveEviction, active_evictions
from bailiff_core.model.mig import listed_devices, profile_of
from bailiff_core.model.parking import parked_bytes
from bailiff_core.model.snapshots import is_parked
from bailiff_core.model.state import BudgetLevel, Node, PoolState, Task
from bailiff_core.queue import start_slo

from .metrics import (
    BUDGET_HOURS,
    BUDGET_LEVEL,
    DEVICES,
    JOBS_BELIEVED_LESS,
    LATE_STARTS,
    LATE_STARTS_ALLOWED,
    MIG_DEVICES,
    NODES,
    OPEN_EVICTIONS,
    PARKED_JOBS,
    PARKING_MEMORY,
    PAUSED_JOBS,
    QUEUE_LENGTH,
    SNAPSHOT_DRIVERS,
    Sample,
)

NODE_STATES = ("ready", "drained", "unreachable", "lost")
TASK_STAGES = ("noticed", "acknowledged", "checkpoint-started", "checkpoint-committed", "yielding", "term-sent", "kill-sent")
STAGES = ("decided", "started", *TASK_STAGES, "exited", "cancelled", "stuck")
MIG_STATES = ("free", "in-use", "unusable")
DEVICE_STATES = ("healthy", "unhealthy", "releasing", "quarantined")


def pool_samples(state: PoolState) -> Iterator[Sample]:
    """Queue, nodes, devices, start SLOs, budgets, evictions."""
    if state.policy is None:
        return
    pending = Counter(state.jobs[name].class_name for name in state.queue)
    for entry in state.rules.priority_classes:
        yield QUEUE_LENGTH, (entry.name,), pending[entry.name]
    yield JOBS_BELIEVED_LESS, (), len(believed_less(state))
    yield PAUSED_JOBS, (), sum(job.phase == "paused" for job in state.jobs.values())
    states = Counter(state_of(node) for node in state.nodes.values())
    for name in NODE_STATES:
        yield NODES, (name,), states[name]
    yield from _devices(state)
    yield from _mig_devices(state)
    yield from _snapshot_drivers(state)
    yield from _parking(state)
    for slo in start_slo.slo_status(state):
        labels = (slo.class_name, str(slo.percent))
        yield LATE_STARTS, labels, slo.late
        yield LATE_STARTS_ALLOWED, labels, slo.allowed
    yield from _budgets(state)
    yield from evictions(state)


def _budgets(state: PoolState) -> Iterator[Sample]:
    for row in state.rules.budgets:
        use = use_now(state, row)
        yield BUDGET_LEVEL, (row.name,), get_args(BudgetLevel).index(use.level)
        yield BUDGET_HOURS, (row.name, "used"), use.used // GPU_HOUR
        yield BUDGET_HOURS, (row.name, "hours"), hours_of(row, use)


def state_of(node: Node) -> str:
    """The node's state; `drained` for a ready node that is drained."""
    return "drained" if node.state == "ready" and node.drain is not None else node.state


def evictions(state: PoolState) -> Iterator[Sample]:
    """Open evictions by the stage of their slowest task."""
    stages = Counter(stage_of(entry) for entry in active_evictions(state))
    for stage in STAGES:
        yield OPEN_EVICTIONS, (stage,), stages[stage]


def stage_of(entry: ActiveEviction) -> str:
    """The stage of an eviction: that of its slowest task."""
    if entry.eviction.stuck:
        return "stuck"
    if entry.eviction.cancel_seq is not None:
        return "cancelled"
    if entry.eviction.started_seq is None:
        return "decided"
    return min((_stage_of_task(task) for task in entry.tasks), key=STAGES.index, default="started")


def _stage_of_task(task: Task) -> str:
    if task.state in ("exited", "released"):
        return "exited"
    reached = {
        "noticed": task.noticed,
        "acknowledged": task.acknowledged,
        "checkpoint-started": "checkpoint_started" in task.stage_times,
        "checkpoint-committed": "checkpoint_committed" in task.stage_times,
        "yielding": "yielding" in task.stage_times,
        "term-sent": task.term_sent,
        "kill-sent": task.kill_sent,
    }
    return next((stage for stage in reversed(TASK_STAGES) if reached[stage]), "started")


def _devices(state: PoolState) -> Iterator[Sample]:
    """GPUs of nodes that are not lost. releasing: the task exited, the device is not free yet; quarantined: not free in time."""
    healthy = unhealthy = quarantined = 0
    for node in state.nodes.values():
        if node.state != "lost":
            usable = node.capacity.devices.bit_count()
            healthy += usable
            unhealthy += len(listed_devices(node)) - usable
            quarantined += node.quarantined.bit_count()
    exited = (task for name in state.active for task in state.jobs[name].tasks if task.state == "exited")
    releasing = sum(task.devices.bit_count() for task in exited)
    for name, count in zip(DEVICE_STATES, (healthy, unhealthy, releasing, quarantined), strict=True):
        yield DEVICES, (name,), count


def _snapshot_drivers(state: PoolState) -> Iterator[Sample]:
    """In how many nodes that are not lost each driver of snapshots works, and fails."""
    offers = [each for node in state.nodes.values() if node.state != "lost" for each in node.snapshots]
    counts = Counter((each.driver, "fails" if each.why_not else "works") for each in offers)
    for driver in sorted({each.driver for each in offers}):
        for name in ("works", "fails"):
            yield SNAPSHOT_DRIVERS, (driver, name), counts[driver, name]


def _parking(state: PoolState) -> Iterator[Sample]:
    """In use: by parked jobs, and by those that are evicted to be parked."""
    yield PARKED_JOBS, (), sum(is_parked(state.jobs[name]) for name in state.parked)
    offers = {node.number: node.parking for node in state.nodes.values() if node.state != "lost" and node.parking is not None}
    used = sum(size for number, size in parked_bytes(state).items() if number in offers)
    kept = sum(offer.memory_bytes for offer in offers.values())
    for name, size in (("in-use", used), ("free", max(0, kept - used))):
        yield PARKING_MEMORY, (name,), size


def _mig_devices(state: PoolState) -> Iterator[Sample]:
    """MIG devices of nodes that are not lost. in-use: allocated or reserved; unusable: unhealthy or quarantined."""
    counts: dict[str, Counter[str]] = {}
    for node in state.nodes.values():
        usable = node.capacity.devices & ~node.quarantined
        used = node.allocated.devices | node.reserved.devices
        for device in listed_devices(node) if node.state != "lost" else ():
            profile = profile_of(device)
            if profile:
                condition = "unusable" if not usable >> device.number & 1 else "in-use" if used >> device.number & 1 else "free"
                counts.setdefault(profile, Counter())[condition] += 1
    for profile in sorted(counts):
        for name in MIG_STATES:
            yield MIG_DEVICES, (profile, name), counts[profile][name]
