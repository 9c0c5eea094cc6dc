"""Resolves the jobs of a snapshot: class, demand and tasks of each, and all their contradictions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bailiff_core.admission.submission import with_defaults
from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.model.references import Fault, Place, suggest, tree_faults
from bailiff_core.model.units import sub_group_problem, too_many_levels

from .parsing import Portion
from .snapshot import MAX_TASKS, JobDoc, TaskDoc, TaskFields, TaskState

NOT_PREEMPTIBLE_FROM = 100
PLACED_STATES: tuple[TaskState, ...] = ("running", "reserved", "releasing", "stuck_releasing")


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


def with_number_classes(policy: Policy, jobs: Iterable[JobDoc]) -> Policy:
    """Adds a class for each plain priority number in use. From 100 on they are not preemptible, as in KAI."""
    wanted = sorted(dict.fromkeys(doc.priority for doc in jobs if doc.priority is not None))
    known = [each.name for each in policy.priority_classes]
    added = [
        PriorityClass(name=number_class(value), value=value, preemptible=value < NOT_PREEMPTIBLE_FROM)
        for value in wanted
        if number_class(value) not in known
    ]
    return policy.model_copy(update={"priority_classes": (*policy.priority_classes, *added)})


def resolve_job(
    doc: JobDoc, place: Place, policy: Policy, projects: Sequence[str], nodes: Mapping[str, int], faults: list[Fault]
) -> ResolvedJob | None:
    """Resolves one job; None if it adds faults.

    Args:
        nodes: Numbers by name.
    """
    before = len(faults)
    if doc.project is not None and doc.project not in projects:
        faults.append(Fault((*place, "project"), f"no project {doc.project!r}; {suggest(doc.project, projects)}"))
    class_name = _class_of(doc, place, policy, faults)
    groups = [each.name for each in doc.sub_groups]
    faults += tree_faults([(each.name, each.parent) for each in doc.sub_groups], (*place, "sub_groups"))
    faults += _unused_minima(doc, place)
    faults += _paused_and_placed(doc, place)
    tasks = [task for at, entry in enumerate(doc.tasks) for task in _tasks(doc, place, at, entry, nodes, groups, faults)]
    seen: dict[str, None] = {}
    for task in tasks:
        if task.name and task.name in seen:
            faults.append(Fault((*task.place, "name"), f"two tasks are named {task.name!r}"))
        seen[task.name] = None
    if len(tasks) > MAX_TASKS:
        faults.append(Fault((*place, "tasks"), f"a job holds at most {MAX_TASKS} tasks, this one {len(tasks)}"))
    if doc.min_tasks is not None and doc.min_tasks > len(tasks):
        faults.append(Fault((*place, "min_tasks"), f"is {doc.min_tasks}, but the job has {count_text(len(tasks), 'task')}"))
    if len(faults) > before:
        return None
    by_index = _by_index(tasks)
    demand = demand_of(doc, class_name, [task.group for task in by_index], policy)
    problem = sub_group_problem(demand) or too_many_levels(demand)
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


def _tasks(
    doc: JobDoc, place: Place, at: int, entry: TaskDoc, nodes: Mapping[str, int], groups: list[str], faults: list[Fault]
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
    number = None if node is None else nodes.get(node)
    names = (
        [f"{entry.name}-{each}" for each in range(entry.count)]
        if entry.name and entry.count > 1
        else [entry.name or ""] * entry.count
    )
    return [ResolvedTask(name, where, group, state, devices, number) for name in names]


def _own_or_job(doc: JobDoc, entry: TaskDoc, name: str) -> Any:
    found = getattr(entry, name)
    return getattr(doc, name) if found is None else found


def _group(
    doc: JobDoc, entry: TaskDoc, where: Place, groups: list[str], nodes: Mapping[str, int], faults: list[Fault]
) -> TaskGroup | None:
    before = len(faults)
    # An amount of GPUs replaces the job's as a whole: half of one and half of the other would say nothing.
    source: TaskFields = entry
    if entry.gpus is None and entry.fraction is None and entry.gpu_memory is None and entry.mig is None:
        source = doc
    ways = [name for name in ("gpus", "fraction", "gpu_memory", "mig") if getattr(source, name) is not None]
    if len(ways) > 1:
        faults.append(Fault((*where, ways[1]), f"conflicts with {ways[0]}: give one of them"))
    data: dict[str, Any] = {}
    portion: Portion | None = source.fraction or source.gpu_memory
    count = entry.gpu_devices or doc.gpu_devices
    # In thousandths: a part of a GPU is a share.
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


def demand_of(doc: JobDoc, class_name: str, groups: Iterable[TaskGroup], policy: Policy) -> JobDemand:
    """The job's demand, with the defaults of a submission; equal adjacent task groups are merged."""
    merged: list[TaskGroup] = []
    for group in groups:
        if merged and merged[-1].model_copy(update={"count": 1}) == group:
            merged[-1] = merged[-1].model_copy(update={"count": merged[-1].count + 1})
        else:
            merged.append(group)
    same = {name: getattr(doc, name) for name in JobDemand.model_fields if name in JobDoc.model_fields}
    own = {"job": doc.name, "tasks": tuple(merged), "priority_class": class_name}
    return with_defaults(policy, JobDemand(**same | own))
