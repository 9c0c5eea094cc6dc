"""What the state of a pool says in numbers: pure functions from the pool to samples of `metrics.POOL_METRICS`."""

from collections import Counter
from collections.abc import Iterator

from bailiff_core.lifecycle.evictions import Leaving, leaving
from bailiff_core.model.pool import Node, Pool, Task
from bailiff_core.protections import start_within

from .metrics import DEVICES, LATE_STARTS, LATE_STARTS_ALLOWED, NODES, OPEN_EVICTIONS, PAUSED_JOBS, QUEUE_LENGTH, Sample

NODE_STATES = ("ready", "drained", "unreachable", "lost")
TASK_STAGES = ("noticed", "acknowledged", "saving", "saved", "yielding", "term-sent", "kill-sent")
STAGES = ("decided", "begun", *TASK_STAGES, "exited", "taken-back", "stuck")
DEVICE_STATES = ("healthy", "sick", "not-free", "quarantined")


def everything(pool: Pool) -> Iterator[Sample]:
    """Queue, nodes, devices, promised starts, evictions."""
    if pool.policy is None:
        return
    waiting = Counter(pool.jobs[name].class_name for name in pool.queue)
    for entry in pool.rules.priority_classes:
        yield QUEUE_LENGTH, (entry.name,), waiting[entry.name]
    yield PAUSED_JOBS, (), sum(job.phase == "paused" for job in pool.jobs.values())
    states = Counter(state_of(node) for node in pool.nodes.values())
    for state in NODE_STATES:
        yield NODES, (state,), states[state]
    yield from _devices(pool)
    for promise in start_within.kept(pool):
        labels = (promise.class_name, str(promise.percent))
        yield LATE_STARTS, labels, promise.late
        yield LATE_STARTS_ALLOWED, labels, promise.allowed
    yield from evictions(pool)


def state_of(node: Node) -> str:
    """Its state, or that it takes nothing new, because somebody drained it."""
    return "drained" if node.state == "ready" and node.drain is not None else node.state


def evictions(pool: Pool) -> Iterator[Sample]:
    """Open evictions by the stage that the slowest of their tasks has reached."""
    stages = Counter(stage_of(entry) for entry in leaving(pool))
    for stage in STAGES:
        yield OPEN_EVICTIONS, (stage,), stages[stage]


def stage_of(entry: Leaving) -> str:
    """How far an eviction has come, by the task that is furthest behind."""
    if entry.eviction.stuck:
        return "stuck"
    if entry.eviction.spare_seq is not None:
        return "taken-back"
    if entry.eviction.begun_seq is None:
        return "decided"
    return min((_stage_of_task(task) for task in entry.tasks), key=STAGES.index, default="begun")


def _stage_of_task(task: Task) -> str:
    if task.state in ("exited", "released"):
        return "exited"
    reached = {
        "noticed": task.noticed,
        "acknowledged": task.acknowledged,
        "saving": "checkpoint_started" in task.reached,
        "saved": "checkpoint_committed" in task.reached,
        "yielding": "yielding" in task.reached,
        "term-sent": task.term_sent,
        "kill-sent": task.kill_sent,
    }
    return next((stage for stage in reversed(TASK_STAGES) if reached[stage]), "begun")


def _devices(pool: Pool) -> Iterator[Sample]:
    """Of nodes that are not lost. not-free: its task exited, and it was not seen free yet; quarantined: not in time."""
    healthy = sick = quarantined = 0
    for node in pool.nodes.values():
        if node.state != "lost":
            usable = node.capacity.devices.bit_count()
            healthy += usable
            sick += len(node.devices) - usable
            quarantined += node.quarantined.bit_count()
    not_free = sum(task.devices.bit_count() for name in pool.active for task in pool.jobs[name].tasks if task.state == "exited")
    for state, count in zip(DEVICE_STATES, (healthy, sick, not_free, quarantined), strict=True):
        yield DEVICES, (state,), count
