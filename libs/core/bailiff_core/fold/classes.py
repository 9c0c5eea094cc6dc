"""Applies a priority class to a job."""

from bailiff_core.budgets.effects import class_in_force
from bailiff_core.model.claims import is_preemptible
from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job, PoolState


def apply_priority_class(state: PoolState, job: Job, entry: PriorityClass) -> None:
    """Sets priority and preemptibility from the class, or from the lowest one where a budget of the job is exhausted.

    A boost by `ageing` is removed and decided again. That of a budget makes no running job preemptible: nobody is evicted for it.
    """
    in_force = class_in_force(state, job, entry)
    job.priority = job.base_priority = in_force.value
    job.preemptible = is_preemptible(state, job, entry if in_force is not entry and job.tasks else in_force)
    job.may_preempt = in_force.preemption_policy == "PreemptLowerPriority"
