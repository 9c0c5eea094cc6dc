"""Whole passes on small pools against `pass_oracle`, which tries every set of victims by the documented rules.

No permitted set may be left for a job that stays pending. The first preemption of a pass is by the first action that helps, its
victims are permitted, and no permitted set costs less. Nothing is evicted that could have stayed. A further pass changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.kits.snapshots import snapshot
from tests.property.pass_oracle import (
    PREEMPTING,
    Job,
    Option,
    Pool,
    Project,
    above,
    cost,
    fair_shares,
    fits,
    free,
    minus,
    options,
    permitted,
    places,
    used,
    within_limits,
)

from bailiff_core.model.state import PoolState
from bailiff_core.plan import Planning
from bailiff_core.plan.report import DecisionLine, Round

RESTART_S = 60
MOST_ROUNDS = 40
CLASSES = {"train": (50, True), "interactive": (75, True), "inference": (125, False)}
SAMPLE = 100
THOUSANDS = 10_000
FAILED_BEFORE = (6003,)


@dataclass
class Played:
    """A pool and the engine's passes over it. above: of each job, those that displaced it, directly or through others."""

    start: Pool
    planning: Planning
    displaced_by: dict[str, list[str]] = field(default_factory=dict)

    def above(self, job: str) -> set[str]:
        found: set[str] = set()
        look = [job]
        while look:
            new = [name for name in self.displaced_by.get(look.pop(), []) if name not in found]
            found.update(new)
            look += new
        return found


def document(pool: Pool) -> dict[str, Any]:
    """The pool as a snapshot for the planner."""
    bound = {None: -1}
    projects = [
        {
            "name": project.name,
            "created": f"{project.age}s",
            "quota": {"gpus": bound.get(project.quota[0], project.quota[0]), **_cpus(project.quota[1])},
            **({"limit": {"gpus": project.limit[0]}} if project.limit[0] is not None else {}),
            "over_quota_weight": project.weight,
        }
        for project in pool.projects.values()
    ]
    jobs = []
    for job in pool.jobs.values():
        place: Sequence[str | None] = pool.places.get(job.name, (None,) * job.tasks)
        needs = {"gpus": job.each[0], "cpus": f"{job.each[1]}m"}
        jobs.append(
            {
                "name": job.name,
                **({"project": job.project} if pool.projects else {}),
                "priority": job.priority,
                "preemptible": job.preemptible,
                "submitted": f"{job.lost_s - RESTART_S}s ago" if job.name in pool.places else f"{900 - job.order}ms ago",
                "tasks": [{**needs, **({"node": node} if node is not None else {})} for node in place],
            }
        )
    rules = {"scope": pool.scope, "max_migrations": pool.max_migrations}
    nodes = [{"name": name, "gpus": gpus, "cpus": f"{cpus}m"} for name, (gpus, cpus) in pool.nodes.items()]
    return {"nodes": nodes, "projects": projects, "jobs": jobs, "policy": {"backfill": "greedy", "preemption": rules}}


def _cpus(quota: int | None) -> dict[str, float]:
    return {} if quota is None else {"cpus": quota / 1000}


def planned(pool: Pool) -> Planning:
    return Planning(snapshot(document(pool)))


def seen(pool: Pool, state: PoolState) -> Pool:
    """The same pool with the places of the engine's state. Jobs that are being evicted have none."""
    found = {}
    for name in state.active:
        job = state.jobs[name]
        if job.phase != "evicting":
            found[name] = tuple(state.nodes[task.node].name for task in job.tasks)
    return Pool(pool.nodes, pool.projects, pool.jobs, found, pool.scope, pool.max_migrations)


def follow(pool: Pool, round_: Round) -> list[tuple[Pool, DecisionLine, Pool]]:
    """Each decision of the pass with the pool before and after it; none of them if one undoes another.

    The report has the places after the pass only. So the places in between are not known where a job that was placed in this
    pass is moved before it starts, or where a later answer takes its reservation. No job is started and then stopped, but for a
    project that came within its entitlement by an earlier answer of the pass.
    """
    after_round = {(line.job, line.task): line.after for line in round_.tasks}
    found: list[tuple[Pool, DecisionLine, Pool]] = []
    started: set[str] = set()
    relieved: set[str] = set()  # projects of which something was evicted
    for line in round_.decisions:
        gone = [victim["job"] for victim in line.victims]
        stopped = [victim["job"] for victim in line.victims if victim["job"] in started and not victim["to"]]
        if pool.jobs[line.job].project not in relieved or not pool.projects:
            assert not stopped, f"{stopped} are started, and then evicted for {line.job} in the same pass"
        relieved.update(pool.jobs[name].project for name in gone)
        if line.outcome == "placed":
            started.add(line.job)
        place = tuple(after_round[line.job, task].node or "" for task in line.tasks)
        if not all(place) or any(name in {each.job for _, each, _ in found} for name in gone):
            return []
        left = pool.without(gone)
        for victim in line.victims:
            if victim["to"]:
                left = left.placed(victim["job"], tuple(victim["to"]))
        after = left.placed(line.job, place)
        found.append((pool, line, after))
        pool = after
    for _, line, after in found:
        assert all(min(room) >= 0 for room in free(after).values()), f"{line.job}: more is placed than there is"
    return found


def check_pass(pool: Pool, round_: Round) -> None:
    """The first preemption of the pass is the documented one; nothing is evicted that could have stayed."""
    decisions = follow(pool, round_)
    if round_.decisions and not decisions:
        return
    final = decisions[-1][2] if decisions else pool
    with_victims = [each for each in decisions if each[1].victims]
    if with_victims:
        check_first(*with_victims[0], alone=len(with_victims) == 1 and with_victims[0] is decisions[-1])
    for job in final.pending if not decisions else ():
        assert not (fits(final, job) and within_limits(final, job)), f"{job.name} is pending and fits"
        assert not helpful(final, job), f"{job.name} is pending: {helpful(final, job)} would help"
    room = free(final)
    for before, line, _ in decisions:
        for victim in line.victims:
            if victim["to"]:
                continue
            job, nodes = pool.jobs[victim["job"]], before.places[victim["job"]]
            left = dict(room)
            for node in nodes:
                left[node] = minus(left[node], job.each)
            stays = victim["job"] not in final.places and all(min(amount) >= 0 for amount in left.values())
            bounded = (
                line.action == "preempt" and pool.projects
            )  # evicted so that its project stays within a limit or its fair share
            assert not stays or bounded, f"{victim['job']} is evicted for {line.job}, and its place is free after the pass"
            if line.action == "reclaim":
                project, uses, quota = job.project, used(before, job.project), fair_shares(pool)[job.project].quota
                assert any(above(uses[at], quota[at]) for at in (0, 1)), f"{project} is within its quota and loses"


def helpful(pool: Pool, job: Job, forbidden: Mapping[str, set[str]] | None = None) -> list[Option]:
    """What each action could do for the job. forbidden: by action, jobs that may not be victims."""
    return [option for action in PREEMPTING for option in options(pool, job, action, (forbidden or {}).get(action, ()))]


def check_first(pool: Pool, line: DecisionLine, after: Pool, *, alone: bool) -> None:
    """alone: no other request of the pass was answered with a place."""
    job = pool.jobs[line.job]
    assert not (fits(pool, job) and within_limits(pool, job)), f"{job.name} fits without evictions"
    shares = fair_shares(pool)
    victims = [pool.jobs[victim["job"]] for victim in line.victims]
    taken = [victim for victim in victims if victim.name not in after.places]
    if line.action != "consolidate":
        assert not taken or permitted_with_moves(pool, shares, job, line.action, taken, after), f"{line} is not permitted"
    if not alone:
        return
    for action in PREEMPTING[: PREEMPTING.index(line.action)]:
        better = list(options(pool, job, action))
        assert not better, f"{line.action} for {job.name}, although {action} helps: {better}"
    chosen = cost(pool, [victim.name for victim in victims])
    for option in options(pool, job, line.action):
        assert cost(pool, option.victims) >= chosen, f"{option} costs less than {[victim.name for victim in victims]}"


def permitted_with_moves(
    pool: Pool, shares: Mapping[str, tuple[int, int]], job: Job, action: str, taken: Sequence[Job], after: Pool
) -> bool:
    """`permitted` where other victims got new places: those are in the pool, at these places, before."""
    moved = pool.places
    for name, place in after.places.items():
        if name in moved and place != moved[name]:
            moved = {**moved, name: place}
    return permitted(
        Pool(pool.nodes, pool.projects, pool.jobs, moved, pool.scope, pool.max_migrations), shares, job, action, taken
    )


def check(pool: Pool) -> None:
    """Passes until one changes nothing: then no pending job has a permitted set of victims that did not displace it."""
    played = Played(pool, planned(pool))
    for _ in range(MOST_ROUNDS):
        before = seen(pool, played.planning.state)
        round_ = played.planning.round()
        if not played.planning.rounds[1:]:
            check_pass(before, round_)
        if not round_.changed:
            break
        for line in round_.decisions:
            for victim in line.victims:
                played.displaced_by.setdefault(victim["job"], []).append(line.job)
    else:
        raise AssertionError(f"not at rest after {MOST_ROUNDS} passes")
    rest = seen(pool, played.planning.state)
    for job in rest.pending:
        line = next(each for each in round_.pending if each.job == job.name)
        assert not (fits(rest, job) and within_limits(rest, job)), f"at rest {job.name} is pending and fits"
        left = helpful(rest, job, {"reclaim": played.above(job.name)})
        assert line.gave_up or not left, f"at rest {job.name} is pending: {left} would help"
    assert not played.planning.round(step=0).changed, "a further pass changes something"


# --- pools


def random_pool(random: Random) -> Pool:
    """At most 4 nodes, 3 projects and 6 jobs, of which all but one or two run where they fit."""
    count = random.choice((1, 1, 1, 2, 2, 3, 4))
    nodes = {
        f"n{at}": (random.choice((1, 2, 3) if count > 1 else (2, 3, 4)), random.choice((2, 4, 8)) * 1000) for at in range(count)
    }
    projects = {}
    for at, name in enumerate("abc"[: random.choice((0, 2, 2, 3, 3))]):
        quota = random.choice((0, 0, 1, 1, 2, 3))
        cpus = random.choice((None, None, None, 1000, 2000, 4000))
        limit = random.choice((None, None, None, None, 2, 4))
        projects[name] = Project(name, at, (quota, cpus), (limit, None), random.choice((0, 1, 1, 2)))
    scope = "project" if projects else "pool"
    pool = Pool(nodes, projects, {}, {}, scope, random.choice((0, 0, 1, 2, None)))
    jobs = random.randint(3, 6)
    for at in range(jobs):
        runs = at < jobs - random.choice((1, 1, 2))
        priority, preemptible = CLASSES[random.choice(("train", "train", "interactive") if runs else tuple(CLASSES))]
        gpus = random.choice((0, 1, 1, 1, 2, 2, 3))
        cpus = random.choice((0, 0, 1000)) if gpus else random.choice((1000, 2000, 4000))
        project = random.choice(list(projects)) if projects else ""
        tasks = random.choice((1, 1, 1, 1, 2)) if gpus < 2 else 1
        job = Job(f"j{at}", project, priority, preemptible, (gpus, cpus), tasks, at, RESTART_S + random.randint(1, 50) * 60)
        pool = Pool(nodes, projects, {**pool.jobs, job.name: job}, pool.places, pool.scope, pool.max_migrations)
        place = next(places(free(pool), job), None)
        if runs and place is not None and within_limits(pool, job):
            pool = pool.placed(job.name, place)
    return pool


def tiny_pools(running: int) -> Iterator[Pool]:
    """Every pool of one node with two GPUs, two projects, so many running jobs and one pending."""
    kinds = list(product("ab", (1, 2), ("train", "inference")))
    for quotas in product((0, 1, 2), repeat=2):
        projects = {name: Project(name, at, (quota, None)) for at, (name, quota) in enumerate(zip("ab", quotas, strict=True))}
        for drawn in product(kinds, repeat=running + 1):
            pool = Pool({"n0": (2, 4000)}, projects, {}, {}, "project")
            for at, (project, gpus, name) in enumerate(drawn):
                priority, preemptible = CLASSES[name]
                job = Job(f"j{at}", project, priority, preemptible, (gpus, 0), 1, at, RESTART_S + 60 * (at + 1))
                pool = Pool(pool.nodes, projects, {**pool.jobs, job.name: job}, pool.places, pool.scope)
                place = next(places(free(pool), job), None)
                if at < running and (place is None or not within_limits(pool, job)):
                    break
                if at < running and place is not None:
                    pool = pool.placed(job.name, place)
            else:
                yield pool


@pytest.mark.parametrize("running", [0, 1])
def test_every_tiny_pool(running: int) -> None:
    pools = list(tiny_pools(running))
    assert len(pools) > 50
    for pool in pools:
        check(pool)


@pytest.mark.long
def test_every_tiny_pool_with_two_running_jobs() -> None:
    for pool in tiny_pools(2):
        check(pool)


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
