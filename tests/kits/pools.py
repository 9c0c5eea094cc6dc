"""Pools of jobs and projects in short lines, and units of their jobs: as records lead to them (`pool`), or set directly.

A pool in the notation of the scenarios (tests/scenarios/README.md):

    state = pool("young: train, 1 gpu, on a; asks: interactive, 1 gpu", policy={"protections": {"cooldown": {"job": "5m"}}})
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from tests.kits import notation
from tests.kits.builders import GIB, HOUR, Sketch, group
from tests.kits.log_builder import policy as rules
from tests.kits.snapshots import snapshot

from bailiff_core.fold.pending_queue import enqueue
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Project
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Device, Job, PoolState, Task
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.plan import Planning
from bailiff_core.quota.fair_share import Entitlement, _entitlement
from bailiff_core.quota.usage import Usage


def gpus(number: float, cpus: float = 0, gib: float = 0) -> ResourceVector:
    """Amounts as people count them."""
    return ResourceVector(int(number * 1000), int(cpus * 1000), int(gib * GIB))


def project(name: str, parent: str | None = None, *, quota: Any = 0, limit: Any = -1, weight: Any = 1, **rest: Any) -> Project:
    """A project; a plain number as quota or limit is one of GPUs."""
    return Project.model_validate(
        {
            "name": name,
            "parent": parent,
            "quota": quota if isinstance(quota, dict) else {"gpus": quota},
            "limit": limit if isinstance(limit, dict) else {"gpus": limit},
            "over_quota_weight": weight,
            **rest,
        },
        strict=False,
    )


def entitled(tree: ProjectTree, shares: Mapping[str, ResourceVector]) -> dict[str, Entitlement]:
    """What projects with these fair shares are entitled to, where all quotas can be met."""
    return {name: _entitlement(tree.branches[name], share, *[tree.branches[name].quota] * 2) for name, share in shares.items()}


class Trials:
    """The part of a snapshot that shares, order and quota checks read."""

    def __init__(self, state: PoolState, usage: Usage) -> None:
        self.state, self.usage = state, usage


class Town(Sketch):
    """A sketch whose policy has projects, on one node with so many GPUs."""

    def __init__(self, *projects: Project, gpus: int = 8, memory: Sequence[int] = ()) -> None:
        """memory: of the node's devices in GiB, where it matters."""
        super().__init__()
        self.state.policy = DEFAULT_POLICY.model_copy(update={"projects": projects})
        node = self.node("n1", gpus=gpus)
        for number, gib in enumerate(memory):
            node.devices[number] = Device(number, f"d{number}", "h100", gib * GIB)

    def waits(self, name: str, project: str, *groups: TaskGroup, minimum: int | None = None, **rest: Any) -> Job:
        """A job that waits in the project's queue: of one GPU, where nothing else is said."""
        self.state.jobs[name] = job = self._job(name, project, groups or (group(gpus=1),), minimum, **rest)
        enqueue(self.state, job)
        return job

    def runs(
        self,
        name: str,
        project: str,
        *groups: TaskGroup,
        minimum: int | None = None,
        placed: int | None = None,
        devices: int = 0,
        **rest: Any,
    ) -> Job:
        """A running job, all of it or its first `placed` tasks, each on this mask of devices."""
        self.state.jobs[name] = job = self._job(name, project, groups or (group(gpus=1),), minimum, **rest)
        self.state.active[name] = None
        self.state.indices.changed_jobs[name] = None
        job.phase, job.attempt = "running", 1
        job.tasks = [Task(index, 0, devices, "running") for index in range(job.size if placed is None else placed)]
        return job

    def snapshot(self) -> Trials:
        """Use as it is now."""
        return Trials(self.state, Usage.of(self.state))

    def _job(self, name: str, project: str, groups: tuple[TaskGroup, ...], minimum: int | None, **rest: Any) -> Job:
        demand = JobDemand(job=name, tasks=groups, min_tasks=minimum, project=project or None)
        number = len(self.state.jobs) + 1
        given = {"priority": 50, "preemptible": True, **rest}
        return Job(name, number, 0, demand, "train", given["priority"], given["preemptible"], True, "0" * 64, project=project)


def whole(job: Job) -> Unit:
    """All of the job as one unit."""
    return Unit(job, tuple(range(job.size)), core=True)


def surplus(job: Job, index: int | None = None) -> Unit:
    """One task above the minimum: the last one, where none is named."""
    return Unit(job, (job.tasks[-1].index if index is None else index,), core=False)


class Bench:
    """A pool with one node of eight GPUs and a pending preemptor."""

    def __init__(self, **parts) -> None:
        self.sketch = Sketch()
        self.state = self.sketch.state
        self.state.policy = rules(**parts)
        self.sketch.node("a")
        self._used = 0
        self.preemptor = self.waiting("preemptor", priority=75, project="ours")

    def waiting(self, name: str, *, project: str = "", labels=None, gpus: int = 1, tasks: int = 1, priority: int = 50, **demand):
        """A job in the queue."""
        job = self.sketch.job(name, group(count=tasks, gpus=gpus), priority=priority)
        job.project, job.base_priority = project, priority
        job.demand = job.demand.model_copy(update={"labels": labels or {}, **demand})
        return job

    def running(self, name: str, *, gpus: int = 1, tasks: int = 1, age: int = HOUR, phase="running", **about) -> Job:
        """A job on the next free devices of the node."""
        job = self.waiting(name, gpus=gpus, tasks=tasks, **about)
        places = []
        for _ in range(tasks):
            places.append(("a", range(self._used, self._used + gpus)))
            self._used += gpus
        self.sketch.at(job, *places, phase=phase, age=age)
        if phase == "starting":
            job.last_start = None
            self.state.starting[job.id] = None
        if phase == "reserved":
            self.state.reserved[job.id] = None
        if phase == "evicting":
            self.state.evicting[job.id] = None
        return job

    def later(self, time: int) -> None:
        """Time passes, nothing else."""
        self.state.now += time


def core(job: Job) -> Unit:
    """The job, whole."""
    return whole_job(job)


def pool(jobs: str, nodes: str = "a: 8 gpus", projects: str = "", **rest: Any) -> PoolState:
    """The pool that these lines describe, each `name: phrases`, with `;` between them; `rest`: other fields of a snapshot."""
    document = {
        "nodes": notation.nodes(_lines(nodes)),
        "jobs": notation.jobs(_lines(jobs)),
        **({"projects": notation.projects(_lines(projects))} if projects else {}),
        **rest,
    }
    return Planning(snapshot(document)).state


def _lines(text: str) -> dict[str, Any]:
    """A line may be a mapping in braces, too: `y: {is: 'train, 1 gpu, on a', evicted_at: [1m ago]}`."""
    lines = (line.partition(":") for line in text.split(";") if line.strip())
    return {name.strip(): yaml.safe_load(rest) if "{" in rest else rest for name, _, rest in lines}
