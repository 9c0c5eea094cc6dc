"""Units: tasks that are placed, or evicted, together (semantics §1 "Sub-groups", §2, §3).

Below its minimum a job requests all missing tasks at once, above it one task at a time. It loses one surplus task at a
time, then surplus sub-groups, then its whole core.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice

from .demand import JobDemand
from .state import Job, PoolState, Task

MAX_SUB_GROUP_LEVELS = 8
"""Of the tree of a new job: what looks at a tree calls itself for each level."""

MAX_SURPLUS = 256
"""Tasks of a new job beyond its minimum: it gets them one by one, and each looks at all that it has."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Task indices of one gang, in placement order.

    Attributes:
        core: Whether the job needs these tasks to run.
    """

    job: Job
    indices: tuple[int, ...]
    core: bool

    @property
    def stops_job(self) -> bool:
        """Whether its eviction stops the job: the core does, and surplus of a job that restarts to shrink."""
        return self.core or restarts_to_shrink(self.job)


def restarts_to_shrink(job: Job) -> bool:
    """Whether the rest of the job starts again when it loses tasks. Not once one has succeeded: the others only finish."""
    return job.demand.elastic == "restart" and not any(task.finished for task in job.tasks)


def restarts_to_grow(state: PoolState, job: Job) -> bool:
    """Whether the job has `elastic: restart` and tasks of it may have started, and so know the size of their gang."""
    return job.demand.elastic == "restart" and any(
        task.start_seq is not None and task.start_seq <= state.last_fact for task in job.tasks
    )


def stopped_tasks(job: Job, evicted: Sequence[Task], *, whole: bool) -> list[Task]:
    """Returns the started tasks whose work is lost with the evicted ones, which come first; none if none of these has started.

    Args:
        whole: All of the job is evicted. Its next attempt starts every task, those that succeeded in this one included.
    """
    started = [task for task in evicted if task.state != "reserved"]
    if not started or len(evicted) == len(job.tasks):
        return started
    if whole:
        return [*started, *(task for task in job.tasks if task.finished)]
    if restarts_to_shrink(job):  # without what is being evicted or has ended, which stops anyway
        gone = dict.fromkeys(task.index for task in started)
        others = (task for task in allocated_tasks(job) if task.state != "reserved" and task.index not in gone)
        return [*started, *others]
    return started


def next_unit(job: Job) -> Unit | None:
    """Returns the unit that the job requests next, or `None` if there is none: all placed, evicting, or ended."""
    if job.eviction is not None or _complete(job):
        return None
    if not job.tasks and not job.demand.sub_groups and job.demand.min_tasks is None:
        groups = job.demand.tasks
        everything = _by_text(groups[0].count) if len(groups) == 1 else tuple(_in_order(job.demand, range(job.size)))
        return Unit(job, everything, core=True)
    root = _tree(job, allocated_tasks(job))
    indices = root.wants()
    return Unit(job, tuple(indices), core=not root.satisfied) if indices else None


def _complete(job: Job) -> bool:
    """Whether every task has, or had, a place in this attempt."""
    return len(job.tasks) == job.size and job.tasks[-1].index == job.size - 1


def victim_units(job: Job) -> list[Unit]:
    """Returns the units that the job can lose, in eviction order; each assumes that those before it are evicted.

    Single surplus tasks, the deepest first; then whole surplus sub-groups; then the rest of the job.
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
    core = sorted(root.all_allocated())
    return [*units, Unit(job, tuple(core), core=True)] if core else units


def before_restart(job: Job) -> tuple[Job, dict[int, None]]:
    """Returns a job that is being evicted to restart with fewer tasks as it was before, and the tasks that it loses."""
    kept = dict.fromkeys(task.index for task in job.reservation)
    lost = dict.fromkeys(task.index for task in job.tasks if task.index not in kept)
    return replace(job, phase="running", eviction=None), lost


def evictable_units(job: Job) -> list[Unit]:
    """Returns the job's units in eviction order. A job that has not started, or is evicting already, is one unit."""
    if job.phase in ("reserved", "evicting"):
        return [whole_job(job)]
    return victim_units(job)


def whole_job(job: Job) -> Unit:
    """Returns all tasks with allocated or reserved resources, except those with an eviction of their own."""
    return Unit(job, tuple(task.index for task in job.tasks if task.eviction is None and has_resources(task)), core=True)


def reduced_to(job: Job, indices: Iterable[int]) -> Job:
    """Returns a copy of the job that has only these of its placed tasks."""
    kept = dict.fromkeys(indices)
    return replace(job, tasks=[task for task in job.tasks if task.index in kept])


def core_complete(job: Job, members: Iterable[Task]) -> bool:
    """Whether these tasks satisfy the gang's minimum; tasks that succeeded count as present."""
    return _tree(job, list(members)).satisfied


def has_resources(task: Task) -> bool:
    """Whether the task has allocated or reserved resources that its eviction would free; exited tasks do not."""
    return task.state in ("reserved", "starting", "running")


def allocated_tasks(job: Job) -> list[Task]:
    """Returns the tasks with resources that are not being evicted, by index."""
    if job.eviction is not None:
        return []
    return [task for task in job.tasks if task.eviction is None and has_resources(task)]


def too_many_levels(demand: JobDemand) -> str | None:
    """Returns why a new job may not have this valid tree of sub-groups, or `None`. Of recorded ones nothing is asked."""
    parents = {group.name: group.parent for group in demand.sub_groups}
    for name in parents:
        above: str | None = name
        for _ in range(MAX_SUB_GROUP_LEVELS):
            above = parents[above] if above is not None else None
        if above is not None:
            return f"sub-group {name!r} is below {MAX_SUB_GROUP_LEVELS} others: a tree has at most {MAX_SUB_GROUP_LEVELS} levels"
    return None


def too_much_surplus(demand: JobDemand) -> str | None:
    """Returns why a new job may not have so many tasks beyond its minimum, or `None`."""
    size = sum(group.count for group in demand.tasks)
    least = size if demand.min_tasks is None else demand.min_tasks
    for group in demand.sub_groups:
        tasks = sum(each.count for each in demand.tasks if each.sub_group == group.name)
        least -= max(0, tasks - group.min_tasks) if group.min_tasks is not None else 0
    return surplus_problem(size, least)


def surplus_problem(size: int, least: int) -> str | None:
    """Returns why a job of that size may not have this minimum, or `None`."""
    if size - least <= MAX_SURPLUS:
        return None
    return f"{size - least} of its {size} tasks would be beyond its minimum: at most {MAX_SURPLUS} may be"


def sub_group_problem(demand: JobDemand) -> str | None:
    """Returns why the job's tree of sub-groups is invalid, or `None`."""
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
        # A chain of parents longer than the number of groups is a circle.
        above, steps = group.parent, 0
        while above is not None and steps <= len(groups):
            above, steps = groups[above].parent if above in groups else None, steps + 1
        if above is not None:
            return f"sub-group {group.name!r} is its own ancestor"
    for number, part in enumerate(demand.tasks):
        if part.sub_group is not None:
            if part.sub_group not in groups:
                return f"tasks.{number} belongs to the sub-group {part.sub_group!r}, which is not defined"
            if part.sub_group in children:
                return f"tasks.{number} belongs to {part.sub_group!r}, which has sub-groups, so it cannot have tasks"
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
    """A leaf of the sub-group tree. done: number of tasks that succeeded, which need no place."""

    name: str
    minimum: int
    free: list[int]
    allocated: list[int]
    done: int

    @property
    def satisfied(self) -> bool:
        return len(self.allocated) + self.done >= self.minimum

    def place_in_order(self) -> tuple[bool, bool, Fraction, str]:
        """Sort key, smaller first: unsatisfied, then the lower ratio to its minimum, minimum 0 last, then name."""
        return _child_order(self.satisfied, len(self.allocated) + self.done, self.minimum, self.name)

    def wants(self) -> list[int]:
        """Returns the next tasks to place together."""
        if self.satisfied:
            return self.free[:1]
        missing = self.minimum - len(self.allocated) - self.done
        return self.free[:missing] if len(self.free) >= missing else []

    def surplus_task(self) -> list[int]:
        """Returns the task to evict first, if the leaf stays at its minimum without it."""
        return self.allocated[-1:] if len(self.allocated) + self.done > self.minimum else []

    def surplus_child(self) -> list[int]:
        """Returns nothing: a leaf has no children."""
        return []

    def all_allocated(self) -> list[int]:
        """Returns the placed tasks, in order."""
        return self.allocated

    def drop(self, dropped: Mapping[int, None]) -> None:
        """Removes these tasks."""
        self.allocated = [index for index in self.allocated if index not in dropped]


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
        """As for a leaf, counting satisfied children instead of tasks."""
        return _child_order(self.satisfied, self._satisfied_children(), self.minimum, self.name)

    def _ordered(self) -> list["_Leaf | _Group"]:
        return sorted(self.children, key=lambda child: child.place_in_order())

    def wants(self) -> list[int]:
        """Returns the tasks missing to the minimum, or, above it, the next task or the next whole child."""
        if self.satisfied:
            return next((indices for indices in (child.wants() for child in self._ordered()) if indices), [])
        # Each child is asked once: asking twice would take twice the time for each level of the tree.
        asked = ([] if child.satisfied else child.wants() or None for child in self._ordered())
        usable = list(islice((indices for indices in asked if indices is not None), self.minimum))
        return [index for indices in usable for index in indices] if len(usable) == self.minimum else []

    def surplus_task(self) -> list[int]:
        """Returns a task above the minimum of its leaf, from the last child in order."""
        return next((indices for indices in (child.surplus_task() for child in reversed(self._ordered())) if indices), [])

    def surplus_child(self) -> list[int]:
        """Returns all tasks of one child that is not needed, the deepest first; children below their minimum come first."""
        deeper = next((found for found in (child.surplus_child() for child in reversed(self._ordered())) if found), [])
        if deeper:
            return deeper
        present = [child for child in reversed(self._ordered()) if child.all_allocated()]
        droppable = [child for child in present if not child.satisfied]
        if self._satisfied_children() > self.minimum:
            droppable += [child for child in present if child.satisfied]
        return droppable[0].all_allocated() if droppable else []

    def all_allocated(self) -> list[int]:
        """Returns the placed tasks, child by child."""
        return [index for child in self._ordered() for index in child.all_allocated()]

    def drop(self, dropped: Mapping[int, None]) -> None:
        """Removes these tasks."""
        for child in self.children:
            child.drop(dropped)


def _child_order(satisfied: bool, allocated: int, minimum: int, name: str) -> tuple[bool, bool, Fraction, str]:
    share = Fraction(allocated, minimum) if satisfied and minimum else Fraction(0)
    return (satisfied, satisfied and not minimum, share, name)


def _tree(job: Job, allocated: list[Task]) -> _Leaf | _Group:
    """Returns the job's sub-group tree with these tasks as placed."""
    here = dict.fromkeys(task.index for task in allocated)
    taken = dict.fromkeys(task.index for task in job.tasks)
    done = dict.fromkeys(task.index for task in job.tasks if task.finished)
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
    # A group may be listed before its parent, so the inner ones exist before any gets its children.
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
    # Tasks outside all sub-groups are required.
    if "" in members:
        top.append(leaf("", None))
    return _Group("", len(top), top)


@lru_cache(maxsize=256)
def _by_text(count: int) -> tuple[int, ...]:
    """Returns `_in_order` of `count` equal tasks."""
    return tuple(sorted(range(count), key=str))


def _in_order(demand: JobDemand, indices: range | list[int]) -> list[int]:
    """Returns tasks in placement order: those with an `order` first, higher before lower; then by index as a string."""
    if len(indices) == 1:
        return list(indices)
    orders: list[int | None] = [part.order for part in demand.tasks for _ in range(part.count)]

    def key(index: int) -> tuple[bool, int, str]:
        order = orders[index]
        return (order is None, -(order or 0), str(index))

    return sorted(indices, key=key)
