"""Objective of victim selection: the cost of a victim set, compared lexicographically (docs/concepts/semantics/victims.md).

Every level but fragmentation is additive, so a set costs the sum of its units' costs, level by level:

1. GPUs of victims, by priority from the highest down; of tasks without GPUs, their CPUs as GPUs (`counted_gpu_milli`);
2. under reclaim, GPUs taken from projects that are over their quota and within their fair share;
3. jobs that end for good (`on_eviction: end`);
4. work lost, in GPU-ms, per job at most the policy's bound, of all tasks that start again (`stopped_tasks`);
5. jobs stopped (one that shrinks while it runs is not); 6. tasks stopped; then reservations dropped, one for each unit of them;
7. fragmentation: nodes of which the victims release GPUs while other work stays on them, each node once;
   then, for a preemptor of an immediate class, victims whose grace exceeds its short grace;
8. latest submission, 9. id: of two sets the one with the youngest job, then the second youngest, ...

A gang with a reservation that has not started costs only its reservation: it is evicted before any running job.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bailiff_core.model.gpu_shares import share_of, shares_devices
from bailiff_core.model.parking import parks
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks, restarts_to_shrink, stopped_tasks
from bailiff_core.model.work_lost import counted_cpu_milli, counted_gpu_milli, ends_for_good, lost_gpu_ms, restart_is_measured
from bailiff_core.placement.equivalence_classes import EquivalenceClasses
from bailiff_core.placement.gang import GangPlacement

if TYPE_CHECKING:
    from bailiff_core.placement.allocation_index import AllocationIndex

MAX_CLASSES = 64


@dataclass(frozen=True, slots=True, order=True)
class EvictionCost:
    """Levels 1 and 3 to 6 of the objective for units of one job.

    Attributes:
        cpu_milli: CPUs that gpu_milli counts as GPUs.
        measured: Whether a snapshot shows what the job loses (0 or 1).
        parked: Whether the job is to be parked (0 or 1).
    """

    gpu_milli: int = 0
    ends: int = 0
    lost_gpu_ms: int = 0
    jobs: int = 0
    tasks: int = 0
    reservations: int = 0
    cpu_milli: int = 0
    measured: int = 0
    parked: int = 0

    def minus(self, other: "EvictionCost") -> "EvictionCost":
        """The cost of more units of the job than in `other`, beyond that of `other`."""
        return EvictionCost(
            self.gpu_milli - other.gpu_milli,
            self.ends - other.ends,
            self.lost_gpu_ms - other.lost_gpu_ms,
            self.jobs - other.jobs,
            self.tasks - other.tasks,
            self.reservations - other.reservations,
            self.cpu_milli - other.cpu_milli,
            self.measured - other.measured,
            self.parked - other.parked,
        )


NO_COST = EvictionCost()
RESERVATION_COST = EvictionCost(reservations=1)


def eviction_cost(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool, moved: bool = False) -> EvictionCost:
    """Cost of evicting these tasks.

    Args:
        whole: Whether the whole job is evicted.
        moved: To a place that is reserved for it.
    """
    cost = started_cost(state, job, evicted, whole=whole, moved=moved)
    return RESERVATION_COST if cost == NO_COST else cost


def started_cost(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool, moved: bool = False) -> EvictionCost:
    """`eviction_cost` without that of reservations."""
    stopped = stopped_tasks(job, evicted, whole=whole)
    if not stopped:
        return NO_COST
    everything = len(evicted) == len(job.tasks)
    started = stopped if everything else [task for task in evicted if task.state != "reserved"]
    gpu_milli = stopped_gpu_milli = counted_gpu_milli(state, job, started)
    if len(stopped) > len(started):
        stopped_gpu_milli = counted_gpu_milli(state, job, stopped)
    ends = ends_for_good(job, whole=whole, moved=moved)
    return EvictionCost(
        gpu_milli,
        int(ends),
        lost_gpu_ms(state, job, stopped_gpu_milli, for_good=ends, moved=moved),
        int(whole or restarts_to_shrink(job)),
        len(started) if whole else len(stopped),
        0,
        counted_cpu_milli(job, started),
        int(not ends and restart_is_measured(state, job, moved=moved)),
        int(whole and not ends and not moved and parks(state, job)),
    )


@dataclass(frozen=True, slots=True)
class CostScale:
    """Encodes the levels as digits of one integer, with bases that no sum can reach: integers compare as the objective does.

    Attributes:
        of_level: Lowest weights of fragmentation, reservations, tasks, jobs, work lost, and jobs that end.
    """

    priorities: dict[int, int]
    of_share: int
    of_level: tuple[int, ...]

    @classmethod
    def of(
        cls, rules: PreemptionRules, allocation_index: "AllocationIndex", equivalence_classes: EquivalenceClasses
    ) -> "CostScale":
        """A scale for victim sets among these jobs."""
        tasks, count = allocation_index.tasks, len(allocation_index.of)
        gpu_milli = 1000 * allocation_index.gpus + allocation_index.cpu_milli // rules.cpus_per_gpu + tasks  # rounded up per task
        most_lost = gpu_milli * (rules.max_counted_loss + rules.restart_cost) // 1_000_000 + count
        unit = 2 * tasks + 2  # lowest digit: number of victims whose grace exceeds the preemptor's short grace
        of_level = []
        # A reserved task is a reservation, as is a job whose reservation is dropped.
        for most in (2 * tasks + 2, tasks + count + 1, tasks + 1, count + 1, most_lost + 1, count + 1):
            of_level.append(unit)
            unit *= 2 * most + 1
        of_share = unit
        unit *= 2 * (gpu_milli + 1) + 1
        ranks = {}
        for priority in equivalence_classes.priorities():
            ranks[priority] = unit
            unit *= 2 * (gpu_milli + 1) + 1
        return cls(ranks, of_share, tuple(of_level))

    def weight(self, priority: int, cost: EvictionCost, under_share_gpu_milli: int = 0, slow: int = 0) -> int:
        """The cost as one integer, without fragmentation."""
        _, reservations, tasks, jobs, lost, ends = self.of_level
        return (
            (cost.gpu_milli * self.priorities[priority] if cost.gpu_milli else 0)
            + under_share_gpu_milli * self.of_share
            + cost.ends * ends
            + cost.lost_gpu_ms * lost
            + cost.jobs * jobs
            + cost.tasks * tasks
            + cost.reservations * reservations
            + slow
        )


class NodeUse(NamedTuple):
    """Devices of one node that tasks use: whole devices, plus units of shares.

    Attributes:
        released: Some of the tasks have started.
    """

    node: int
    amount: int
    released: bool


Uses = tuple[NodeUse, ...]


class Evictable(Protocol):
    """A step of victim search: its weight without fragmentation, and the devices that its tasks use."""

    @property
    def weight(self) -> int: ...
    @property
    def uses(self) -> Uses: ...


def node_uses(state: PoolState, job: Job, tasks: Iterable[Task]) -> Uses:
    """What these tasks of the job use, by node."""
    found: dict[int, NodeUse] = {}
    for task in tasks:
        if not task.devices:
            continue
        group = job.group(task.index)
        if shares_devices(group):
            devices = state.nodes[task.node].devices
            amount = sum(share_of(group, devices[number]) for number in bits(task.devices))
        else:
            amount = task.devices.bit_count()
        released = task.state != "reserved"
        before = found.get(task.node)
        if before is not None:
            amount, released = amount + before.amount, released or before.released
        found[task.node] = NodeUse(task.node, amount, released)
    return tuple(found.values())


class Fragmentation:
    """Counts the fragmented nodes of victim sets, in the pool as it is after the earlier answers of the batch.

    per_node: weight of one node. above: lowest weight of the next higher level.
    """

    def __init__(self, state: PoolState, scale: CostScale) -> None:
        self._state = state
        self._in_use: dict[int, int] = {}
        self.above, self.per_node = scale.of_level[1], scale.of_level[0]

    def in_use(self, number: int) -> int:
        """Use of the node's devices by tasks that are not being evicted, and by reservations: as in `NodeUse.amount`."""
        found = self._in_use.get(number)
        if found is None:
            node = self._state.nodes[number]
            whole = node.allocated.devices & ~node.releasing.devices | node.reserved.devices
            shares = sum(node.allocated.shares.values()) + sum(node.reserved.shares.values())
            found = self._in_use[number] = whole.bit_count() + shares - sum(node.releasing.shares.values())
        return found

    def remove(self, unit: Unit) -> None:
        """Count the unit as evicted."""
        tasks = [task for task in allocated_tasks(unit.job) if task.index in unit.indices]
        self._change(node_uses(self._state, unit.job, tasks), -1)

    def add(self, job: Job, place: GangPlacement) -> None:
        """Count tasks of the job as placed."""
        tasks = [Task(task.index, task.node, task.devices, "reserved") for task in place.tasks]
        self._change(node_uses(self._state, job, tasks), 1)

    def _change(self, uses: Uses, by: int) -> None:
        for number, amount, _ in uses:
            self._in_use[number] = self.in_use(number) + by * amount

    def count(self, uses: Iterable[Uses]) -> int:
        """Number of nodes that the set with these uses leaves partially used."""
        taken: dict[int, int] = {}
        released: dict[int, None] = {}
        for each in uses:
            for number, amount, is_released in each:
                taken[number] = taken.get(number, 0) + amount
                if is_released:
                    released[number] = None
        return sum(self.in_use(number) > taken[number] for number in released)

    def weight(self, steps: Iterable[Evictable]) -> int:
        """Weight of the set, fragmentation included."""
        steps = list(steps)
        return sum([step.weight for step in steps]) + self.per_node * self.count([step.uses for step in steps])


class FragmentationBound:
    """Fragmented nodes that are certain while steps are decided one by one: released, and in use by what stays.

    It never falls while more is decided, and is exact once every step is.
    """

    def __init__(self, fragmentation: Fragmentation, undecided: Iterable[Evictable]) -> None:
        self.nodes = 0
        self._stays: dict[int, int] = {}
        self._released: dict[int, int] = {}
        for step in undecided:
            for number, amount, _ in step.uses:
                self._stays[number] = self._stays.get(number, fragmentation.in_use(number)) - amount

    def change(self, step: Evictable, *, evicted: bool, by: int) -> None:
        """Decide the step (`by` 1), or undo that (-1)."""
        for number, amount, is_released in step.uses:
            stays, released = self._stays[number], self._released.get(number, 0)
            self.nodes -= stays > 0 and released > 0
            if not evicted:
                stays = self._stays[number] = stays + by * amount
            elif is_released:
                released = self._released[number] = released + by
            self.nodes += stays > 0 and released > 0
