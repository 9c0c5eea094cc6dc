"""Pools with projects: running jobs, pending jobs, and the snapshot for trials."""

from collections.abc import Sequence
from typing import Any

from tests.builders import GIB, Sketch, group

from bailiff_core.fold.pending_queue import enqueue
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Project
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Device, Job, Task
from bailiff_core.model.units import Unit
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


class Trials:
    """The part of a snapshot that shares, order and quota checks read."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage


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
        return Trials(Usage.of(self.state))

    def _job(self, name: str, project: str, groups: tuple[TaskGroup, ...], minimum: int | None, **rest: Any) -> Job:
        demand = JobDemand(job=name, tasks=groups, min_tasks=minimum, project=project or None)
        number = len(self.state.jobs) + 1
        given = {"priority": 50, "preemptible": True, **rest}
        return Job(name, number, 0, demand, "train", given["priority"], given["preemptible"], True, "0" * 64, project=project)


def whole(job: Job) -> Unit:
    """All of the job as one unit."""
    return Unit(job, tuple(range(job.size)), core=True)


def surplus(job: Job, index: int) -> Unit:
    """One task above the minimum."""
    return Unit(job, (index,), core=False)
