"""Units: what is placed together and what leaves together (semantics §1 "Sub-groups", §2, §3).

Below its minimum a job asks for all that is missing at once, at its minimum for one task more. It loses one surplus task
at a time, then surplus sub-groups, and after those its core, whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from .demand import JobDemand
from .state import Job, Task


@dataclass(frozen=True, slots=True)
class Unit:
    """Members of one gang, by index, in the order in which they are placed. `core`: without them the job does not run."""

    job: Job
    indices: tuple[int, ...]
    core: bool


def next_unit(job: Job) -> Unit | None:
    """What the job asks for next, or `None` when nothing of it can be asked for: all placed, leaving, or ended."""
    if job.eviction is not None or _complete(job):
        return None
    if not job.tasks and not job.demand.sub_groups and job.demand.min_tasks is None:
        groups = job.demand.tasks
        everybody = _by_text(groups[0].count) if len(groups) == 1 else tuple(_in_order(job.demand, range(job.size)))
        return Unit(job, everybody, core=True)
    root = _tree(job, allocated_tasks(job))
    indices = root.wants()
    return Unit(job, tuple(indices), core=not root.satisfied) if indices else None


def _complete(job: Job) -> bool:
    """Whether each of its members has a place, or had one in this attempt."""
    return len(job.tasks) == job.size and job.tasks[-1].index == job.size - 1


def victim_units(job: Job) -> list[Unit]:
    """All that the job can lose, in the order in which it would: each on top of those before it.

    One surplus task at a time, the deepest first; then surplus sub-groups, whole; then what is left of the job.
    """
    left = allocated_tasks(job)
    if not left:
        return []
    if not job.demand.sub_groups and len(left) <= job.minimum and len(left) == len(job.tasks):
        return [Unit(job, tuple(task.index for task in left), core=True)]
    root = _tree(job, left)
    units = []
    while indices := root.surplus_task() or root.surplus_child():
        units.append(Unit(job, tuple(indices), core=False))
        root.drop(dict.fromkeys(indices))
    core = sorted(root.all_held())
    return [*units, Unit(job, tuple(core), core=True)] if core else units


def whole_job(job: Job) -> Unit:
    """All members that hold or are promised room, but for surplus that is leaving already."""
    return Unit(job, tuple(task.index for task in job.tasks if task.eviction is None and has_resources(task)), core=True)


def core_complete(job: Job, members: Iterable[Task]) -> bool:
    """Whether the job runs with just these members; those that have finished well count as there."""
    return _tree(job, list(members)).satisfied


def has_resources(task: Task) -> bool:
    """Whether the task holds or is promised room that its eviction would free: what has exited is on its way out."""
    return task.state in ("reserved", "starting", "running")


def allocated_tasks(job: Job) -> list[Task]:
    """Members that are there and not leaving, by index."""
    if job.eviction is not None:
        return []
    return [task for task in job.tasks if task.eviction is None and has_resources(task)]


def sub_group_problem(demand: JobDemand) -> str | None:
    """What is wrong with the job's tree of sub-groups, as a sentence, or `None`: such a job could never be placed."""
    groups = {group.name: group for group in demand.sub_groups}
    if len(groups) < len(demand.sub_groups):
        names = [group.name for group in demand.sub_groups]
        twice = next(name for name in names if names.count(name) > 1)
        return f"sub-group {twice!r} is defined twice"
    children: dict[str, int] = {}
    tasks: dict[str, int] = {}
    for group in demand.sub_groups:
        if group.parent is not None and group.parent not in groups:
            return f"sub-group {group.name!r} names the parent {group.parent!r}, which is not defined"
        if group.parent is not None:
            children[group.parent] = children.get(group.parent, 0) + 1
        above, steps = group.parent, 0
        while above is not None and steps <= len(groups):
            above, steps = groups[above].parent if above in groups else None, steps + 1
        if above is not None:
            return f"sub-group {group.name!r} lies within itself"
    for number, part in enumerate(demand.tasks):
        if part.sub_group is not None:
            if part.sub_group not in groups:
                return f"tasks.{number} belongs to the sub-group {part.sub_group!r}, which is not defined"
            if part.sub_group in children:
                return f"tasks.{number} belongs to {part.sub_group!r}, which holds sub-groups and therefore no tasks"
            tasks[part.sub_group] = tasks.get(part.sub_group, 0) + part.count
    for name, group in groups.items():
        has, wants, what = (
            (children[name], group.min_groups, "sub-groups")
            if name in children
            else (tasks.get(name, 0), group.min_tasks, "tasks")
        )
        if wants is not None and wants > has:
            return f"sub-group {name!r} needs {wants} {what} and has {has}"
    return None


@dataclass(slots=True)
class _Leaf:
    """Tasks without further division. done: members that have finished well, which need no place any more."""

    name: str
    minimum: int
    free: list[int]
    held: list[int]
    done: int

    @property
    def satisfied(self) -> bool:
        return len(self.held) + self.done >= self.minimum

    def place_in_order(self) -> tuple[bool, bool, Fraction, str]:
        """Smaller asks first: unsatisfied, then the lower share of its minimum, minimum 0 last, then by name."""
        return _child_order(self.satisfied, len(self.held) + self.done, self.minimum, self.name)

    def wants(self) -> list[int]:
        """The next tasks to be placed together."""
        if self.satisfied:
            return self.free[:1]
        missing = self.minimum - len(self.held) - self.done
        return self.free[:missing] if len(self.free) >= missing else []

    def surplus_task(self) -> list[int]:
        """The task that would leave first, if it may without the leaf falling below its minimum."""
        return self.held[-1:] if len(self.held) + self.done > self.minimum else []

    def surplus_child(self) -> list[int]:
        """A leaf has no children."""
        return []

    def all_held(self) -> list[int]:
        """Every member that has a place, in order."""
        return self.held

    def drop(self, gone: Mapping[int, None]) -> None:
        """These members have left."""
        self.held = [index for index in self.held if index not in gone]


@dataclass(slots=True)
class _Group:
    """Sub-groups, of which `minimum` must be satisfied."""

    name: str
    minimum: int
    children: list["_Leaf | _Group"] = field(default_factory=list)

    @property
    def satisfied(self) -> bool:
        return self._satisfied_children() >= self.minimum

    def _satisfied_children(self) -> int:
        return sum(child.satisfied for child in self.children)

    def place_in_order(self) -> tuple[bool, bool, Fraction, str]:
        """As for a leaf, with its satisfied children for tasks."""
        return _child_order(self.satisfied, self._satisfied_children(), self.minimum, self.name)

    def _ordered(self) -> list["_Leaf | _Group"]:
        return sorted(self.children, key=lambda child: child.place_in_order())

    def wants(self) -> list[int]:
        """Below the minimum what the first children lack, above it the next task or the next whole child."""
        if self.satisfied:
            return next((indices for indices in (child.wants() for child in self._ordered()) if indices), [])
        able = [child for child in self._ordered() if child.satisfied or child.wants()][: self.minimum]
        lacking = [child.wants() for child in able if not child.satisfied]
        return [index for part in lacking for index in part] if len(able) == self.minimum else []

    def surplus_task(self) -> list[int]:
        """A task above the minimum of its leaf, of the child that asks last."""
        return next((indices for indices in (child.surplus_task() for child in reversed(self._ordered())) if indices), [])

    def surplus_child(self) -> list[int]:
        """All of one child that is not needed, the deepest first; one that does not reach its minimum is needed least."""
        deeper = next((found for found in (child.surplus_child() for child in reversed(self._ordered())) if found), [])
        if deeper:
            return deeper
        present = [child for child in reversed(self._ordered()) if child.all_held()]
        spare = [child for child in present if not child.satisfied]
        if self._satisfied_children() > self.minimum:
            spare += [child for child in present if child.satisfied]
        return spare[0].all_held() if spare else []

    def all_held(self) -> list[int]:
        """Every member that has a place, child by child."""
        return [index for child in self._ordered() for index in child.all_held()]

    def drop(self, gone: Mapping[int, None]) -> None:
        """These members have left."""
        for child in self.children:
            child.drop(gone)


def _child_order(satisfied: bool, allocated: int, minimum: int, name: str) -> tuple[bool, bool, Fraction, str]:
    share = Fraction(allocated, minimum) if satisfied and minimum else Fraction(0)
    return (satisfied, satisfied and not minimum, share, name)


def _tree(job: Job, allocated: list[Task]) -> _Leaf | _Group:
    """The job's tasks as they stand, with these counted as placed."""
    here = dict.fromkeys(task.index for task in allocated)
    taken = dict.fromkeys(task.index for task in job.tasks)
    done = dict.fromkeys(task.index for task in job.tasks if task.state in ("exited", "released") and task.exit_code == 0)
    members: dict[str, list[int]] = {}
    index = 0
    for part in job.demand.tasks:
        members.setdefault(part.sub_group or "", []).extend(range(index, index + part.count))
        index += part.count

    def leaf(name: str, minimum: int | None) -> _Leaf:
        ordered = _in_order(job.demand, members.get(name, []))
        return _Leaf(
            name,
            len(ordered) if minimum is None else minimum,
            [index for index in ordered if index not in taken],
            [index for index in ordered if index in here],
            sum(index in done for index in ordered),
        )

    if not job.demand.sub_groups:
        return leaf("", job.minimum)
    below: dict[str | None, list[_Leaf | _Group]] = {}
    parents = dict.fromkeys(group.parent for group in job.demand.sub_groups)
    built: dict[str, _Group] = {}
    for group in job.demand.sub_groups:
        if group.name in parents:
            built[group.name] = _Group(group.name, 0)
    for group in job.demand.sub_groups:
        node = built.get(group.name) or leaf(group.name, group.min_tasks)
        below.setdefault(group.parent, []).append(node)
    for group in job.demand.sub_groups:
        if group.name in built:
            children = below[group.name]
            built[group.name].children = children
            built[group.name].minimum = len(children) if group.min_groups is None else group.min_groups
    top = below.get(None, [])
    if "" in members:
        top.append(leaf("", None))
    return _Group("", len(top), top)


@lru_cache(maxsize=256)
def _by_text(count: int) -> tuple[int, ...]:
    """`_in_order` of so many tasks of one kind."""
    return tuple(sorted(range(count), key=str))


def _in_order(demand: JobDemand, indices: range | list[int]) -> list[int]:
    """Tasks as they are placed: those with an `order` first, the higher before the lower; then by index as a string."""
    if len(indices) == 1:
        return list(indices)
    orders: list[int | None] = [part.order for part in demand.tasks for _ in range(part.count)]

    def key(index: int) -> tuple[bool, int, str]:
        order = orders[index]
        return (order is None, -(order or 0), str(index))

    return sorted(indices, key=key)
