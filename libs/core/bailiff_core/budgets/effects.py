"""What follows for jobs of a budget that is exhausted, by its `at_limit`, as the last record about it says."""

from collections.abc import Mapping

from bailiff_core.model.policy import AtLimit, GpuBudget, Policy, PriorityClass
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job, PoolState

from .rows import rows_of

STOPPING: tuple[AtLimit, ...] = ("stop-admitting", "evict")


def exhausted(state: PoolState, *at_limit: AtLimit) -> list[GpuBudget]:
    """The exhausted budgets with one of these rules."""
    if not state.budgets:
        return []
    return [row for row in state.rules.budgets if row.at_limit in at_limit and state.budgets[row.name].level == "exhausted"]


def exhausted_of(state: PoolState, job: Job, *at_limit: AtLimit) -> GpuBudget | None:
    """The first exhausted budget of the job with one of these rules."""
    if not state.budgets:
        return None
    rows = (row for row in rows_of(state, job) if row.at_limit in at_limit)
    return next((row for row in rows if state.budgets[row.name].level == "exhausted"), None)


def is_stopped(state: PoolState, job: Job) -> bool:
    """Whether nothing more of the job starts."""
    return exhausted_of(state, job, *STOPPING) is not None


def class_in_force(state: PoolState, job: Job, entry: PriorityClass) -> PriorityClass:
    """The class that the job is of in the queue and as a victim: its own, or the lowest of the policy."""
    if exhausted_of(state, job, "lowest-class") is None:
        return entry
    return lowest_class(state.rules)


def lowest_class(policy: Policy) -> PriorityClass:
    """The class of the lowest value; of several, one that is preemptible, then the first."""
    return min(policy.priority_classes, key=lambda each: (each.value, not each.preemptible))


def without_quota(state: PoolState, tree: ProjectTree, quotas: Mapping[str, ResourceVector]) -> Mapping[str, ResourceVector]:
    """The quotas in full, of GPUs of whatever kind none for projects, and those below them, that may only borrow."""
    borrowing = [row.project for row in exhausted(state, "borrow-only")]
    if not borrowing:
        return quotas
    return {
        name: ResourceVector(0, *quota[1:3], *[0] * len(quota[3:]))
        if any(each in tree.branches[name].path for each in borrowing)
        else quota
        for name, quota in quotas.items()
    }
