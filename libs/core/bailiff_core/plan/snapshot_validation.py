"""Resolves a snapshot: classes, demands and devices of every task; and finds all its contradictions.

Devices that a task does not name are assigned as by placement: whole ones from the lowest number on, shares on the fullest
device on which they fit.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.gpu_shares import devices_of, share_of, shares_devices, units_of
from bailiff_core.model.mig import profile_of
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.model.state import Device
from bailiff_core.model.units import sub_group_problem
from bailiff_core.records.wire import time_text

from .parsing import Portion
from .snapshot import MAX_TASKS, DeviceDoc, JobDoc, NodeDoc, Snapshot, TaskDoc, TaskFields, TaskState

Place = tuple[int | str, ...]
HISTORY = ("submitted", "last_start", "last_eviction", "last_checkpoint", "stale_since")
NOT_PREEMPTIBLE_FROM = 100
PLACED_STATES: tuple[TaskState, ...] = ("running", "reserved", "releasing", "stuck_releasing")


@dataclass(frozen=True, slots=True)
class Fault:
    """One contradiction, and its place in the document."""

    place: Place
    text: str


class InvalidSnapshot(Exception):
    """The snapshot contradicts itself."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(f"{'.'.join(map(str, fault.place))}: {fault.text}" for fault in faults))
        self.faults = list(faults)


@dataclass(slots=True)
class ResolvedTask:
    """One task with its requirements, state, node and devices (a mask)."""

    name: str
    place: Place
    group: TaskGroup
    state: TaskState
    requested_devices: tuple[str, ...]
    node: int | None = None
    devices: int = 0


@dataclass(slots=True)
class ResolvedJob:
    """A job with its tasks by index; indices sort, as text, like the tasks' names."""

    doc: JobDoc
    place: Place
    class_name: str
    demand: JobDemand
    tasks: list[ResolvedTask]


@dataclass(slots=True)
class ResolvedNode:
    """A node and its resources taken so far while tasks are assigned."""

    doc: NodeDoc
    number: int
    place: Place
    devices: list[Device]
    whole: int = 0
    shares: dict[int, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0
    slots: int = 0
    releasing: int = 0
    releasing_shares: dict[int, int] = field(default_factory=dict)
    releasing_sums: list[int] = field(default_factory=lambda: [0, 0, 0])

    def number_of(self, device: str) -> int | None:
        """The device's number, by its id."""
        return next((found.number for found in self.devices if found.id == device), None)


@dataclass(slots=True)
class ResolvedSnapshot:
    """The whole snapshot, resolved."""

    nodes: list[ResolvedNode]
    jobs: list[ResolvedJob]
    policy: Policy


def validate_snapshot(snapshot: Snapshot) -> ResolvedSnapshot:
    """Resolves the snapshot. Raises `InvalidSnapshot` with all contradictions."""
    faults: list[Fault] = []
    policy = _policy(snapshot, faults)
    nodes = [_node(doc, number, faults) for number, doc in enumerate(snapshot.nodes)]
    _check_unique(("nodes",), [doc.name for doc in snapshot.nodes], faults)
    _check_unique(("jobs",), [doc.name for doc in snapshot.jobs], faults)
    numbers: dict[str, ResolvedNode] = {}
    for node in nodes:
        numbers.setdefault(node.doc.name, node)
    projects = {project.name for project in policy.projects}
    policy = _with_number_classes(policy, snapshot.jobs)
    job = [_job(doc, ("jobs", at), policy, projects, numbers, faults) for at, doc in enumerate(snapshot.jobs)]
    jobs = [job for job in job if job is not None]
    unknown = [name for name in snapshot.reclaimed_at if name not in projects]
    faults += [Fault(("reclaimed_at", name), f"no such project; {suggest(name, projects)}") for name in unknown]
    faults += _future_times(snapshot)
    _assign_devices(nodes, jobs, faults)
    if faults:
        raise InvalidSnapshot(faults)
    return ResolvedSnapshot(nodes, jobs, policy)


def _future_times(snapshot: Snapshot) -> list[Fault]:
    """Faults for times of a job's history that are after `now`."""
    return [
        Fault(("jobs", at, name), f"expected a time before `now`, {time_text(snapshot.now)}; found {time_text(moment)}")
        for at, doc in enumerate(snapshot.jobs)
        for name in HISTORY
        if (moment := getattr(doc, name)) is not None and moment > snapshot.now
    ]


# --- policy, projects, nodes


def _policy(snapshot: Snapshot, faults: list[Fault]) -> Policy:
    """The policy, merged with the snapshot's own projects and topologies."""
    policy = snapshot.policy
    for name, own, in_policy in (
        ("projects", snapshot.projects, policy.projects),
        ("topologies", snapshot.topologies, policy.topologies),
    ):
        if own and in_policy:
            faults.append(Fault(("policy", name), f"{name} are given here and at the top level of the snapshot: give them once"))
    merged = policy.model_copy(
        update={
            "projects": snapshot.projects or policy.projects,
            "topologies": snapshot.topologies or policy.topologies,
        }
    )
    root: Place = () if snapshot.projects or not policy.projects else ("policy",)
    faults += tree_problems([(each.name, each.parent) for each in merged.projects], (*root, "projects"))
    _check_unique(
        ("topologies",) if snapshot.topologies else ("policy", "topologies"), [e.name for e in merged.topologies], faults
    )
    return merged


def tree_problems(entries: Sequence[tuple[str, str | None]], place: Place) -> list[Fault]:
    """Problems of a list of (name, parent) that must form trees: duplicate names, unknown parents, cycles."""
    faults: list[Fault] = []
    parents = dict(entries)
    _check_unique(place, [name for name, _ in entries], faults)
    for position, (name, parent) in enumerate(entries):
        if parent is None:
            continue
        if parent not in parents:
            faults.append(Fault((*place, position, "parent"), f"there is no {parent!r}; {suggest(parent, parents)}"))
            continue
        seen = [name]
        ancestor: str | None = parent
        while ancestor is not None and ancestor not in seen:
            seen.append(ancestor)
            ancestor = parents.get(ancestor)
        if ancestor == name:
            faults.append(Fault((*place, position, "parent"), f"{' -> '.join([*seen, ancestor])} is a cycle"))
    return faults


def _node(doc: NodeDoc, number: int, faults: list[Fault]) -> ResolvedNode:
    place: Place = ("nodes", number)
    if doc.gpus is not None and doc.devices is not None:
        faults.append(Fault((*place, "devices"), "gpus counts what devices lists: leave one of them out"))
    listed = doc.devices
    if listed is None:
        listed = tuple(DeviceDoc(id=str(each), model=doc.gpu_model, memory=doc.gpu_memory) for each in range(doc.gpus or 0))
    else:
        _check_unique((*place, "devices"), [each.id for each in listed], faults, "id")
    devices = [
        Device(
            at,
            each.id,
            each.model,
            each.memory,
            "mig" if each.mig is not None else "gpu",
            labels=dict(each.labels),
            profile=each.mig or "",
            island=each.island,
        )
        for at, each in enumerate(listed)
    ]
    return ResolvedNode(doc, number, place, devices)


# --- jobs


def _job(
    doc: JobDoc,
    place: Place,
    policy: Policy,
    projects: Iterable[str],
    nodes: dict[str, ResolvedNode],
    faults: list[Fault],
) -> ResolvedJob | None:
    before = len(faults)
    known = list(projects)
    if doc.project is not None and doc.project not in known:
        faults.append(Fault((*place, "project"), f"no project {doc.project!r}; {suggest(doc.project, known)}"))
    class_name = _class_of(doc, place, policy, faults)
    groups = [each.name for each in doc.sub_groups]
    faults += tree_problems([(each.name, each.parent) for each in doc.sub_groups], (*place, "sub_groups"))
    faults += _unused_minima(doc, place)
    faults += _paused_and_placed(doc, place)
    tasks = [task for at, entry in enumerate(doc.tasks) for task in _tasks(doc, place, at, entry, nodes, groups, faults)]
    _check_unique_names(tasks, faults)
    if len(tasks) > MAX_TASKS:
        faults.append(Fault((*place, "tasks"), f"a job holds at most {MAX_TASKS} tasks, this one {len(tasks)}"))
    if doc.min_tasks is not None and doc.min_tasks > len(tasks):
        faults.append(Fault((*place, "min_tasks"), f"is {doc.min_tasks}, but the job has {count_text(len(tasks), 'task')}"))
    if len(faults) > before:
        return None
    by_index = _by_index(tasks)
    demand = demand_of(doc, class_name, [task.group for task in by_index], policy.restarts.max_failures)
    problem = sub_group_problem(demand)
    if problem is not None:
        faults.append(Fault((*place, "sub_groups"), problem))
    return ResolvedJob(doc, place, class_name, demand, by_index)


def _paused_and_placed(doc: JobDoc, place: Place) -> Iterator[Fault]:
    """Faults for tasks of a paused job that have a placement."""
    for at, entry in enumerate(doc.tasks):
        state, node = _own_or_job(doc, entry, "state"), _own_or_job(doc, entry, "node")
        if doc.paused and (state in PLACED_STATES or node is not None):
            yield Fault((*place, "paused"), f"a paused job has no place, but its task entry {at} has a node")


def _unused_minima(doc: JobDoc, place: Place) -> Iterator[Fault]:
    """Faults for minima of the wrong kind, which would be ignored."""
    inner = dict.fromkeys(each.parent for each in doc.sub_groups)
    for at, group in enumerate(doc.sub_groups):
        where = (*place, "sub_groups", at)
        if group.name in inner and group.min_tasks is not None:
            yield Fault((*where, "min_tasks"), f"{group.name!r} holds sub-groups and no tasks of its own: write min_groups")
        if group.name not in inner and group.min_groups is not None:
            yield Fault((*where, "min_groups"), f"{group.name!r} holds tasks and no sub-groups: write min_tasks")


def _class_of(doc: JobDoc, place: Place, policy: Policy, faults: list[Fault]) -> str:
    """The name of the job's class: its own, the default one, or the one for its plain priority number."""
    if doc.priority is not None and doc.priority_class is not None:
        faults.append(Fault((*place, "priority"), "conflicts with class: give one of them"))
    if doc.priority is not None:
        return number_class(doc.priority)
    entry = policy.find_class(doc.priority_class)
    if entry is not None:
        return entry.name
    names = [each.name for each in policy.priority_classes]
    text = f"no priority class {doc.priority_class!r}; {suggest(str(doc.priority_class), names)}"
    faults.append(Fault((*place, "class"), text))
    return ""


def number_class(priority: int) -> str:
    """The name of the class for a plain priority number."""
    return f"priority-{'minus-' if priority < 0 else ''}{abs(priority)}"


def _with_number_classes(policy: Policy, jobs: Iterable[JobDoc]) -> Policy:
    """Adds a class for each plain priority number in use. From 100 on they are not preemptible, as in KAI."""
    wanted = sorted(dict.fromkeys(doc.priority for doc in jobs if doc.priority is not None))
    known = [each.name for each in policy.priority_classes]
    added = [
        PriorityClass(name=number_class(value), value=value, preemptible=value < NOT_PREEMPTIBLE_FROM)
        for value in wanted
        if number_class(value) not in known
    ]
    return policy.model_copy(update={"priority_classes": (*policy.priority_classes, *added)})


def _tasks(
    doc: JobDoc, place: Place, at: int, entry: TaskDoc, nodes: dict[str, ResolvedNode], groups: list[str], faults: list[Fault]
) -> list[ResolvedTask]:
    where = (*place, "tasks", at) if "tasks" in doc.model_fields_set else place
    group = _group(doc, entry, where, groups, nodes, faults)
    node = _own_or_job(doc, entry, "node")
    state: TaskState = _own_or_job(doc, entry, "state") or ("running" if node is not None else "pending")
    devices = entry.devices or doc.devices
    if state in PLACED_STATES and node is None:
        faults.append(Fault((*where, "state"), f"a {state} task has a node: give `node`"))
    if state == "pending" and node is not None:
        faults.append(Fault((*where, "node"), "a pending task has no node; to restrict where it may run, give `nodes`"))
    if node is not None and node not in nodes:
        faults.append(Fault((*where, "node"), f"no node {node!r}; {suggest(node, nodes)}"))
    if devices and state not in PLACED_STATES:
        faults.append(Fault((*where, "devices"), f"a {state} task is on no device"))
    if devices and entry.count > 1:
        faults.append(
            Fault((*where, "devices"), f"names the devices of one task, but there are {entry.count}: list the tasks separately")
        )
    if group is None:
        return []
    number = nodes[node].number if node in nodes else None
    found = []
    for each in range(entry.count):
        name = entry.name or ""
        if entry.name is not None and entry.count > 1:
            name = f"{entry.name}-{each}"
        found.append(ResolvedTask(name, where, group, state, devices, number))
    return found


def _own_or_job(doc: JobDoc, entry: TaskDoc, name: str) -> Any:
    found = getattr(entry, name)
    return getattr(doc, name) if found is None else found


def _group(
    doc: JobDoc, entry: TaskDoc, where: Place, groups: list[str], nodes: dict[str, ResolvedNode], faults: list[Fault]
) -> TaskGroup | None:
    before = len(faults)
    source: TaskFields = entry
    if entry.gpus is None and entry.fraction is None and entry.gpu_memory is None and entry.mig is None:
        source = doc
    ways = [name for name in ("gpus", "fraction", "gpu_memory", "mig") if getattr(source, name) is not None]
    if len(ways) > 1:
        faults.append(Fault((*where, ways[1]), f"conflicts with {ways[0]}: give one of them"))
    data: dict[str, Any] = {}
    portion: Portion | None = source.fraction or source.gpu_memory
    count = entry.gpu_devices or doc.gpu_devices
    if source.gpus is not None and source.gpus % 1000:
        data |= {"gpu_share_milli": source.gpus, "gpu_devices": count or 1}
    elif source.gpus is not None:
        data["gpu_milli"] = source.gpus
        if count is not None:
            faults.append(Fault((*where, "gpu_devices"), "goes with fraction or gpu_memory; whole GPUs are counted by gpus"))
    elif source.mig is not None:
        data |= {"mig_profile": source.mig, "gpu_devices": count}
    elif portion is not None:
        key = "gpu_share_milli" if source.fraction is not None else "gpu_share_bytes"
        data |= {key: portion.amount, "gpu_devices": portion.devices or count or 1}
        if portion.devices is not None and count is not None and portion.devices != count:
            faults.append(Fault((*where, "gpu_devices"), f"is {count}, but the amount says {portion.devices}"))
    sub_group = _own_or_job(doc, entry, "sub_group")
    if sub_group is not None and sub_group not in groups:
        faults.append(Fault((*where, "sub_group"), f"no sub-group {sub_group!r}; {suggest(sub_group, groups)}"))
    allowed = _own_or_job(doc, entry, "nodes") or ()
    unknown = [name for name in allowed if name not in nodes]
    faults += [Fault((*where, "nodes"), f"no node {name!r}; {suggest(name, nodes)}") for name in unknown]
    if len(faults) > before:
        return None
    return TaskGroup(
        **data,
        cpu_milli=_own_or_job(doc, entry, "cpus") or 0,
        memory_bytes=_own_or_job(doc, entry, "memory") or 0,
        gpu_models=_own_or_job(doc, entry, "gpu_models") or (),
        node_labels={**(doc.node_labels or {}), **(entry.node_labels or {})},
        nodes=allowed,
        sub_group=sub_group,
        order=_own_or_job(doc, entry, "order"),
    )


def _by_index(tasks: list[ResolvedTask]) -> list[ResolvedTask]:
    """Orders tasks so that indices sort, as text, like the tasks' names: that is how a gang breaks ties among its tasks."""
    if all(not task.name for task in tasks):
        return tasks
    for number, task in enumerate(tasks):
        task.name = task.name or f"{number}"
    indices = sorted(range(len(tasks)), key=str)
    found: dict[int, ResolvedTask] = dict(zip(indices, sorted(tasks, key=lambda task: task.name), strict=True))
    return [found[index] for index in range(len(tasks))]


def demand_of(doc: JobDoc, class_name: str, groups: Iterable[TaskGroup], max_failures: int) -> JobDemand:
    """The job's demand; equal adjacent task groups are merged. max_failures: of the policy, as snapshots have none."""
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
        placement=doc.placement,
    )


# --- placement


def _assign_devices(nodes: list[ResolvedNode], jobs: list[ResolvedJob], faults: list[Fault]) -> None:
    """Assign every placed task to its node: releasing tasks first, so that reservations may use their resources.

    Tasks that name devices get these, the others any that remain free.
    """
    placed = [task for job in jobs for task in job.tasks if task.state in PLACED_STATES and task.node is not None]
    order = {"releasing": 0, "stuck_releasing": 1, "running": 1, "reserved": 2}
    placed.sort(
        key=lambda task: (
            task.state == "reserved",
            not task.requested_devices,
            order[task.state],
            shares_devices(task.group),
        )
    )
    for task in placed:
        assert task.node is not None
        node = nodes[task.node]
        problem = _take_devices(node, task) or _take_cpu_and_memory(node, task)
        if problem is not None:
            faults.append(Fault((*task.place, "devices" if task.requested_devices else "node"), problem))


def _take_devices(node: ResolvedNode, task: ResolvedTask) -> str | None:
    group, name = task.group, node.doc.name
    wanted = devices_of(group)
    chosen: list[int] = []
    for device in task.requested_devices:
        number = node.number_of(device)
        if number is None:
            return f"node {name} has no device {device!r}; {suggest(device, [each.id for each in node.devices])}"
        if number in chosen:
            return f"device {device!r} is named twice"
        chosen.append(number)
    if chosen and len(chosen) != wanted:
        return f"names {count_text(len(chosen), 'device')}, but the task takes {wanted}"
    if not chosen and wanted:
        found = _free_devices(node, task, wanted)
        if found is None:
            what = f"{group.mig_profile} MIG device" if group.mig_profile is not None else "GPU"
            count = sum(profile_of(device) == (group.mig_profile or "") for device in node.devices)
            return f"node {name} has {count_text(count, what)}, and too few are left for this {task.state} task"
        chosen = found
    for number in chosen:
        problem = _blocked(node, task, number)
        if problem is not None:
            return problem
    for number in chosen:
        if not shares_devices(group):
            _take_whole(node, task, 1 << number)
        else:
            shares = node.releasing_shares if task.state == "releasing" else node.shares
            shares[number] = shares.get(number, 0) + share_of(group, node.devices[number])
    task.devices = sum(1 << number for number in chosen)
    return None


def _take_whole(node: ResolvedNode, task: ResolvedTask, mask: int) -> None:
    if task.state == "releasing":
        node.releasing |= mask
    else:
        node.whole |= mask


def _blocked(node: ResolvedNode, task: ResolvedTask, number: int) -> str | None:
    """Why the task cannot have the device. Releasing tasks block running ones, but not reservations."""
    device, bit = node.devices[number], 1 << number
    what = f"device {device.id!r} of {node.doc.name}"
    is_reservation = task.state == "reserved"
    if profile_of(device) != (task.group.mig_profile or ""):
        return f"{what} is {f'a {device.profile} MIG device' if device.profile else 'a GPU'}, which the task does not request"
    releasing_devices = 0 if is_reservation else node.releasing
    if (node.whole | releasing_devices) & bit:
        return f"{what} is allocated whole to another task already"
    releasing = 0 if is_reservation else node.releasing_shares.get(number, 0)
    used = node.shares.get(number, 0) + releasing
    if not shares_devices(task.group):
        return f"{what} is shared by other tasks already" if used else None
    if used + share_of(task.group, device) > units_of(device):
        return f"{what} is full: {used * 100 // units_of(device)} % of it are taken"
    return None


def _free_devices(node: ResolvedNode, task: ResolvedTask, wanted: int) -> list[int] | None:
    numbers = [device.number for device in node.devices if _blocked(node, task, device.number) is None]
    if shares_devices(task.group):  # the fullest first
        numbers.sort(key=lambda number: (-node.shares.get(number, 0) - node.releasing_shares.get(number, 0), number))
    elif task.state == "reserved":  # free devices before releasing ones
        numbers.sort(key=lambda number: (bool(node.releasing >> number & 1), number))
    return sorted(numbers[:wanted]) if len(numbers) >= wanted else None


def _take_cpu_and_memory(node: ResolvedNode, task: ResolvedTask) -> str | None:
    demand = (task.group.cpu_milli, task.group.memory_bytes, 1)
    capacity = (node.doc.cpus, node.doc.memory, node.doc.max_tasks)
    if task.state == "releasing":
        node.releasing_sums = [allocated + more for allocated, more in zip(node.releasing_sums, demand, strict=True)]
    else:
        node.cpu_milli, node.memory_bytes, node.slots = node.cpu_milli + demand[0], node.memory_bytes + demand[1], node.slots + 1
    allocated = (node.cpu_milli, node.memory_bytes, node.slots)
    releasing = (0, 0, 0) if task.state == "reserved" else tuple(node.releasing_sums)
    for what, used, releasing_amount, bound in zip(("cpus", "memory", "max_tasks"), allocated, releasing, capacity, strict=True):
        if used + releasing_amount > bound:
            taken = _amount(what, used + releasing_amount)
            return f"node {node.doc.name} is overcommitted: it has {_amount(what, bound)}, and its tasks take {taken}"
    return None


def _amount(what: str, value: int) -> str:
    if what == "cpus":
        return f"{value / 1000:g} cores"
    return f"{value / 2**30:g}GiB of memory" if what == "memory" else count_text(value, "task")


# --- helpers


def _check_unique(place: Place, names: Sequence[str], faults: list[Fault], field_name: str = "name") -> None:
    seen: dict[str, None] = {}
    for position, name in enumerate(names):
        if name in seen:
            faults.append(Fault((*place, position, field_name), f"{name!r} occurs twice"))
        seen[name] = None


def _check_unique_names(tasks: list[ResolvedTask], faults: list[Fault]) -> None:
    seen: dict[str, None] = {}
    for task in tasks:
        if task.name and task.name in seen:
            faults.append(Fault((*task.place, "name"), f"two tasks are named {task.name!r}"))
        seen[task.name] = None


def suggest(wanted: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or the first few known names."""
    names = list(known)
    near = difflib.get_close_matches(wanted, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there are none"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(names[:8])}{more}"
