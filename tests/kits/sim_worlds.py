"""Small workloads for tests of the simulator, fixed or random."""

from random import Random

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.facts import JobSubmitted, RequestId
from bailiff_core.replay import Replay
from bailiff_sim.cluster import joined, machines
from bailiff_sim.workload import Outage, Outcome, Workload, WorkloadEvent

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
BEGIN = 1_767_225_600 * SECOND


def policy(**parts: object) -> Policy:
    """The default policy with these parts changed."""
    data = DEFAULT_POLICY.model_dump(mode="json")
    for name, value in parts.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) else value
    return Policy.model_validate(data, strict=False)


def submitted(job: str, gpus: int = 1, tasks: int = 1, cls: str | None = None, **demand: object) -> JobSubmitted:
    """The fact that a job was submitted: `tasks` tasks of `gpus` GPUs each."""
    group = TaskGroup(count=tasks, gpu_milli=1000 * gpus)
    requested = JobDemand.model_validate({"job": job, "tasks": (group,), "priority_class": cls, "max_failures": 0, **demand})
    return JobSubmitted(request=RequestId(source="test", id=job, digest="0" * 64), demand=requested, spec_digest="0" * 64)


class World:
    """A workload under construction; times are µs after its start."""

    def __init__(self, cluster: str = "1x8") -> None:
        self.cluster = cluster
        self.events: list[WorkloadEvent] = []
        self.outcomes: dict[str, Outcome] = {}

    def job(self, name: str, at: int, runs: int, gpus: int = 1, tasks: int = 1, cls: str | None = None, **rest: object) -> None:
        """A job that runs for `runs` µs if not interrupted; `rest`: fields of its outcome, and `demand`, fields of its demand."""
        demand = rest.pop("demand", {})
        assert isinstance(demand, dict)
        self.events.append(WorkloadEvent(BEGIN + at, submitted(name, gpus, tasks, cls, **demand)))
        self.outcomes[name] = Outcome(runs, **rest)

    def fails(self, node: str, at: int, back_after: int | None = None) -> None:
        """A machine fails."""
        self.events.append(WorkloadEvent(BEGIN + at, Outage(node, back_after)))

    def workload(self) -> Workload:
        """The workload, in order of time."""
        in_order = sorted(self.events, key=lambda event: event.time)
        return Workload("test", BEGIN, joined(machines(self.cluster)), in_order, self.outcomes)


def random_world(random: Random, jobs: int) -> World:
    """A crowded pool of two sizes of machines: gangs, classes, checkpoints or none, failures of jobs and of machines."""
    world = World("2x4,1x2")
    outages = random.choice([0, 1, 3])
    # A job that grows by a restart beside a silent node does not converge: a known fault of the core.
    elastic = "live" if outages else random.choice(["live", "restart"])
    for number in range(jobs):
        count, gpus = random.choice([(1, 1), (1, 1), (1, 2), (1, 4), (2, 4), (3, 2)])
        world.job(
            f"job-{number}",
            random.randrange(0, jobs * 2) * MINUTE,
            random.choice([1, 5, 20, 60]) * MINUTE + random.randrange(60) * SECOND,
            gpus=gpus,
            tasks=count,
            cls=random.choice(["train", "train", "interactive", "inference"]),
            checkpoint_every=random.choice([None, 2 * MINUTE]),
            save_time=random.choice([None, 10 * SECOND, 10 * MINUTE]),
            restart_cost=random.choice([0, 30 * SECOND]),
            end=random.choice(["succeeded", "succeeded", "succeeded", "failed", "cancelled"]),
            demand={"min_tasks": random.choice([None, 1]), "elastic": elastic},
        )
    for _ in range(outages):
        back = random.choice([None, MINUTE, 5 * MINUTE, HOUR])
        world.fails(random.choice(["node-0000", "node-0002"]), random.randrange(0, jobs * 2) * MINUTE, back)
    return world


class Reread:
    """A sink that replays every decision from the bytes alone, as an auditor does."""

    def __init__(self) -> None:
        self.replay = Replay()
        self.kinds: dict[str, int] = {}

    def __call__(self, record: Record, wire: Wire) -> None:
        self.kinds[type(record.data).__name__] = self.kinds.get(type(record.data).__name__, 0) + 1
        self.replay.feed(decode(wire), wire)
