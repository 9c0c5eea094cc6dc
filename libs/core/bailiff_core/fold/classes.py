"""Applies a priority class to a job."""

from bailiff_core.model.claims import is_preemptible
from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job, PoolState


def apply_priority_class(state: PoolState, job: Job, entry: PriorityClass) -> None:
    """Sets priority and preemptibility from the class; a boost by `ageing` is removed and decided again."""
    job.priority = job.base_priority = entry.value
    job.preemptible = is_preemptible(state, job, entry)
    job.may_preempt = entry.preemption_policy == "PreemptLowerPriority"
