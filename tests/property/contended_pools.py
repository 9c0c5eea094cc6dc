"""Full pools of nodes with GPUs of several kinds, in which most preemptors find victims, and relocations are often possible."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.kits.builders import GIB, HOUR, MINUTE, Sketch, group
from tests.kits.log_builder import policy

from bailiff_core.model.demand import SubGroup, TaskGroup, TopologyRule
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.policy import Policy
from bailiff_core.model.resources import remove
from bailiff_core.model.state import Device, Job

Fields = dict[str, Any]
LEAVES = ("a", "b", "c", "d")
LABELS = ("x", "y", "z")
AGES = (0, MINUTE, 5 * MINUTE, HOUR, HOUR, 2 * HOUR)


class Free:
    """What is still free of a node. devices: thousandths of each."""

    def __init__(self, gpus: int, cpu: int, gib: int, slots: int) -> None:
        self.devices, self.cpu, self.gib, self.slots = [1000] * gpus, cpu, gib, slots

    def devices_for(self, task: TaskGroup) -> list[int] | None:
        """The first devices that have enough left, `None` if the task does not fit."""
        part, count = (task.gpu_share_milli, task.gpu_devices or 1) if task.gpu_share_milli else (1000, task.gpu_milli // 1000)
        found = [number for number, left in enumerate(self.devices) if left >= part][:count]
        fits = self.cpu * 1000 >= task.cpu_milli and self.gib * GIB >= task.memory_bytes and self.slots >= 1
        return found if fits and len(found) == count else None

    def take(self, task: TaskGroup, devices: Sequence[int]) -> None:
        """Place it there."""
        for number in devices:
            self.devices[number] -= task.gpu_share_milli or 1000
        self.cpu -= task.cpu_milli // 1000
        self.gib -= task.memory_bytes // GIB
        self.slots -= 1


def contended_pool(random: Random) -> tuple[Sketch, list[Job]]:
    """Such a pool, and one to four preemptors."""
    sketch = Sketch()
    sketch.state.policy = rules(random)
    named = [project.name for project in sketch.state.policy.projects if project.name in LEAVES]
    shapes = random.choice((_small, _small, _mixed, _mixed, _gangs))
    free = {name: _node(random, sketch, name) for name in [f"n{number}" for number in range(random.randint(2, 6))]}
    for number in range(40):
        if len(sketch.state.jobs) < 24:
            _place(random, sketch, free, f"j{number}", shapes, named)
    _give_back(random, sketch)
    preemptors = [_preemptor(random, sketch, f"p{number}", shapes, named) for number in range(random.choice((1, 2, 2, 3, 4)))]
    sketch.state.indices.snapshot = None
    return sketch, preemptors


def rules(random: Random) -> Policy:
    """A policy with which most jobs may be evicted."""
    of = random.choice
    return policy(
        projects=_projects(random) if random.random() < 0.8 else [],
        topologies=[{"name": "hall", "levels": ["zone", "rack"]}],
        packing=of(("binpack", "binpack", "spread")),
        placement=of(("any", "any", "prefer nvlink")),
        preemption={
            "scope": of((None, "pool", "pool", "project")),
            "quota_shields": random.random() < 0.4,
            "cap_at_fair_share": random.random() < 0.5,
            "max_migrations": of((0, 1, 2, 3, None)),
            "restart_cost": of((0, MINUTE, 10 * MINUTE)),
            "max_counted_loss": of((0, HOUR, 10 * HOUR)),
            "cpus_per_gpu": of((1, 4, 16)),
        },
        protections={
            "min_runtime": {"preempt": of((0, 0, 0, MINUTE)), "reclaim": of((0, 0, 0, 5 * MINUTE))},
            "budgets": [
                {"name": f"of-{label}", "labels": {"team": label}, "max_disruptions": of((0, 1, 2))}
                for label in LABELS
                if random.random() < 0.15
            ],
        },
    )


def _projects(random: Random) -> list[Fields]:
    parents = random.choice(({}, {"a": "red", "b": "red"}, {"a": "red", "b": "red", "c": "blue", "red": "lab", "blue": "lab"}))
    names = [*dict.fromkeys(parents.values()), *LEAVES]
    names.sort(key=("lab", "red", "blue", *LEAVES).index)
    return [{"name": name, **({"parent": parents[name]} if name in parents else {}), **_share(random, name)} for name in names]


def _share(random: Random, name: str) -> Fields:
    of = random.choice
    share: Fields = {"quota": {"gpus": of((0, 0, 1, 2, 3, 5, 0.5) if name in LEAVES else (2, 4, 8, -1))}}
    if random.random() < 0.25:
        share["quota"] |= {"cpus": of((0, 4, 16)), "memory": f"{of((0, 32, 128))}GiB"}
    if random.random() < 0.2:
        share["limit"] = {"gpus": of((3, 5, 8)), **({"cpus": of((8, 20))} if random.random() < 0.3 else {})}
    if random.random() < 0.5:
        share["over_quota_weight"] = of((0, 1, 2, 3))
    if random.random() < 0.2:
        share["priority"] = of((-1, 1, 2))
    return share


def _node(random: Random, sketch: Sketch, name: str) -> Free:
    of = random.choice
    gpus, cpu, gib, slots = of((2, 2, 3, 4, 4, 8)), of((8, 16, 64, 64)), of((64, 1000, 1000)), of((4, 1000, 1000))
    labels = {"zone": of("pq"), "rack": of("rst")}
    node = sketch.node(name, gpus, cpu, gib, slots, labels=labels)
    kinds, island = of((("h100",), ("h100",), ("h100",), ("a100",), ("h100", "a100"))), of((0, 0, 2, 4))
    sizes = {"h100": 80 * GIB, "a100": 40 * GIB}
    node.devices = [
        Device(at, f"{name}-{at}", kind, sizes[kind], island=f"i{at // island}" if island else "")
        for at in range(gpus)
        for kind in [kinds[at % len(kinds)]]
    ]
    return Free(gpus, cpu, gib, slots)


def _small(random: Random) -> list[TaskGroup]:
    return [group(random.choice((1, 1, 1, 2)), gpus=random.choice((1, 1, 1, 2)), cpu=random.choice((0, 0, 1)))]


def _mixed(random: Random) -> list[TaskGroup]:
    of = random.choice
    asked: Fields = of(
        (
            *({"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 3}, {"cpu": 2}, {"cpu": 4}, {"gpu_share_milli": 500}),
            *({"gpu_share_milli": of((250, 300, 700))}, {"gpu_share_milli": 500, "gpu_devices": 2}),
        )
    )
    rest = {"memory_bytes": of((8, 16)) * GIB} if random.random() < 0.3 else {}
    return [group(of((1, 1, 2, 3)), **({"cpu": of((0, 0, 1, 3))} | asked), **rest)]


def _gangs(random: Random) -> list[TaskGroup]:
    return [group(random.choice((1, 2, 2, 3, 4)), gpus=random.choice((1, 1, 2)), cpu=random.choice((0, 1)))]


def _place(random: Random, sketch: Sketch, free: dict[str, Free], name: str, shapes: Any, named: list[str]) -> None:
    """A job somewhere, unless it does not fit."""
    groups, places = shapes(random), []
    for task in [each for each in groups for _ in range(each.count)]:
        able = [(node, devices) for node, left in free.items() if (devices := left.devices_for(task)) is not None]
        if not able:
            return
        node, devices = random.choice(able)
        free[node].take(task, devices)
        places.append((node, devices))
    of = random.choice
    job = sketch.job(name, *groups, priority=of((10, 25, 25, 50, 50, 75)), preemptible=random.random() < 0.9)
    _describe(random, job, named)
    if job.size > 1 and random.random() < 0.6:
        job.demand = job.demand.model_copy(update={"min_tasks": random.randint(1, job.size)})
    phase = of(("running",) * 10 + ("starting", "reserved", "evicting"))
    sketch.at(job, *places, phase=phase, age=of(AGES))
    if phase == "running" and random.random() < 0.3:
        job.last_checkpoint = sketch.state.now - of((0, MINUTE, HOUR))
    job.backfilled = random.random() < 0.1


def _describe(random: Random, job: Job, named: list[str]) -> None:
    job.project = random.choice(named) if named else ""
    update: Fields = {"project": job.project, "labels": {"team": random.choice(LABELS)}}
    if job.size > 1 and random.random() < 0.2:
        update["topology"] = TopologyRule(topology="hall", preferred=random.choice(("zone", "rack")))
    job.demand = job.demand.model_copy(update=update)


def _give_back(random: Random, sketch: Sketch) -> None:
    """Some jobs wait for their place again: what they had is free."""
    state = sketch.state
    for _ in range(random.choice((0, 1, 2, 3))):
        running = [job for job in state.jobs.values() if job.phase == "running"]
        if not running:
            return
        job = random.choice(running)
        for task in job.tasks:
            on = state.nodes[task.node]
            remove(on.allocated, *task_resources(on, job.group(task.index), task.devices))
        job.tasks, job.phase = [], "succeeded"
        state.active.pop(job.id)


def _preemptor(random: Random, sketch: Sketch, name: str, shapes: Any, named: list[str]) -> Job:
    of = random.choice
    groups = [group(of((1, 1, 2, 3)), gpus=of((1, 2, 2, 3, 4)), cpu=of((0, 0, 1, 4)))]
    kind = random.random()
    if kind < 0.2:
        groups.append(group(of((1, 2)), gpus=of((0, 1, 2)), cpu=of((1, 2)), order=of((0, 1))))
    elif kind < 0.4:
        groups = shapes(random)
    elif kind < 0.5:
        groups = [
            group(of((1, 2)), gpus=1, **of(({"nodes": ("n0", "n1")}, {"node_labels": {"zone": "p"}}, {"gpu_models": ("h100",)})))
        ]
    elif kind < 0.6:
        groups = [TaskGroup(count=2, gpu_milli=of((1000, 2000)), sub_group=part) for part in ("left", "right")]
    job = sketch.job(name, *groups, priority=of((25, 50, 75, 75, 90)), preemptible=random.random() < 0.8)
    _describe(random, job, named)
    update: Fields = {}
    if 0.5 <= kind < 0.6:
        update["sub_groups"] = tuple(SubGroup(name=part, min_tasks=of((None, 1, 2))) for part in ("left", "right"))
    elif job.size > 1 and random.random() < 0.4:
        update["min_tasks"] = random.randint(1, job.size)
    if random.random() < 0.2:
        update["topology"] = TopologyRule(topology="hall", required=of(("zone", "rack")))
    if random.random() < 0.2:
        update["pack"] = of(("binpack", "spread"))
    job.demand = job.demand.model_copy(update=update)
    return job
