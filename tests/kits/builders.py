"""Builds pool states for tests of code that reads a pool. `Sketch` keeps the totals of nodes as the fold would."""

from collections.abc import Mapping, Sequence

from bailiff_core.fold.pending_queue import dequeue, enqueue
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.resources import add
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import Device, Eviction, Job, JobPhase, Node, PoolState, Resources, Task
from bailiff_core.model.units import Unit, next_unit

GIB = 2**30
HOUR = 3_600_000_000
MINUTE = 60_000_000


def group(count: int = 1, gpus: int = 0, cpu: int = 0, gib: int = 0, **rest: object) -> TaskGroup:
    """`count` tasks with whole GPUs, CPUs and GiB of memory each; `rest` as in `TaskGroup`."""
    data = {"count": count, "gpu_milli": gpus * 1000, "cpu_milli": cpu * 1000, "memory_bytes": gib * GIB, **rest}
    return TaskGroup.model_validate(data)


def requested_unit(job: Job) -> Unit:
    """The unit that the pending job requests."""
    unit = next_unit(job)
    assert unit is not None
    return unit


class Sketch:
    """A pool under construction."""

    def __init__(self, state: PoolState | None = None, **gpus: int) -> None:
        """gpus: of each of its first nodes, by name."""
        self.state = state or PoolState(pool="test", policy=DEFAULT_POLICY, now=100 * HOUR)
        for name, number in gpus.items():
            self.node(name, gpus=number)

    def node(
        self,
        name: str,
        gpus: int = 8,
        cpu: int = 1000,
        gib: int = 1000,
        slots: int = 1000,
        labels: Mapping[str, str] | None = None,
        models: Sequence[str] = ("h100",),
    ) -> Node:
        """A ready node. `models` are assigned to its devices cyclically."""
        number = len(self.state.nodes)
        devices = [Device(n, f"{name}-{n}", models[n % len(models)], 80 * GIB) for n in range(gpus)]
        room = Resources((1 << gpus) - 1, cpu * 1000, gib * GIB, slots)
        node = Node(number, name, f"i-{name}", f"m-{name}", f"b-{name}", 0, room, devices, dict(labels or {}))
        self.state.nodes[number] = node
        self.state.node_numbers[name] = number
        return node

    def job(self, name: str, *groups: TaskGroup, priority: int = 50, preemptible: bool = True, seq: int | None = None) -> Job:
        """A pending job in the queue."""
        demand = JobDemand(job=name, tasks=groups or (group(),))
        number = len(self.state.jobs) + 1 if seq is None else seq
        job = Job(name, number, 0, demand, "train", priority, preemptible, True, "0" * 64)
        job.base_priority, job.scheduling_class = priority, scheduling_class_of(demand)
        self.state.jobs[name] = job
        enqueue(self.state, job)
        return job

    def at(
        self,
        job: Job,
        *places: tuple[str, Sequence[int]],
        phase: JobPhase = "running",
        age: int = HOUR,
        preemption: int | None = None,
    ) -> Job:
        """Place the pending job: (node name, device numbers) per task."""
        dequeue(self.state, job)
        self.state.active[job.id] = None
        job.phase, job.attempt, job.last_start = phase, 1, None if phase == "reserved" else self.state.now - age
        state = {"reserved": "reserved", "starting": "starting"}.get(phase, "running")
        for index, ((name, numbers), need) in enumerate(zip(places, job.groups(), strict=True)):
            node = self.state.nodes[self.state.node_numbers[name]]
            mask = sum(1 << number for number in numbers)
            job.tasks.append(Task(index, node.number, mask, state))
            amounts = task_resources(node, need, mask)
            add(node.reserved if phase == "reserved" else node.allocated, *amounts)
            if phase == "evicting":
                add(node.releasing, *amounts)
        if phase == "evicting":
            job.eviction = Eviction(1, "preemption", 30_000_000, preemption=preemption)
        return job

    def running(self, name: str, node: str, devices: Sequence[int], **rest: object) -> Job:
        """A running job of one task on these devices."""
        phase, age = rest.pop("phase", "running"), rest.pop("age", HOUR)
        return self.at(self.job(name, group(gpus=len(devices)), **rest), (node, devices), phase=phase, age=age)
