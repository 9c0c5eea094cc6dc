"""Objective of victim selection: the cost of a victim set, compared lexicographically (docs/concepts/semantics/victims.md).

Every level is additive, so a set costs the sum of its units' costs, level by level:

1. GPUs of victims, by priority from the highest down; of tasks without GPUs, their CPUs as GPUs (`counted_gpu_milli`);
2. under reclaim, GPUs taken from projects that are over their quota and within their fair share;
3. work lost, in GPU-ms, per job at most the policy's bound; of a job that restarts to shrink, that of all its tasks;
4. jobs stopped (a job that only shrinks is not); 5. tasks stopped; then reservations dropped;
6. fragmentation: nodes with GPUs that a victim releases while other jobs keep running on them;
   then, for a preemptor of an immediate class, victims whose grace exceeds its short grace;
7. latest submission, 8. id: of two sets the one with the youngest job, then the second youngest, ...

A gang with a reservation that has not started costs only its reservation: it is evicted before any running job.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.gpu_shares import share_of, shares_devices
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_core.model.work_lost import counted_cpu_milli, counted_gpu_milli, lost_gpu_ms
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.equivalence_classes import EquivalenceClasses

MAX_CLASSES = 64


@dataclass(frozen=True, slots=True, order=True)
class EvictionCost:
    """Levels 1 and 3 to 6 of the objective for units of one job. cpu_milli: CPUs that gpu_milli counts as GPUs."""

    gpu_milli: int = 0
    lost_gpu_ms: int = 0
    jobs: int = 0
    tasks: int = 0
    reservations: int = 0
    fragmented_nodes: int = 0
    cpu_milli: int = 0

    def minus(self, other: "EvictionCost") -> "EvictionCost":
        """Difference by level. Fragmentation may be negative: evicting the last task of a node leaves it whole."""
        return EvictionCost(
            self.gpu_milli - other.gpu_milli,
            self.lost_gpu_ms - other.lost_gpu_ms,
            self.jobs - other.jobs,
            self.tasks - other.tasks,
            self.reservations - other.reservations,
            self.fragmented_nodes - other.fragmented_nodes,
            self.cpu_milli - other.cpu_milli,
        )


NO_COST = EvictionCost()


def eviction_cost(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool) -> EvictionCost:
    """Cost of evicting these tasks. whole: the whole job is evicted."""
    started = _started(evicted)
    if not started:
        return EvictionCost(reservations=1)
    gpu_milli = counted_gpu_milli(state, job, started)
    stopped_gpu_milli = (
        gpu_milli if whole or job.demand.elastic != "restart" else counted_gpu_milli(state, job, _started(job.tasks))
    )
    return EvictionCost(
        gpu_milli,
        lost_gpu_ms(state, job, stopped_gpu_milli),
        int(whole),
        len(started),
        0,
        _count_fragmented_nodes(state, job, started),
        counted_cpu_milli(job, started),
    )


def _started(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.state != "reserved"]


def _count_fragmented_nodes(state: PoolState, job: Job, evicted: Sequence[Task]) -> int:
    tasks_by_node: dict[int, list[Task]] = {}
    for task in evicted:
        if task.devices:
            tasks_by_node.setdefault(task.node, []).append(task)
    return sum(_remains_in_use(state.nodes[number], job, tasks) for number, tasks in tasks_by_node.items())


def _remains_in_use(node: Node, job: Job, evicted: Sequence[Task]) -> bool:
    """Whether other tasks use devices of the node after these are evicted."""
    remaining = node.allocated.devices & ~node.releasing.devices | node.reserved.devices
    for task in evicted:
        remaining &= ~task.devices
    if remaining or not (node.allocated.shares or node.reserved.shares):
        return bool(remaining)
    shares = dict(node.allocated.shares)
    for number, units in node.reserved.shares.items():
        shares[number] = shares.get(number, 0) + units
    for number, units in node.releasing.shares.items():
        shares[number] = shares.get(number, 0) - units
    for task in evicted:
        group = job.group(task.index)
        for number in bits(task.devices) if shares_devices(group) else ():
            shares[number] = shares.get(number, 0) - share_of(group, node.devices[number])
    return any(units > 0 for units in shares.values())


@dataclass(frozen=True, slots=True)
class CostScale:
    """Encodes the levels as digits of one integer, with bases that no sum can reach: integers compare as the objective does."""

    priorities: dict[int, int]
    of_share: int
    of_level: tuple[int, ...]

    @classmethod
    def of(
        cls, rules: PreemptionRules, allocation_index: AllocationIndex, equivalence_classes: EquivalenceClasses
    ) -> "CostScale":
        """A scale for victim sets among these jobs."""
        tasks, count = allocation_index.tasks, len(allocation_index.of)
        gpu_milli = 1000 * allocation_index.gpus + allocation_index.cpu_milli // rules.cpus_per_gpu + tasks  # rounded up per task
        most_lost = gpu_milli * (rules.max_counted_loss + rules.restart_cost) // 1_000_000 + count
        unit = 2 * tasks + 2  # lowest digit: number of victims whose grace exceeds the preemptor's short grace
        of_level = []
        for most in (2 * tasks + 2, count + 1, tasks + 1, count + 1, most_lost + 1):
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
        """The cost as one integer."""
        fragmentation, reservations, tasks, jobs, lost = self.of_level
        return (
            cost.gpu_milli * self.priorities[priority]
            + under_share_gpu_milli * self.of_share
            + cost.lost_gpu_ms * lost
            + cost.jobs * jobs
            + cost.tasks * tasks
            + cost.reservations * reservations
            + cost.fragmented_nodes * fragmentation
            + slow
        )
