"""Use by project, updated change by change, equals a recount of the whole state."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import GIB, group
from tests.kits.examples import examples
from tests.kits.pools import Town
from tests.property.random_projects import random_projects

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Eviction, Job, Task
from bailiff_core.model.units import next_unit, victim_units
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.quota.usage import Usage


def everything(usage: Usage) -> dict[str, tuple[ResourceVector, ...]]:
    return {name: (usage.allocated(name), usage.non_preemptible(name), usage.requested(name)) for name in usage.tree.branches} | {
        "": (usage.total, usage.allocated(""), usage.requested(""))
    }


def some_group(rng: Random) -> TaskGroup:
    kind = rng.randrange(4)
    if kind == 0:
        return group(count=rng.randrange(1, 3), gpu_share_bytes=rng.randrange(1, 30) * GIB, gpu_devices=rng.randrange(1, 3))
    if kind == 1:
        return group(count=rng.randrange(1, 3), gpu_share_milli=rng.randrange(100, 1000))
    return group(count=rng.randrange(1, 4), gpus=rng.randrange(3), cpu=rng.randrange(3), gib=rng.randrange(3))


def happens(rng: Random, town: Town, job: Job) -> None:
    """A random change of the job, as by the fold."""
    town.state.indices.changed_jobs[job.id] = None
    what = rng.randrange(6)
    if what == 0:
        here = sorted(rng.sample(range(job.size), rng.randrange(job.size + 1)))
        job.tasks = [Task(index, 0, rng.randrange(1, 8), rng.choice(["reserved", "starting", "running"])) for index in here]
        job.phase = "running" if here else "pending"
        job.eviction = None
    elif what == 1 and job.tasks:
        job.eviction = Eviction(1, "preemption", 30, stuck=rng.randrange(2) == 0)
    elif what == 2 and job.tasks:
        task = rng.choice(job.tasks)
        task.state = rng.choice(["exited", "released", "running"])
        task.eviction = rng.choice([None, Eviction(1, "preemption", 30)])
    elif what == 3:
        job.reservation = [Task(task.index, 0, task.devices, "reserved") for task in job.tasks] if job.eviction else []
    elif what == 4:
        job.phase = "succeeded"
    else:
        job.preemptible = not job.preemptible


@examples(120)
@given(st.integers(0, 2**32))
def test_incremental_use_equals_recomputed_use(seed: int) -> None:
    rng = Random(seed)
    town = Town(*random_projects(rng), gpus=3, memory=(20, 40, 80))
    names = ["", "gone", *[entry.name for entry in town.state.rules.projects]]
    usage = Usage.of(town.state)
    for step in range(30):
        if rng.randrange(4) == 0 or not town.state.jobs:
            town.waits(f"j{step}", rng.choice(names), *[some_group(rng) for _ in range(rng.randrange(1, 3))], minimum=1)
        for job in rng.sample(list(town.state.jobs.values()), rng.randrange(1, len(town.state.jobs) + 1)):
            happens(rng, town, job)
        if rng.randrange(5) == 0:
            town.state.nodes[0].quarantined = rng.randrange(8)
            town.state.indices.changed_nodes[0] = None
        if rng.randrange(10) == 0:
            town.state.policy = Town(*random_projects(rng)).state.policy
        usage.refresh(town.state, town.state.indices.changed_jobs)
        town.state.indices.changed_jobs.clear()
        town.state.indices.changed_nodes.clear()
        assert everything(usage) == everything(Usage.of(town.state))
        before, mark = everything(usage), usage.mark()
        for job in rng.sample(list(town.state.jobs.values()), len(town.state.jobs)):
            for unit in victim_units(job):
                usage.evict(unit)
            unit = next_unit(job)
            if unit is not None:
                usage.place(
                    unit, GangPlacement(tuple(TaskPlacement(index, 0, rng.randrange(1, 8)) for index in unit.indices), False)
                )
        if rng.randrange(3):  # a refresh discards trial changes
            usage.rollback(mark)
            assert everything(usage) == before


def test_the_total_of_evictable_units_equals_the_use() -> None:
    rng = Random(7)
    for _ in range(300):
        town = Town(gpus=3, memory=(20, 40, 80))
        job = town.runs("a", "", *[some_group(rng) for _ in range(2)], minimum=1, devices=rng.randrange(1, 8))
        usage = Usage.of(town.state)
        for unit in victim_units(job):
            usage.evict(unit)
        assert usage.allocated("") == ResourceVector()
