"""Each victim of a reclaim gives back something of a resource that its project, or one above it, uses beyond its entitlement."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import Sketch, group, requested_unit
from tests.kits.examples import examples
from tests.property.random_projects import ENDLESS, random_projects

from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.fair_share import Entitlement
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, revalidate_proposal, select_victims


def pool(rng: Random) -> tuple[Sketch, Job]:
    """Two full nodes, jobs with GPUs, with CPUs and with both in a tree of projects, and a job that asks for any of them."""
    sketch = Sketch()
    projects = tuple(random_projects(rng)) or tuple(random_projects(Random(1)))
    sketch.state.policy = Policy.model_validate({**dict(DEFAULT_POLICY), "projects": projects})
    parents = {project.parent for project in projects}
    names = [project.name for project in projects if project.name not in parents]  # jobs elsewhere count at an unnamed child
    for number in range(2):
        sketch.node(f"n{number}", gpus=rng.choice((0, 2, 4)), cpu=6)
    for node in sketch.state.nodes.values():
        gpus, cpus = list(range(len(node.devices))), 6
        while gpus or cpus:
            takes, also = min(len(gpus), rng.randrange(3)), min(cpus, rng.randrange(4))
            if not takes and not also:
                continue
            job = sketch.job(f"j{len(sketch.state.jobs)}", group(gpus=takes, cpu=also), priority=50)
            job.project = rng.choice(names)
            sketch.at(job, (node.name, [gpus.pop() for _ in range(takes)]))
            cpus -= also
    preemptor = sketch.job("preemptor", group(gpus=rng.choice((0, 0, 1, 2)), cpu=rng.choice((0, 1, 3))), priority=50)
    preemptor.project = rng.choice(names)
    sketch.state.indices.snapshot = None
    return sketch, preemptor


def has(job: Job) -> ResourceVector:
    (only,) = job.demand.tasks
    return ResourceVector(only.gpu_milli, only.cpu_milli, only.memory_bytes)


def path_of(sketch: Sketch, job: Job) -> list[str]:
    """The job's project and all above it, without the pool."""
    parents = {project.name: project.parent for project in sketch.state.rules.projects}
    path = [job.project]
    while parents[path[-1]]:
        path.append(parents[path[-1]])
    return path


def check(seed: int) -> Proposal:
    sketch, preemptor = pool(Random(seed))
    snapshot = current_snapshot(sketch.state)
    shares = shares_now(snapshot)
    answer = select_victims(SelectionBatch.on(snapshot), requested_unit(preemptor), "reclaim", StepBudget(20_000))
    used: dict[str, ResourceVector] = {}
    for job in sketch.state.jobs.values():
        for name in path_of(sketch, job) if job.tasks else ():
            used[name] = used.get(name, ZERO).plus(has(job))
    checked = revalidate_proposal(snapshot, shares, preemptor, answer) if answer.victims else None  # only then it is decided
    for victim in checked.victims if isinstance(checked, Accepted) and answer.action == "reclaim" else ():
        job = sketch.state.jobs[victim.job]
        if victim.moved_to:
            continue
        returns = [at for at in range(3) if has(job)[at]]
        entitled = {name: bounds_of(shares[name]) for name in path_of(sketch, job)}
        beyond = [name for name, amounts in entitled.items() for at in returns if used[name][at] > min(amounts[at])]
        assert beyond, f"{job.id} of {job.project} has {has(job)}; used {used}, entitled to {entitled}"
    return answer


def bounds_of(entitled: Entitlement) -> list[tuple[Amount, Amount]]:
    """By resource, the quota in force and the allocatable share."""
    both = zip(entitled.quota, entitled.most, strict=True)
    return [(ENDLESS if quota == UNLIMITED else quota, ENDLESS if most == UNLIMITED else most) for quota, most in both]


def test_some_reclaim() -> None:
    assert sum(bool(check(seed).victims) for seed in range(300)) > 20


@examples(300)
@given(st.integers(0, 2**32))
def test_a_victim_gives_back_what_its_project_overuses(seed: int) -> None:
    check(seed)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(st.integers(0, 2**32))
def test_a_victim_gives_back_what_its_project_overuses_thousands(seed: int) -> None:
    check(seed)
