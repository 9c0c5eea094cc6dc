"""Jobs of projects, on nodes of eight GPUs, and units of them."""

from tests.builders import Sketch, group

from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, whole_job

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def rules(**parts) -> Policy:
    """The default policy with these parts: `rules(protections={"cooldown": {"job": "5m"}}, projects=[...])`."""
    data = DEFAULT_POLICY.model_dump(mode="json")
    for name, value in parts.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) else value
    return Policy.model_validate(data, strict=False)


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


def surplus(job: Job) -> Unit:
    """The last member alone, as surplus."""
    return Unit(job, (job.tasks[-1].index,), core=False)


def core(job: Job) -> Unit:
    """The job, whole."""
    return whole_job(job)
