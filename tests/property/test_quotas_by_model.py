"""Quotas, limits and shares by GPU model: each model is divided by itself, as a pool of that model alone would be."""

from collections.abc import Iterator
from itertools import accumulate, product
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot
from tests.property.share_reference import Member, divide
from tests.property.small_worlds import Fields, small_world

from bailiff_core.model.policy import Project
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector
from bailiff_core.model.units import whole_job
from bailiff_core.plan import Planning, run
from bailiff_core.plan.build import append_facts, submission
from bailiff_core.plan.snapshot_validation import validate_snapshot
from bailiff_core.quota.fair_share import Steps, entitlements
from bailiff_core.quota.quotas_in_full import quotas_in_full
from bailiff_core.quota.usage import Usage
from bailiff_core.scheduling_snapshot import current_usage

MODELS = ("a100", "h100")
MINUTE = 60_000_000
A, H = 3, 4  # places of the models


def whole_gpus(names: tuple[str, ...], tree: ProjectTree) -> Steps:
    steps = Steps()
    for name in names:
        steps.count(tree.branches[name].path, (1000,), 1)
    return steps


@pytest.mark.parametrize("total", range(4))
def test_each_model_is_divided_as_if_the_pool_had_no_other(total: int) -> None:
    """All quotas and requests of two projects that state quotas of a model, and of one that states none."""
    for q1, q2, r1, r2, r3 in product(range(3), range(3), range(4), range(3), range(3)):
        projects = [
            Project.model_validate({"name": "p", "quota": {"models": {"a100": q1, "h100": 1}}}),
            Project.model_validate({"name": "q", "quota": {"models": {"a100": q2}}}),
            Project.model_validate({"name": "r", "quota": {"gpus": 0}}),
        ]
        tree, names = ProjectTree(projects), ("p", "q", "r")
        requested = {
            name: ResourceVector(1000 * amount, 0, 0, 1000 * amount) for name, amount in zip(names, (r1, r2, r3), strict=True)
        }
        pool = ResourceVector(9000, 0, 0, 1000 * total, 1000)
        steps = whole_gpus(names, tree)
        found = entitlements(tree, pool, quotas_in_full(tree, pool, 9000), requested, steps, steps_by_kind={A: steps, H: steps})
        members = [
            Member(age, 1000 * asked, 1000 * quota, step=1000) for age, (asked, quota) in enumerate(((r1, q1), (r2, q2), (r3, 0)))
        ]
        divide(1000 * total, members)
        assert [found[name].share[A] for name in names] == [member.share for member in members], (q1, q2, r1, r2, r3)
        assert [found[name].quota[A] for name in names] == [member.in_force for member in members], (q1, q2, r1, r2, r3)


@examples(200)
@given(st.integers(0, 2**32))
def test_unstated_quotas_of_a_model_have_no_more_than_others_leave(seed: int) -> None:
    random = Random(seed)
    stated = {f"s{at}": random.randrange(5) for at in range(random.randrange(3))}
    unstated = {f"u{at}": random.choice((0, 1, 2, 3, 8)) for at in range(random.randrange(1, 4))}
    projects = [Project.model_validate({"name": name, "quota": {"models": {"h100": n}}}) for name, n in stated.items()]
    projects += [Project.model_validate({"name": name, "quota": {"gpus": n}}) for name, n in unstated.items()]
    projects += [Project.model_validate({"name": "limited", "limit": {"models": {"h100": 1}}})]
    pool = ResourceVector(16_000, 0, 0, 8000)
    full = quotas_in_full(ProjectTree(projects), pool, 16_000)
    assert all(full[name][3] == 1000 * amount for name, amount in stated.items())
    assert sum(full[name][3] for name in unstated) <= max(0, 8000 - 1000 * sum(stated.values()))
    assert all(full[name][3] <= 1000 * amount for name, amount in unstated.items())


# --- whole pools


def decided(document: Fields) -> Iterator[Any]:
    """What becomes of each task in some rounds, and by which action."""
    for found in run(snapshot(document), rounds=3, step=40 * MINUTE).rounds:
        yield found.tasks, [(line.action, line.job, line.tasks, line.outcome) for line in found.decisions if line.job]


def by_model(project: Fields) -> Fields:
    """The same quota and limit, of the only model."""
    return {
        **project,
        **{
            kind: {**{name: amount for name, amount in project[kind].items() if name != "gpus"}, "models": {"asked": amount}}
            for kind in ("quota", "limit")
            if (amount := project.get(kind, {}).get("gpus")) is not None
        },
    }


@examples(100)
@given(st.integers(0, 2**32))
def test_quotas_of_the_only_model_decide_as_quotas_of_gpus(seed: int) -> None:
    document, waves = small_world(Random(seed))
    nodes = [{**node, "gpu_model": "asked"} for node in document["nodes"]]
    document |= {"nodes": nodes, "jobs": [job for wave in waves for job in wave]}
    document["projects"] = [{**project, "quota": {"gpus": 0, **project.get("quota", {})}} for project in document["projects"]]
    assert list(decided({**document, "projects": [by_model(each) for each in document["projects"]]})) == list(decided(document))


def models_world(random: Random) -> Fields:
    """Nodes of two models, projects with and without quotas by model, jobs that accept one model or both."""
    nodes = [
        {"name": f"{model[0]}{at}", "gpus": random.choice((2, 4)), "gpu_model": model}
        for model in MODELS
        for at in range(random.choice((1, 1, 2)))
    ]
    projects: list[Fields] = []
    for name in "pqr"[: random.choice((2, 3))]:
        quota: Fields = {"models": {model: random.choice((0, 1, 2, 4)) for model in MODELS if random.random() < 0.7}}
        if random.random() < 0.3:
            quota = {"gpus": random.choice((0, 2, 4))}
        projects.append({"name": name, "quota": quota, "over_quota_weight": random.choice((0, 1, 1, 2))})
    if not any("models" in project["quota"] for project in projects):
        projects[0]["quota"] = {"models": {"h100": 2}}
    if random.random() < 0.3:
        projects[-1]["limit"] = {"models": {"a100": random.choice((1, 2))}}
    jobs: list[Fields] = []
    for at in range(random.randint(3, 14)):
        accepts = random.choice((["a100"], ["h100"], ["a100", "h100"], None))
        jobs.append(
            {
                "name": f"j{at:02}",
                "project": random.choice([project["name"] for project in projects]),
                "gpus": random.choice((1, 1, 1, 2)),
                "preemptible": random.random() < 0.8,
                **({"gpu_models": accepts} if accepts else {}),
                "submitted": f"{100 - at}m ago",
            }
        )
    return {
        "nodes": nodes,
        "projects": projects,
        "jobs": jobs,
        "policy": {"backfill": "greedy", "preemption": {"actions": ["allocate", "reclaim"]}},
    }


def held(planning: Planning, job: str) -> set[str]:
    state = planning.state
    tasks = state.jobs[job].tasks
    return {device.model for task in tasks for device in state.nodes[task.node].devices if task.devices >> device.number & 1}


def check_history(seed: int) -> int:
    """Plays two waves of jobs until nothing changes; returns how many jobs were reclaimed."""
    random, reclaimed = Random(seed), 0
    document = models_world(random)
    jobs = document["jobs"]
    planning = Planning(snapshot({**document, "jobs": []}))
    for wave in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
        for entry in validate_snapshot(snapshot({**document, "jobs": wave})).jobs:
            append_facts(planning.state, submission(entry))
            planning.names[entry.doc.name] = [f"{entry.doc.name}-{index}" for index in range(len(entry.tasks))]
        for _ in range(8):
            reclaimed += check_round(planning, seed)
            planning.advance(40 * MINUTE)
    assert_nobody_waits_below(planning, seed)
    return reclaimed


def check_round(planning: Planning, seed: int) -> int:
    """Each job that is evicted has GPUs of a model of which its project has more than it is entitled to before."""
    planning.round(("allocate",))
    planning.advance()
    usage = current_usage(planning.state)
    before = {
        name: {
            model
            for model in held(planning, name) & set(usage.tree.kinds)
            if beyond_entitlement(usage, usage.leaf_of(job), usage.tree.place_of(model))
        }
        for name, job in planning.state.jobs.items()
    }
    named = {name: held(planning, name) & set(usage.tree.kinds) for name in planning.state.jobs}
    found = planning.round(("reclaim",))
    evicted = {line.job for line in found.tasks if line.after.state == "evicted"}
    for name in evicted & set(before):
        assert before[name] or not named[name], (seed, name, named[name])
    return len(evicted)


def beyond_entitlement(usage: Usage, project: str, at: int) -> bool:
    entitled = usage.entitlements[project]
    bounds = [bound for bound in (entitled.most[at], entitled.quota[at]) if bound != UNLIMITED]
    return any(usage.allocated(project).amount(at) > bound for bound in bounds)


def assert_nobody_waits_below(planning: Planning, seed: int) -> None:
    """Who waits for one model within what its project is entitled to of it: nobody has a GPU of that model beyond it."""
    state = planning.state
    usage = Usage.of(state)
    for name in state.queue:
        job = state.jobs[name]
        (group,) = job.demand.tasks
        if len(group.gpu_models) != 1 or group.gpu_models[0] not in usage.tree.kinds or group.gpu_milli != 1000:
            continue
        at, project = usage.tree.place_of(group.gpu_models[0]), usage.leaf_of(job)
        entitled = usage.entitlements[project]
        within = usage.allocated(project).amount(at) + 1000 <= min(entitled.quota[at], entitled.share[at])
        if not job.preemptible:  # such work has to be within the quota of all GPUs, too
            within &= usage.non_preemptible(project).amount(0) + 1000 <= entitled.quota[0]
        for rival in state.active_jobs() if within else ():
            other = usage.leaf_of(rival)
            theirs = usage.entitlements[other]
            if other != project and rival.preemptible and usage.allocated_to(whole_job(rival)).amount(at):
                most = theirs.most[at]
                assert most == UNLIMITED or usage.allocated(other).amount(at) <= most, (seed, name, rival.id)


@examples(150)
@given(st.integers(0, 2**32))
@example(2_206_308_193)  # a job that is not preemptible waits within its quota of h100, and beyond that of all GPUs
def test_reclaim_takes_of_a_model_only_from_who_has_more_of_it_and_nobody_waits_below_a_quota(seed: int) -> None:
    check_history(seed)


def test_some_are_reclaimed() -> None:
    assert any(reclaimed > 10 for reclaimed in accumulate(map(check_history, range(100))))


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(st.integers(0, 2**32))
def test_reclaim_by_model_thousands(seed: int) -> None:
    check_history(seed)
