"""Whole passes on small pools with a tree of projects, elastic gangs and parts of a GPU, against every set of victims.

As in test_pass_oracle, and by the rules of victim_worlds: the first preemption of a pass is by the first action that helps, and
no permitted set costs less. Nothing is evicted that could have stayed. At rest no permitted set is left for a job that is pending
or lacks tasks, and a further pass changes nothing.
"""

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.kits.snapshots import snapshot
from tests.property.chosen_victims import chosen
from tests.property.victim_worlds import (
    Choice,
    allowed,
    best_choice,
    best_moves,
    best_with_moves,
    bound,
    free_resources,
    frees_enough,
    gpu_milli,
    used,
    within_limits,
)
from tests.property.victim_worlds import above as ancestors

from bailiff_core.model.placement_ranges import bits, numbers
from bailiff_core.model.state import Job, PoolState
from bailiff_core.plan import Planning
from bailiff_core.plan.cycles import run_cycle
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.quota_checks import Shares
from bailiff_core.records.decisions import JobPlaced, PreemptionDecided, PreemptionRefused
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

Document = dict[str, Any]
Placed = dict[str, list[tuple[int, int, int]]]
PREEMPTING = ("consolidate", "reclaim", "preempt")
CLASSES = {"train": (50, True), "interactive": (75, True), "inference": (125, False)}
MOST_PASSES = 40
SAMPLE = 100
THOUSANDS = 10_000
FAILED_BEFORE = (8710,)


def planned(document: Document) -> Planning:
    return Planning(snapshot(document))


def placed(state: PoolState) -> Placed:
    """Where every task is that is not being evicted."""
    return {
        name: [(task.index, task.node, task.devices) for task in job.tasks if task.eviction is None]
        for name in state.active
        if (job := state.jobs[name]).phase != "evicting"
    }


def asking(state: PoolState) -> list[Job]:
    """Jobs that are pending, or run and lack tasks."""
    return [job for job in state.jobs.values() if job.ended_at is None and len(job.tasks) < job.size]


def helps(state: PoolState, shares: Shares, job: Job, action: str, settled: tuple[str, ...] = ()) -> Choice | None:
    """The best victims under the action, or None. settled: jobs that may not be victims."""
    if action == "consolidate":
        may = job.preemptible and state.policy.preemption.max_migrations != 0 and within_limits(state, job, {})
        return best_moves(state, shares, job, (), settled) if may else None
    best = best_choice(state, shares, job, action, settled)
    if best is None and action == "reclaim":
        return best_with_moves(state, shares, job, settled)
    return best


def check_first(document: Document, decisions: list[Decision]) -> None:
    """The first decision of a pass, where it is a preemption; its cost too, where the pass decides nothing else."""
    if not decisions or not isinstance(decisions[0], PreemptionDecided):
        return
    state, decided = planned(document).state, decisions[0]
    shares, job = shares_now(current_snapshot(state)), state.jobs[decided.preemptor.job]
    assert not frees_enough(state, job, {}), f"{job.id} fits without evictions"
    for action in PREEMPTING[: PREEMPTING.index(decided.action)] if len(decisions) == 1 else ():
        assert helps(state, shares, job, action) is None, f"{decided.action} for {job.id}, although {action} helps"
    choice = chosen(state, decided)  # type: ignore[arg-type]
    if decided.explanation.proven and len(decisions) == 1 and not decided.unneeded_victims:
        assert choice == helps(state, shares, job, decided.action), f"{choice} for {job.id}"
    taken = {name: count for name, count in choice.items() if not any(v.moved_to for v in decided.victims if v.job == name)}
    if decided.action == "consolidate":
        assert not taken, f"{taken} are not moved"
    else:
        assert frees_enough(state, job, choice, shares if decided.action == "preempt" else None)
        assert any(v.moved_to for v in decided.victims) or allowed(state, shares, job, decided.action, taken), "not permitted"


def check_kept(before: PoolState, state: PoolState, decisions: list[Decision]) -> None:
    """What a job loses has no place after the pass, unless its project would exceed its limit or the preemptor's fair share."""
    lost: dict[str, dict[int, None]] = {}
    for_preempt: dict[str, None] = {}
    for decided in decisions:
        for victim in decided.victims if isinstance(decided, PreemptionDecided) else ():
            job = before.jobs[victim.job]
            if decided.action == "preempt":
                for_preempt[job.id] = None
            if not victim.moved_to and job.tasks:
                gone = numbers(victim.tasks) if victim.tasks else [task.index for task in job.tasks]
                lost.setdefault(job.id, {}).update(dict.fromkeys(gone))
    for name, gone in lost.items():
        job = before.jobs[name]
        if name in for_preempt:
            continue
        limits = [(project, bound(state, project, "limit")) for project in ancestors(state, job.project)]
        over = any(limit >= 0 and used(state, project, {}) + gpu_milli(job, set(gone)) > limit for project, limit in limits)
        assert over or not has_place(state, job, list(gone)), f"{name} is evicted, and its place is free after the pass"


def has_place(state: PoolState, job: Job, indices: list[int]) -> bool:
    """Whether these tasks of the job fit where they were."""
    free = [[list(devices), cpu, slots] for devices, cpu, slots in free_resources(state)]
    for task in job.tasks:
        asked, (devices, *_) = job.groups()[task.index], free[task.node]
        for number in bits(task.devices) if task.index in indices else ():
            devices[number] -= asked.gpu_share_milli or 1000
    return all(min(devices, default=0) >= 0 for devices, *_ in free)


def check(document: Document) -> None:
    planning = planned(document)
    state = planning.state
    above: dict[str, set[str]] = {}
    for number in range(MOST_PASSES):
        before = placed(state)
        found = [decision for _, decision in run_cycle(state)]
        decisions = [each for each in found if not isinstance(each, PreemptionRefused) and changes(each)]
        if not number:
            check_first(document, decisions)
            check_kept(planned(document).state, state, decisions)
        for each in decisions:
            for victim in each.victims if isinstance(each, PreemptionDecided) else ():
                by = each.preemptor.job
                above.setdefault(victim.job, set()).update({by}, above.get(by, ()))
        planning.advance(0)
        if placed(state) == before:
            break
    else:
        raise AssertionError(f"not at rest after {MOST_PASSES} passes")
    gave_up = {each.preemptor.job for each in found if isinstance(each, PreemptionRefused) and each.reason == "gave-up"}
    shares = shares_now(current_snapshot(state))
    for job in asking(state):
        assert not frees_enough(state, job, {}), f"at rest {job.id} fits"
        for action in PREEMPTING:
            best = helps(state, shares, job, action, tuple(above.get(job.id, ())) if action == "reclaim" else ())
            assert job.id in gave_up or not best, f"at rest {job.id} is pending, {action} of {best} would help"


def changes(decision: Decision) -> bool:
    return isinstance(decision, (JobPlaced, PreemptionDecided)) or type(decision).__name__ in ("JobGrown", "EvictionDecided")


# --- pools


def project(name: str, parent: str | None, quota: float | None, limit: float | None = None, weight: int = 1) -> Document:
    return {
        "name": name,
        "parent": parent,
        "quota": {"gpus": -1 if quota is None else quota},
        **({} if limit is None else {"limit": {"gpus": limit}}),
        "over_quota_weight": weight,
    }


class Nodes:
    """What is free on the nodes while a document is written."""

    def __init__(self, gpus: dict[str, int]) -> None:
        self.gpus = gpus
        self.free = {(node, at): 1000 for node, count in gpus.items() for at in range(count)}

    def take(self, each: int) -> Document | None:
        """The first place of a task with so many thousandths: a part of a GPU, or whole ones."""
        count, share = (1, each) if 0 < each < 1000 else (each // 1000, 1000)
        for node in self.gpus:
            devices = [at for at in range(self.gpus[node]) if self.free[node, at] >= share][:count]
            if len(devices) == count:
                for at in devices:
                    self.free[node, at] -= share
                return {"node": node, **({"devices": [str(at) for at in devices]} if devices else {})}
        return None

    def job(self, name: str, order: int, each: int, tasks: int, minimum: int, runs: int, **rest: Any) -> Document | None:
        """A job of which the first so many tasks run; None if they have no place."""
        places = [self.take(each) for _ in range(runs)]
        if not all(places):
            return None
        submitted = f"{60 * (order + 1)}s ago" if runs else f"{900 - order}ms ago"
        elastic = {"min_tasks": minimum} if minimum < tasks else {}
        needs = {"fraction": each / 1000} if 0 < each < 1000 else {"gpus": each // 1000}
        entries = [{**needs, **(place or {})} for place in [*places, *[None] * (tasks - runs)]]
        return {"name": name, "submitted": submitted, "tasks": entries, **elastic, **rest}


def random_pool(random: Random) -> Document:
    """One to three nodes, `dept` with `a` and `b`, and `c` beside it; three to five jobs, of which one or two do not run."""
    count = random.choice((1, 1, 2, 2, 3))
    nodes = Nodes({f"n{at}": random.choice((1, 2) if count > 1 else (2, 3)) for at in range(count)})
    projects = [project("dept", None, random.choice((0, 1, 2, 3, None)), random.choice((None, None, None, 3)))]
    for name in "abc":
        quota, limit = random.choice((0, 0, 1, 1, 2, 0.5)), random.choice((None, None, None, None, 2))
        projects.append(project(name, None if name == "c" else "dept", quota, limit, random.choice((0, 1, 1, 2))))
    jobs: list[Document] = []
    number = random.randint(3, 5)
    for at in range(number):
        runs = at < number - random.choice((1, 1, 2))
        name = random.choice(("train", "train", "interactive") if runs else tuple(CLASSES))
        priority, preemptible = CLASSES[name]
        each = random.choice((250, 500, 500, 1000, 1000, 1000, 2000))
        tasks = random.choice((1, 1, 2, 2, 3)) if each < 2000 else 1
        minimum = random.randint(1, tasks)
        part = random.randint(minimum, tasks) if runs else 0
        rest = {"project": random.choice("abc"), "priority": priority, "preemptible": preemptible}
        job = nodes.job(f"j{at}", at, each, tasks, minimum, part, **rest)
        if job is not None:
            jobs.append(job)
    rules = {"scope": random.choice(("project", "project", "pool")), "max_migrations": random.choice((0, 0, 1, None))}
    listed = [{"name": name, "gpus": gpus} for name, gpus in nodes.gpus.items()]
    return {"nodes": listed, "projects": projects, "jobs": jobs, "policy": {"backfill": "greedy", "preemption": rules}}


def tiny_pools() -> Iterator[Document]:
    """Every pool of two GPUs on one node with one running job and one pending, of two projects below one."""
    shapes = ((500, 1, 1), (500, 2, 1), (1000, 1, 1), (1000, 2, 1), (1000, 2, 2))
    kinds = [(owner, shape, name) for owner, shape, name in product("ab", shapes, ("train", "inference"))]
    for dept, quotas in product((1, 2), product((0, 1, 2), repeat=2)):
        projects = [project("dept", None, dept), *(project(name, "dept", at) for name, at in zip("ab", quotas, strict=True))]
        for first, second in product(kinds, repeat=2):
            nodes, jobs = Nodes({"n0": 2}), []
            for at, (owner, (each, tasks, minimum), name) in enumerate((first, second)):
                priority, preemptible = CLASSES[name]
                rest = {"project": owner, "priority": priority, "preemptible": preemptible}
                jobs.append(nodes.job(f"j{at}", at, each, tasks, minimum, 0 if at else tasks, **rest))
            yield {"nodes": [{"name": "n0", "gpus": 2}], "projects": projects, "jobs": jobs}


def test_some_tiny_pools() -> None:
    for at, document in enumerate(tiny_pools()):
        if at % 40 == 0:
            check(document)


@pytest.mark.long
def test_every_tiny_pool() -> None:
    for document in tiny_pools():
        check(document)


@pytest.mark.parametrize("part", range(5))
def test_random_pools(part: int) -> None:
    for seed in range(part * SAMPLE // 5, (part + 1) * SAMPLE // 5):
        checked(seed)


@pytest.mark.parametrize("seed", FAILED_BEFORE)
def test_a_pool_that_failed_before(seed: int) -> None:
    checked(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_random_pools(part: int) -> None:
    for seed in range(SAMPLE + part * THOUSANDS // 10, SAMPLE + (part + 1) * THOUSANDS // 10):
        checked(seed)


def checked(seed: int) -> None:
    """`check`, with the seed in the message."""
    try:
        check(random_pool(Random(seed)))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from None
