"""Applies a priority class to a job."""

from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job


def apply_priority_class(job: Job, entry: PriorityClass) -> None:
    """Sets priority and preemptibility from the class; a boost by `ageing` is removed and decided again."""
    job.priority = job.base_priority = entry.value
    job.preemptible = entry.preemptible if job.demand.preemptible is None else job.demand.preemptible
    job.may_preempt = entry.preemption_policy == "PreemptLowerPriority"
