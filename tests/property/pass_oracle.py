"""The documented rules for small pools a second time, exhaustively: which victims may a pending job have, and at what cost?

Written from docs/concepts/semantics (actions, quotas, victims) and not from the engine: whole GPUs and CPUs on equal devices,
rigid jobs, flat projects, no time-based protections. All amounts are (GPUs, CPU millicores). Every subset of jobs is tried.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from tests.property.share_reference import Member, divide

Amount = tuple[int, int]
NONE: Amount = (0, 0)
RESOURCES = (0, 1)
PREEMPTING = ("consolidate", "reclaim", "preempt")


@dataclass(frozen=True)
class Project:
    """quota, limit: by resource; `None`: no bound. age: smaller is older."""

    name: str
    age: int
    quota: tuple[int | None, int | None] = (0, None)
    limit: tuple[int | None, int | None] = (None, None)
    weight: int = 1


@dataclass(frozen=True)
class Job:
    """tasks: equal ones, each of this amount. lost_s: seconds of work that an eviction loses. order: submission."""

    name: str
    project: str
    priority: int
    preemptible: bool
    each: Amount
    tasks: int
    order: int
    lost_s: int = 0

    @property
    def amount(self) -> Amount:
        return self.each[0] * self.tasks, self.each[1] * self.tasks


@dataclass(frozen=True)
class Pool:
    """places: of each job that has resources, the node of each task."""

    nodes: Mapping[str, Amount]
    projects: Mapping[str, Project]
    jobs: Mapping[str, Job]
    places: Mapping[str, tuple[str, ...]]
    scope: str = "project"
    max_migrations: int | None = 0

    @property
    def pending(self) -> list[Job]:
        return sorted((job for job in self.jobs.values() if job.name not in self.places), key=lambda job: job.order)

    @property
    def active(self) -> list[Job]:
        return [self.jobs[name] for name in self.places]

    def placed(self, job: str, place: tuple[str, ...]) -> "Pool":
        return replace(self, places={**self.places, job: place})

    def without(self, names: Iterable[str]) -> "Pool":
        gone = set(names)
        return replace(self, places={name: place for name, place in self.places.items() if name not in gone})


@dataclass(frozen=True)
class Option:
    """A permitted set of victims, by name."""

    action: str
    victims: tuple[str, ...]


def plus(one: Amount, other: Amount) -> Amount:
    return one[0] + other[0], one[1] + other[1]


def minus(one: Amount, other: Amount) -> Amount:
    return one[0] - other[0], one[1] - other[1]


def total(amounts: Iterable[Amount]) -> Amount:
    found = NONE
    for amount in amounts:
        found = plus(found, amount)
    return found


def above(amount: int, bound: int | None) -> bool:
    return bound is not None and amount > bound


# --- nodes


def free(pool: Pool) -> dict[str, Amount]:
    left = dict(pool.nodes)
    for name, place in pool.places.items():
        for node in place:
            left[node] = minus(left[node], pool.jobs[name].each)
    return left


def places(room: Mapping[str, Amount], job: Job) -> Iterator[tuple[str, ...]]:
    """Every way to place the job's tasks, up to exchanging equal tasks."""

    def fill(at: int, room: dict[str, Amount], names: list[str]) -> Iterator[tuple[str, ...]]:
        if at == job.tasks:
            yield ()
            return
        for number, node in enumerate(names):
            left = minus(room[node], job.each)
            if min(left) >= 0:
                for rest in fill(at + 1, {**room, node: left}, names[number:]):
                    yield (node, *rest)

    yield from fill(0, dict(room), sorted(room))


def fits(pool: Pool, job: Job) -> bool:
    return next(places(free(pool), job), None) is not None


def fit_together(pool: Pool, jobs: Sequence[Job]) -> bool:
    """Whether all of these can be placed at once."""
    if not jobs:
        return True
    return any(fit_together(pool.placed(jobs[0].name, place), jobs[1:]) for place in places(free(pool), jobs[0]))


# --- quotas


def used(pool: Pool, project: str) -> Amount:
    return total(job.amount for job in pool.active if job.project == project)


@dataclass(frozen=True)
class Entitled:
    """Fair share and quota in force, by resource; `None`: no bound."""

    share: Amount
    quota: tuple[int | None, int | None]


def could_use(pool: Pool, node: str) -> bool:
    """Whether a task of any job that is no hopeless request would fit on the node if it were empty."""
    return any(hosts(pool.nodes[node], job) for job in pool.jobs.values() if is_claimant(pool, job))


def hosts(node: Amount, job: Job) -> int:
    """How many tasks of the job the empty node could host."""
    return min((node[at] // job.each[at] for at in RESOURCES if job.each[at]), default=job.tasks)


def is_claimant(pool: Pool, job: Job) -> bool:
    """Whether it runs, or would fit in the empty pool and below its project's limit."""
    if job.name in pool.places:
        return True
    limit = pool.projects[job.project].limit if job.project in pool.projects else (None, None)
    fits_limit = not any(above(job.amount[at], limit[at]) for at in RESOURCES)
    return fits_limit and sum(hosts(node, job) for node in pool.nodes.values()) >= job.tasks


def counted_capacity(pool: Pool) -> Amount:
    """A GPU counts if a job with GPUs could use it, CPUs if any job could."""
    used = [job for job in pool.jobs.values() if is_claimant(pool, job)]
    gpus = sum(node[0] for node in pool.nodes.values() if any(job.each[0] and hosts(node, job) for job in used))
    return gpus, sum(node[1] for name, node in pool.nodes.items() if could_use(pool, name))


def quota_in_full(pool: Pool, project: Project) -> tuple[int | None, int | None]:
    """Of CPUs that it states no quota of, its part of the GPUs of the nodes that count; without GPUs, its part by weight."""
    gpus, cpus = project.quota
    counted = sum(node[0] for name, node in pool.nodes.items() if could_use(pool, name))
    capacity = counted_capacity(pool)[1]
    if cpus is not None:
        return gpus, cpus
    if counted:
        return gpus, None if gpus is None else gpus * capacity // counted
    open_to = [each.weight for each in pool.projects.values() if each.quota[1] is None]
    left = max(0, capacity - sum(each.quota[1] or 0 for each in pool.projects.values()))
    return gpus, left * project.weight // max(1, sum(open_to))


def fair_shares(pool: Pool) -> dict[str, Entitled]:
    """Of each project, from the text of quotas.md, with the reference of one resource."""
    by_resource: list[dict[str, Member]] = []
    for at in RESOURCES:
        capacity = counted_capacity(pool)[at]
        members = {
            name: Member(
                project.age,
                sum(job.amount[at] for job in pool.jobs.values() if job.project == name and is_claimant(pool, job)),
                quota_in_full(pool, project)[at],
                project.limit[at],
                project.weight,
            )
            for name, project in pool.projects.items()
        }
        divide(capacity, list(members.values()))
        by_resource.append(members)
    return {name: entitled_to(by_resource[0][name], by_resource[1][name]) for name in pool.projects}


def entitled_to(gpus: Member, cpus: Member) -> Entitled:
    quotas = [None if each.in_force is None else int(each.in_force) for each in (gpus, cpus)]
    return Entitled((int(gpus.share), int(cpus.share)), (quotas[0], quotas[1]))


def allocatable(project: Project, entitled: Entitled) -> list[int | None]:
    """min(limit, max(quota, fair share)); `None`: no bound."""
    found: list[int | None] = []
    for at in RESOURCES:
        quota, limit = entitled.quota[at], project.limit[at]
        most = None if quota is None else max(quota, entitled.share[at])
        found.append(limit if most is None else most if limit is None else min(limit, most))
    return found


def within_limits(pool: Pool, job: Job) -> bool:
    """Both gates of every start: the limit, and the quota for jobs that are not preemptible."""
    if not pool.projects:
        return True
    project, quota = pool.projects[job.project], fair_shares(pool)[job.project].quota
    after = plus(used(pool, job.project), job.amount)
    firm = total(each.amount for each in pool.active if each.project == job.project and not each.preemptible)
    firm = plus(firm, job.amount)
    for at in RESOURCES:
        if job.amount[at] and above(after[at], project.limit[at]):
            return False
        if job.amount[at] and not job.preemptible and above(firm[at], quota[at]):
            return False
    return True


# --- actions


def may_ask_to_reclaim(pool: Pool, shares: Mapping[str, Entitled], job: Job) -> bool:
    after = plus(used(pool, job.project), job.amount)
    return all(after[at] <= shares[job.project].share[at] for at in RESOURCES)


def reclaim_takes_only_excess(pool: Pool, shares: Mapping[str, Entitled], job: Job, victims: Sequence[Job]) -> bool:
    """Whether in some order each victim's project, before it is taken, uses more than it is entitled to."""
    mine = plus(used(pool, job.project), job.amount)
    within_quota = not any(above(mine[at], shares[job.project].quota[at]) for at in RESOURCES)

    def in_order(order: Sequence[Job]) -> bool:
        left = {name: used(pool, name) for name in pool.projects}
        for victim in order:
            project = pool.projects[victim.project]
            bounds = allocatable(project, shares[victim.project])
            if not any(
                above(left[victim.project][at], bounds[at])
                or (within_quota and above(left[victim.project][at], shares[victim.project].quota[at]))
                for at in RESOURCES
                if gives_back(victim, at)
            ):
                return False
            left[victim.project] = minus(left[victim.project], victim.amount)
        return True

    return any(in_order(order) for order in permutations(victims))


def gives_back(victim: Job, resource: int) -> bool:
    return victim.amount[resource] > 0


def entitled(pool: Pool, shares: Mapping[str, Entitled], job: Job, victims: Sequence[Job]) -> bool:
    """Whether none is moved, for what the preemptor's project would only borrow, out of what another project is entitled to."""
    if not pool.projects:
        return True
    mine, quota = plus(used(pool, job.project), job.amount), shares[job.project].quota
    if not any(above(mine[at], quota[at]) for at in RESOURCES):
        return True
    beyond_share = any(mine[at] > shares[job.project].share[at] for at in RESOURCES)

    def in_order(order: Sequence[Job]) -> bool:
        left = {name: used(pool, name) for name in pool.projects}
        for victim in order:
            theirs = pool.projects[victim.project]
            bounds = allocatable(theirs, shares[victim.project]) if beyond_share else shares[victim.project].quota
            if not any(above(left[victim.project][at], bounds[at]) for at in RESOURCES if gives_back(victim, at)):
                return False
            left[victim.project] = minus(left[victim.project], victim.amount)
        return True

    return any(in_order(order) for order in permutations(each for each in victims if each.project != job.project))


def may_be_victim(pool: Pool, job: Job, victim: Job, action: str) -> bool:
    if not victim.preemptible:
        return False
    if action == "reclaim":
        return victim.project != job.project
    if action == "preempt":
        return victim.priority < job.priority and (pool.scope == "pool" or not pool.projects or victim.project == job.project)
    return victim.priority <= job.priority


def cap_at_fair_share(pool: Pool, shares: Mapping[str, Entitled], job: Job, left: Pool) -> bool:
    """Preempt takes the preemptor's project no further than its fair share, or than what it used before."""
    if not pool.projects:
        return True
    before, after = used(pool, job.project), plus(used(left, job.project), job.amount)
    return all(after[at] <= max(shares[job.project].share[at], before[at]) for at in RESOURCES)


def options(pool: Pool, job: Job, action: str, forbidden: Iterable[str] = ()) -> Iterator[Option]:
    """Every permitted set of victims with which the job fits; a set without victims where it fits as it is."""
    shares = fair_shares(pool)
    if action == "reclaim" and not (pool.projects and may_ask_to_reclaim(pool, shares, job)):
        return
    if action == "consolidate" and not (job.preemptible and pool.max_migrations != 0):
        return
    others = [each for each in pool.active if may_be_victim(pool, job, each, action) and each.name not in forbidden]
    most = len(others) if action != "consolidate" or pool.max_migrations is None else min(len(others), pool.max_migrations)
    for count in range(1, most + 1):
        for victims in combinations(others, count):
            if permitted(pool, shares, job, action, victims):
                yield Option(action, tuple(sorted(victim.name for victim in victims)))


def permitted(pool: Pool, shares: Mapping[str, Entitled], job: Job, action: str, victims: Sequence[Job]) -> bool:
    """Whether the job may start after these evictions, none of the victims getting a new place but under consolidate."""
    left = pool.without(victim.name for victim in victims)
    if action == "consolidate":
        pays = sum(counted(victim) * (victim.lost_s + RESTART_S) for victim in victims) <= counted(job) * PAYBACK_S
        return pays and entitled(pool, shares, job, victims) and within_limits(pool, job) and fit_together(left, [job, *victims])
    if not within_limits(left, job) or not fits(left, job):
        return False
    if action == "reclaim":
        return reclaim_takes_only_excess(pool, shares, job, victims)
    return cap_at_fair_share(pool, shares, job, left)


# --- the objective


CPUS_PER_GPU = 16
RESTART_S = 60
PAYBACK_S = 3600


def counted(job: Job) -> int:
    """Thousandths of a GPU that the objective counts: the job's GPUs; of tasks without GPUs, their CPUs."""
    return job.tasks * (1000 * job.each[0] or max(1, -(-job.each[1] // CPUS_PER_GPU)))


def cost(pool: Pool, names: Iterable[str]) -> tuple[object, ...]:
    """Levels 1, 3, 4 and 5 of the objective: GPUs by priority from the highest down, work lost, jobs, tasks."""
    victims = [pool.jobs[name] for name in names]
    priorities = sorted({job.priority for job in pool.jobs.values()}, reverse=True)
    by_priority = tuple(sum(counted(job) for job in victims if job.priority == priority) for priority in priorities)
    lost = sum(counted(job) * job.lost_s for job in victims)
    return (by_priority, lost, len(victims), sum(job.tasks for job in victims))
