"""What a job takes from its priority class."""

from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job


def apply_priority_class(job: Job, entry: PriorityClass) -> None:
    """The values of the class; what a rule had added to the job's priority is decided anew."""
    job.priority = job.base_priority = entry.value
    job.preemptible = entry.preemptible if job.demand.preemptible is None else job.demand.preemptible
    job.may_preempt = entry.preemption_policy == "PreemptLowerPriority"
