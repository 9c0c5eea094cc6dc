"""Who stands where in a snapshot, down to the device, and every way in which the snapshot contradicts itself.

Devices that a task does not name are dealt as placement would: whole ones from the lowest number on, parts of one on
the fullest device that has room for them.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.model.pool import Device
from bailiff_core.model.sharing import share_of, units_of
from bailiff_core.model.units import sub_group_problem
from bailiff_core.records.wire import time_text
from bailiff_core.words import count_text

from .snapshot import MOST_TASKS, DeviceDoc, JobDoc, NodeDoc, Snapshot, TaskDoc, TaskFields, TaskState
from .values import Portion

Place = tuple[int | str, ...]
HISTORY = ("submitted", "last_start", "last_eviction", "last_checkpoint", "stale_since")
NOT_PREEMPTIBLE_FROM = 100
STANDING: tuple[TaskState, ...] = ("running", "reserved", "releasing", "stuck_releasing")


@dataclass(frozen=True, slots=True)
class Fault:
    """What contradicts what, and where in the document."""

    place: Place
    text: str


class Contradiction(Exception):
    """The snapshot describes no pool that can be."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(f"{'.'.join(map(str, fault.place))}: {fault.text}" for fault in faults))
        self.faults = list(faults)


@dataclass(slots=True)
class LaidTask:
    """One task: its name, what it takes, in what state it is, and where. devices: a mask."""

    name: str
    place: Place
    group: TaskGroup
    state: TaskState
    asked_devices: tuple[str, ...]
    node: int | None = None
    devices: int = 0


@dataclass(slots=True)
class LaidJob:
    """A job with its tasks by index, so that indices sort, as text, like the tasks' names."""

    doc: JobDoc
    place: Place
    class_name: str
    demand: JobDemand
    tasks: list[LaidTask]


@dataclass(slots=True)
class LaidNode:
    """A node and what is left of it while tasks are put on it."""

    doc: NodeDoc
    number: int
    place: Place
    devices: list[Device]
    whole: int = 0
    shares: dict[int, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0
    slots: int = 0
    leaving: int = 0
    leaving_shares: dict[int, int] = field(default_factory=dict)
    leaving_sums: list[int] = field(default_factory=lambda: [0, 0, 0])

    def number_of(self, device: str) -> int | None:
        """The device's number, by its id."""
        return next((found.number for found in self.devices if found.id == device), None)


@dataclass(slots=True)
class Layout:
    """The whole snapshot, laid out."""

    nodes: list[LaidNode]
    jobs: list[LaidJob]
    policy: Policy


def lay_out(snapshot: Snapshot) -> Layout:
    """Who stands where. Raises `Contradiction` with everything that cannot be."""
    faults: list[Fault] = []
    policy = _policy(snapshot, faults)
    nodes = [_node(doc, number, faults) for number, doc in enumerate(snapshot.nodes)]
    _no_twice(("nodes",), [doc.name for doc in snapshot.nodes], faults)
    _no_twice(("jobs",), [doc.name for doc in snapshot.jobs], faults)
    numbers: dict[str, LaidNode] = {}
    for node in nodes:
        numbers.setdefault(node.doc.name, node)
    projects = {project.name for project in policy.projects}
    policy = _with_number_classes(policy, snapshot.jobs)
    laid = [_job(doc, ("jobs", at), policy, projects, numbers, faults) for at, doc in enumerate(snapshot.jobs)]
    jobs = [job for job in laid if job is not None]
    strangers = [name for name in snapshot.reclaimed_at if name not in projects]
    faults += [Fault(("reclaimed_at", name), f"no such project; {there_are(name, projects)}") for name in strangers]
    faults += _in_the_future(snapshot)
    _stand(nodes, jobs, faults)
    if faults:
        raise Contradiction(faults)
    return Layout(nodes, jobs, policy)


def _in_the_future(snapshot: Snapshot) -> list[Fault]:
    """Moments of history that lie after the snapshot's own."""
    return [
        Fault(("jobs", at, name), f"expected a moment before `now`, {time_text(snapshot.now)}; found {time_text(moment)}")
        for at, doc in enumerate(snapshot.jobs)
        for name in HISTORY
        if (moment := getattr(doc, name)) is not None and moment > snapshot.now
    ]


# --- policy, projects, nodes


def _policy(snapshot: Snapshot, faults: list[Fault]) -> Policy:
    """The policy with the snapshot's own projects and topologies in it."""
    policy = snapshot.policy
    for name, mine, inside in (
        ("projects", snapshot.projects, policy.projects),
        ("topologies", snapshot.topologies, policy.topologies),
    ):
        if mine and inside:
            faults.append(Fault(("policy", name), f"{name} stand here and at the top of the snapshot: write them once"))
    merged = policy.model_copy(
        update={
            "projects": snapshot.projects or policy.projects,
            "topologies": snapshot.topologies or policy.topologies,
        }
    )
    root: Place = () if snapshot.projects or not policy.projects else ("policy",)
    faults += tree_faults([(each.name, each.parent) for each in merged.projects], (*root, "projects"))
    _no_twice(("topologies",) if snapshot.topologies else ("policy", "topologies"), [e.name for e in merged.topologies], faults)
    return merged


def tree_faults(entries: Sequence[tuple[str, str | None]], place: Place) -> list[Fault]:
    """What is wrong with a list of (name, parent) that should be trees: names twice, unknown parents, circles."""
    faults: list[Fault] = []
    parents = dict(entries)
    _no_twice(place, [name for name, _ in entries], faults)
    for position, (name, parent) in enumerate(entries):
        if parent is None:
            continue
        if parent not in parents:
            faults.append(Fault((*place, position, "parent"), f"there is no {parent!r}; {there_are(parent, parents)}"))
            continue
        seen = [name]
        above: str | None = parent
        while above is not None and above not in seen:
            seen.append(above)
            above = parents.get(above)
        if above == name:
            faults.append(Fault((*place, position, "parent"), f"{' -> '.join([*seen, above])} go round in a circle"))
    return faults


def _node(doc: NodeDoc, number: int, faults: list[Fault]) -> LaidNode:
    place: Place = ("nodes", number)
    if doc.gpus is not None and doc.devices is not None:
        faults.append(Fault((*place, "devices"), "gpus counts what devices lists: leave one of them out"))
    listed = doc.devices
    if listed is None:
        listed = tuple(DeviceDoc(id=str(each), model=doc.gpu_model, memory=doc.gpu_memory) for each in range(doc.gpus or 0))
    else:
        _no_twice((*place, "devices"), [each.id for each in listed], faults, "id")
    devices = [Device(at, each.id, each.model, each.memory, labels=dict(each.labels)) for at, each in enumerate(listed)]
    return LaidNode(doc, number, place, devices)


# --- jobs


def _job(
    doc: JobDoc,
    place: Place,
    policy: Policy,
    projects: Iterable[str],
    nodes: dict[str, LaidNode],
    faults: list[Fault],
) -> LaidJob | None:
    before = len(faults)
    known = list(projects)
    if doc.project is not None and doc.project not in known:
        faults.append(Fault((*place, "project"), f"no project {doc.project!r}; {there_are(doc.project, known)}"))
    class_name = _class_of(doc, place, policy, faults)
    groups = [each.name for each in doc.sub_groups]
    faults += tree_faults([(each.name, each.parent) for each in doc.sub_groups], (*place, "sub_groups"))
    faults += _idle_minima(doc, place)
    faults += _paused_and_placed(doc, place)
    tasks = [task for at, entry in enumerate(doc.tasks) for task in _tasks(doc, place, at, entry, nodes, groups, faults)]
    _no_names_twice(tasks, faults)
    if len(tasks) > MOST_TASKS:
        faults.append(Fault((*place, "tasks"), f"a job holds at most {MOST_TASKS} tasks, this one {len(tasks)}"))
    if doc.min_tasks is not None and doc.min_tasks > len(tasks):
        faults.append(Fault((*place, "min_tasks"), f"is {doc.min_tasks}, but the job has {count_text(len(tasks), 'task')}"))
    if len(faults) > before:
        return None
    by_index = _by_index(tasks)
    demand = demand_of(doc, class_name, [task.group for task in by_index], policy.restarts.max_failures)
    problem = sub_group_problem(demand)
    if problem is not None:
        faults.append(Fault((*place, "sub_groups"), problem))
    return LaidJob(doc, place, class_name, demand, by_index)


def _paused_and_placed(doc: JobDoc, place: Place) -> Iterator[Fault]:
    """Tasks of a paused job that stand somewhere."""
    for at, entry in enumerate(doc.tasks):
        state, node = _either(doc, entry, "state"), _either(doc, entry, "node")
        if doc.paused and (state in STANDING or node is not None):
            yield Fault((*place, "paused"), f"a paused job has no place, and its task entry {at} stands on a node")


def _idle_minima(doc: JobDoc, place: Place) -> Iterator[Fault]:
    """Minima of the wrong kind, which nothing would look at."""
    inner = dict.fromkeys(each.parent for each in doc.sub_groups)
    for at, group in enumerate(doc.sub_groups):
        where = (*place, "sub_groups", at)
        if group.name in inner and group.min_tasks is not None:
            yield Fault((*where, "min_tasks"), f"{group.name!r} holds sub-groups and no tasks of its own: write min_groups")
        if group.name not in inner and group.min_groups is not None:
            yield Fault((*where, "min_groups"), f"{group.name!r} holds tasks and no sub-groups: write min_tasks")


def _class_of(doc: JobDoc, place: Place, policy: Policy, faults: list[Fault]) -> str:
    """The name of the job's class: its own, the default one, or that of its plain priority number."""
    if doc.priority is not None and doc.priority_class is not None:
        faults.append(Fault((*place, "priority"), "stands beside class: one of them says what the job's priority is"))
    if doc.priority is not None:
        return number_class(doc.priority)
    entry = policy.find_class(doc.priority_class)
    if entry is not None:
        return entry.name
    names = [each.name for each in policy.priority_classes]
    text = f"no priority class {doc.priority_class!r}; {there_are(str(doc.priority_class), names)}"
    faults.append(Fault((*place, "class"), text))
    return ""


def number_class(priority: int) -> str:
    """The name of the class that a plain priority number makes."""
    return f"priority-{'minus-' if priority < 0 else ''}{abs(priority)}"


def _with_number_classes(policy: Policy, jobs: Iterable[JobDoc]) -> Policy:
    """A class for each plain priority number that a job has. From 100 on they are not preemptible, as in the peers."""
    wanted = sorted(dict.fromkeys(doc.priority for doc in jobs if doc.priority is not None))
    known = [each.name for each in policy.priority_classes]
    added = [
        PriorityClass(name=number_class(value), value=value, preemptible=value < NOT_PREEMPTIBLE_FROM)
        for value in wanted
        if number_class(value) not in known
    ]
    return policy.model_copy(update={"priority_classes": (*policy.priority_classes, *added)})


def _tasks(
    doc: JobDoc, place: Place, at: int, entry: TaskDoc, nodes: dict[str, LaidNode], groups: list[str], faults: list[Fault]
) -> list[LaidTask]:
    where = (*place, "tasks", at) if "tasks" in doc.model_fields_set else place
    group = _group(doc, entry, where, groups, nodes, faults)
    node = _either(doc, entry, "node")
    state: TaskState = _either(doc, entry, "state") or ("running" if node is not None else "pending")
    devices = entry.devices or doc.devices
    if state in STANDING and node is None:
        faults.append(Fault((*where, "state"), f"a {state} task stands on a node: write `node`"))
    if state == "pending" and node is not None:
        faults.append(Fault((*where, "node"), "a pending task stands nowhere; where it may run is said with `nodes`"))
    if node is not None and node not in nodes:
        faults.append(Fault((*where, "node"), f"no node {node!r}; {there_are(node, nodes)}"))
    if devices and state not in STANDING:
        faults.append(Fault((*where, "devices"), f"a {state} task is on no device"))
    if devices and entry.count > 1:
        faults.append(Fault((*where, "devices"), f"names the devices of one task, there are {entry.count}: write them singly"))
    if group is None:
        return []
    number = nodes[node].number if node in nodes else None
    found = []
    for each in range(entry.count):
        name = entry.name or ""
        if entry.name is not None and entry.count > 1:
            name = f"{entry.name}-{each}"
        found.append(LaidTask(name, where, group, state, devices, number))
    return found


def _either(doc: JobDoc, entry: TaskDoc, name: str) -> Any:
    found = getattr(entry, name)
    return getattr(doc, name) if found is None else found


def _group(
    doc: JobDoc, entry: TaskDoc, where: Place, groups: list[str], nodes: dict[str, LaidNode], faults: list[Fault]
) -> TaskGroup | None:
    before = len(faults)
    own: TaskFields = entry
    if entry.gpus is None and entry.fraction is None and entry.gpu_memory is None:
        own = doc
    ways = [name for name in ("gpus", "fraction", "gpu_memory") if getattr(own, name) is not None]
    if len(ways) > 1:
        faults.append(Fault((*where, ways[1]), f"stands beside {ways[0]}: a task takes GPUs in one way"))
    data: dict[str, Any] = {}
    part: Portion | None = own.fraction or own.gpu_memory
    count = entry.gpu_devices or doc.gpu_devices
    if own.gpus is not None and own.gpus % 1000:
        data |= {"gpu_share_milli": own.gpus, "gpu_devices": count or 1}
    elif own.gpus is not None:
        data["gpu_milli"] = own.gpus
        if count is not None:
            faults.append(Fault((*where, "gpu_devices"), "goes with fraction or gpu_memory; whole GPUs are counted by gpus"))
    elif part is not None:
        key = "gpu_share_milli" if own.fraction is not None else "gpu_share_bytes"
        data |= {key: part.amount, "gpu_devices": part.devices or count or 1}
        if part.devices is not None and count is not None and part.devices != count:
            faults.append(Fault((*where, "gpu_devices"), f"is {count}, but the amount says {part.devices}"))
    sub_group = _either(doc, entry, "sub_group")
    if sub_group is not None and sub_group not in groups:
        faults.append(Fault((*where, "sub_group"), f"no sub-group {sub_group!r}; {there_are(sub_group, groups)}"))
    allowed = _either(doc, entry, "nodes") or ()
    strangers = [name for name in allowed if name not in nodes]
    faults += [Fault((*where, "nodes"), f"no node {name!r}; {there_are(name, nodes)}") for name in strangers]
    if len(faults) > before:
        return None
    return TaskGroup(
        **data,
        cpu_milli=_either(doc, entry, "cpus") or 0,
        memory_bytes=_either(doc, entry, "memory") or 0,
        gpu_models=_either(doc, entry, "gpu_models") or (),
        node_labels={**(doc.node_labels or {}), **(entry.node_labels or {})},
        nodes=allowed,
        sub_group=sub_group,
        order=_either(doc, entry, "order"),
    )


def _by_index(tasks: list[LaidTask]) -> list[LaidTask]:
    """Tasks at indices whose text sorts as the tasks' names do: that is how a gang breaks ties among its members."""
    if all(not task.name for task in tasks):
        return tasks
    for number, task in enumerate(tasks):
        task.name = task.name or f"{number}"
    indices = sorted(range(len(tasks)), key=str)
    found: dict[int, LaidTask] = dict(zip(indices, sorted(tasks, key=lambda task: task.name), strict=True))
    return [found[index] for index in range(len(tasks))]


def demand_of(doc: JobDoc, class_name: str, groups: Iterable[TaskGroup], max_failures: int) -> JobDemand:
    """The job's demand; equal neighbours among its task groups become one. max_failures: the policy's, as a snapshot has none."""
    merged: list[TaskGroup] = []
    for group in groups:
        if merged and merged[-1].model_copy(update={"count": 1}) == group:
            merged[-1] = merged[-1].model_copy(update={"count": merged[-1].count + 1})
        else:
            merged.append(group)
    return JobDemand(
        job=doc.name,
        tasks=tuple(merged),
        min_tasks=doc.min_tasks,
        priority_class=class_name,
        preemptible=doc.preemptible,
        project=doc.project,
        user=doc.user,
        labels=doc.labels,
        sub_groups=doc.sub_groups,
        topology=doc.topology,
        grace=doc.grace,
        run_time_limit=doc.run_time_limit,
        preemption_delay=doc.preemption_delay,
        on_eviction=doc.on_eviction,
        stale_grace=doc.stale_grace,
        max_failures=max_failures,
        pack=doc.pack,
    )


# --- who stands where


def _stand(nodes: list[LaidNode], jobs: list[LaidJob], faults: list[Fault]) -> None:
    """Put every task that stands on its node: what leaves first, so that promises may count on its room.

    Who names its devices has them, and the others what is left.
    """
    standing = [task for job in jobs for task in job.tasks if task.state in STANDING and task.node is not None]
    order = {"releasing": 0, "stuck_releasing": 1, "running": 1, "reserved": 2}
    standing.sort(
        key=lambda task: (
            task.state == "reserved",
            not task.asked_devices,
            order[task.state],
            task.group.gpu_devices is not None,
        )
    )
    for task in standing:
        assert task.node is not None
        node = nodes[task.node]
        problem = _take_devices(node, task) or _take_sums(node, task)
        if problem is not None:
            faults.append(Fault((*task.place, "devices" if task.asked_devices else "node"), problem))


def _take_devices(node: LaidNode, task: LaidTask) -> str | None:
    group, name = task.group, node.doc.name
    wanted = group.gpu_devices or group.gpu_milli // 1000
    chosen: list[int] = []
    for device in task.asked_devices:
        number = node.number_of(device)
        if number is None:
            return f"node {name} has no device {device!r}; {there_are(device, [each.id for each in node.devices])}"
        if number in chosen:
            return f"device {device!r} is named twice"
        chosen.append(number)
    if chosen and len(chosen) != wanted:
        return f"names {count_text(len(chosen), 'device')}, but the task takes {wanted}"
    if not chosen and wanted:
        found = _free_devices(node, task, wanted)
        if found is None:
            return f"node {name} has {count_text(len(node.devices), 'GPU')}, and too few are left for this {task.state} task"
        chosen = found
    for number in chosen:
        problem = _blocked(node, task, number)
        if problem is not None:
            return problem
    for number in chosen:
        if group.gpu_devices is None:
            _hold(node, task, 1 << number)
        else:
            shares = node.leaving_shares if task.state == "releasing" else node.shares
            shares[number] = shares.get(number, 0) + share_of(group, node.devices[number])
    task.devices = sum(1 << number for number in chosen)
    return None


def _hold(node: LaidNode, task: LaidTask, mask: int) -> None:
    if task.state == "releasing":
        node.leaving |= mask
    else:
        node.whole |= mask


def _blocked(node: LaidNode, task: LaidTask, number: int) -> str | None:
    """Why the device cannot be the task's. What leaves is in the way of what runs, not of what is promised."""
    device, bit = node.devices[number], 1 << number
    what = f"device {device.id!r} of {node.doc.name}"
    later = task.state == "reserved"
    gone = 0 if later else node.leaving
    if (node.whole | gone) & bit:
        return f"{what} is held whole by another task already"
    leaving = 0 if later else node.leaving_shares.get(number, 0)
    used = node.shares.get(number, 0) + leaving
    if task.group.gpu_devices is None:
        return f"{what} is shared by other tasks already" if used else None
    if used + share_of(task.group, device) > units_of(device):
        return f"{what} is full: {used * 100 // units_of(device)} % of it are taken"
    return None


def _free_devices(node: LaidNode, task: LaidTask, wanted: int) -> list[int] | None:
    numbers = [device.number for device in node.devices if _blocked(node, task, device.number) is None]
    if task.group.gpu_devices is not None:  # the fullest first
        numbers.sort(key=lambda number: (-node.shares.get(number, 0) - node.leaving_shares.get(number, 0), number))
    elif task.state == "reserved":  # room that is free before room that others are leaving
        numbers.sort(key=lambda number: (bool(node.leaving >> number & 1), number))
    return sorted(numbers[:wanted]) if len(numbers) >= wanted else None


def _take_sums(node: LaidNode, task: LaidTask) -> str | None:
    own = (task.group.cpu_milli, task.group.memory_bytes, 1)
    most = (node.doc.cpus, node.doc.memory, node.doc.max_tasks)
    if task.state == "releasing":
        node.leaving_sums = [held + more for held, more in zip(node.leaving_sums, own, strict=True)]
    else:
        node.cpu_milli, node.memory_bytes, node.slots = node.cpu_milli + own[0], node.memory_bytes + own[1], node.slots + 1
    held = (node.cpu_milli, node.memory_bytes, node.slots)
    leaving = (0, 0, 0) if task.state == "reserved" else tuple(node.leaving_sums)
    for what, used, gone, bound in zip(("cpus", "memory", "max_tasks"), held, leaving, most, strict=True):
        if used + gone > bound:
            return f"node {node.doc.name} is over-full: {_amount(what, bound)}, and its tasks take {_amount(what, used + gone)}"
    return None


def _amount(what: str, value: int) -> str:
    if what == "cpus":
        return f"{value / 1000:g} cores"
    return f"{value / 2**30:g}GiB of memory" if what == "memory" else count_text(value, "task")


# --- words


def _no_twice(place: Place, names: Sequence[str], faults: list[Fault], field_name: str = "name") -> None:
    seen: dict[str, None] = {}
    for position, name in enumerate(names):
        if name in seen:
            faults.append(Fault((*place, position, field_name), f"{name!r} stands twice"))
        seen[name] = None


def _no_names_twice(tasks: list[LaidTask], faults: list[Fault]) -> None:
    seen: dict[str, None] = {}
    for task in tasks:
        if task.name and task.name in seen:
            faults.append(Fault((*task.place, "name"), f"two tasks are called {task.name!r}"))
        seen[task.name] = None


def there_are(wanted: str, known: Iterable[str]) -> str:
    """What may stand here: the nearest name, or the first few."""
    names = list(known)
    near = difflib.get_close_matches(wanted, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there are none"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(names[:8])}{more}"
