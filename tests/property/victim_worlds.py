"""Small random pools with projects, elastic gangs and shared devices, and who should leave by trying every set.

Written from the words of the semantics, without the code under test: only fair shares are taken from it, which have
tests of their own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from random import Random

from tests.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.pool import Job, Pool

UNLIMITED = -1
Choice = dict[str, int]  # how many units of which job leave


def random_world(random: Random, verb: str) -> tuple[Sketch, Job]:
    """One to three nodes, up to seven jobs of up to three tasks, and a job that asks."""
    sketch = Sketch()
    sketch.pool.policy = random_policy(random, verb)
    for number in range(random.randint(1, 3)):
        sketch.node(f"n{number}", gpus=random.choice((1, 2, 2, 3, 4)), cpu=random.choice((3, 6)), slots=random.choice((4, 1000)))
    names = [project.name for project in sketch.pool.policy.projects if project.name != "dept"]
    fill = random.choice((3, 12, 25))
    for number in range(fill):
        if len(sketch.pool.jobs) < 7:
            _job_somewhere(random, sketch, f"j{number}", names)
    groups = [_group(random, most=3) for _ in range(random.choice((1, 1, 1, 2)))]
    preemptible = verb == "consolidate" or random.random() < 0.8
    asker = sketch.job("asker", *groups, priority=random.choice((50, 75)), preemptible=preemptible)
    asker.project = random.choice(names) if names else ""
    total = sum(entry.count for entry in groups)
    if total > 1 and random.random() < 0.3:
        asker.demand = asker.demand.model_copy(update={"min_tasks": random.randint(1, total)})
    sketch.pool.scene = None
    return sketch, asker


def random_policy(random: Random, verb: str) -> Policy:
    """No projects, two, or a small tree; quotas, limits and weights of all kinds."""
    projects: list[dict[str, object]] = []
    if verb == "reclaim" or random.random() < 0.6:
        tree = random.random() < 0.4
        if tree:
            projects.append({"name": "dept", "quota": {"gpus": random.choice((-1, 2, 4, 6))}})
        for name in ("a", "b", "c")[: random.randint(2, 3)]:
            parent = "dept" if tree and name != "c" else None
            projects.append(
                {
                    "name": name,
                    "parent": parent,
                    "quota": {"gpus": random.choice((0, 1, 2, 3, 4))},
                    "limit": {"gpus": random.choice((-1, -1, -1, 2, 4))},
                    "over_quota_weight": random.choice((0, 1, 1, 2)),
                    "priority": random.choice((0, 0, 0, 1)),
                }
            )
    preemption: dict[str, object] = {
        "scope": random.choice((None, "pool", "project")),
        "quota_shields": random.random() < 0.5,
        "within_share": random.random() < 0.7,
        "most_moved": random.choice((-1, 1, 2, 3)),
    }
    budgets = [{"name": "careful", "labels": {"kind": "careful"}, "most": random.choice((0, 1))}] if random.random() < 0.2 else []
    document = DEFAULT_POLICY.model_dump(mode="json")
    document.update(projects=projects, preemption=preemption, protections={"budgets": budgets})
    return Policy.model_validate_json(json.dumps(document))


def _group(random: Random, most: int):
    count = random.randint(1, most)
    if random.random() < 0.25:
        share = random.choice((250, 500, 500, 600))
        return group(count, gpu_share_milli=share, gpu_devices=random.choice((1, 1, 2)), cpu=random.choice((0, 1)))
    return group(count, gpus=random.choice((0, 1, 1, 1, 2)), cpu=random.choice((0, 0, 1)))


def _job_somewhere(random: Random, sketch: Sketch, name: str, projects: list[str]) -> None:
    pool = sketch.pool
    asked = _group(random, most=3)
    phase = random.choice(("running", "running", "running", "running", "starting", "reserved", "evicting"))
    state = free_room(pool, leaving_stay=phase != "reserved")
    places = []
    for _ in range(asked.count):
        options = list(_ways(state, asked, None))
        if not options:
            return
        node, devices, left = random.choice(options)
        state = left
        places.append((pool.nodes[node].name, devices))
    job = sketch.job(name, asked, priority=random.choice((25, 25, 50, 50, 75)), preemptible=random.random() < 0.85)
    job.project = random.choice(projects) if projects else ""
    sketch.at(job, *places, phase=phase, age=random.choice((MINUTE, HOUR, HOUR, 2 * HOUR)))
    if asked.count > 1 and random.random() < 0.5:
        job.demand = job.demand.model_copy(update={"min_tasks": random.randint(1, asked.count)})
    if random.random() < 0.3:
        job.demand = job.demand.model_copy(update={"labels": {"kind": "careful"}})
    if phase == "running" and random.random() < 0.3:
        job.last_checkpoint = pool.now - MINUTE


# --- room

State = tuple[tuple[tuple[int, ...], int, int], ...]  # by node: free thousandths of each device, CPU, slots


def free_room(pool: Pool, gone: Mapping[str, set[int]] | None = None, *, leaving_stay: bool = False) -> State:
    """What is free once those on their way out, and the tasks in `gone`, have left. `leaving_stay`: what is free now."""
    gone = gone or {}
    free = {}
    for node in pool.nodes.values():
        free[node.number] = [[1000] * len(node.devices), node.capacity.cpu_milli, node.capacity.slots]
    for job in pool.jobs.values():
        for task in job.tasks:
            if (job.phase == "evicting" and not leaving_stay) or task.index in gone.get(job.id, ()):
                continue
            asked, room = job.groups()[task.index], free[task.node]
            for number in range(len(room[0])):
                if task.devices >> number & 1:
                    room[0][number] -= asked.gpu_share_milli or 1000
            room[1] -= asked.cpu_milli
            room[2] -= 1
    return tuple((tuple(devices), cpu, slots) for devices, cpu, slots in (free[number] for number in sorted(free)))


def _ways(state: State, asked, allowed: set[int] | None) -> Iterator[tuple[int, list[int], State]]:
    """Every way to stand one task: node, devices, and what is left."""
    share = asked.gpu_share_milli or 1000
    count = (asked.gpu_devices or 1) if asked.gpu_share_milli else asked.gpu_milli // 1000
    for node, (devices, cpu, slots) in enumerate(state):
        if slots < 1 or cpu < asked.cpu_milli or (allowed is not None and node not in allowed):
            continue
        useful = [number for number, free in enumerate(devices) if free >= share]
        seen = []
        for chosen in combinations(useful, count):
            left = tuple(free - share if number in chosen else free for number, free in enumerate(devices))
            look = sorted(left)
            if look in seen:
                continue
            seen.append(look)
            yield node, list(chosen), (*state[:node], (left, cpu - asked.cpu_milli, slots - 1), *state[node + 1 :])


def all_stand(state: State, tasks: tuple) -> bool:
    """Whether all these tasks can stand together: every way is tried."""

    @cache
    def rest(state: State, at: int) -> bool:
        if at == len(tasks):
            return True
        return any(rest(_looks_alike(left), at + 1) for _, _, left in _ways(state, tasks[at], None))

    return rest(_looks_alike(state), 0)


def all_stand_in_racks(state: State, tasks: tuple, racks: tuple[int, ...], stay: tuple[tuple[str, int], ...]) -> bool:
    """The same for pairs of a task and whom it must share a rack with, if with anybody. stay: racks that are settled."""

    @cache
    def rest(state: State, at: int, fixed: tuple[tuple[str, int], ...]) -> bool:
        if at == len(tasks):
            return True
        asked, bond = tasks[at]
        rack = dict(fixed).get(bond)
        allowed = {number for number, of in enumerate(racks) if rack is None or of == rack}
        for node, _, left in _ways(state, asked, allowed):
            now = fixed if bond is None else tuple(sorted({**dict(fixed), bond: racks[node]}.items()))
            if rest(_looks_alike(left), at + 1, now):
                return True
        return False

    return rest(_looks_alike(state), 0, stay)


def _looks_alike(state: State) -> State:
    return tuple((tuple(sorted(devices)), cpu, slots) for devices, cpu, slots in state)


# --- what jobs can lose


def asked_first(job: Job) -> list[int]:
    """The asker's unit: all that is missing up to its minimum."""
    return sorted(range(job.size), key=str)[: job.minimum]


def chain(job: Job) -> list[list[int]]:
    """Surplus one by one, the last in order first, then the rest. What has not started goes whole."""
    left = sorted((task.index for task in job.tasks), key=str)
    units = []
    while len(left) > job.minimum and job.phase != "reserved":
        units.append([left.pop()])
    return [*units, left]


def leaving(pool: Pool, choice: Choice) -> dict[str, set[int]]:
    """The members that leave, by job."""
    return {name: {index for unit in chain(pool.jobs[name])[:count] for index in unit} for name, count in choice.items() if count}


def gpu_milli(job: Job, indices: set[int]) -> int:
    """Thousandths of GPUs of these members."""
    total = 0
    for index in indices:
        asked = job.groups()[index]
        total += asked.gpu_share_milli * (asked.gpu_devices or 1) if asked.gpu_share_milli else asked.gpu_milli
    return total


# --- the objective


def cost(pool: Pool, choice: Choice, under_share: Mapping[str, bool] | None = None) -> tuple:
    """DESIGN §5, level by level."""
    priorities = sorted({job.priority for job in pool.jobs.values()}, reverse=True)
    classes = dict.fromkeys(priorities, 0)
    under = lost = stopped = tasks = promises = broken = units = 0
    young = []
    for name, count in choice.items():
        if not count:
            continue
        job = pool.jobs[name]
        steps = chain(job)
        gone = {index for unit in steps[:count] for index in unit}
        units += count
        young += [(-job.seq, name, at) for at in range(count)]
        if job.phase == "reserved":
            promises += 1
            continue
        gpus = gpu_milli(job, gone)
        classes[job.priority] += gpus
        under += gpus if (under_share or {}).get(job.project) else 0
        since = max(job.last_start or 0, job.last_checkpoint or 0)
        lost += gpus * (min(pool.now - since, HOUR) + MINUTE) // 1_000_000
        stopped += count == len(steps)
        tasks += len(gone)
        for number in {task.node for task in job.tasks if task.index in gone and task.devices}:
            broken += any(
                task.node == number and task.devices and not (other is job and task.index in gone)
                for other in pool.jobs.values()
                if other.phase != "evicting"
                for task in other.tasks
            )
    return (*classes.values(), under, lost, stopped, tasks, promises, broken, units, sorted(young))


# --- projects


def above(pool: Pool, project: str) -> list[str]:
    """The project and all above it, up to the root."""
    parents = {entry.name: entry.parent for entry in pool.policy.projects}
    if project not in parents:
        return ["*", ""] if parents else [""]
    path = [project]
    while parents[path[-1]]:
        path.append(parents[path[-1]])
    return [*path, ""]


def used(pool: Pool, project: str, gone: Mapping[str, set[int]], preemptible: bool = True) -> int:
    """GPUs, in thousandths, that a project and all below it use when these are gone."""
    total = 0
    for job in pool.jobs.values():
        counts = job.phase in ("reserved", "starting", "running") and project in above(pool, job.project)
        if counts and (preemptible or not job.preemptible):
            total += gpu_milli(job, {task.index for task in job.tasks} - gone.get(job.id, set()))
    return total


def bound(pool: Pool, project: str, what: str) -> int:
    """Quota or limit of a project; the root and what is unnamed have none."""
    for entry in pool.policy.projects:
        if entry.name == project:
            stated = getattr(entry, what).gpu_milli
            return stated if stated is not None else (0 if what == "quota" else UNLIMITED)
    return UNLIMITED


def in_some_order(pool: Pool, choice: Choice, may: object) -> bool:
    """Whether the units can be taken one after the other, each allowed by `may(job, taken so far)`."""

    @cache
    def rest(taken: tuple[tuple[str, int], ...]) -> bool:
        now = dict(taken)
        if now == {name: choice[name] for name in now}:
            return True
        gone = leaving(pool, now)
        left = [name for name, count in taken if count < choice[name]]
        possible = [name for name in left if may(pool.jobs[name], chain(pool.jobs[name])[now[name]], gone)]
        return any(rest(tuple(sorted({**now, name: now[name] + 1}.items()))) for name in possible)

    return rest(tuple(sorted((name, 0) for name in choice)))


def may_reclaim(pool: Pool, shares: Mapping, asker: Job, choice: Choice) -> bool:
    """The asker's gate, the test before each unit, and the test of the whole."""
    asked = gpu_milli(asker, set(asked_first(asker)))
    mine = above(pool, asker.project)
    share = {name: amounts.gpu_milli for name, amounts in shares.items()}
    if used(pool, mine[0], {}) + asked > share.get(mine[0], 0):
        return False

    def may(job: Job, unit: list[int], gone: Mapping[str, set[int]]) -> bool:
        theirs = above(pool, job.project)
        if theirs[0] == mine[0]:
            return False
        common = next(name for name in theirs if name in mine)
        loser, taker = theirs[theirs.index(common) - 1], mine[mine.index(common) - 1]
        remaining = used(pool, loser, gone)
        quota, most = bound(pool, loser, "quota"), allocatable(pool, shares, loser)
        if most != UNLIMITED and remaining > most:
            return True
        takers = bound(pool, taker, "quota")
        fits = takers == UNLIMITED or used(pool, taker, {}) + asked <= takers
        return quota != UNLIMITED and remaining > quota and fits

    if not in_some_order(pool, choice, may):
        return False
    gone = leaving(pool, choice)
    everyone = ["", *(entry.name for entry in pool.policy.projects)]
    for at, project in enumerate(mine[:-1]):
        remaining = used(pool, project, gone) + asked
        for other in everyone:
            path = above(pool, other)
            sibling = len(path) > 1 and other and path[1] == mine[at + 1] and other != project
            if not sibling or not any(other in above(pool, pool.jobs[name].project) for name in gone):
                continue
            fuller = remaining * share.get(other, 0) >= used(pool, other, gone) * share.get(project, 0)
            if remaining > share.get(project, 0) and share.get(other, 0) > 0 and fuller:
                return False
            if share.get(project, 0) == share.get(other, 0) == 0 and remaining > used(pool, other, gone):
                return False  # beyond the text: two that are entitled to nothing would take from each other for ever
    return True


def allocatable(pool: Pool, shares: Mapping, project: str) -> int:
    """What the project may come to use."""
    quota, limit = bound(pool, project, "quota"), bound(pool, project, "limit")
    most = UNLIMITED if quota == UNLIMITED else max(quota, shares[project].gpu_milli if project in shares else 0)
    return limit if limit != UNLIMITED and (most == UNLIMITED or limit < most) else most


def shields_allow(pool: Pool, shares: Mapping, asker: Job, choice: Choice) -> bool:
    """Under scope `pool`: work within its own project's quota stays, tested before each unit.

    Beyond the text: with reclaim on, from an asker whose project would be above its quota or share, work within the
    quota or the share stays, and within that of projects above, for reclaim would take the room straight back.
    """
    rules = pool.policy.preemption
    if pool.policy.scope != "pool" or not pool.policy.projects:
        return True
    mine = above(pool, asker.project)
    asked = gpu_milli(asker, set(asked_first(asker)))
    beyond_share, beyond_quota = [], []
    for name in mine[:-1] if "reclaim" in rules.verbs else []:
        most, quota = allocatable(pool, shares, name), bound_of(pool, name)
        beyond_share += [name] if most != UNLIMITED and used(pool, name, {}) + asked > most else []
        beyond_quota += [name] if quota != UNLIMITED and used(pool, name, {}) + asked > quota else []

    def may(job: Job, unit: list[int], gone: Mapping[str, set[int]]) -> bool:
        if job.project == asker.project:
            return True
        theirs = above(pool, job.project)
        side = [name for name in mine if name not in theirs]
        share, taken_back = (any(name in beyond for name in side) for beyond in (beyond_share, beyond_quota))
        if not taken_back and not rules.quota_shields:
            return True
        uses = any(asked.gpu_milli or asked.gpu_share_milli for asked in job.demand.tasks) and bool(unit)
        for name in theirs if taken_back else theirs[:1]:
            if name in mine and name != theirs[0]:
                break
            kept = allocatable(pool, shares, name) if share else bound_of(pool, name)
            if not uses or kept == UNLIMITED or used(pool, name, gone) <= kept:
                return False
        return True

    return in_some_order(pool, choice, may)


def bound_of(pool: Pool, project: str) -> int:
    """The quota; what is unnamed has none of its own to lean on."""
    return 0 if project.endswith("*") else bound(pool, project, "quota")


def budgets_allow(pool: Pool, choice: Choice) -> bool:
    """A group loses at most so many jobs at a time; a job that shrinks, or had not started, is not lost."""
    lost = 0
    for name, count in choice.items():
        job = pool.jobs[name]
        careful = job.demand.labels.get("kind") == "careful"
        lost += careful and job.phase != "reserved" and count == len(chain(job))
    return all(lost <= budget.most for budget in pool.policy.protections.budgets)


def within_limits(pool: Pool, asker: Job, gone: Mapping[str, set[int]]) -> bool:
    """Limits at every ancestor, after the victims; a non-preemptible asker within its quota besides."""
    asked = gpu_milli(asker, set(asked_first(asker)))
    for project in above(pool, asker.project):
        limit, quota = bound(pool, project, "limit"), bound(pool, project, "quota")
        if asked and limit != UNLIMITED and used(pool, project, gone) + asked > limit:
            return False
        if asked and not asker.preemptible and quota != UNLIMITED and used(pool, project, {}, preemptible=False) + asked > quota:
            return False
    return True


def within_share(pool: Pool, shares: Mapping, asker: Job, gone: Mapping[str, set[int]]) -> bool:
    """Beyond the text: preempt carries no project above both its fair share and what it used before."""
    rules = pool.policy.preemption
    if not pool.policy.projects or not rules.within_share or "reclaim" not in rules.verbs:
        return True
    asked = gpu_milli(asker, set(asked_first(asker)))
    share = {name: amounts.gpu_milli for name, amounts in shares.items()}
    path = above(pool, asker.project)[:-1]
    return all(used(pool, name, gone) + asked <= max(share.get(name, 0), used(pool, name, {})) for name in path)


# --- the answers


def candidates(pool: Pool, asker: Job, verb: str) -> list[Job]:
    """Who may lose anything under the verb, by the words of semantics §3."""
    found = []
    for job in pool.jobs.values():
        if job.phase not in ("reserved", "starting", "running") or not job.preemptible:
            continue
        if verb == "preempt":
            local = pool.policy.scope == "pool" or job.project == asker.project
            if job.priority < asker.priority and local:
                found.append(job)
        elif verb == "reclaim":
            if job.project != asker.project:
                found.append(job)
        elif job.phase != "reserved":
            found.append(job)
    return found


def choices(pool: Pool, asker: Job, verb: str) -> Iterator[Choice]:
    """Every set of victims."""
    jobs = candidates(pool, asker, verb)
    for counts in product(*(range(len(chain(job)) + 1) for job in jobs)):
        yield {job.id: count for job, count in zip(jobs, counts, strict=True) if count}


def makes_room(pool: Pool, asker: Job, choice: Choice, shares: Mapping | None = None) -> bool:
    """Whether the asker's unit stands, within all limits, once these have left. shares: under preempt, within them, too."""
    gone = leaving(pool, choice)
    tasks = tuple(asker.groups()[index] for index in asked_first(asker))
    bounded = within_limits(pool, asker, gone) and (shares is None or within_share(pool, shares, asker, gone))
    return bounded and all_stand(free_room(pool, gone), tasks)


def allowed(pool: Pool, shares: Mapping, asker: Job, verb: str, choice: Choice) -> bool:
    """Whether the verb lets just these leave."""
    if not budgets_allow(pool, choice):
        return False
    if verb == "reclaim":
        return may_reclaim(pool, shares, asker, choice)
    return shields_allow(pool, shares, asker, choice)


def under_shares(pool: Pool, shares: Mapping) -> dict[str, bool]:
    """Projects over quota and not over fair share."""
    found = {}
    for job in pool.jobs.values():
        leaf = above(pool, job.project)[0]
        quota, now = bound(pool, leaf, "quota"), used(pool, leaf, {})
        share = shares[leaf].gpu_milli if leaf in shares else 0
        found[job.project] = quota != UNLIMITED and quota < now <= share
    return found


def best_choice(pool: Pool, shares: Mapping, asker: Job, verb: str) -> Choice | None:
    """The best of all sets that make room and that the verb allows, or `None`."""
    under = under_shares(pool, shares) if verb == "reclaim" else None
    ranked = sorted(choices(pool, asker, verb), key=lambda choice: cost(pool, choice, under))
    most = shares if verb == "preempt" else None
    for choice in ranked:
        room = makes_room(pool, asker, choice, most)
        if room and allowed(pool, shares, asker, verb, choice) and irreducible(pool, asker, choice, most):
            return choice
    return None


def irreducible(pool: Pool, asker: Job, choice: Choice, shares: Mapping | None = None) -> bool:
    """Whether nobody of it could keep a unit. shares: as for `makes_room`."""
    return not any(makes_room(pool, asker, {**choice, name: count - 1}, shares) for name, count in choice.items())


def in_racks(random: Random, sketch: Sketch) -> list[str]:
    """Put the nodes into two racks; some jobs that stand in one of them must stay in one. Their names."""
    pool = sketch.pool
    document = pool.policy.model_dump(mode="json")
    document["topologies"] = [{"name": "hall", "levels": ["rack"]}]
    pool.policy = Policy.model_validate_json(json.dumps(document))
    for node in pool.nodes.values():
        node.labels["rack"] = f"r{node.number % 2}"
    bound = []
    for job in pool.jobs.values():
        here = {task.node % 2 for task in job.tasks}
        if job.size > 1 and len(here) < 2 and random.random() < 0.7:
            job.demand = job.demand.model_copy(update={"topology": TopologyRule(topology="hall", required="rack")})
            bound.append(job.id)
    pool.scene = None
    return bound


def best_moves(pool: Pool, asker: Job, bound: Sequence[str] = ()) -> Choice | None:
    """The best set of movers, surplus one by one before a whole job, each with a place of its own; or `None`.

    bound: jobs of which all members stand in one rack.
    """
    racks = tuple(number % 2 for number in sorted(pool.nodes))
    jobs = candidates(pool, asker, "consolidate")
    most = pool.policy.preemption.most_moved
    sets = [choice for choice in choices(pool, asker, "consolidate") if 0 < len(choice) <= (len(jobs) if most < 0 else most)]
    for choice in sorted(sets, key=lambda choice: cost(pool, choice)):
        gone = leaving(pool, choice)
        if not budgets_allow(pool, choice):
            continue
        tasks = [(asker.groups()[index], asker.id if asker.id in bound else None) for index in asked_first(asker)]
        stay: dict[str, int] = {}
        for name, indices in gone.items():
            job = pool.jobs[name]
            tasks += [(job.groups()[index], name if name in bound else None) for index in indices]
            stay.update((name, racks[task.node]) for task in job.tasks if name in bound and task.index not in indices)
        tasks.sort(key=repr)
        free = free_room(pool, gone)
        if not bound:
            if all_stand(free, tuple(asked for asked, _ in tasks)):
                return choice
        elif all_stand_in_racks(free, tuple(tasks), racks, tuple(sorted(stay.items()))):
            return choice
    return None
