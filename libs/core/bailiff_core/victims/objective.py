"""Objective of victim selection: the cost of a victim set, compared lexicographically (docs/concepts/semantics/victims.md).

Every level but fragmentation is additive, so a set costs the sum of its units' costs, level by level:

1. GPUs of victims, by priority from the highest down; of tasks without GPUs, their CPUs as GPUs (`counted_gpu_milli`);
2. under reclaim, GPUs taken from projects that are over their quota and within their fair share;
3. work lost, in GPU-ms, per job at most the policy's bound; of a job that restarts to shrink, that of all its tasks;
4. jobs stopped (a job that only shrinks is not); 5. tasks stopped; then reservations dropped, one for each unit of them;
6. fragmentation: nodes of which the victims release GPUs while other work stays on them, each node once (`fragmentation`);
   then, for a preemptor of an immediate class, victims whose grace exceeds its short grace;
7. latest submission, 8. id: of two sets the one with the youngest job, then the second youngest, ...

A gang with a reservation that has not started costs only its reservation: it is evicted before any running job.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import allocated_tasks
from bailiff_core.model.work_lost import counted_cpu_milli, counted_gpu_milli, lost_gpu_ms
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.equivalence_classes import EquivalenceClasses

MAX_CLASSES = 64


@dataclass(frozen=True, slots=True, order=True)
class EvictionCost:
    """Levels 1 and 3 to 5 of the objective for units of one job. cpu_milli: CPUs that gpu_milli counts as GPUs."""

    gpu_milli: int = 0
    lost_gpu_ms: int = 0
    jobs: int = 0
    tasks: int = 0
    reservations: int = 0
    cpu_milli: int = 0

    def minus(self, other: "EvictionCost") -> "EvictionCost":
        """The cost of more units of the job than in `other`, beyond that of `other`, which does not stop the job."""
        return EvictionCost(
            self.gpu_milli - other.gpu_milli,
            self.lost_gpu_ms - other.lost_gpu_ms,
            self.jobs,
            self.tasks - other.tasks,
            self.reservations - other.reservations,
            self.cpu_milli - other.cpu_milli,
        )


NO_COST = EvictionCost()
RESERVATION_COST = EvictionCost(reservations=1)


def eviction_cost(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool) -> EvictionCost:
    """Cost of evicting these tasks. whole: the whole job is evicted."""
    cost = started_cost(state, job, evicted, whole=whole)
    return RESERVATION_COST if cost == NO_COST else cost


def started_cost(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool) -> EvictionCost:
    """`eviction_cost` without that of reservations."""
    started = _started(evicted)
    if not started:
        return NO_COST
    gpu_milli = stopped_gpu_milli = counted_gpu_milli(state, job, started)
    if job.demand.elastic == "restart" and not whole:  # the others restart; what is being evicted or has ended stops anyway
        stopped_gpu_milli = counted_gpu_milli(state, job, _started(allocated_tasks(job)))
    return EvictionCost(
        gpu_milli,
        lost_gpu_ms(state, job, stopped_gpu_milli),
        int(whole),
        len(started),
        0,
        counted_cpu_milli(job, started),
    )


def _started(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.state != "reserved"]


@dataclass(frozen=True, slots=True)
class CostScale:
    """Encodes the levels as digits of one integer, with bases that no sum can reach: integers compare as the objective does.

    of_level: lowest weights of fragmentation, reservations, tasks, jobs, and work lost.
    """

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
        # A reserved task is a reservation, as is a job whose reservation is dropped.
        for most in (2 * tasks + 2, tasks + count + 1, tasks + 1, count + 1, most_lost + 1):
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
        _, reservations, tasks, jobs, lost = self.of_level
        return (
            cost.gpu_milli * self.priorities[priority]
            + under_share_gpu_milli * self.of_share
            + cost.lost_gpu_ms * lost
            + cost.jobs * jobs
            + cost.tasks * tasks
            + cost.reservations * reservations
            + slow
        )
