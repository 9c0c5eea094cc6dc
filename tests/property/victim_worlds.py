"""Small random pools with projects, elastic gangs and shared devices, and the best victims by exhaustive search.

Written from the semantics, without the code under test, except for fair shares, which have their own tests.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from random import Random
from types import MappingProxyType

from tests.kits.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.model.demand import TaskGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Job, PoolState
from bailiff_core.scheduling_snapshot import current_snapshot

UNLIMITED = -1
Choice = dict[str, int]  # number of evicted units by job


def random_world(random: Random, action: str) -> tuple[Sketch, Job]:
    """One to three nodes, up to seven jobs of up to three tasks, and a preemptor."""
    sketch = Sketch()
    sketch.state.policy = random_policy(random, action)
    for number in range(random.randint(1, 3)):
        sketch.node(f"n{number}", gpus=random.choice((1, 2, 2, 3, 4)), cpu=random.choice((3, 6)), slots=random.choice((4, 1000)))
    names = [project.name for project in sketch.state.policy.projects if project.name != "dept"]
    fill = random.choice((3, 12, 25))
    for number in range(fill):
        if len(sketch.state.jobs) < 7:
            _job_somewhere(random, sketch, f"j{number}", names)
    groups = [_group(random, most=3) for _ in range(random.choice((1, 1, 1, 2)))]
    preemptible = action == "consolidate" or random.random() < 0.8
    preemptor = sketch.job("preemptor", *groups, priority=random.choice((50, 75)), preemptible=preemptible)
    preemptor.project = random.choice(names) if names else ""
    total = sum(entry.count for entry in groups)
    if total > 1 and random.random() < 0.3:
        preemptor.demand = preemptor.demand.model_copy(update={"min_tasks": random.randint(1, total)})
    sketch.state.indices.snapshot = None
    return sketch, preemptor


def world_of_equals(random: Random, action: str) -> tuple[Sketch, Job]:
    """Two to four nodes of jobs that differ in little but their nodes, so that fragmentation decides; some must stay."""
    sketch = Sketch()
    sketch.state.policy = random_policy(random, action)
    names = [project.name for project in sketch.state.policy.projects if project.name != "dept"]
    nodes = random.randint(2, 4)
    free = {number: list(range(random.choice((2, 2, 3)))) for number in range(nodes)}
    for number, devices in free.items():
        sketch.node(f"n{number}", gpus=len(devices))
    left_free = random.choice((0, 0, 1, 2))
    while len(sketch.state.jobs) < 9 and sum(map(len, free.values())) > left_free:
        size = random.choice((1, 1, 1, 2))
        open_nodes = [number for number, devices in free.items() if devices]
        places = [random.choice(open_nodes) for _ in range(size)]
        if any(places.count(number) > len(free[number]) for number in places):
            continue
        job = sketch.job(f"j{len(sketch.state.jobs)}", group(size, gpus=1), priority=50, preemptible=random.random() < 0.8)
        job.project = random.choice(names) if names else ""
        if size > 1 and random.random() < 0.5:
            job.demand = job.demand.model_copy(update={"min_tasks": 1})
        phase = random.choice(("running",) * 8 + ("reserved", "evicting"))
        sketch.at(job, *((f"n{number}", [free[number].pop()]) for number in places), phase=phase, age=2 * HOUR)
    asked = group(random.choice((1, 2, 2, 3)), gpus=random.choice((1, 1, 2)), nodes=random.choice(((), (), ("n0", "n1"))))
    preemptor = sketch.job("preemptor", asked, priority=75)
    preemptor.project = random.choice(names) if names else ""
    sketch.state.indices.snapshot = None
    return sketch, preemptor


def only_gpus(quota: int) -> dict[str, int]:
    """A quota of GPUs, and of nothing else: the reference knows only those."""
    return {"gpus": quota, "cpus": UNLIMITED, "memory": UNLIMITED}


def world_of_moves(random: Random, _action: str) -> tuple[Sketch, Job]:
    """Two or three projects within their quotas on three to four nodes, with free GPUs in the wrong places for a reclaim."""
    sketch = Sketch()
    document = DEFAULT_POLICY.model_dump(mode="json")
    quotas = {"a": random.choice((4, 6)), "b": random.choice((2, 3, 6)), "c": random.choice((1, 4))}
    document.update(projects=[{"name": name, "quota": only_gpus(quota)} for name, quota in quotas.items()])
    free = {number: list(range(random.choice((2, 3, 4)))) for number in range(random.choice((3, 4)))}
    for number, devices in free.items():
        sketch.node(f"n{number}", gpus=len(devices))
    asked = random.choice((2, 2, 3))
    own = Random(repr((quotas, free, asked)))  # of its own, so that all else of a world stays what it was without these
    document["preemption"] = {
        "max_migrations": own.choice((None, None, 1, 2, 0)),
        "move_higher_priority": own.random() < 0.4,
        "payback": own.choice((None, None, "1h", "2h")),
    }
    sketch.state.policy = Policy.model_validate_json(json.dumps(document))
    while len(sketch.state.jobs) < 9 and sum(map(len, free.values())) > asked:
        size = random.choice((1, 1, 1, 2))
        number = random.choice([number for number, devices in free.items() if devices])
        if len(free[number]) < size:
            continue
        job = sketch.job(
            f"j{len(sketch.state.jobs)}", group(gpus=size), priority=random.choice((25, 50)), preemptible=random.random() < 0.9
        )
        job.project = random.choice("bbc")
        sketch.at(job, (f"n{number}", [free[number].pop() for _ in range(size)]), age=random.choice((MINUTE, HOUR, 2 * HOUR)))
    asking = group(random.choice((1, 1, 2)), gpus=asked)
    preemptor = sketch.job("preemptor", asking, priority=own.choice((25, 50, 50)), preemptible=own.random() < 0.9)
    preemptor.project = "a"
    sketch.state.indices.snapshot = None
    return sketch, preemptor


def random_policy(random: Random, action: str) -> Policy:
    """No projects, two, or a small tree; quotas, limits and weights of all kinds."""
    projects: list[dict[str, object]] = []
    if action == "reclaim" or random.random() < 0.6:
        tree = random.random() < 0.4
        if tree:
            projects.append({"name": "dept", "quota": only_gpus(random.choice((-1, 2, 4, 6)))})
        for name in ("a", "b", "c")[: random.randint(2, 3)]:
            parent = "dept" if tree and name != "c" else None
            projects.append(
                {
                    "name": name,
                    "parent": parent,
                    "quota": only_gpus(random.choice((0, 1, 2, 3, 4))),
                    "limit": {"gpus": random.choice((-1, -1, -1, 2, 4))},
                    "over_quota_weight": random.choice((0, 1, 1, 2)),
                    "priority": random.choice((0, 0, 0, 1)),
                }
            )
    preemption: dict[str, object] = {
        "scope": random.choice((None, "pool", "project")),
        "quota_shields": random.random() < 0.5,
        "cap_at_fair_share": random.random() < 0.7,
        "max_migrations": random.choice((None, 1, 2, 3)),
    }
    budgets = (
        [{"name": "careful", "labels": {"kind": "careful"}, "max_disruptions": random.choice((0, 1))}]
        if random.random() < 0.2
        else []
    )
    own = Random(repr(preemption))  # of its own, so that all else of a world stays what it was without these two
    preemption |= {"move_higher_priority": own.random() < 0.4, "payback": own.choice((None, "1h", "1h", "2h"))}
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
    state = sketch.state
    requested = _group(random, most=3)
    phase = random.choice(("running", "running", "running", "running", "starting", "reserved", "evicting"))
    free = free_resources(state, leaving_stay=phase != "reserved")
    places = []
    for _ in range(requested.count):
        options = list(_ways(free, requested, None))
        if not options:
            return
        node, devices, left = random.choice(options)
        free = left
        places.append((state.nodes[node].name, devices))
    job = sketch.job(name, requested, priority=random.choice((25, 25, 50, 50, 75)), preemptible=random.random() < 0.85)
    job.project = random.choice(projects) if projects else ""
    sketch.at(job, *places, phase=phase, age=random.choice((MINUTE, HOUR, HOUR, 2 * HOUR)))
    if requested.count > 1 and random.random() < 0.5:
        job.demand = job.demand.model_copy(update={"min_tasks": random.randint(1, requested.count)})
    if random.random() < 0.3:
        job.demand = job.demand.model_copy(update={"labels": {"kind": "careful"}})
    if phase == "running" and random.random() < 0.3:
        job.last_checkpoint = state.now - MINUTE


# --- resources

State = tuple[tuple[tuple[int, ...], int, int], ...]  # by node: free thousandths of each device, CPU, slots


def free_resources(state: PoolState, gone: Mapping[str, set[int]] | None = None, *, leaving_stay: bool = False) -> State:
    """Free resources after all evictions and without the tasks in `gone`. leaving_stay: without the evictions."""
    gone = gone or {}
    free = {}
    for node in state.nodes.values():
        free[node.number] = [[1000] * len(node.devices), node.capacity.cpu_milli, node.capacity.slots]
    for job in state.jobs.values():
        for task in job.tasks:
            if (job.phase == "evicting" and not leaving_stay) or task.index in gone.get(job.id, ()):
                continue
            requested, room = job.groups()[task.index], free[task.node]
            for number in range(len(room[0])):
                if task.devices >> number & 1:
                    room[0][number] -= requested.gpu_share_milli or 1000
            room[1] -= requested.cpu_milli
            room[2] -= 1
    return tuple((tuple(devices), cpu, slots) for devices, cpu, slots in (free[number] for number in sorted(free)))


def _ways(state: State, requested, allowed: set[int] | None) -> Iterator[tuple[int, list[int], State]]:
    """Every placement of one task: node, devices, and the remaining resources."""
    share = requested.gpu_share_milli or 1000
    count = (requested.gpu_devices or 1) if requested.gpu_share_milli else requested.gpu_milli // 1000
    for node, (devices, cpu, slots) in enumerate(state):
        if requested.nodes and f"n{node}" not in requested.nodes:
            continue
        if slots < 1 or cpu < requested.cpu_milli or (allowed is not None and node not in allowed):
            continue
        useful = [number for number, free in enumerate(devices) if free >= share]
        seen = []
        for chosen in combinations(useful, count):
            left = tuple(free - share if number in chosen else free for number, free in enumerate(devices))
            look = sorted(left)
            if look in seen:
                continue
            seen.append(look)
            yield node, list(chosen), (*state[:node], (left, cpu - requested.cpu_milli, slots - 1), *state[node + 1 :])


def all_stand(state: State, tasks: tuple) -> bool:
    """Whether all these tasks fit together: tries every placement."""

    @cache
    def rest(state: State, at: int) -> bool:
        if at == len(tasks):
            return True
        return any(rest(_normalized(left), at + 1) for _, _, left in _ways(state, tasks[at], None))

    return rest(_normalized(state), 0)


def all_stand_in_racks(state: State, tasks: tuple, racks: tuple[int, ...], stay: tuple[tuple[str, int], ...]) -> bool:
    """The same for pairs of a task and the job with which it must share a rack, if any. stay: racks that are fixed."""

    @cache
    def rest(state: State, at: int, fixed: tuple[tuple[str, int], ...]) -> bool:
        if at == len(tasks):
            return True
        requested, bond = tasks[at]
        rack = dict(fixed).get(bond)
        allowed = {number for number, of in enumerate(racks) if rack is None or of == rack}
        for node, _, left in _ways(state, requested, allowed):
            now = fixed if bond is None else tuple(sorted({**dict(fixed), bond: racks[node]}.items()))
            if rest(_normalized(left), at + 1, now):
                return True
        return False

    return rest(_normalized(state), 0, stay)


def _normalized(state: State) -> State:
    return tuple((tuple(sorted(devices)), cpu, slots) for devices, cpu, slots in state)


# --- evictable units


def preemptor_unit(job: Job) -> list[int]:
    """The preemptor's unit: the missing tasks up to its minimum, or one more of a job that runs."""
    placed = {task.index for task in job.tasks}
    missing = [index for index in sorted(range(job.size), key=str) if index not in placed]
    return missing[: max(1, job.minimum - len(placed))]


def chain(job: Job) -> list[list[int]]:
    """Surplus tasks one by one, the last first, then the rest. A job that has not started is one unit."""
    left = sorted((task.index for task in job.tasks), key=str)
    units = []
    while len(left) > job.minimum and job.phase != "reserved":
        units.append([left.pop()])
    return [*units, left]


def leaving(state: PoolState, choice: Choice) -> dict[str, set[int]]:
    """The evicted tasks, by job."""
    return {
        name: {index for unit in chain(state.jobs[name])[:count] for index in unit} for name, count in choice.items() if count
    }


def gpu_milli(job: Job, indices: set[int]) -> int:
    """Thousandths of GPUs of these tasks."""
    total = 0
    for index in indices:
        requested = job.groups()[index]
        total += requested.gpu_share_milli * (requested.gpu_devices or 1) if requested.gpu_share_milli else requested.gpu_milli
    return total


def counted(job: Job, indices: set[int]) -> int:
    """What the objective counts for these members: GPUs; 16 CPUs of a member without GPUs are one, and no member is free."""
    bare = [job.groups()[index] for index in indices if not gpu_milli(job, {index})]
    return gpu_milli(job, indices) + sum(max(1, -(-asked.cpu_milli // 16)) for asked in bare)


# --- the objective


def cost(state: PoolState, choice: Choice, under_share: Mapping[str, bool] | None = None) -> tuple:
    """DESIGN §5, level by level."""
    priorities = sorted({job.priority for job in state.jobs.values()}, reverse=True)
    classes = dict.fromkeys(priorities, 0)
    under = stopped = tasks = promises = units = 0
    released: set[int] = set()
    young = []
    for name, count in choice.items():
        if not count:
            continue
        job = state.jobs[name]
        steps = chain(job)
        gone = {index for unit in steps[:count] for index in unit}
        units += count
        young += [(-job.seq, name, at) for at in range(count)]
        if job.phase == "reserved":
            promises += 1
            continue
        gpus = counted(job, gone)
        classes[job.priority] += gpus
        under += gpus if (under_share or {}).get(job.project) else 0
        stopped += count == len(steps)
        tasks += len(gone)
        released |= {task.node for task in job.tasks if task.index in gone and task.devices}
    left = leaving(state, choice)
    broken = sum(  # each node once, however many of the victims run on it
        any(
            task.node == number and task.devices and task.index not in left.get(other.id, ())
            for other in state.jobs.values()
            if other.phase != "evicting"
            for task in other.tasks
        )
        for number in released
    )
    return (*classes.values(), under, lost_gpu_ms(state, choice), stopped, tasks, promises, broken, units, sorted(young))


# --- projects


def above(state: PoolState, project: str) -> list[str]:
    """The project and its ancestors, up to the root."""
    parents = {entry.name: entry.parent for entry in state.policy.projects}
    if project not in parents:
        return ["*", ""] if parents else [""]
    path = [project]
    while parents[path[-1]]:
        path.append(parents[path[-1]])
    return [*path, ""]


def used(state: PoolState, project: str, gone: Mapping[str, set[int]], preemptible: bool = True) -> int:
    """GPUs, in thousandths, that a project and its descendants use without these tasks."""
    total = 0
    for job in state.jobs.values():
        counts = job.phase in ("reserved", "starting", "running") and project in above(state, job.project)
        if counts and (preemptible or not job.preemptible):
            total += gpu_milli(job, {task.index for task in job.tasks} - gone.get(job.id, set()))
    return total


def bound(state: PoolState, project: str, what: str) -> int:
    """Quota or limit of a project; the root and undefined projects have none."""
    for entry in state.policy.projects:
        if entry.name == project:
            stated = getattr(entry, what).gpu_milli
            return stated if stated is not None else (0 if what == "quota" else UNLIMITED)
    return UNLIMITED


def in_some_order(state: PoolState, choice: Choice, may: object, first: Mapping[str, int] = MappingProxyType({})) -> bool:
    """Whether the units can be taken one after the other, each allowed by `may(job, taken so far)`, after those in `first`."""

    @cache
    def rest(taken: tuple[tuple[str, int], ...]) -> bool:
        now = dict(taken)
        if now == {name: choice[name] for name in now}:
            return True
        gone = leaving(state, now)
        left = [name for name, count in taken if count < choice[name]]
        possible = [name for name in left if may(state.jobs[name], chain(state.jobs[name])[now[name]], gone)]
        return any(rest(tuple(sorted({**now, name: now[name] + 1}.items()))) for name in possible)

    return rest(tuple(sorted((name, first.get(name, 0)) for name in choice)))


def may_reclaim(state: PoolState, shares: Mapping, preemptor: Job, choice: Choice) -> bool:
    """The check of the preemptor, the check before each unit, and the check of the whole set."""
    requested = gpu_milli(preemptor, set(preemptor_unit(preemptor)))
    mine = above(state, preemptor.project)
    share = {name: entitled.share.gpu_milli for name, entitled in shares.items()}
    if used(state, mine[0], {}) + requested > share.get(mine[0], 0):
        return False

    def may(job: Job, unit: list[int], gone: Mapping[str, set[int]]) -> bool:
        theirs = above(state, job.project)
        if theirs[0] == mine[0] or not gpu_milli(job, set(unit)):
            return False  # only GPUs have bounds here, and a unit without GPUs gives none back
        common = next(name for name in theirs if name in mine)
        loser, taker = theirs[theirs.index(common) - 1], mine[mine.index(common) - 1]
        remaining = used(state, loser, gone)
        quota, most = quota_of(shares, loser), allocatable(state, shares, loser)
        if most != UNLIMITED and remaining > most:
            return True
        takers = quota_of(shares, taker)
        fits = takers == UNLIMITED or used(state, taker, {}) + requested <= takers
        return quota != UNLIMITED and remaining > quota and fits

    if not in_some_order(state, choice, may):
        return False
    gone = leaving(state, choice)
    everyone = ["", *(entry.name for entry in state.policy.projects)]
    for at, project in enumerate(mine[:-1]):
        remaining = used(state, project, gone) + requested
        for other in everyone:
            path = above(state, other)
            sibling = len(path) > 1 and other and path[1] == mine[at + 1] and other != project
            if not sibling or not any(other in above(state, state.jobs[name].project) for name in gone):
                continue
            fuller = remaining * share.get(other, 0) >= used(state, other, gone) * share.get(project, 0)
            if remaining > share.get(project, 0) and share.get(other, 0) > 0 and fuller:
                return False
            if share.get(project, 0) == share.get(other, 0) == 0 and remaining > used(state, other, gone):
                return False  # beyond the semantics: two projects without a share would reclaim from each other forever
    return True


def allocatable(state: PoolState, shares: Mapping, project: str) -> int:
    """The project's allocatable share."""
    quota, limit = quota_of(shares, project), bound(state, project, "limit")
    most = UNLIMITED if quota == UNLIMITED else max(quota, shares[project].share.gpu_milli if project in shares else 0)
    return limit if limit != UNLIMITED and (most == UNLIMITED or limit < most) else most


def shields_allow(
    state: PoolState,
    shares: Mapping,
    preemptor: Job,
    action: str,
    choice: Choice,
    first: Mapping[str, int] = MappingProxyType({}),
) -> bool:
    """Under scope `pool`, jobs within their project's quota are protected, checked before each unit.

    Beyond the semantics: with reclaim enabled, if the preemptor's project would be above its quota or share, jobs within the
    quota or share, also of ancestors, are protected, because reclaim would take the resources back at once. Under consolidate
    only that second part holds, whatever the scope and the actions. first: units that are gone before, and not judged.
    """
    rules, moves = state.policy.preemption, action == "consolidate"
    if not state.policy.projects or (state.policy.scope != "pool" and not moves):
        return True
    mine = above(state, preemptor.project)
    requested = gpu_milli(preemptor, set(preemptor_unit(preemptor)))
    beyond_share, beyond_quota = [], []
    left = leaving(state, dict(first))
    for name in mine[:-1] if moves or "reclaim" in rules.actions else []:
        most, quota = allocatable(state, shares, name), quota_of(shares, name)
        beyond_share += [name] if most != UNLIMITED and used(state, name, left) + requested > most else []
        beyond_quota += [name] if quota != UNLIMITED and used(state, name, left) + requested > quota else []

    def may(job: Job, unit: list[int], gone: Mapping[str, set[int]]) -> bool:
        if job.project == preemptor.project:
            return True
        theirs = above(state, job.project)
        side = [name for name in mine if name not in theirs]
        share, taken_back = (any(name in beyond for name in side) for beyond in (beyond_share, beyond_quota))
        if not taken_back and (moves or not rules.quota_shields):
            return True
        uses = any(requested.gpu_milli or requested.gpu_share_milli for requested in job.demand.tasks) and bool(unit)
        for name in theirs if taken_back else theirs[:1]:
            if name in mine and name != theirs[0]:
                break
            kept = allocatable(state, shares, name) if share else quota_of(shares, name)
            if not uses or kept == UNLIMITED or used(state, name, gone) <= kept:
                return False
        return True

    return in_some_order(state, choice, may, first)


def quota_of(shares: Mapping, project: str) -> int:
    """The project's quota in force; 0 for an undefined project."""
    return shares[project].quota.gpu_milli if project in shares else 0


def budgets_allow(state: PoolState, choice: Choice) -> bool:
    """A budget limits how many jobs of a group are evicted at a time; a job that shrinks, or had not started, does not count."""
    lost = 0
    for name, count in choice.items():
        job = state.jobs[name]
        careful = job.demand.labels.get("kind") == "careful"
        lost += careful and job.phase != "reserved" and count == len(chain(job))
    return all(lost <= budget.max_disruptions for budget in state.policy.protections.budgets)


def within_limits(state: PoolState, preemptor: Job, gone: Mapping[str, set[int]]) -> bool:
    """Limits of every ancestor hold without the victims; a non-preemptible preemptor is also within its quota."""
    requested = gpu_milli(preemptor, set(preemptor_unit(preemptor)))
    for project in above(state, preemptor.project):
        limit, quota = bound(state, project, "limit"), quota_of(current_snapshot(state).usage.entitlements, project)
        if requested and limit != UNLIMITED and used(state, project, gone) + requested > limit:
            return False
        if (
            requested
            and not preemptor.preemptible
            and quota != UNLIMITED
            and used(state, project, {}, preemptible=False) + requested > quota
        ):
            return False
    return True


def cap_at_fair_share(state: PoolState, shares: Mapping, preemptor: Job, gone: Mapping[str, set[int]]) -> bool:
    """Beyond the semantics: preempt raises no project above both its fair share and its previous use."""
    rules = state.policy.preemption
    if not state.policy.projects or not rules.cap_at_fair_share or "reclaim" not in rules.actions:
        return True
    requested = gpu_milli(preemptor, set(preemptor_unit(preemptor)))
    share = {name: entitled.share.gpu_milli for name, entitled in shares.items()}
    path = above(state, preemptor.project)[:-1]
    return all(used(state, name, gone) + requested <= max(share.get(name, 0), used(state, name, {})) for name in path)


# --- proposals


def candidates(state: PoolState, preemptor: Job, action: str, settled: Collection[str] = ()) -> list[Job]:
    """Jobs that may be victims under the action, literally from semantics §3. settled: moved or placed earlier in the batch."""
    found = []
    for job in state.jobs.values():
        if job.phase not in ("reserved", "starting", "running") or not job.preemptible or job.id in (preemptor.id, *settled):
            continue
        if action == "preempt":
            local = state.policy.scope == "pool" or job.project == preemptor.project
            if job.priority < preemptor.priority and local:
                found.append(job)
        elif action == "reclaim":
            if job.project != preemptor.project:
                found.append(job)
        elif job.phase != "reserved" and (job.priority <= preemptor.priority or state.policy.preemption.move_higher_priority):
            found.append(job)
    return found


def choices(state: PoolState, preemptor: Job, action: str, settled: Collection[str] = ()) -> Iterator[Choice]:
    """Every set of victims."""
    jobs = candidates(state, preemptor, action, settled)
    for counts in product(*(range(len(chain(job)) + 1) for job in jobs)):
        yield {job.id: count for job, count in zip(jobs, counts, strict=True) if count}


def frees_enough(state: PoolState, preemptor: Job, choice: Choice, shares: Mapping | None = None) -> bool:
    """Whether the preemptor's unit fits, within all limits, without these units. shares: checked as well under preempt."""
    gone = leaving(state, choice)
    tasks = tuple(preemptor.groups()[index] for index in preemptor_unit(preemptor))
    bounded = within_limits(state, preemptor, gone) and (shares is None or cap_at_fair_share(state, shares, preemptor, gone))
    return bounded and all_stand(free_resources(state, gone), tasks)


def allowed(state: PoolState, shares: Mapping, preemptor: Job, action: str, choice: Choice) -> bool:
    """Whether the action allows exactly these victims."""
    if not budgets_allow(state, choice):
        return False
    if action == "reclaim":
        return may_reclaim(state, shares, preemptor, choice)
    if action == "consolidate" and not pays_back(state, preemptor, choice):
        return False
    return shields_allow(state, shares, preemptor, action, choice)


def pays_back(state: PoolState, preemptor: Job, choice: Choice) -> bool:
    """A consolidation loses no more than the preemptor's GPUs are worth within `payback`."""
    return gains_as_much(state, preemptor, lost_gpu_ms(state, choice))


def gains_as_much(state: PoolState, preemptor: Job, lost: int) -> bool:
    """Whether what the preemptor asks for is worth so much within `payback`."""
    payback = state.policy.preemption.payback
    gained = counted(preemptor, set(preemptor_unit(preemptor)))
    return payback is None or lost <= gained * payback // 1_000_000


def moves_allowed(state: PoolState, shares: Mapping, preemptor: Job, choice: Choice, moved: Choice) -> bool:
    """Whether the last of the evicted units of each job, so many of them as `moved` says, may move but not be taken.

    Moving is an eviction, so whoever moves passes what holds for consolidate, whatever the action: the policy's two switches,
    the preemptor, the number of jobs, their priority, the work that they lose, and what their projects are entitled to once
    the other units are gone.
    """
    rules = state.policy.preemption
    movers = [state.jobs[name] for name in moved]
    if not movers:
        return True
    if "consolidate" not in rules.actions or not preemptor.preemptible:
        return False
    if rules.max_migrations is not None and len(movers) > rules.max_migrations:
        return False
    if any(job.phase == "reserved" or not job.preemptible for job in movers):
        return False
    if not rules.move_higher_priority and any(job.priority > preemptor.priority for job in movers):
        return False
    taken = {name: count - moved.get(name, 0) for name, count in choice.items()}
    lost = lost_gpu_ms(state, choice, first=taken)
    return gains_as_much(state, preemptor, lost) and shields_allow(state, shares, preemptor, "consolidate", choice, taken)


def lost_gpu_ms(state: PoolState, choice: Choice, first: Mapping[str, int] = MappingProxyType({})) -> int:
    """Work lost and restart cost of these victims. first: so many units of each do not count."""
    lost = 0
    for name, count in choice.items():
        job = state.jobs[name]
        if count and job.phase != "reserved":
            gone = {index for unit in chain(job)[first.get(name, 0) : count] for index in unit}
            since = max(job.last_start or 0, job.last_checkpoint or 0)
            lost += counted(job, gone) * (min(state.now - since, HOUR) + MINUTE) // 1_000_000
    return lost


def under_shares(state: PoolState, shares: Mapping) -> dict[str, bool]:
    """Projects over quota and not over fair share."""
    found = {}
    for job in state.jobs.values():
        leaf = above(state, job.project)[0]
        quota, now = bound(state, leaf, "quota"), used(state, leaf, {})
        share = shares[leaf].share.gpu_milli if leaf in shares else 0
        found[job.project] = quota != UNLIMITED and quota < now <= share
    return found


def best_choice(state: PoolState, shares: Mapping, preemptor: Job, action: str, settled: Collection[str] = ()) -> Choice | None:
    """The best of all sets that free enough resources and that the action allows, or `None`."""
    under = under_shares(state, shares) if action == "reclaim" else None
    ranked = sorted(choices(state, preemptor, action, settled), key=lambda choice: cost(state, choice, under))
    most = shares if action == "preempt" else None
    for choice in ranked:
        room = frees_enough(state, preemptor, choice, most)
        if room and allowed(state, shares, preemptor, action, choice) and irreducible(state, preemptor, choice, most):
            return choice
    return None


def irreducible(state: PoolState, preemptor: Job, choice: Choice, shares: Mapping | None = None) -> bool:
    """Whether every unit of the set is needed. shares: as for `frees_enough`."""
    return not any(frees_enough(state, preemptor, {**choice, name: count - 1}, shares) for name, count in choice.items())


def in_racks(random: Random, sketch: Sketch) -> list[str]:
    """Put the nodes into two racks; some jobs that are in one rack require one. Returns their names."""
    state = sketch.state
    document = state.policy.model_dump(mode="json")
    document["topologies"] = [{"name": "hall", "levels": ["rack"]}]
    state.policy = Policy.model_validate_json(json.dumps(document))
    for node in state.nodes.values():
        node.labels["rack"] = f"r{node.number % 2}"
    bound = []
    for job in state.jobs.values():
        here = {task.node % 2 for task in job.tasks}
        if job.size > 1 and len(here) < 2 and random.random() < 0.7:
            job.demand = job.demand.model_copy(update={"topology": TopologyRule(topology="hall", required="rack")})
            bound.append(job.id)
    state.indices.snapshot = None
    return bound


def best_moves(
    state: PoolState, shares: Mapping, preemptor: Job, bound: Sequence[str] = (), settled: Collection[str] = ()
) -> Choice | None:
    """The best set of relocated units, surplus tasks before a whole job, each with its own place; or `None`.

    bound: jobs whose tasks must be in one rack.
    """
    racks = tuple(number % 2 for number in sorted(state.nodes))
    jobs = candidates(state, preemptor, "consolidate", settled)
    most = len(jobs) if state.policy.preemption.max_migrations is None else state.policy.preemption.max_migrations
    sets = [choice for choice in choices(state, preemptor, "consolidate", settled) if 0 < len(choice) <= most]
    for choice in sorted(sets, key=lambda choice: cost(state, choice)):
        gone = leaving(state, choice)
        if not allowed(state, shares, preemptor, "consolidate", choice):
            continue
        tasks = [
            (preemptor.groups()[index], preemptor.id if preemptor.id in bound else None) for index in preemptor_unit(preemptor)
        ]
        stay: dict[str, int] = {}
        for name, indices in gone.items():
            job = state.jobs[name]
            tasks += [(job.groups()[index], name if name in bound else None) for index in indices]
            stay.update((name, racks[task.node]) for task in job.tasks if name in bound and task.index not in indices)
        tasks.sort(key=repr)
        free = free_resources(state, gone)
        if not bound:
            if all_stand(free, tuple(requested for requested, _ in tasks)):
                return choice
        elif all_stand_in_racks(free, tuple(tasks), racks, tuple(sorted(stay.items()))):
            return choice
    return None


def best_with_moves(state: PoolState, shares: Mapping, preemptor: Job, settled: Collection[str] = ()) -> Choice | None:
    """The best set under reclaim of which some have a place elsewhere beside the preemptor, and the rest may be taken.

    Surplus units of one job are equal. A job that is evicted whole moves with its core, and with as much surplus as has a place.
    """
    under = under_shares(state, shares)
    if not within_limits(state, preemptor, {}):
        return None  # who moves uses as much as before
    tasks = [preemptor.groups()[index] for index in preemptor_unit(preemptor)]
    for choice in sorted(choices(state, preemptor, "reclaim", settled), key=lambda choice: cost(state, choice, under)):
        if not budgets_allow(state, choice) or not frees_enough(state, preemptor, choice):
            continue
        if irreducible(state, preemptor, choice) and any(
            allowed(state, shares, preemptor, "reclaim", {name: count - moved.get(name, 0) for name, count in choice.items()})
            and moves_allowed(state, shares, preemptor, choice, moved)
            and all_stand(free_resources(state, leaving(state, choice)), (*tasks, *tasks_of(state, choice, moved)))
            for moved in moves_of(state, choice)
        ):
            return choice
    return None


def moves_of(state: PoolState, choice: Choice) -> Iterator[Choice]:
    """Every number of units of each job that may move."""
    for counts in product(*(range(count + 1) for count in choice.values())):
        yield {name: count for name, count in zip(choice, counts, strict=True) if count}


def tasks_of(state: PoolState, choice: Choice, moved: Choice) -> list[TaskGroup]:
    """What the tasks of so many of the evicted units ask for: the last ones, with the core if the job is evicted whole."""
    return [
        state.jobs[name].groups()[index]
        for name, count in moved.items()
        for unit in chain(state.jobs[name])[: choice[name]][-count:]
        for index in unit
    ]
